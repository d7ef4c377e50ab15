"""Changing the schema of a table that has rows: what old files show, and what is refused."""

from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    AlreadyExists,
    Catalog,
    ChangeType,
    CommitConflict,
    DropColumn,
    DropNotNull,
    InvalidRequest,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetNotNull,
    SetOptions,
    Table,
    Unsupported,
)

ADDRESS = pa.struct([("city", pa.string()), ("zip", pa.int32())])
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int32()), ("n", pa.int32()), ("t", pa.string()), ("a", ADDRESS)])


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["day", "id"], "options": {"bucket": 1, "write-only": True}}
    made = catalog.create_table("a.b", SCHEMA, partition_by=["day"], **(keyed if request.param == "keyed" else {}))
    made.write(pa.table({"day": ["x"], "id": [1], "n": [10], "t": ["one"], "a": [{"city": "Ulm", "zip": 7}]}, SCHEMA))
    return made


def row(table: Table, where: str = "id = 1", **options: Any) -> dict[str, Any]:
    (matching,) = table.to_arrow(where=where, **options).to_pylist()
    return dict(matching)


def test_a_column_is_added_at_a_place_and_is_null_in_old_rows(table: Table) -> None:
    changed = table.alter(
        AddColumn("x", pa.float64(), comment="new", after="id"), AddColumn("y", "DECIMAL(5, 2)", first=True)
    )
    assert changed.schema.column_names == ["y", "day", "id", "x", "n", "t", "a"]
    assert row(changed)["x"] is None
    changed.write(pa.table({"day": ["x"], "id": pa.array([2], pa.int32()), "x": [0.5]}))
    assert row(changed, "x = 0.5")["id"] == 2
    assert row(changed, "x IS NULL")["id"] == 1
    assert changed.schema.field("x").description == "new"


def test_a_dropped_column_does_not_come_back_with_its_name(table: Table) -> None:
    changed = table.alter(DropColumn("n")).alter(AddColumn("n", pa.int32()))
    assert row(changed)["n"] is None
    assert changed.count(where="n IS NULL") == 1
    assert row(changed, version=1)["n"] == 10


def test_a_renamed_column_keeps_its_values_and_its_statistics(table: Table) -> None:
    changed = table.alter(RenameColumn("n", "number"), RenameColumn("t", "n"))
    assert row(changed) == {"day": "x", "id": 1, "number": 10, "n": "one", "a": {"city": "Ulm", "zip": 7}}
    assert changed.count(where="number = 10 AND n = 'one'") == 1
    assert changed.count(where="number = 11") == 0


def test_a_key_column_may_be_renamed(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.k",
        pa.schema([("id", pa.int64()), ("v", pa.string())]),
        primary_key=["id"],
        options={"bucket": 2, "bucket-key": "id"},
    )
    table.write(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    changed = table.alter(RenameColumn("id", "key"))
    changed.write(pa.table({"key": [2, 3], "v": ["B", "c"]}))
    assert sorted(record["key"] for record in changed.to_arrow().to_pylist()) == [1, 2, 3]
    assert changed.to_arrow(where="key = 2").to_pylist() == [{"key": 2, "v": "B"}]
    changed.compact()
    assert changed.to_arrow(where="key = 1").to_pylist() == [{"key": 1, "v": "a"}]
    assert changed.schema.options["bucket-key"] == "key"


@pytest.mark.parametrize(
    ("kind", "value"),
    [(pa.int64(), 10), (pa.float64(), 10.0), ("DECIMAL(12, 1)", 10), (pa.string(), "10")],
)
def test_a_number_becomes_a_wider_type(table: Table, kind: Any, value: Any) -> None:
    changed = table.alter(ChangeType("n", kind))
    assert row(changed)["n"] == value
    assert changed.count(where="n IS NOT NULL") == 1
    assert row(changed, version=1)["n"] == 10


def test_fields_of_a_row_are_added_dropped_renamed_and_widened(table: Table) -> None:
    changed = table.alter(
        AddColumn("a.street", pa.string(), first=True), RenameColumn("a.city", "town"), ChangeType("a.zip", pa.int64())
    )
    assert row(changed)["a"] == {"street": None, "town": "Ulm", "zip": 7}
    again = changed.alter(DropColumn("a.zip")).alter(AddColumn("a.zip", pa.int64()))
    assert row(again)["a"] == {"street": None, "town": "Ulm", "zip": None}
    again = again.alter(MoveColumn("a.zip", first=True))
    assert list(row(again)["a"]) == ["zip", "street", "town"]


def test_columns_are_moved_commented_and_made_nullable(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), ("b", pa.int32())])
    table = catalog.create_table("a.c", schema)
    table.write(pa.table({"a": [1], "b": [2]}, schema))
    changed = table.alter(
        MoveColumn("a", after="b"), DropNotNull("a"), SetComment("a", "first letter"), SetComment(None, "two")
    )
    assert changed.to_arrow().to_pylist() == [{"b": 2, "a": 1}]
    assert (changed.schema.field("a").description, changed.schema.comment) == ("first letter", "two")
    changed.write(pa.table({"b": [3]}))
    assert changed.count(where="a IS NULL") == 1


