"""Bad input and broken files: an error of the right kind that says what was wrong, and nothing is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    AlreadyExists,
    Catalog,
    ChangeType,
    CommitConflict,
    CorruptData,
    DropColumn,
    InvalidRequest,
    NotFound,
    RenameColumn,
    SetOptions,
    StorageError,
    Table,
    Unsupported,
)
from storage.directory_lock import Witness
from storage.file_io import FileIO
from storage.identifier import check_name

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int32()), ("text", pa.string())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table(
        "a.t", SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1, "write-only": True}
    )
    made.write(rows())
    made.tags.create("first")
    return made


def rows(**changed: Any) -> pa.Table:
    columns = {"day": ["x", "y"], "id": [1, 2], "v": pa.array([1, 2], pa.int32()), "text": ["a", "b"]} | changed
    return pa.table({name: column for name, column in columns.items() if column is not None})


def listing(table: Table) -> list[str]:
    return sorted(str(path) for path in Path(table.store.paths.root).rglob("*"))


REQUESTS: dict[str, tuple[Callable[[Table], object], type[Exception], str]] = {
    "a wrong type": (lambda t: t.write(rows(v=["one", "two"])), InvalidRequest, "Column 'v' has type INT"),
    "a number that is too large": (lambda t: t.write(rows(v=[2**40, 1])), InvalidRequest, "does not fit"),
    "text for a number of the key": (lambda t: t.write(rows(id=["1", "2"])), InvalidRequest, "'id' has type BIGINT"),
    "null in the key": (lambda t: t.write(rows(id=[1, None])), InvalidRequest, "'id' is NOT NULL"),
    "null in the partition": (lambda t: t.write(rows(day=["x", None])), InvalidRequest, "'day' is NOT NULL"),
    "a missing key": (lambda t: t.write(rows(id=None)), InvalidRequest, "the rows do not have it"),
    "an unknown column": (lambda t: t.write(rows(txet=["a", "b"])), InvalidRequest, "Did you mean 'text'"),
    "a column twice": (
        lambda t: t.write(pa.Table.from_arrays([*rows().columns, rows()["v"]], [*rows().column_names, "v"])),
        InvalidRequest,
        "'v' twice",
    ),
    "a row kind that is none": (
        lambda t: t.write(rows(op=["+I", "?"]), row_kind_column="op"),
        InvalidRequest,
        "'\\?' in column 'op'",
    ),
    "a row kind column that is not there": (
        lambda t: t.write(rows(), row_kind_column="op"),
        InvalidRequest,
        "no column 'op'",
    ),
    "a condition that is none": (lambda t: t.to_arrow(where="v >"), InvalidRequest, "is not a condition"),
    "a condition on an unknown column": (lambda t: t.delete("w = 1"), InvalidRequest, "no column 'w'"),
    "a constant of another type": (lambda t: t.to_arrow(where="v = 'one'"), InvalidRequest, "v"),
    "a column to read that is not there": (lambda t: t.to_arrow(columns=["w"]), InvalidRequest, "Columns: day"),
    "a version that is not there": (lambda t: t.to_arrow(version=77), NotFound, "Existing snapshot: 1"),
    "a tag that is not there": (lambda t: t.to_arrow(version="second"), NotFound, "Existing tags: first"),
    "a branch that is not there": (lambda t: t.on_branch("fix"), NotFound, "Existing branches"),
    "a tag name of digits": (lambda t: t.tags.create("2024"), InvalidRequest, "2024"),
    "a branch name with a dot": (lambda t: t.branches.create("a.b"), InvalidRequest, "a.b"),
    "an update of the key": (lambda t: t.update("v = 1", {"id": 3}), InvalidRequest, "cannot be updated"),
    "an update to a wrong type": (lambda t: t.update("v = 1", {"v": "x"}), InvalidRequest, "x"),
    "an overwrite of what is no partition": (
        lambda t: t.overwrite(rows(), partition={"text": "a"}),
        InvalidRequest,
        "Partition columns: day",
    ),
    "an overwrite with rows of another partition": (
        lambda t: t.overwrite(rows(), partition={"day": "x"}),
        InvalidRequest,
        "day=y, but the overwrite is of day=x",
    ),
    "a write to an old version": (lambda t: t.at(1).write(rows()), InvalidRequest, "can only be read"),
    "a retype that loses data": (lambda t: t.alter(ChangeType("text", pa.int64())), StorageError, "text"),
    "a narrower type": (lambda t: t.alter(ChangeType("v", pa.int8())), StorageError, "'v'"),
    "dropping the key": (lambda t: t.alter(DropColumn("id")), InvalidRequest, "primary key"),
    "renaming to a taken name": (lambda t: t.alter(RenameColumn("v", "text")), AlreadyExists, "text"),
    "adding a taken name": (lambda t: t.alter(AddColumn("v", pa.int64())), AlreadyExists, "'v'"),
    "adding a column that must not be null": (
        lambda t: t.alter(AddColumn("w", "BIGINT NOT NULL")),
        InvalidRequest,
        "null",
    ),
    "an unknown option": (lambda t: t.alter(SetOptions({"bukcet": "2"})), InvalidRequest, "Did you mean 'bucket'"),
    "an option with a wrong value": (
        lambda t: t.alter(SetOptions({"write-buffer-size": "much"})),
        InvalidRequest,
        "is not a size",
    ),
    "an option that is fixed": (
        lambda t: t.alter(SetOptions({"merge-engine": "aggregation"})),
        InvalidRequest,
        "cannot change",
    ),
    "a feature that is not there": (
        lambda t: t.alter(SetOptions({"row-tracking.enabled": "true"})),
        Unsupported,
        "row-tracking",
    ),
    "keeping no snapshot": (lambda t: t.expire(retain_last=0), InvalidRequest, "at least the latest"),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_bad_request_is_refused_and_writes_nothing(table: Table, what: str) -> None:
    act, error, message = REQUESTS[what]
    before = listing(table)
    with pytest.raises(error, match=message) as raised:
        act(table)
    assert "\n" not in str(raised.value).strip()
    assert listing(table) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": pa.schema([("a", pa.int64()), ("a", pa.int64())])}, "occurs 2 times"),
        ({"schema": pa.schema([])}, "at least one column"),
        ({"schema": pa.schema([("_VALUE_KIND", pa.int8())])}, "reserved"),
        ({"schema": SCHEMA, "primary_key": ["id"], "partition_by": ["day"], "options": {"bucket": 1}}, "add day"),
        ({"schema": SCHEMA, "partition_by": ["month"]}, "'Month'|'month'"),
        ({"schema": SCHEMA, "primary_key": ["id", "id"], "options": {"bucket": 1}}, "twice"),
        ({"schema": SCHEMA, "primary_key": ["id"], "options": {"bucket": 0}}, "bucket"),
        ({"schema": pa.schema([("a", pa.list_(pa.int32()))]), "options": {"bucket": 2}}, "bucket-key"),
    ],
)
def test_a_table_that_cannot_be_is_refused_and_nothing_is_there(
    catalog: Catalog, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidRequest, Unsupported), match=message):
        catalog.create_table("a.u", **arguments)
    assert not catalog.exists("a.u")


def one_of(pattern: str) -> Callable[[Table], Path]:
    return lambda table: sorted(Path(table.store.paths.root).glob(pattern))[0]


FILES = {
    "snapshot": one_of("snapshot/snapshot-1"),
    "manifest list": one_of("manifest/manifest-list-*-1"),
    "manifest": one_of("manifest/manifest-[0-9a-f]*-0"),
    "data file": one_of("day=x/bucket-0/data-*"),
    "schema": one_of("schema/schema-0"),
    "tag": one_of("tag/tag-first"),
}


def read_fresh(table: Table, kind: str) -> object:
    """Read as another process would: nothing of the table is remembered."""
    import storage.metadata.manifest as manifest

    manifest._decoded = manifest.DecodedFiles(1000)
    warehouse = str(Path(table.store.paths.root).parent.parent)
    fresh = Catalog(warehouse).table("a.t")
    return fresh.to_arrow(version="first" if kind == "tag" else None)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("harm", ["cut", "garbage", "empty"])
def test_a_broken_file_is_named(table: Table, kind: str, harm: str) -> None:
    path = FILES[kind](table)
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "garbage": b"\x00garbage" * 20, "empty": b""}[harm])
    with pytest.raises(CorruptData, match=path.name):
        read_fresh(table, kind)


@pytest.mark.pypaimon_differs("it looks for a snapshot that the hint tells of: one is missing here on purpose")
@pytest.mark.java_differs("it looks for a snapshot that the hint tells of: one is missing here on purpose")
@pytest.mark.parametrize("kind", FILES)
def test_a_missing_file_is_named(table: Table, kind: str) -> None:
    path = FILES[kind](table)
    path.unlink()
    if kind == "snapshot":
        # A table without its only snapshot is a table without rows.
        assert read_fresh(table, kind).num_rows == 0  # type: ignore[attr-defined]
        return
    with pytest.raises((NotFound, CorruptData)) as raised:
        read_fresh(table, kind)
    assert path.name.removeprefix("tag-") in str(raised.value) or kind == "schema"


def test_a_commit_on_a_broken_table_changes_nothing(table: Table) -> None:
    FILES["manifest"](table).write_bytes(b"broken")
    import storage.metadata.manifest as manifest

    manifest._decoded = manifest.DecodedFiles(1000)
    before = listing(table)
    with pytest.raises(CorruptData):
        Catalog(str(Path(table.store.paths.root).parent.parent)).table("a.t").overwrite(rows())
    assert listing(table) == before


def test_a_compaction_of_files_that_are_gone_is_a_conflict_and_leaves_nothing(table: Table, catalog: Catalog) -> None:
    from storage.maintain.compaction import compact_bucket, plan_compaction
    from storage.metadata.snapshot import COMPACT

    table.write(rows())
    results = [
        compact_bucket(table.store, plan)
        for plan in plan_compaction(table.store, table.store.snapshots.latest(), full=True)
    ]
    catalog.table("a.t").overwrite(rows(), dynamic=False)
    before = [
        path
        for path in listing(table)
        if path not in {written_path for result in results for written_path in result.message.paths}
    ]
    with pytest.raises(CommitConflict, match="another commit has deleted it"):
        table.new_commit().commit(
            [result.message for result in results],
            deleted=[entry for result in results for entry in result.deleted],
            kind=COMPACT,
        )
    assert listing(table) == before


VALUES: dict[str, dict[str, str]] = {
    "no snapshot": {"snapshot.num-retained.min": "0"},
    "no snapshot at the most": {"snapshot.num-retained.max": "0"},
    "fewer at the most than at the least": {"snapshot.num-retained.max": "3"},
    "fewer changelogs than at the least": {"changelog.num-retained.min": "3", "changelog.num-retained.max": "2"},
    "an expiry of nothing": {"snapshot.expire.limit": "0"},
    "a kind of tags": {"tag.automatic-creation": "weekly"},
    "a period": {"tag.creation-period": "weekly"},
    "a name of periods": {"tag.period-formatter": "nice"},
    "no tags": {"tag.num-retained-max": "0"},
    "parts of days": {"tag.create-interval": "36 h"},
    "a time of day": {"tag.create-time": "3 am"},
    "a strategy": {"partition.expiration-strategy": "whenever"},
    "a size of nothing": {"target-file-size": "0"},
    "no commits": {"full-compaction.delta-commits": "0"},
    "fewer than no retries": {"commit.max-retries": "-1"},
}


@pytest.mark.parametrize("what", VALUES)
def test_values_that_would_fail_after_each_commit_are_refused_where_they_are_set(
    catalog: Catalog, table: Table, what: str
) -> None:
    key = list(VALUES[what])[-1]
    before = listing(table)
    with pytest.raises(InvalidRequest, match=f"'{key}'"):
        table.alter(SetOptions(VALUES[what]))
    assert listing(table) == before
    with pytest.raises(InvalidRequest, match=f"'{key}'"):
        catalog.create_table("a.other", SCHEMA, options=VALUES[what])
    assert not catalog.exists("a.other")


def test_what_another_writer_has_set_stays_and_is_no_obstacle(catalog: Catalog, table: Table) -> None:
    path = table.store.paths.schema(0)
    content = json.loads(Path(path).read_text())
    content.pop("snapline.crc32", None)
    content["options"]["tag.automatic-creation"] = "watermark"
    Path(path).write_text(json.dumps(content))
    foreign = catalog.table(str(table.identifier))
    altered = foreign.alter(SetOptions({"write-only": "true"}))
    assert altered.schema.options["tag.automatic-creation"] == "watermark"
    with pytest.raises(InvalidRequest, match="batch"):
        altered.alter(SetOptions({"tag.automatic-creation": "batch"}))


def test_a_text_is_no_list_of_tables(catalog: Catalog, table: Table) -> None:
    for act in (lambda: catalog.branch_set("x", "a.t"), lambda: catalog.consistent("a.t")):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="'tables'"):
            act()


def test_a_catalog_with_other_listeners_has_the_same_files(tmp_path: Path) -> None:
    class Counted(FileIO):
        made = 0

        def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
            self.made += 1
            return super().create_exclusively(path, data, of=of)

    files = Counted(str(tmp_path))
    catalog = Catalog(str(tmp_path), file_io=files).with_listeners()
    catalog.create_table("a.t", SCHEMA)
    assert files.made > 0


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "a.b", "a/b", "a\\b", "a$b", "a%b", "a:b", 'a"b', "a'b", "a`b", "a\nb", "a|b"]
)
def test_what_is_said_of_names_is_so(catalog: Catalog, name: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(InvalidRequest) as refused:
        check_name(name, "table")
    said = str(refused.value).partition(" cannot name a table: ")[2]
    assert all(f" {mark}" in said for mark in "./\\$%:*?\"<>|'`")
    assert "begin or end with a blank, or hold tabs, line breaks" in said
    # What is not named there is taken.
    made = catalog.create_table("a b.t e-s_t", schema)
    made.write(pa.table({"id": [1]}))
    assert catalog.table("a b.t e-s_t").to_arrow().num_rows == 1
