"""Compaction: the same rows in fewer runs, by the writer and on demand."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, Table
from storage.maintain import compaction
from storage.maintain.compact_in_tries import TRIES


def batch(*ids: int, text: str = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "item": [text] * len(ids)})


def keyed(catalog: Catalog, **options: object) -> Table:
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    given = {"bucket": 2} | {key.replace("_", "-"): value for key, value in options.items()}
    return catalog.create_table("shop.t", schema, primary_key=["id"], options=given)


def levels(table: Table) -> list[int]:
    return sorted(table.system_table("files")["level"].to_pylist())


def rows(table: Table, version: object = None) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(version=version).to_pylist())  # type: ignore[arg-type]


def test_a_full_compaction_leaves_one_run_and_the_same_rows(catalog: Catalog) -> None:
    table = keyed(catalog, write_only=True)
    for number in range(8):
        table.write(batch(*range(number * 3, number * 3 + 10), text=f"round {number}"))
    table.delete("id < 4")
    before = rows(table)
    snapshot = table.compact()
    assert snapshot is not None
    assert snapshot.commit_kind == "COMPACT"
    assert rows(table) == before
    assert levels(table) == [5, 5]
    assert snapshot.total_record_count == len(before)
    assert not any(split.needs_merge for split in table.scan().splits)
    assert table.compact() is None


def test_every_version_still_reads_what_it_read(catalog: Catalog) -> None:
    table = keyed(catalog, write_only=True)
    seen = {}
    for number in range(6):
        snapshot = table.write(batch(1, 2, number + 3, text=f"v{number}"))
        assert snapshot is not None
        seen[snapshot.id] = rows(table)
        if number == 3:
            table.compact()
    assert {version: rows(table, version) for version in seen} == seen


def test_a_writer_compacts_once_there_are_enough_runs(catalog: Catalog) -> None:
    table = keyed(catalog, bucket=1)
    for number in range(23):
        assert table.write(batch(number % 7, number, text=f"{number}")) is not None
    kinds = [snapshot.commit_kind for snapshot in table.store.snapshots.all()]
    assert kinds.count("APPEND") == 23
    assert kinds.count("COMPACT") >= 4
    assert len(levels(table)) <= 5
    assert dict(rows(table))[0] == "21"


def test_a_write_only_table_is_left_alone(catalog: Catalog) -> None:
    table = keyed(catalog, bucket=1, write_only=True)
    for number in range(12):
        table.write(batch(number))
    assert levels(table) == [0] * 12


def test_deletes_stay_while_older_rows_lie_below(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed(catalog, bucket=1, write_only=True)
    table.write(batch(*range(1000)))
    table.compact()
    for number in range(5):
        table.write(batch(number).append_column("op", pa.array(["-D"])), row_kind_column="op")
    table.compact(full=False)
    assert levels(table) == [4, 5]
    assert table.system_table("files")["deleteRowCount"].to_pylist() == [0, 5]
    assert table.count() == 995
    table.compact()
    assert table.system_table("files")["deleteRowCount"].to_pylist() == [0]
    assert table.count() == 995


def test_a_large_file_without_deletes_moves_to_its_level_unchanged(catalog: Catalog, tmp_path: Path) -> None:
    table = keyed(catalog, bucket=1, write_only=True, target_file_size="1 kb")
    table.write(batch(*range(500)))
    files = sorted(tmp_path.rglob("*.parquet"))
    table.compact()
    assert levels(table) == [5]
    assert sorted(tmp_path.rglob("*.parquet")) == files
    table.delete("id = 3")
    table.compact()
    assert table.count() == 499
    assert rows(table, 1)[3] == (3, "x")


def test_deletes_that_a_manifest_does_not_count_are_not_lifted(catalog: Catalog) -> None:
    """pypaimon counts none. Above level 0 nobody would look at the row kind again."""
    from dataclasses import replace

    table = keyed(catalog, bucket=1, write_only=True, target_file_size="1 kb")
    writer = table.new_write()
    kinds = pa.array(["-D" if row_number % 2 else "+I" for row_number in range(300)])
    writer.write(batch(*range(300)).append_column("op", kinds), "op")
    message = writer.prepare_commit()
    unaware = tuple(replace(entry, file=replace(entry.file, delete_row_count=0)) for entry in message.added)
    table.commit_messages([replace(message, added=unaware)])
    table.compact()
    assert table.count() == 150


def test_one_partition_is_compacted_and_the_others_are_not(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    table = catalog.create_table(
        "a.b", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1, "write-only": True}
    )
    for number in range(3):
        table.write(pa.table({"day": ["x", "y"], "id": [number, number]}))
    table.compact(partition={"day": "x"})
    assert levels(table) == [0, 0, 0, 5]
    assert table.count() == 6


def test_small_files_without_a_key_become_one_in_their_order(catalog: Catalog) -> None:
    table = catalog.create_table("a.b", pa.schema([("n", pa.int64())]))
    for number in range(6):
        table.write(pa.table({"n": [number, number]}))
    before = table.to_arrow()
    table.compact()
    assert table.system_table("files").num_rows == 1
    assert sorted(table.to_arrow()["n"].to_pylist()) == sorted(before["n"].to_pylist())
    assert table.compact() is None


@pytest.mark.parametrize("overtaken_times", [1, 2, 3])
def test_a_compaction_that_lost_its_files_is_planned_anew_and_leaves_none(
    overtaken_times: int, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(catalog, bucket=1, write_only=True)
    for number in range(3):
        table.write(batch(number))
    real = compaction.compact_bucket
    overtaken: list[int] = []

    def overtake(store: object, plan: object) -> object:
        result = real(store, plan)  # type: ignore[arg-type]
        if len(overtaken) < overtaken_times:
            overtaken.append(1)
            other = Catalog(str(tmp_path / "warehouse")).table("shop.t")
            other.overwrite(batch(77))
            other.write(batch(78))
        return result

    files = set(tmp_path.rglob("*.parquet"))
    monkeypatch.setattr(compaction, "compact_bucket", overtake)
    if overtaken_times < TRIES:
        assert table.compact().commit_kind == "COMPACT"
    else:
        with pytest.raises(CommitConflict, match="compact it again"):
            table.compact()
    assert rows(table) == [(77, "x"), (78, "x")]
    left = 2 * overtaken_times + (overtaken_times < TRIES)
    assert len(set(tmp_path.rglob("*.parquet")) - files) == left


def test_a_write_between_plan_and_commit_of_a_compaction_stays(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = keyed(catalog, bucket=1, write_only=True)
    for number in range(3):
        table.write(batch(1, text=f"{number}"))
    real = compaction.compact_bucket

    def beside(store: object, plan: object) -> object:
        Catalog(str(tmp_path / "warehouse")).table("shop.t").write(batch(1, text="newest"))
        return real(store, plan)  # type: ignore[arg-type]

    monkeypatch.setattr(compaction, "compact_bucket", beside)
    assert table.compact() is not None
    assert rows(table) == [(1, "newest")]


def test_the_last_change_is_the_snapshot_before_compactions(catalog: Catalog) -> None:
    table = keyed(catalog, write_only=True)
    assert table.last_change() is None
    for number in range(3):
        table.write(batch(number))
    table.compact()
    assert table.ref().snapshot_id == 4  # type: ignore[union-attr]
    assert table.last_change().snapshot_id == 3  # type: ignore[union-attr]
    assert table.last_change(4).snapshot_id == 3  # type: ignore[union-attr]
    assert table.last_change(2).snapshot_id == 2  # type: ignore[union-attr]


def test_composite_text_keys_are_merged_in_order(catalog: Catalog) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.date32()), ("n", pa.int32())])
    table = catalog.create_table(
        "a.b", schema, primary_key=["a", "b"], options={"bucket": 1, "write-only": True, "parquet.row-group.rows": 20}
    )
    for number in range(5):
        keys = [f"k{(position * 7 + number) % 50}" for position in range(40)]
        table.write(
            pa.table(
                {
                    "a": keys,
                    "b": pa.array([position % 3 for position in range(40)], pa.int32()).cast(pa.date32()),
                    "n": [number] * 40,
                }
            )
        )
    before = rows(table)
    table.compact()
    assert rows(table) == before
    file = next(Path(path) for split in table.scan().splits for path in split.file_paths)
    import pyarrow.parquet as pq

    written = pq.ParquetFile(file).read(["_KEY_a", "_KEY_b"])
    assert written.equals(written.sort_by([("_KEY_a", "ascending"), ("_KEY_b", "ascending")]))


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_run_of_which_every_row_was_replaced_is_in_order_too(catalog: Catalog, engine: str) -> None:
    """The second columns of the keys come in another order than that of their values."""
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("item", pa.string())])
    table = catalog.create_table(
        "shop.t", schema, primary_key=["day", "id"], options={"bucket": 1, "write-only": True, "merge-engine": engine}
    )
    keys = {"day": ["a", "b", "b"], "id": [9, 1, 9]}
    for item in ("old", "new"):
        table.write(pa.table({**keys, "item": [item] * 3}))
    table.compact(full=True)
    assert table.check(deep=True) == []
    assert table.system_table("files")["max_key"].to_pylist() == ["[b, 9]"]
    table.write(pa.table({"day": ["b"], "id": [9], "item": ["newest"]}))
    assert rows(table) == [("a", 9, "new"), ("b", 1, "new"), ("b", 9, "newest")]


def test_writers_that_did_not_see_each_other_are_decided_once_and_for_all(catalog: Catalog) -> None:
    table = keyed(catalog, bucket=1, write_only=True)
    writers = [table.new_write() for _ in range(6)]
    for number, writer in enumerate(writers):
        writer.write(batch(*range(number, 20), text=f"{number}"))
    messages = [writer.prepare_commit() for writer in writers]
    for message in messages:
        table.commit_messages([message])
    before = rows(table)
    assert [row for row in before if row[0] == 12] == [row for row in rows(table) if row[0] == 12]
    narrow = table.to_arrow(where="id = 12").to_pylist()
    assert [tuple(row.values()) for row in narrow] == [row for row in before if row[0] == 12]
    table.compact()
    assert rows(table) == before