def test_files_of_all_versions_are_merged_and_compacted(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.m",
        pa.schema([("id", pa.int64()), ("v", pa.int32())]),
        primary_key=["id"],
        options={"bucket": 1, "write-only": True},
    )
    table.write(pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}))
    table = table.alter(ChangeType("v", pa.int64()), AddColumn("w", pa.string()))
    table.write(pa.table({"id": [2], "v": [2**40], "w": ["two"]}))
    table = table.alter(RenameColumn("v", "value"), DropColumn("w"), AddColumn("w", pa.int32()))
    table.write(pa.table({"id": [3], "value": [33], "w": [3]}))
    expected = [{"id": 1, "value": 1, "w": None}, {"id": 2, "value": 2**40, "w": None}, {"id": 3, "value": 33, "w": 3}]
    assert sorted(table.to_arrow().to_pylist(), key=lambda record: record["id"]) == expected
    assert table.count(where="value > 30") == 2
    table.compact()
    assert table.to_arrow().to_pylist() == expected
    assert set(table.system_table("files")["schema_id"].to_pylist()) == {2}
    assert table.to_arrow(version=1).to_pylist() == [{"id": number, "v": number} for number in (1, 2, 3)]


@pytest.mark.parametrize("held", ["DATE", "TIMESTAMP(0)", "TIMESTAMP(6)"])
def test_moments_of_all_years_do_not_become_nanoseconds(catalog: Catalog, held: str) -> None:
    table = catalog.create_table("a.moments", pa.schema([("id", pa.int32())]))
    table = table.alter(AddColumn("at", held))
    with pytest.raises(InvalidRequest, match="values might not fit"):
        table.alter(ChangeType("at", "TIMESTAMP(9)"))
    assert str(table.alter(ChangeType("at", "TIMESTAMP(6)")).schema.field("at").type) == "TIMESTAMP(6)"


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "n"},
        {"merge-engine": "aggregation", "fields.n.aggregate-function": "max"},
        {
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "min",
            "fields.t.aggregate-function": "max",
        },
        {"merge-engine": "partial-update", "fields.n.sequence-group": "t"},
    ],
    ids=repr,
)
def test_what_tells_which_row_wins_does_not_become_a_text(catalog: Catalog, options: dict[str, str]) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("t", pa.string())])
    table = catalog.create_table("a.ranked", schema, primary_key=["id"], options=options)
    with pytest.raises(InvalidRequest, match=r"'n' is named by option .* cannot be made a text"):
        table.alter(ChangeType("n", "STRING"))
    assert str(table.alter(ChangeType("n", "BIGINT")).schema.field("n").type) == "BIGINT"


