"""Primary keys that do not contain all partition columns: a key is in one partition, whichever its rows came with."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, InvalidRequest, Table, Unsupported
from storage.commits import Commits
from storage.lsm.key_buckets import BucketRule
from storage.lsm.moving_keys import HeldKeys, MovingKeys
from tests.scale import seeds

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int64())])


def made(catalog: Catalog, **options: object) -> Table:
    return catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["id"],
        partition_by=["day"],
        options={
            "dynamic-bucket.target-row-num": 4,
            **{key.replace("_", "-"): value for key, value in options.items()},
        },
    )


def given(rows: Sequence[tuple[int, str | None, int | None]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def content(table: Table) -> dict[int, tuple[str | None, int | None]]:
    rows = table.to_arrow().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    assert table.check(deep=True) == []
    return {row["id"]: (row["day"], row["n"]) for row in rows}


def test_a_row_leaves_its_partition(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(given([(number, "a", 0) for number in range(6)]))
    table.write(given([(0, "b", 1), (1, "a", 1), (7, None, 1)]))
    assert content(table) == {0: ("b", 1), 1: ("a", 1), 7: (None, 1)} | dict.fromkeys((2, 3, 4, 5), ("a", 0))
    table.write(given([(0, "a", 2), (0, "c", 3), (0, "b", 4), (7, "b", 4)]))
    assert content(table)[0] == ("b", 4)
    table.delete("day = 'b'")
    assert 0 not in content(table)
    table.write(given([(0, "a", 5)]))
    assert content(table)[0] == ("a", 5)


def test_engines_that_combine_rows_keep_the_old_partition(catalog: Catalog) -> None:
    table = made(catalog, **{"merge-engine": "partial-update"})
    table.write(given([(1, "a", 1), (2, "a", None)]))
    table.write(given([(1, "b", None), (2, "b", 2), (3, "b", 3), (3, "c", 4)]))
    assert content(table) == {1: ("a", 1), 2: ("a", 2), 3: ("b", 4)}
    other = catalog.create_table(
        "a.sums",
        SCHEMA,
        primary_key=["id"],
        partition_by=["day"],
        options={"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    )
    other.write(given([(1, "a", 1)]))
    other.write(given([(1, "b", 10), (2, "b", 5), (2, "a", 5)]))
    assert content(other) == {1: ("a", 11), 2: ("b", 10)}


@pytest.mark.parametrize("write_only", ["true", "false"])
def test_first_rows_stay(catalog: Catalog, write_only: str) -> None:
    table = made(catalog, **{"merge-engine": "first-row", "changelog-producer": "lookup", "write-only": write_only})
    table.write(given([(1, "a", 1)]))
    table.write(given([(1, "b", 2), (2, "b", 2), (2, "a", 3), (1, "a", 4)]))
    table.write(given([(2, "c", 5)]))
    table.compact()
    assert content(table) == {1: ("a", 1), 2: ("b", 2)}


def test_changes_tell_of_both_partitions(catalog: Catalog) -> None:
    table = made(catalog, **{"changelog-producer": "lookup"})
    table.write(given([(1, "a", 1), (2, "a", 2)]))
    table.write(given([(1, "b", 3)]))
    changes = {(row["rowkind"], row["day"], row["n"]) for row in table.changes(after=2).to_pylist()}
    assert changes == {("-D", "a", 1), ("+I", "b", 3)}


def test_two_writers_of_a_key_leave_it_in_one_partition(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(given([(1, "a", 0), (2, "a", 0)]))
    with table.new_write() as early, table.new_write() as late:
        early.write(given([(1, "b", 1), (5, "b", 1)]))
        late.write(given([(2, "b", 2), (5, "c", 2)]))
        messages = [early.prepare_commit(), late.prepare_commit()]
    table.commit_messages([messages[0]])
    with pytest.raises(CommitConflict, match="changed rows"):
        table.commit_messages([messages[1]])
    assert content(table) == {1: ("b", 1), 2: ("a", 0), 5: ("b", 1)}
    assert table.remove_orphan_files(no_writers=True, dry_run=True) == []


def test_a_write_is_repeated_on_the_newer_state(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog)
    table.write(given([(1, "a", 0)]))
    real, times = Commits.commit, [0]

    def late(self: Commits, *arguments: object, **more: object) -> object:
        times[0] += 1
        if times[0] == 1:
            catalog.table("a.t").write(given([(1, "b", 1), (2, "b", 1)]))
        return real(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Commits, "commit", late)
    table.write(given([(1, "c", 2), (2, "c", 2)]))
    assert times[0] == 3
    assert content(table) == {1: ("c", 2), 2: ("c", 2)}


def test_what_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequest, match="'bucket' = '-1'"):
        made(catalog, bucket=2)
    with pytest.raises(Unsupported, match=r"sequence\.field"):
        made(catalog, **{"sequence.field": "n"})
    table = made(catalog)
    table.write(given([(1, "a", 0)]))
    with pytest.raises(Unsupported, match="whole table"):
        table.overwrite(given([(1, "b", 0)]))
    with pytest.raises(Unsupported, match="whole table"):
        table.overwrite(given([(1, "a", 0)]), partition={"day": "a"})
    table.branches.create("b")
    table.on_branch("b").write(given([(2, "b", 0)]))
    table.write(given([(3, "c", 0)]))
    with pytest.raises(CommitConflict, match="diverged"):
        table.branches.merge("b")
    writers = [table.new_write(), table.new_write()]
    for writer in writers:
        writer.write(given([(9, "a", 0)]))
    with pytest.raises(Unsupported, match="one writer"):
        table.commit_messages([writer.prepare_commit() for writer in writers])
    assert content(table) == {1: ("a", 0), 3: ("c", 0)}
    table.overwrite(given([(1, "b", 7)]), dynamic=False)
    assert content(table) == {1: ("b", 7)}
    table.rollback_to(1)
    assert content(table) == {1: ("a", 0)}
    assert table.remove_orphan_files(no_writers=True, dry_run=True) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("engine", ["deduplicate", "aggregation", "first-row"])
@pytest.mark.parametrize("seed", seeds(8, 400, full=40))
def test_places_are_those_of_rows_taken_one_by_one(engine: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    moving = MovingKeys(
        HeldKeys(pa.table({"id": pa.array([], pa.int64())}), np.empty(0, np.int64), np.empty(0, np.int32)),
        BucketRule(3),
        engine,
    )
    home: dict[int, int] = {}
    place: dict[int, tuple[int, int]] = {}
    for _ in range(4):
        ids, partitions = random.integers(0, 12, 10), random.integers(0, 3, 10)
        expected = []
        for row, (key, partition) in enumerate(zip(ids.tolist(), partitions.tolist(), strict=True)):
            before = home.get(key)
            if engine == "deduplicate" and before not in (None, partition):
                expected.append((row, before, 3))
            if engine == "deduplicate" or before is None:
                home[key] = partition
            if engine != "first-row" or home[key] == partition:
                expected.append((row, home[key], 0))
        placed = moving.place(pa.table({"id": ids}), partitions.astype(np.int64), np.zeros(10, np.int8))
        placed_rows = zip(placed.rows.tolist(), placed.partitions.tolist(), placed.kinds.tolist(), strict=True)
        assert list(placed_rows) == expected
        for (row, partition, kind), bucket in zip(expected, placed.buckets.tolist(), strict=True):
            key = int(ids[row])
            if kind == 3 or (key in place and place[key][0] == partition):
                assert place[key] == (partition, bucket)
            place[key] = (partition, bucket)
