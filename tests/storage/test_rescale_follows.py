"""What comes back, or over from a branch, with another number of buckets than the table has by now, is hashed anew."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, MainReplaced, SetOptions, Table
from storage.maintain import follow, rescale
from storage.metadata.schema import SchemaFiles, TableSchema
from storage.write.close import REPLACEMENT, close, is_closed_for

SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int32()), ("s", pa.string())])
NAME = "d.a"
LOOKUP = {"changelog-producer": "lookup"}
WHOLE = {"changelog-producer": "full-compaction"}
FIRST = {"merge-engine": "first-row"}


def rows(*keys: int, p: str = "x") -> pa.Table:
    return pa.table(
        {"p": [p] * len(keys), "k": pa.array(keys, pa.int32()), "s": [f"row {key}" for key in keys]}, SCHEMA
    )


def keys(table: Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


@pytest.fixture(params=[{}, LOOKUP, WHOLE, FIRST, {"write-only": True}], ids=str)
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    options = {"bucket": 2, **request.param}
    made = catalog.create_table(NAME, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    made.write(rows(1, 2, 3))
    made.write(rows(8, p="y"))
    made.tags.create("before")
    return made


def replayed(table: Table) -> list[int]:
    state: set[int] = set()
    for row in table.changes().to_pylist():
        (state.add if row["rowkind"] in ("+I", "+U") else state.discard)(row["k"])
    return sorted(state)


def takes_writes(catalog: Catalog, expected: list[int]) -> None:
    table = catalog.table(NAME)
    assert keys(table) == expected
    assert table.check(deep=True) == []
    before = {entry.total_buckets for entry in table.scan().entries}
    assert before == {table.store.options.bucket}
    for p in ("x", "y", "z"):
        table.write(rows(100 + ord(p), p=p))
    assert keys(table) == [*expected, *(100 + ord(p) for p in "xyz")]
    if table.store.options.changelog_producer == "lookup":
        assert replayed(table) == keys(table)


def test_a_rollback_behind_a_rescale_leaves_a_table_that_takes_writes(catalog: Catalog, table: Table) -> None:
    table.rescale(3)
    table = catalog.table(NAME)
    table.write(rows(4))
    table.rollback_to("before")
    takes_writes(catalog, [1, 2, 3, 8])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", ["merge", "fast_forward", "replace_main", "adopt", "publish"])
def test_a_branch_from_before_a_rescale_is_taken_over(catalog: Catalog, table: Table, way: str) -> None:
    table.branches.create("fix")
    table.on_branch("fix").write(rows(7, p="w"))
    table.rescale(3)
    table = catalog.table(NAME)
    if way == "adopt":
        until = table.store.snapshots.latest_id() or 0
        table.branches.adopt("fix", until=until, commit_id=CommitId("adopter", 1))
    elif way == "publish":
        catalog.branch_set("fix", [NAME]).publish(discard_main=True)
    else:
        getattr(table.branches, way)("fix", discard_main=True)
    takes_writes(catalog, [1, 2, 3, 7, 8])


def fails(*_: Any, **__: Any) -> None:
    raise OSError("disk")


def test_what_cannot_be_hashed_anew_afterwards_is_told_and_rescaled_by_hand(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.rescale(3)
    with monkeypatch.context() as patched:
        patched.setattr(follow, "rescale_brought", fails)
        catalog.table(NAME).rollback_to("before")
    table = catalog.table(NAME)
    assert keys(table) == [1, 2, 3, 8]
    with pytest.raises(CommitConflict, match="Rescale it to 3"):
        table.write(rows(4))
    assert any("rescaling of what came back" in str(problem) for problem in table.check())
    table.rescale(3)
    takes_writes(catalog, [1, 2, 3, 8])


def test_partitions_that_a_rescale_left_out_stay_as_they_are(catalog: Catalog, table: Table) -> None:
    table.rescale(3, partition={"p": "x"})
    table = catalog.table(NAME)
    table.write(rows(4))
    table.rollback_to("before")
    counts = {entry.partition: entry.total_buckets for entry in catalog.table(NAME).scan().entries}
    assert sorted(counts.values()) == [2, 3]
    catalog.table(NAME).rescale(3)
    takes_writes(catalog, [1, 2, 3, 8])


def test_a_rescale_loses_no_row_that_readers_do_not_see_yet(catalog: Catalog) -> None:
    """Where they skip level 0, and nobody has compacted it."""
    options = {"bucket": 2, "write-only": True, **FIRST}
    table = catalog.create_table(NAME, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    table.write(rows(1, 2, 3))
    assert keys(table) == []
    table.rescale(3)
    table = catalog.table(NAME)
    table.compact()
    assert keys(table) == [1, 2, 3]


@pytest.mark.parametrize("moment", ["before it is read", "while main is closed", "while it is altered"])
def test_a_rescale_beside_a_replacement_of_main_goes_on_where_its_schema_went(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    table = catalog.create_table(NAME, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={"bucket": 2})
    table.write(rows(1, 2, 3))
    table.branches.create("fix")
    table.on_branch("fix").write(rows(7))
    main = catalog.table(NAME).store
    done: list[str] = []

    def replace() -> None:
        if not done:
            done.append(moment)
            catalog.table(NAME).branches.replace_main("fix")

    if moment == "before it is read":
        looking = rescale._rescale_once

        def overtaken(*given: Any) -> Any:
            replace()
            return looking(*given)

        monkeypatch.setattr(rescale, "_rescale_once", overtaken)
    elif moment == "while main is closed":
        looking = rescale._rescale_once

        def closed(*given: Any) -> Any:
            if not done and not is_closed_for(main.snapshots.latest(), REPLACEMENT):
                close(main, main.snapshots.latest(), f"{REPLACEMENT} fix")
            return looking(*given)

        monkeypatch.setattr(rescale, "_rescale_once", closed)
        monkeypatch.setattr(type(table.store.clock), "sleep_ms", lambda *_: replace())
    else:
        creating = SchemaFiles.create

        def created(files: SchemaFiles, schema: TableSchema) -> bool:
            made = creating(files, schema)
            if schema.id == 1:
                replace()
            return made

        monkeypatch.setattr(SchemaFiles, "create", created)
    table.rescale(3)
    assert done == [moment]
    assert catalog.table(NAME).store.options.bucket == 3
    takes_writes(catalog, [1, 2, 3, 7])


def test_a_rescale_of_a_main_that_was_replaced_before_says_so(catalog: Catalog, table: Table) -> None:
    table.branches.create("fix")
    catalog.table(NAME).branches.replace_main("fix")
    with pytest.raises(MainReplaced, match="Open it again"):
        table.rescale(3)
    takes_writes(catalog, [1, 2, 3, 8])


def begun(table: Table) -> None:
    """A rescale has begun: its schema is there, and its commit is not."""
    table.alter(SetOptions({"bucket": 3}))


def test_a_branch_that_is_made_while_a_rescale_is_not_done_takes_writes(catalog: Catalog, table: Table) -> None:
    begun(table)
    catalog.table(NAME).branches.create("fix")
    branch = catalog.table(f"{NAME}$branch_fix")
    branch.write(rows(7, p="x"))
    assert keys(branch) == [1, 2, 3, 7, 8]


def test_a_table_is_not_renamed_while_a_rescale_is_not_done(catalog: Catalog, table: Table) -> None:
    begun(table)
    with pytest.raises(CommitConflict, match=r"snapline rescale .* --buckets 3"):
        catalog.rename_table(NAME, "d.b")
    catalog.table(NAME).rescale(3)
    catalog.rename_table(NAME, "d.b")
    catalog.rename_table("d.b", NAME)
    takes_writes(catalog, [1, 2, 3, 8])


def test_what_others_overwrite_meanwhile_is_no_end_of_a_rescale(catalog: Catalog, table: Table) -> None:
    begun(table)
    table = catalog.table(NAME)
    table.overwrite(rows(4), partition={"p": "x"})
    with pytest.raises(CommitConflict, match=r"snapline rescale .* --buckets 3"):
        catalog.rename_table(NAME, "d.b")
    table.branches.create("fix")
    branch = catalog.table(f"{NAME}$branch_fix")
    branch.write(rows(9, p="y"))
    assert keys(branch) == [4, 8, 9]
    # What was overwritten is all that was to be hashed: the others are left out, and the rescale is done.
    assert table.rescale(3, partition={"p": "x"}) is None
    catalog.rename_table(NAME, "d.b")
    catalog.rename_table("d.b", NAME)
    catalog.table(NAME).rescale(3)
    takes_writes(catalog, [4, 8])


def test_what_a_rollback_has_brought_and_is_hashed_anew_is_no_end_of_a_rescale(catalog: Catalog, table: Table) -> None:
    begun(table)
    table = catalog.table(NAME)
    table.overwrite(rows(4), partition={"p": "x"})
    behind = {entry.partition for entry in table.scan().entries if entry.total_buckets == 2}
    table.write(rows(1, p="z"))
    rescale.rescale(table.store, 3, frozenset().__contains__, (), brought=True)
    assert rescale.has_begun(table.store) and len(behind) == 1
    with pytest.raises(CommitConflict, match=r"snapline rescale .* --buckets 3"):
        catalog.rename_table(NAME, "d.b")
