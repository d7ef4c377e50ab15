"""Tables whose replaced and deleted rows are marked: written, changed, compacted, and read by everybody alike."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, InvalidRequest, Overwrite, SetOptions, Table, Unsupported
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from storage.errors import CorruptData, RowsChanged
from storage.file_io import FileIO
from storage.format.deletion_vector import encode_index_file
from storage.maintain.compaction import BucketCompaction, BucketResult, compact, compact_bucket
from storage.metadata.index_manifest import index_files_of, vectors_of
from storage.read.predicate import Comparison
from storage.read.split_read import ReadRequest
from storage.read.stream_scan import StartUp, first_position, next_position, plan_step
from storage.row_changes import rewrite_files
from storage.write.commit_id import CommitId
from tests import scale

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
ON = {"deletion-vectors.enabled": True}
GOLDEN = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables" / "jv_dv" / "golden.db" / "jv_dv" / "index"


def rows(ids: Sequence[int], n: int = 0, text: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids), "text": [f"{text}{row_id}" for row_id in ids]}, SCHEMA)


def keyed(catalog: Catalog, name: str = "shop.keyed", **options: Any) -> Table:
    made = {"bucket": 1, **ON, **options}
    return catalog.create_table(name, SCHEMA, primary_key=["id"], options=made)


def plain(catalog: Catalog, name: str = "shop.plain", **options: Any) -> Table:
    return catalog.create_table(name, SCHEMA, options={**ON, **options})


def held(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    data = table.to_arrow(**options)
    return sorted(zip(*(data.column(name).to_pylist() for name in SCHEMA.names), strict=True))


def marked(table: Table) -> dict[str, list[int]]:
    """The marked positions of each data file."""
    vectors = vectors_of(table.store, table.snapshot())
    return {name: vector.read(table.store.file_io).tolist() for name, vector in vectors.items()}


def levels(table: Table) -> list[tuple[int, int]]:
    return [(row["level"], row["record_count"]) for row in table.system_table("files").to_pylist()]


# --- the format


def test_index_files_have_the_bytes_of_java() -> None:
    (file,) = GOLDEN.iterdir()
    _, content, placed = encode_index_file({"data": np.array([3, 7])}, lambda _: "index-1", bitmap64=False)
    assert content == file.read_bytes()
    assert (placed["data"].offset, placed["data"].length, placed["data"].cardinality) == (1, 24, 2)


@pytest.mark.parametrize("bitmap64", [False, True])
def test_a_vector_is_read_as_it_was_written(bitmap64: bool, tmp_path: Path) -> None:
    chosen = random.Random(7)
    vectors = {
        "empty of runs": np.array(sorted(chosen.sample(range(200_000), 5000))),
        "a run": np.arange(100, 90_000),
        "the last": np.array([2**31 - 1]),
    }
    path = str(tmp_path / "index")
    _, content, placed = encode_index_file(vectors, lambda _: path, bitmap64=bitmap64)
    Path(path).write_bytes(content)
    file_io = FileIO(str(tmp_path))
    for name, positions in vectors.items():
        assert (placed[name].read(file_io) == positions).all()
        Path(path).write_bytes(content[: placed[name].offset + placed[name].length - 2])
        with pytest.raises(CorruptData, match=r"ends before|has no deletion vector"):
            placed[name].read(file_io)
        Path(path).write_bytes(content)
    changed = bytearray(content)
    changed[placed["a run"].offset + 14] ^= 1
    Path(path).write_bytes(changed)
    with pytest.raises(CorruptData, match="is damaged"):
        placed["a run"].read(file_io)


@pytest.mark.parametrize("has_key", [False, True])
def test_a_file_of_vectors_in_the_place_of_another_is_noticed(has_key: bool, catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.swapped",
        pa.schema([("p", pa.string()), ("k", pa.int64())]),
        primary_key=["p", "k"] if has_key else [],
        partition_by=["p"],
        options={"deletion-vectors.enabled": "true", **({"bucket": "1"} if has_key else {})},
    )
    table.write(pa.table({"p": ["a"] * 4 + ["b"] * 4, "k": [0, 1, 2, 3] * 2}))
    table.compact()
    table.delete("p = 'a' AND k = 1")
    table.delete("p = 'b' AND k = 2")
    first, second = sorted(Path(table.store.paths.root, "index").iterdir())[-2:]
    assert first.stat().st_size == second.stat().st_size
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(CorruptData, match="by its name"):
        table.to_arrow()
    assert any("by its name" in str(line) for line in table.check(deep=True))
    first.write_bytes(kept)
    assert not table.check(deep=True)


def test_a_vector_of_more_rows_than_java_counts_is_refused() -> None:
    with pytest.raises(CorruptData, match="no place for row"):
        encode_index_file({"data": np.array([2**31])}, lambda _: "index", bitmap64=True)


# --- with a key


def test_a_compaction_marks_what_it_replaces_and_leaves_the_files_that_hold_it(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.write(rows(range(100)))
    before = table.system_table("files").to_pylist()[0]["file_path"]
    table.write(rows([5, 50, 200], n=1))
    files = {file["file_path"]: file for file in table.system_table("files").to_pylist()}
    assert before in files
    assert marked(table) == {before.rsplit("/", 1)[-1]: [5, 50]}
    assert table.count() == 101
    assert held(table, where="id IN (5, 200)") == [(5, 1, "x5"), (200, 1, "x200")]
    table.delete("id < 10")
    assert table.count() == 91
    assert table.check(deep=True) == []


ENGINES: dict[str, Mapping[str, Any]] = {
    "deduplicate": {},
    "by a field": {"sequence.field": "n"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.text.aggregate-function": "max",
    },
}


_MERGES_ALL = pytest.mark.pypaimon_differs("it merges all levels of the twin, which looks up (decision 0020)")


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(merge_engine, marks=_MERGES_ALL if merge_engine == "aggregation" else ())
        for merge_engine in ENGINES
    ],
)
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_histories_hold_what_a_table_without_vectors_holds(engine: str, producer: str, catalog: Catalog) -> None:
    for seed in range(scale.amount(2, 20)):
        chosen = random.Random(seed)
        options = {**ENGINES[engine], "changelog-producer": producer, "num-sorted-run.compaction-trigger": 3}
        twin = catalog.create_table(
            f"shop.twin{seed}", SCHEMA, primary_key=["id"], options={"bucket": 2, "force-lookup": True, **options}
        )
        options["deletion-vectors.bitmap64"] = chosen.random() < 0.5
        table = keyed(catalog, f"shop.marked{seed}", **{**options, "bucket": 2})
        for _ in range(12):
            ids = chosen.sample(range(40), chosen.randint(1, 12))
            new = rows(ids, chosen.randrange(10), chosen.choice("abc"))
            kinds = ["+I"] * len(ids)
            if engine in ("deduplicate", "by a field"):
                kinds = [chosen.choice(["+I", "+I", "-D"]) for _ in ids]
            step = chosen.choice(["write", "write", "write", "write", "compact", "overwrite"])
            for target in (table, twin):
                if step == "write":
                    target.write(new.append_column("kind", pa.array(kinds)), row_kind_column="kind")
                elif step == "compact":
                    target.compact(full=chosen.random() < 2)
                else:
                    target.overwrite(new)
            assert held(table) == held(twin), (seed, step)
            assert table.check(deep=True) == []
        if producer == "lookup":
            assert _net(table) == _net(twin)


def _net(table: Table) -> list[tuple[Any, ...]]:
    """What the changes of a table add up to."""
    left: dict[int, tuple[Any, ...]] = {}
    for row in table.changes().to_pylist():
        if row["rowkind"] in ("+I", "+U"):
            left[row["id"]] = (row["id"], row["n"], row["text"])
        else:
            left.pop(row["id"], None)
    return sorted(left.values())


def test_rows_that_no_compaction_has_seen_are_not_shown_unless_they_are_merged_on_reading(catalog: Catalog) -> None:
    table = keyed(catalog, **{"write-only": True})
    table.write(rows(range(4)))
    assert held(table) == []
    table.alter(SetOptions({"write-only": False}))
    table = catalog.table("shop.keyed")
    table.compact()
    table.alter(SetOptions({"write-only": True}))
    table = catalog.table("shop.keyed")
    table.write(rows([1], n=7))
    assert held(table, where="id = 1") == [(1, 0, "x1")]
    # What a change is computed from is what was written, also if nobody sees it yet.
    table.update("id = 1", {"text": "new"})
    merged = table.alter(SetOptions({"deletion-vectors.merge-on-read": True}))
    assert held(merged, where="id = 1") == [(1, 7, "new")]
    assert merged.count() == 4
    hidden = merged.alter(SetOptions({"deletion-vectors.merge-on-read": False}))
    assert held(hidden, where="id = 1") == [(1, 0, "x1")]
    hidden.compact()
    assert held(hidden, where="id = 1") == [(1, 7, "new")]


def test_a_full_compaction_drops_marked_rows_of_the_highest_level_alone(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.write(rows(range(10)))
    table.delete("id = 3")
    assert marked(table)
    assert table.compact() is not None
    assert (levels(table), marked(table)) == ([(5, 9)], {})
    assert table.snapshot().index_manifest is None
    assert table.compact() is None


def test_a_look_up_reads_the_row_groups_that_can_hold_it(catalog: Catalog) -> None:
    table = keyed(catalog, **{"parquet.row-group.rows": 10})
    table.write(rows(range(1000)))
    table.write(rows(range(0, 1000, 7), n=1))
    table.write(rows([995, 996], n=2))
    assert held(table, where="id = 7") == [(7, 1, "x7")]
    assert held(table, where="id >= 993 AND id <= 996") == [
        (993, 0, "x993"),
        (994, 1, "x994"),
        (995, 2, "x995"),
        (996, 2, "x996"),
    ]
    assert table.count() == 1000
    assert table.check(deep=True) == []


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_vectors_are_applied_in_every_format(file_format: str, catalog: Catalog) -> None:
    table = keyed(catalog, **{"file.format": file_format})
    table.write(rows(range(50)))
    table.write(rows([3, 30], n=1))
    table.delete("id = 4")
    assert held(table, where="id IN (3, 4, 30)") == [(3, 1, "x3"), (30, 1, "x30")]
    assert table.count() == 49


def test_keys_of_several_columns_and_partitions(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.string()), ("who", pa.string()), ("no", pa.int32()), ("v", pa.float64())])
    table = catalog.create_table(
        "shop.wide", schema, primary_key=["day", "who", "no"], partition_by=["day"], options={"bucket": 2, **ON}
    )
    chosen = random.Random(1)
    model: dict[tuple[str, str, int], float] = {}
    for step in range(15):
        keys = {(chosen.choice("ab"), chosen.choice(["é", "u", "long name"]), chosen.randrange(20)) for _ in range(8)}
        table.write(pa.Table.from_pylist([{"day": a, "who": b, "no": c, "v": float(step)} for a, b, c in keys], schema))
        model |= dict.fromkeys(keys, float(step))
        contents = {tuple(list(row.values())[:3]): row["v"] for row in table.to_arrow().to_pylist()}
        assert contents == model
    assert any(len(index_file.vectors) for index_file in index_files_of(table.store, table.snapshot()))
    places = [index_file.place for index_file in index_files_of(table.store, table.snapshot())]
    assert len(places) == len(set(places))
    table.drop_partition({"day": "a"})
    assert table.count() == sum(day == "b" for day, _, _ in model)
    assert table.check(deep=True) == []


# --- without a key


@pytest.mark.parametrize(
    "options", [{}, {"bucket": 2, "bucket-key": "id"}, {"deletion-vectors.bitmap64": True}], ids=str
)
def test_rows_without_a_key_are_marked_and_files_stay(options: Mapping[str, Any], catalog: Catalog) -> None:
    for seed in range(scale.amount(2, 20)):
        chosen = random.Random(seed)
        table = plain(catalog, f"shop.plain{seed}", **options)
        model: list[tuple[Any, ...]] = []
        for _ in range(12):
            some = chosen.sample(range(30), 5)
            where = f"id IN ({', '.join(map(str, some))})"
            before, step = table.snapshot(), chosen.choice(["append", "append", "delete", "update", "take", "compact"])
            old = list(model)
            if step == "append":
                new = rows(range(30), chosen.randrange(3))
                table.write(new)
                model += [tuple(row.values()) for row in new.to_pylist()]
            elif step == "delete":
                table.delete(where)
                model = [row for row in model if row[0] not in some]
            elif step == "update":
                table.update(where, {"n": 77})
                model = [(row[0], 77, row[2]) if row[0] in some else row for row in model]
            elif step == "take" and model:
                gone = pa.Table.from_pylist([dict(zip(SCHEMA.names, chosen.choice(model), strict=True))], SCHEMA)
                table.write(gone.append_column("kind", pa.array(["-D"])), row_kind_column="kind")
                model.remove(tuple(gone.to_pylist()[0].values()))
            elif table.snapshot() is not None:
                table.compact(full=chosen.random() < 0.5)
            assert held(table) == sorted(model), (seed, step)
            assert table.count() == len(model)
            assert table.check(deep=True) == []
            if before is not None and table.snapshot().id > before.id:
                came, went = table.net_changes(before.id)
                assert sorted(_added(old, came, went)) == sorted(model), (seed, step)


def _added(old: Sequence[tuple[Any, ...]], came: pa.Table, went: pa.Table) -> list[tuple[Any, ...]]:
    left = [*old, *(tuple(row[name] for name in SCHEMA.names) for row in came.to_pylist())]
    for row in went.to_pylist():
        left.remove(tuple(row[name] for name in SCHEMA.names))
    return left


def test_a_delete_writes_no_data_file_and_an_update_the_changed_rows_alone(catalog: Catalog) -> None:
    table = plain(catalog)
    table.write(rows(range(100)))
    table.delete("id IN (3, 4)")
    assert levels(table) == [(0, 100)]
    assert table.changes_of(table.snapshot()).files_added == 0
    table.update("id = 9", {"n": 1})
    assert sorted(levels(table)) == [(0, 1), (0, 100)]
    assert list(marked(table).values()) == [[3, 4, 9]]
    table.delete("id >= 0")
    assert (levels(table), table.snapshot().index_manifest) == ([], None)


def test_merge_marks_what_it_changes(catalog: Catalog) -> None:
    table = plain(catalog)
    table.write(rows(range(10)))
    table.delete("id = 1")
    source = pa.table({"id": [1, 2, 3], "n": [5, 5, 5]})
    clauses = [
        MergeClause("matched", "delete", "target.id = 3"),
        MergeClause("matched", "update", None, {"n": "source.n"}),
        MergeClause("not matched", "insert", None, {"id": "source.id", "n": "source.n", "text": "'new'"}),
    ]
    merge_rows(table, source, ["id"], clauses)
    assert held(table, where="id <= 4") == [(0, 0, "x0"), (1, 5, "new"), (2, 5, "x2"), (4, 0, "x4")]
    assert sorted(levels(table)) == [(0, 2), (0, 10)]


def test_files_of_vectors_are_rolled_and_the_untouched_stay(catalog: Catalog) -> None:
    table = plain(catalog, **{"deletion-vector.index-file.target-size": "10 b"})
    for number in range(4):
        table.write(rows(range(number * 10, number * 10 + 10)))
    table.delete("id IN (1, 11, 21, 31)")
    first = {index_file.path for index_file in index_files_of(table.store, table.snapshot())}
    assert len(first) == 4
    table.delete("id = 12")
    second = {index_file.path for index_file in index_files_of(table.store, table.snapshot())}
    assert len(first & second) == 3
    assert len(second) == 4
    assert table.count() == 35


# --- several writers


def test_of_two_that_delete_from_one_file_the_second_is_computed_again(catalog: Catalog) -> None:
    table, other = plain(catalog), catalog.table("shop.plain")
    table.write(rows(range(10)))
    where = Comparison("id", "=", 4).bind(table.schema)

    def drop(kept: pa.Table, mask: pa.Array) -> pa.Table:
        return kept.filter(pa.compute.invert(mask))

    deleted, message = rewrite_files(table.store, table.snapshot(), where, drop)
    other.delete("id = 5")
    with pytest.raises(RowsChanged, match="have been deleted by another commit"):
        table.commit_messages([message], deleted=deleted, operation="DELETE")
    table.delete("id = 4")
    assert [row[0] for row in held(table)] == [0, 1, 2, 3, 6, 7, 8, 9]
    # Another file of the bucket is none of its business.
    table.write(rows(range(20, 30)))
    deleted, message = rewrite_files(table.store, table.snapshot(), Comparison("id", "=", 22).bind(table.schema), drop)
    other.delete("id = 6")
    table.commit_messages([message], deleted=deleted, operation="DELETE")
    assert table.count() == 16
    # A compaction takes the file away.
    deleted, message = rewrite_files(table.store, table.snapshot(), Comparison("id", "=", 7).bind(table.schema), drop)
    other.compact()
    with pytest.raises(RowsChanged, match="is not there any more"):
        table.commit_messages([message], deleted=deleted, operation="DELETE")


@pytest.mark.parametrize("has_key", [False, True])
def test_a_compaction_notices_rows_that_were_deleted_meanwhile(has_key: bool, catalog: Catalog) -> None:
    table = (keyed if has_key else plain)(catalog)
    other = catalog.table(str(table.identifier))
    table.write(rows(range(1000)))
    table.write(rows(range(1000, 1010)))

    def run(plans: list[BucketCompaction]) -> list[BucketResult]:
        results = [compact_bucket(table.store, plan) for plan in plans]
        other.delete("id = 3")
        return results

    with pytest.raises(CommitConflict, match="another commit has changed what was to be compacted") as raised:
        compact(table.store, full=True, run=run)
    assert not isinstance(raised.value, RowsChanged)
    assert table.count() == 1009
    table.compact()
    assert table.count() == 1009


# --- what else is done to a table


@pytest.mark.parametrize("has_key", [False, True])
def test_tags_branches_rollback_and_expiry(has_key: bool, catalog: Catalog) -> None:
    table = (keyed if has_key else plain)(catalog)
    table.write(rows(range(20)))
    table.delete("id IN (2, 3)")
    table.tags.create("two")
    first = table.snapshot().id
    table.delete("id IN (4, 5)")
    assert (table.count(), table.count(version="two")) == (16, 18)
    table.branches.create("fix", tag="two")
    fix = table.on_branch("fix")
    fix.delete("id = 10")
    assert (fix.count(), table.count()) == (17, 16)
    table.rollback_to(first)
    assert table.count() == 18
    table.branches.merge("fix", discard_main=True)
    assert sorted(row[0] for row in held(table)) == [0, 1, *range(4, 10), *range(11, 20)]
    table.delete("id = 11")
    table.expire(retain_last=1)
    assert table.count(version="two") == 18
    assert table.check(deep=True) == []
    table.branches.delete("fix")
    table.tags.delete("two")
    table.compact()
    table.expire(retain_last=1)
    index = Path(table.location.removeprefix("file://")) / "index"
    assert list(index.iterdir()) == []
    assert table.check(deep=True) == []
    assert table.remove_orphan_files(dry_run=True) == []


@pytest.mark.parametrize("has_key", [False, True])
def test_branches_of_other_buckets_are_merged_and_those_of_the_same_rows_refused(
    has_key: bool, catalog: Catalog
) -> None:
    schema = pa.schema([("day", pa.string(), False), ("id", pa.int64(), False), ("n", pa.int64())])

    def of(day: str, *ids: int) -> pa.Table:
        return pa.table({"day": [day] * len(ids), "id": list(ids), "n": [0] * len(ids)}, schema)

    options = {**ON, **({"bucket": 1} if has_key else {})}
    key = ["day", "id"] if has_key else []
    table = catalog.create_table("shop.days", schema, primary_key=key, partition_by=["day"], options=options)
    table.write(pa.concat_tables([of("a", 1, 2, 3), of("b", 1, 2, 3)]))
    table.branches.create("fix")
    table.on_branch("fix").delete("day = 'a' AND id = 2")
    table.delete("day = 'b' AND id = 3")
    assert table.branches.merge("fix").kind == "disjoint"
    assert sorted((row["day"], row["id"]) for row in table.to_arrow().to_pylist()) == [
        ("a", 1),
        ("a", 3),
        ("b", 1),
        ("b", 2),
    ]
    assert table.check(deep=True) == []
    table.on_branch("fix").delete("day = 'a' AND id = 1")
    table.delete("day = 'a' AND id = 3")
    with pytest.raises(CommitConflict):
        table.branches.merge("fix")
    last = next(snapshot for snapshot in table.store.snapshots.backwards() if snapshot.changes_rows)
    assert table.changed_partitions(last.id - 1) == [{"day": "a"}]


def test_a_table_is_rescaled_with_what_nobody_sees_yet(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.write(rows(range(30)))
    table.delete("id < 3")
    waiting = table.alter(SetOptions({"write-only": True}))
    waiting.write(rows([5, 40], n=1))
    assert waiting.count() == 27
    waiting.rescale(3)
    again = catalog.table("shop.keyed")
    assert again.count() == 28
    assert held(again, where="id IN (5, 40)") == [(5, 1, "x5"), (40, 1, "x40")]
    assert again.check(deep=True) == []


def test_positions_may_become_of_64_bits_later(catalog: Catalog) -> None:
    table = plain(catalog)
    table.write(rows(range(10)))
    table.write(rows(range(10, 20)))
    table.delete("id = 1")
    wide = table.alter(SetOptions({"deletion-vectors.bitmap64": True}))
    wide.delete("id = 11")
    assert wide.count() == 18
    wide.delete("id = 2")
    assert wide.count() == 17
    assert wide.check(deep=True) == []


def test_columns_that_came_later_are_read_beside_marks(catalog: Catalog) -> None:
    from storage import AddColumn, RenameColumn

    table = keyed(catalog)
    table.write(rows(range(10)))
    altered = table.alter(AddColumn("more", "INT"), RenameColumn("text", "words"))
    altered.write(pa.table({"id": [3], "n": [1], "words": ["w"], "more": pa.array([4], pa.int32())}))
    assert altered.count() == 10
    assert altered.to_arrow(where="id IN (2, 3)").sort_by("id").to_pylist() == [
        {"id": 2, "n": 0, "words": "x2", "more": None},
        {"id": 3, "n": 1, "words": "w", "more": 4},
    ]


def test_what_paimon_does_not_take_together_is_refused_by_name(catalog: Catalog) -> None:
    for options in ({"merge-engine": "first-row"}, {"changelog-producer": "full-compaction"}):
        with pytest.raises(InvalidRequest, match=r"deletion-vectors\.enabled"):
            keyed(catalog, "shop.wrong", **options)
    table = plain(catalog)
    table.write(rows([1]))
    with pytest.raises(InvalidRequest, match=r"deletion-vectors\.enabled"):
        table.alter(SetOptions({"deletion-vectors.enabled": False}))
    with pytest.raises(Unsupported, match=r"deletion-vectors\.modifiable"):
        table.alter(SetOptions({"deletion-vectors.modifiable": True}))


def test_a_stream_begins_with_what_waits_and_goes_on_with_what_comes(catalog: Catalog) -> None:
    table = keyed(catalog, **{"write-only": True})
    table.write(rows([1, 2]))
    request = ReadRequest(table.store, tuple(SCHEMA.names), None)
    position = first_position(table.store, StartUp())

    def step(start: int) -> tuple[int, list[tuple[str, int, int]]]:
        end = next_position(table.store, start, snapshots_at_once=None)
        batches = [batch for split in plan_step(request, start, end) for batch in split.read()]
        changes = [(row["rowkind"], row["id"], row["n"]) for chunk in batches for row in chunk.to_pylist()]
        return end, sorted(changes)

    position, changes = step(position)
    assert changes == [("+I", 1, 0), ("+I", 2, 0)]
    table.write(rows([2, 3], n=1))
    table.compact()
    position, changes = step(position)
    assert changes == [("+I", 2, 1), ("+I", 3, 1)]
    # What an overwrite replaces is told by the marks that both sides have.
    table.delete("id = 1")
    table.compact()
    position, changes = step(position)
    assert changes == [("-D", 1, 0)]
    table.overwrite(rows([3], n=1))
    _, changes = step(position)
    assert changes == [("-D", 2, 1)]


def test_an_overwrite_that_brings_the_same_looks_at_what_waits(catalog: Catalog) -> None:
    table = keyed(catalog)
    table.write(rows([1, 2]))
    waiting = table.alter(SetOptions({"write-only": True}))
    waiting.write(rows([3]))
    with waiting.new_write(replaces=True) as writer:
        writer.write(rows([1, 2]))
        message = writer.prepare_commit()
    assert waiting.commit_messages([message], Overwrite(), unless_same=True) is not None
    waiting.compact()
    assert [row[0] for row in held(waiting)] == [1, 2]


def test_an_undone_publication_beside_later_commits_is_refused(catalog: Catalog) -> None:
    from storage.maintain.revert import revert

    table = plain(catalog)
    table.write(rows([1]))
    with pytest.raises(Unsupported, match="cannot be taken back alone"):
        revert(table.store, table.snapshot(), CommitId("undo"))
