"""Values of options are what Paimon's Java library can read."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, TableOptions

NUMBERS = [option for option in TableOptions.declared() if option["kind"] in ("whole number", "size", "duration")]
UNITS = {"whole number": "", "size": " b", "duration": " ms"}


@pytest.mark.parametrize("declared", NUMBERS, ids=[option["key"] for option in NUMBERS])
def test_no_number_is_larger_than_java_can_read(tmp_path: Path, declared: dict[str, object]) -> None:
    is_long = declared["kind"] != "whole number" or declared["key"] == "dynamic-bucket.target-row-num"
    for most in (2**63,) if is_long else (2**31, 2**63, 99_999_999_999):
        with pytest.raises(InvalidRequest, match=f"'{declared['key']}'"):
            Catalog(str(tmp_path)).create_table(
                "a.t",
                pa.schema([("id", pa.int64())]),
                primary_key=["id"],
                options={"bucket": "1", str(declared["key"]): f"{most}{UNITS[str(declared['kind'])]}"},
            )


def test_a_table_is_not_rescaled_to_more_buckets_than_java_can_count(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table(
        "a.t", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": "1"}
    )
    table.write(pa.table({"id": [1]}))
    with pytest.raises(InvalidRequest, match="2147483647 at the most"):
        table.rescale(99_999_999_999)
    assert table.schema.id == 0


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("deletion-vectors.enabled", "TRUE ", "leave out the blanks"),
        ("bucket", " 2", "leave out the blanks"),
        ("data-file.prefix", "../x", "cannot begin the name of a file"),
        ("data-file.prefix", "", "cannot begin the name of a file"),
        ("changelog-file.prefix", "a/b", "cannot begin the name of a file"),
    ],
)
def test_a_text_that_java_cannot_use_is_refused_when_it_is_set(tmp_path: Path, key: str, value: str, said: str) -> None:
    catalog, schema = Catalog(str(tmp_path)), pa.schema([("id", pa.int64())])
    with pytest.raises(InvalidRequest, match=f"'{key}'.*{said}"):
        catalog.create_table("a.t", schema, primary_key=["id"], options={"bucket": "1", key: value})
    table = catalog.create_table("a.t", schema, primary_key=["id"], options={"bucket": "1"})
    if key != "bucket":
        with pytest.raises(InvalidRequest, match=f"'{key}'.*{said}"):
            table.alter(SetOptions({key: value}))