def test_options_are_set_and_removed(table: Table, catalog: Catalog) -> None:
    changed = table.alter(SetOptions({"write-buffer-size": "1 mb", "write-only": True}))
    assert changed.schema.table_options.write_buffer_size_bytes == 1024**2
    changed = changed.alter(SetOptions({}, removed=["write-buffer-size"]))
    assert "write-buffer-size" not in changed.schema.options
    assert catalog.read("a.b$schemas")["schema_id"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (AddColumn("n", pa.int32()), "exists"),
        (AddColumn("x", "INT NOT NULL"), "must be nullable"),
        (AddColumn("x", pa.int32(), after="nope"), "no column 'nope'"),
        (AddColumn("n.x", pa.int32()), "no fields of its own"),
        (AddColumn("_KEY_x", pa.int32()), "reserved"),
        (AddColumn("x", "NUMBER"), "not a type"),
        (DropColumn("nope"), "Columns: day, id, n, t, a"),
        (DropColumn("day"), "belongs to the p"),
        (RenameColumn("day", "date"), "Partition column"),
        (RenameColumn("n", "t"), "exists"),
        (ChangeType("n", pa.int16()), "values might not fit"),
        (ChangeType("t", pa.int32()), "values might not fit"),
        (ChangeType("day", pa.int32()), "belongs to the p"),
        (MoveColumn("n"), "Say where"),
        (MoveColumn("n", after="n"), "after itself"),
        (SetOptions({"bukcet": 2}), "Did you mean 'bucket'"),
        (SetOptions({"merge-engine": "first-row"}), "cannot change any more"),
        (SetOptions({"partition.default-name": "none"}), "cannot change any more"),
        (SetOptions({"partition.default-name": " "}), "a name is needed"),
        (SetOptions({"partition.legacy-name": "false"}), "cannot change any more"),
        (SetOptions({"file.format": "csv"}), "file.format"),
    ],
    ids=repr,
)
def test_a_change_that_cannot_be_is_refused_and_leaves_the_schema(
    table: Table, change: SchemaChange, message: str
) -> None:
    with pytest.raises((InvalidRequest, AlreadyExists, Unsupported), match=message):
        table.alter(change)
    assert table.store.schemas.ids() == [0]


def test_changes_of_two_at_the_same_moment_both_land(table: Table) -> None:
    """Both start from the same version; the second is made on top of the first."""
    first, second = table.alter(AddColumn("x", pa.int32())), table.alter(AddColumn("y", pa.int32()))
    assert (first.schema.id, second.schema.id) == (1, 2)
    assert {"x", "y"} <= set(second.schema.column_names)


NULLS = pa.table({"day": ["x"], "id": pa.array([5], pa.int32())})
VALUES = pa.table({"day": ["x"], "id": pa.array([6], pa.int32()), "n": pa.array([6], pa.int32())})


def test_who_opened_the_table_before_a_column_was_not_null_brings_no_nulls(table: Table) -> None:
    before = table.new_write()
    before.write(NULLS)
    late = before.prepare_commit()
    changed = table.alter(SetNotNull("n"))
    with pytest.raises(CommitConflict, match=r"'n' of .* is NOT NULL"):
        table.commit_messages([late])
    table.write(VALUES)
    assert changed.count() == 2
    changed.write(VALUES)
    with pytest.raises(InvalidRequest, match="NOT NULL"):
        changed.write(NULLS)
    assert changed.check(deep=True) == []


def test_a_null_that_comes_while_a_column_becomes_not_null_keeps_it_as_it_is(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(store: Any, purpose: str) -> None:
        # Judged before the new schema was there.
        monkeypatch.setattr("storage.write.attempt.refuse_nulls", lambda *_: None)
        table.write(NULLS)
        monkeypatch.undo()

    monkeypatch.setattr("storage.altering.fence", meanwhile)
    with pytest.raises(InvalidRequest, match="null in 1 rows"):
        table.alter(SetNotNull("n"))
    assert table.alter().schema.field("n").type.nullable


def test_nulls_are_counted_in_files_without_statistics(table: Table) -> None:
    changed = table.alter(SetOptions({"metadata.stats-mode": "none"}))
    changed.write(VALUES)
    assert not changed.alter(SetNotNull("n")).schema.field("n").type.nullable
    changed = table.alter(DropNotNull("n"))
    changed.write(NULLS)
    with pytest.raises(InvalidRequest, match="null in 1 rows"):
        changed.alter(SetNotNull("n"))
