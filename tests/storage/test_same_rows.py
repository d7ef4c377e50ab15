"""An overwrite that brings the rows that it would replace, and what came and went between two versions."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, NotFound, Overwrite, Snapshot, Table, Unsupported

NAN = float("nan")


@pytest.fixture(params=[True, False], ids=["key", "no key"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("x", pa.float64()), ("l", pa.list_(pa.int64()))])
    definition: dict[str, Any] = {"primary_key": ["day", "id"], "options": {"bucket": 2}} if request.param else {}
    return Catalog(str(tmp_path)).create_table("a.b", schema, partition_by=["day"], **definition)


def rows(*given: tuple[str, int, float | None]) -> pa.Table:
    columns = zip(*given, strict=True)
    made = pa.table(dict(zip(("day", "id", "x"), map(list, columns), strict=True)))
    return made.append_column(
        "l", pa.array([[number, number] for number in made["id"].to_pylist()], pa.list_(pa.int64()))
    )


def replace(table: Table, data: pa.Table, overwrite: Overwrite, commit_id: CommitId | None = None) -> Snapshot | None:
    with table.new_write(replaces=True) as writer:
        writer.write(data)
        message = writer.prepare_commit()
    return table.commit_messages([message], overwrite, commit_id, unless_same=True)


def test_only_an_overwrite_that_changes_something_is_committed(table: Table) -> None:
    first = [("a", 1, 1.0), ("a", 2, NAN), ("b", 1, None), ("b", 3, -0.0)]
    assert replace(table, rows(*first), Overwrite()) is not None
    day = Overwrite(matching=({"day": "b"},))
    for overwrite, given in (
        (Overwrite(), first[::-1]),
        (Overwrite(dynamic=True), first[2:]),
        (day, first[:1:-1]),
        # What is replaced was empty and stays so.
        (Overwrite(matching=({"day": "c"},)), []),
    ):
        data = rows(*given) if given else rows(*first).slice(0, 0)
        assert replace(table, data, overwrite) is None
    assert table.store.snapshots.ids() == [1]
    assert table.remove_orphan_files(dry_run=True, no_writers=True) == []
    for number, (overwrite, given) in enumerate(
        (
            (day, [("b", 1, None), ("b", 3, 0.0)]),
            (day, [("b", 1, None), ("b", 4, 0.0)]),
            (day, [("b", 1, None)]),
            (Overwrite(), [("b", 1, None)]),
            (Overwrite(), [("c", 1, None)]),
        ),
        start=2,
    ):
        made = replace(table, rows(*given), overwrite)
        assert made is not None
        assert made.id == number
    assert table.check(deep=True) == []


def test_an_overwrite_that_is_repeated_is_the_one_that_landed(table: Table) -> None:
    commit_id = CommitId("somebody", 7, exact=True)
    first = replace(table, rows(("a", 1, 1.0)), Overwrite(), commit_id)
    again = replace(table, rows(("a", 1, 1.0)), Overwrite(), commit_id)
    assert first is not None
    assert again is not None
    assert (first.id, again.id) == (1, 1)
    assert table.to_arrow().num_rows == 1


def test_rows_that_were_updated_before_are_compared_merged(table: Table) -> None:
    table.write(rows(("a", 1, 1.0), ("a", 2, 2.0)))
    table.write(rows(("a", 1, 5.0)))
    is_keyed = bool(table.schema.primary_keys)
    same = rows(("a", 1, 5.0), ("a", 2, 2.0))
    assert (replace(table, same, Overwrite()) is None) == is_keyed


def test_what_came_and_what_went_is_told_of_overwrites_too(table: Table) -> None:
    table.write(rows(("a", 1, 1.0), ("b", 1, 1.0)))
    table.overwrite(rows(("b", 1, 1.0), ("b", 2, 2.0)), partition={"day": "b"})
    table.overwrite(rows(("c", 1, 1.0)), partition={"day": "c"})
    table.delete("day = 'c'")
    came, went = table.net_changes(1)
    keyed = bool(table.schema.primary_keys)
    assert [(row["day"], row["id"]) for row in came.to_pylist()] == [("b", 2)]
    # With a key it is not known whether a row that came and went was there before.
    assert [(row["day"], row["id"]) for row in went.to_pylist()] == ([("c", 1)] if keyed else [])
    table.write(rows(("d", 1, 1.0)), change_tracking=False)
    with pytest.raises(Unsupported, match=r"Snapshot 5 of a\.b was committed without change tracking"):
        table.net_changes(1)
    table.expire(retain_last=1)
    with pytest.raises(NotFound):
        table.net_changes(1)


def test_how_often_a_key_was_given_stands_in_the_snapshot(table: Table) -> None:
    made = table.write(rows(("a", 1, 1.0), ("a", 1, 2.0), ("b", 1, 1.0), ("a", 1, 3.0)))
    assert made is not None
    assert table.changes_of(made).duplicate_keys == (2 if table.schema.primary_keys else 0)
    parts = [(place["day"], changes.rows_added) for place, changes in table.changes_by_partition(made)]
    assert sorted(parts) == [("a", 1 if table.schema.primary_keys else 3), ("b", 1)]
