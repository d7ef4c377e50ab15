"""An option that is given twice, under its own key and under an older one."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions
from storage.option_spelling import OLDER_KEYS

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize(
    "options",
    [
        {"write-only": "true", "write.compaction-skip": "false"},
        {"write.compaction-skip": "false", "write-only": "true"},
        {"kafka.bootstrap.servers": "a:1", "log.kafka.bootstrap.servers": "b:1", "log.system": "kafka"},
        {"kafka.linger.ms": "1", "log.kafka.linger.ms": "2", "log.system": "kafka"},
    ],
)
def test_two_values_are_refused(tmp_path: Path, options: Mapping[str, str]) -> None:
    catalog = Catalog(str(tmp_path))
    with pytest.raises(InvalidRequest, match="two spellings of one option"):
        catalog.create_table("a.t", SCHEMA, options=options)
    table = catalog.create_table("a.t", SCHEMA)
    with pytest.raises(InvalidRequest, match="two spellings of one option"):
        table.alter(SetOptions(options))


def test_one_value_is_taken(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table(
        "a.t", SCHEMA, options={"write-only": "true", "write.compaction-skip": "true"}
    )
    assert table.schema.options["write-only"] == "true" and "write-only" in OLDER_KEYS


def test_a_table_says_otherwise_than_its_catalog_under_an_older_key(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), options={"table-storage.ignore-delete": "true"})
    keyed = pa.schema([pa.field("id", pa.int64(), False)])
    table = catalog.create_table("a.t", keyed, primary_key=["id"], options={"deduplicate.ignore-delete": "false"})
    assert table.schema.options["ignore-delete"] == "false"
    assert catalog.create_table("a.u", keyed, primary_key=["id"]).schema.options["ignore-delete"] == "true"
