"""Dynamic buckets: each key of a partition is in one bucket, which the hash index names, whoever writes at the same time."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from storage import Basis, Catalog, InvalidRequest, Table, Unsupported
from storage.errors import RowsChanged
from storage.file_io import FileIO
from storage.lsm.key_buckets import BucketRule, KeyBuckets
from storage.metadata.hash_index import hash_files, read_hashes, write_hashes
from storage.options import TableOptions
from storage.write import key_index

_NOW = dt.timedelta(0)
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("what", pa.string())])


def numbered(ids: Sequence[int], what: str = "x", day: str = "a") -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids), "what": [what] * len(ids)}, SCHEMA)


def made(catalog: Catalog, *, days: bool = False, **options: object) -> Table:
    given = {"bucket": -1, "dynamic-bucket.target-row-num": 4} | {
        f"dynamic-bucket.{name.replace('_', '-')}": value for name, value in options.items()
    }
    key = ["day", "id"] if days else ["id"]
    return catalog.create_table("a.t", SCHEMA, primary_key=key, partition_by=["day"] if days else [], options=given)


def index_of(table: Table) -> dict[tuple[bytes, int], list[int]]:
    store = table.store
    files = hash_files(store, store.snapshots.latest())
    return {
        (partition, bucket): sorted(read_hashes(store, file).tolist())
        for partition, held in files.items()
        for bucket, file in held.items()
    }


def whats(table: Table) -> dict[int, str]:
    rows = table.to_arrow()
    assert rows.num_rows == len(set(rows.column("id").to_pylist()))
    return dict(zip(rows.column("id").to_pylist(), rows.column("what").to_pylist(), strict=True))


def buckets_of(table: Table) -> list[tuple[int, int]]:
    files = table.system_table("files")
    return sorted(zip(files.column("bucket").to_pylist(), files.column("record_count").to_pylist(), strict=True))


def test_a_table_with_a_key_has_them_by_default(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"])
    table.write(numbered(range(5)))
    assert buckets_of(table) == [(0, 5)]
    assert table.check(deep=True) == []


def test_new_keys_fill_buckets_and_stay_in_them(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(10)))
    assert buckets_of(table) == [(0, 4), (1, 4), (2, 2)]
    before = index_of(table)
    table.write(numbered(range(9, -1, -1), "y"))
    assert index_of(table) == before
    table.delete("id < 8")
    table.compact()
    assert index_of(table) == before
    table.write(numbered([20]))
    assert whats(table) == {8: "y", 9: "y", 20: "x"}
    assert len(index_of(table)[b"\0" * 12, 2]) == 3
    assert table.check(deep=True) == []


def test_partitions_have_buckets_of_their_own(catalog: Catalog) -> None:
    table = made(catalog, days=True)
    table.write(pa.concat_tables([numbered(range(6)), numbered(range(2), day="b")]))
    assert buckets_of(table) == [(0, 2), (0, 4), (1, 2)]
    table.drop_partition({"day": "a"})
    assert len(index_of(table)) == 1
    table.write(numbered(range(3)))
    assert buckets_of(table) == [(0, 2), (0, 3)]
    assert table.check(deep=True) == []


def test_buckets_are_full_only_up_to_their_limit(catalog: Catalog) -> None:
    table = made(catalog, max_buckets=2)
    table.write(numbered(range(40)))
    assert {bucket for bucket, _ in buckets_of(table)} == {0, 1}
    assert len(whats(table)) == 40
    assert table.check(deep=True) == []


def test_first_keys_are_spread(catalog: Catalog) -> None:
    table = made(catalog, initial_buckets=3)
    table.write(numbered(range(9)))
    assert {bucket % 3 for bucket, _ in buckets_of(table)} == {0, 1, 2}
    with pytest.raises(InvalidRequest, match="max-buckets"):
        made(catalog, max_buckets=0)


def test_more_buckets_than_java_counts_are_refused() -> None:
    known = KeyBuckets({bucket: np.array([bucket], np.int32) for bucket in range(32_767)})
    with pytest.raises(InvalidRequest, match="target-row-num"):
        known.assign(np.array([-1], np.int32), BucketRule(1))


def test_equal_writes_give_equal_buckets() -> None:
    rule = BucketRule.of(TableOptions(dynamic_bucket_target_row_num=3, dynamic_bucket_max_buckets=4))
    hashes = np.random.default_rng(1).integers(-(2**31), 2**31, 50).astype(np.int32)
    first, second = KeyBuckets(), KeyBuckets()
    at_once = first.assign(hashes, rule)
    bit_by_bit = np.concatenate([second.assign(part, rule) for part in np.array_split(hashes, 7)])
    assert at_once.tolist() == bit_by_bit.tolist()


def test_two_writers_of_a_new_key_put_it_into_one_bucket(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(4)))
    with table.new_write() as early, catalog.table("a.t").new_write() as late:
        early.write(numbered([10, 11, 12, 13, 14, 15], "early"))
        late.write(numbered([0, 15, 14, 13, 12, 20, 21], "late"))
        first, second = early.prepare_commit(), late.prepare_commit()
    table.commit_messages([first])
    landed = table.commit_messages([second])
    assert landed is not None
    expected = {1: "x", 2: "x", 3: "x", 10: "early", 11: "early"} | dict.fromkeys([0, 12, 13, 14, 15, 20, 21], "late")
    assert whats(table) == expected
    assert table.check(deep=True) == []
    hashes = [item for held in index_of(table).values() for item in held]
    assert len(hashes) == len(set(hashes)) == 12
    assert table.remove_orphan_files(older_than=_NOW, no_writers=True, dry_run=True) == []


def test_the_later_commit_stands_whichever_bucket_it_chose(catalog: Catalog) -> None:
    """Rows that go to another bucket are numbered after those that are there."""
    table = made(catalog)
    table.write(numbered(range(4)))
    writers = [catalog.table("a.t").new_write() for _ in range(3)]
    for number, writer in enumerate(writers):
        for turn in range(3):
            # Each gives the keys another order, so that they come to other buckets.
            writer.write(numbered(np.roll(np.arange(10, 22), 5 * number).tolist(), f"{number}.{turn}"))
            writer.flush()
    for writer in writers:
        table.commit_messages([writer.prepare_commit()])
    assert whats(table) == dict.fromkeys(range(4), "x") | dict.fromkeys(range(10, 22), "2.2")
    assert table.check(deep=True) == []


def test_writers_of_one_commit_may_have_the_same_keys(catalog: Catalog) -> None:
    """As tasks of a job have them that nobody has distributed by key."""
    table = made(catalog)
    messages = []
    for number in range(3):
        with table.new_write(write_name="w") as writer:
            writer.write(numbered(np.roll(np.arange(12), 5 * number).tolist(), str(number)))
            messages.append(writer.prepare_commit())
    table.commit_messages(messages)
    assert sorted(whats(table)) == list(range(12))
    assert table.check(deep=True) == []
    table.commit_messages(_replacing(table), table.overwrite_by_default())
    assert sorted(whats(table)) == list(range(12))
    assert table.check(deep=True) == []


def _replacing(table: Table) -> list[object]:
    messages = []
    for number in range(3):
        with table.new_write(write_name="v", replaces=True) as writer:
            writer.write(numbered(np.roll(np.arange(12), 5 * number).tolist(), str(number)))
            messages.append(writer.prepare_commit())
    return messages


def test_an_overwrite_in_between_gives_keys_other_buckets(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(8)))
    with table.new_write() as writer:
        writer.write(numbered([0, 1, 6, 7, 30], "late"))
        message = writer.prepare_commit()
    table.overwrite(numbered([7, 6, 5, 4, 3, 2, 1], "new"))
    table.commit_messages([message])
    assert whats(table) == dict.fromkeys([2, 3, 4, 5], "new") | dict.fromkeys([0, 1, 6, 7, 30], "late")
    assert table.check(deep=True) == []


def test_changes_of_rows_meet_in_whichever_bucket_their_keys_are(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(3)))
    basis = Basis(table.store, table.snapshot())
    catalog.table("a.t").write(numbered([7, 8, 9, 10], "other"))
    with table.new_write() as writer:
        # As one who knows nothing of that: key 10 would come first.
        writer._dynamic._load = lambda partition: (KeyBuckets(), {})  # type: ignore[union-attr,method-assign]
        writer.write(numbered([10], "mine"))
        message = writer.prepare_commit()
    with pytest.raises(RowsChanged):
        table.commit_messages([message], guard=basis.guard([message], inserts=True))
    assert whats(table)[10] == "other"


def test_changelogs_go_where_the_rows_go(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["id"],
        options={"bucket": -1, "dynamic-bucket.target-row-num": 2, "changelog-producer": "input"},
    )
    with table.new_write() as early, table.new_write() as late:
        early.write(numbered([1, 2, 3, 4], "early"))
        late.write(numbered([4, 3, 2, 1, 4], "late"))
        messages = [early.prepare_commit(), late.prepare_commit()]
    for message in messages:
        table.commit_messages([message])
    assert whats(table) == dict.fromkeys([1, 2, 3, 4], "late")
    changes = table.changes(after=1).to_pylist()
    assert sorted(row["id"] for row in changes) == [1, 2, 3, 4, 4]
    assert table.check(deep=True) == []


@pytest.mark.parametrize("what", ["lookup", "full-compaction"])
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_engines_and_changelogs(catalog: Catalog, what: str, engine: str) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 3, "merge-engine": engine}
    table = catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["id"],
        options={**options, "changelog-producer": "lookup" if engine == "first-row" else what},
    )
    table.write(numbered(range(7)))
    table.write(numbered(range(5, 9), "y"))
    table.compact()
    table.overwrite(numbered(range(4), "z"))
    table.write(numbered(range(3, 6), "w"))
    table.compact()
    later = "z" if engine == "first-row" else "w"
    assert whats(table) == {0: "z", 1: "z", 2: "z", 3: later, 4: "w", 5: "w"}
    assert table.check(deep=True) == []


def test_index_files_are_kept_and_go_with_what_needs_them(catalog: Catalog, tmp_path: Path) -> None:
    table = made(catalog)
    for number in range(4):
        table.write(numbered(range(number * 3, number * 3 + 3)))
    table.tags.create("t", snapshot_id=2)
    directory = Path(table.store.paths.root) / "index"
    assert len(list(directory.iterdir())) > 4
    table.expire(retain_last=1)
    assert table.remove_orphan_files(older_than=_NOW, no_writers=True) == []
    assert whats(table.at("t")) == dict.fromkeys(range(6), "x")
    table.tags.delete("t")
    table.remove_orphan_files(older_than=_NOW, no_writers=True)
    kept = {file.name for held in hash_files(table.store, table.snapshot()).values() for file in held.values()}
    assert {path.name for path in directory.iterdir()} == kept
    assert table.check(deep=True) == []


def test_rollbacks_and_branches_bring_the_index_that_their_files_need(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(6)))
    table.tags.create("six")
    table.branches.create("b", tag="six")
    table.overwrite(numbered([9, 5, 4, 3, 2, 1, 0], "new"))
    table.rollback_to("six")
    assert whats(table) == dict.fromkeys(range(6), "x")
    assert table.check(deep=True) == []
    branch = table.on_branch("b")
    branch.write(numbered([5, 100, 101], "branch"))
    assert branch.check(deep=True) == []
    table.branches.merge("b")
    assert whats(table) == dict.fromkeys(range(5), "x") | dict.fromkeys([5, 100, 101], "branch")
    table.write(numbered([4, 100, 101, 102], "last"))
    assert whats(table) == dict.fromkeys(range(4), "x") | {5: "branch"} | dict.fromkeys([4, 100, 101, 102], "last")
    assert table.check(deep=True) == []


def test_a_damaged_index_is_named(catalog: Catalog) -> None:
    table = made(catalog)
    table.write(numbered(range(6)))
    (file,) = [item for item in hash_files(table.store, table.snapshot())[b"\0" * 12].values() if item.place[1] == 1]
    store = table.store
    store.file_io.write_bytes(store.paths.index(file.name), b"\0" * 7)
    assert any("hashes" in str(item) or "bytes" in str(item) for item in table.check())
    # The open table knows what it has written.
    with pytest.raises(Exception, match="damaged"):
        catalog.table(str(table.identifier)).write(numbered([7]))
    store.file_io.write_bytes(store.paths.index(file.name), np.arange(file.hash_count, dtype=">i4").tobytes())
    assert any("checksum" in str(item) for item in table.check())


def test_keys_that_an_index_does_not_have_are_named(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(key_index, "write_hashes", lambda *given: write_hashes(*given[:3], given[3] + 1))
        table.write(numbered(range(6)))
    assert any("is not in the hash index" in str(item) for item in table.check(deep=True))


def test_what_an_attempt_wrote_in_vain_is_deleted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog)
    table.write(numbered(range(6)))
    index = Path(table.store.paths.root) / "index"
    before = set(index.iterdir())
    real = FileIO.write_bytes

    def fails(self: FileIO, path: str, data: bytes) -> None:
        if "manifest-list" in path:
            raise OSError(5, "no more")
        real(self, path, data)

    monkeypatch.setattr(FileIO, "write_bytes", fails)
    with pytest.raises(Exception, match="no more"):
        table.write(numbered(range(6, 9)))
    assert set(index.iterdir()) == before


def test_writers_of_one_overwrite_with_the_same_keys_are_refused_where_changes_are_told(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["id"],
        options={"bucket": -1, "dynamic-bucket.target-row-num": 2, "changelog-producer": "lookup"},
    )
    table.write(numbered(range(3)))
    messages = []
    for ids in ([1, 2, 3, 4], [4, 3, 2, 1]):
        with table.new_write(replaces=True) as writer:
            writer.write(numbered(ids, "new"))
            messages.append(writer.prepare_commit())
    with pytest.raises(Unsupported, match="one writer"):
        table.commit_messages(messages, table.overwrite_by_default())
    assert whats(table) == dict.fromkeys(range(3), "x")
    assert table.check(deep=True) == []
