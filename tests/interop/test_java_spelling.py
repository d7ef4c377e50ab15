"""Values of options in any case, and older keys of options, mean here what they mean to Paimon's Java library."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, Table, Unsupported
from storage.data_types import parse_type
from storage.known_options import accepted_for
from storage.option_checks import check_table_options
from storage.option_spelling import OLDER_KEYS, in_one_spelling, own_key
from storage.options import TableOptions
from storage.read.stream_scan import START_UP_MODES, StartUp
from tests.interop.java_paimon import JavaPaimon

NAME = "d.t"
FIELDS = {"k": parse_type("INT NOT NULL"), "s": parse_type("INT"), "v": parse_type("STRING")}
SCHEMA = pa.schema([pa.field(name, kind.to_arrow(), kind.nullable) for name, kind in FIELDS.items()])
ONE_BUCKET = {"bucket": "1"}


def _rows(*rows: tuple[int, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(FIELDS, row, strict=True)) for row in rows], schema=SCHEMA)


def _by_java(java: JavaPaimon, catalog: Catalog, options: dict[str, str]) -> Table:
    java.create(catalog.warehouse, NAME, FIELDS, primary_key=["k"], options=ONE_BUCKET | options)
    return catalog.table(NAME)


def _sorted(rows: pa.Table) -> list[Any]:
    return sorted(rows.to_pylist(), key=repr)


def _assert_alike(java: JavaPaimon, catalog: Catalog) -> None:
    ours = catalog.table(NAME).to_arrow()
    assert _sorted(ours) == _sorted(java.read(catalog.warehouse, NAME).select(ours.column_names))


def test_every_enumerated_option_is_read_in_any_case(java: JavaPaimon, catalog: Catalog) -> None:
    words = java.ask(catalog.warehouse, NAME, "options")["words"]
    followed = {str(each["key"]) for each in TableOptions.declared()}
    walked = {key: values for key, values in words.items() if key in followed}
    assert len(walked) > 15
    for key, values in walked.items():
        for value in values:
            for spelled in (value.upper(), value.capitalize()):
                assert in_one_spelling({key: spelled}) == {key: value}, f"{key} = {spelled}"
                assert TableOptions.read({key: spelled}) == TableOptions.read({key: value})
    for mode in START_UP_MODES:
        numbers = ("from-snapshot" in mode and 1) or None, ("timestamp" in mode and 1) or None
        assert StartUp(mode.upper(), *numbers) == StartUp(mode, *numbers)


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "DEDUPLICATE", "sequence.field": "s", "sequence.field.sort-order": "DESCENDING"},
        {"merge-engine": "Partial-Update", "file.format": "ORC", "file.compression": "ZSTD"},
        {"merge-engine": "Aggregation", "fields.s.aggregate-function": "sum", "changelog-producer": "Lookup"},
        {"merge-engine": "FIRST-ROW", "metadata.stats-mode": "FULL", "file.format": "Avro"},
        {"changelog-producer": "INPUT", "bucket-function.type": "DEFAULT", "type": "TABLE"},
        {"changelog-producer": "LOOKUP", "fields.v.stats-mode": "NONE"},
        {"changelog-producer": "FULL-COMPACTION", "write-only": "TRUE"},
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "TRUE",
            "fields.s.aggregate-function": "sum",
        },
        {"deletion-vectors.enabled": "TRUE", "ignore-delete": "FALSE"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_a_table_of_any_spelling_reads_writes_and_compacts_alike(
    java: JavaPaimon, catalog: Catalog, options: dict[str, str]
) -> None:
    table = _by_java(java, catalog, options)
    fields = table.schema.fields
    java.write(catalog.warehouse, NAME, _rows((1, 5, "a"), (2, 1, "b")), fields)
    _assert_alike(java, catalog)
    table.write(_rows((1, 3, "c"), (3, 1, None)))
    _assert_alike(java, catalog)
    java.write(catalog.warehouse, NAME, _rows((1, 4, "d"), (3, 0, "e")), fields)
    _assert_alike(java, catalog)
    table.compact()
    _assert_alike(java, catalog)
    theirs = java.changes(catalog.warehouse, NAME, 1)
    ours = [tuple(row.values()) for row in catalog.table(NAME).changes().drop_columns("snapshot_id").to_pylist()]
    assert sorted(map(repr, ours)) == sorted(repr((kind, *values)) for kind, values in theirs)


def test_options_are_given_in_any_case(java: JavaPaimon, catalog: Catalog) -> None:
    options = ONE_BUCKET | {
        "changelog-producer": "LOOKUP",
        "merge-engine": "Deduplicate",
        "metadata.stats-mode": "Full",
    }
    table = catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=options)
    assert table.schema.options["changelog-producer"] == "lookup"
    table.write(_rows((1, 1, "a")))
    table.write(_rows((1, 1, "b")))
    assert [kind for kind, _ in java.changes(catalog.warehouse, NAME, 1)] == ["+I", "-U", "+U"]
    # The same in another case is no change.
    table.alter(SetOptions({"merge-engine": "DEDUPLICATE"}))
    with pytest.raises(InvalidRequest, match="'merge-engine' decides how rows were written"):
        table.alter(SetOptions({"merge-engine": "FIRST-ROW"}))


def test_every_older_key_of_java_is_resolved_accepted_or_refused_by_name(java: JavaPaimon, catalog: Catalog) -> None:
    older = java.ask(catalog.warehouse, NAME, "options")["older"]
    assert {"ignore-delete", "write-only"} <= older.keys()
    for key, others in older.items():
        if key in OLDER_KEYS:
            assert list(OLDER_KEYS[key]) == others
        for other in others:
            if own_key(other) == key or accepted_for(other) is not None:
                continue
            followed = {str(each["key"]) for each in TableOptions.declared()}
            if other not in followed:
                with pytest.raises(Unsupported, match=other):
                    check_table_options({other: "1"}, "to be created")


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        ("deduplicate", "deduplicate.ignore-delete"),
        ("partial-update", "partial-update.ignore-delete"),
        ("first-row", "first-row.ignore-delete"),
        ("aggregation", "deduplicate.ignore-delete"),
    ],
)
def test_deletes_are_ignored_by_the_older_keys(java: JavaPaimon, catalog: Catalog, engine: str, key: str) -> None:
    table = _by_java(java, catalog, {"merge-engine": engine, key: "TRUE"})
    table.write(_rows((1, 1, "a"), (2, 1, "b")))
    gone = _rows((1, 1, "a")).append_column("kind", pa.array(["-D"]))
    table.write(gone, row_kind_column="kind")
    assert table.to_arrow().num_rows == 2
    _assert_alike(java, catalog)
    table.compact()
    _assert_alike(java, catalog)


def test_an_older_key_says_nothing_beside_the_own_one(java: JavaPaimon, catalog: Catalog) -> None:
    table = _by_java(java, catalog, {"deduplicate.ignore-delete": "true", "ignore-delete": "false"})
    java.write(catalog.warehouse, NAME, _rows((1, 1, "a")), table.schema.fields)
    java.write(catalog.warehouse, NAME, _rows((1, 1, "a")), table.schema.fields, kinds=["-D"])
    assert table.to_arrow().num_rows == 0
    _assert_alike(java, catalog)


def test_older_keys_are_set_and_reset(catalog: Catalog) -> None:
    table = catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=ONE_BUCKET)
    table = table.alter(SetOptions({"write.compaction-skip": "true", "orc.write.batch-size": "100"}))
    assert table.schema.table_options.write_only
    assert table.schema.options["write.batch-size"] == "100"
    table = table.alter(SetOptions({}, ("write.compaction-skip",)))
    assert not table.schema.table_options.write_only
