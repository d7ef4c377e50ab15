"""What a table shows and what its changes say is the same, whoever writes at once: the later snapshot is the newer one."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CommitOutcomeUnknown, Table
from storage.write import renumber
from storage.write.table_write import CommitMessage

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
PRODUCERS = ["none", "input", "lookup", "full-compaction"]


@pytest.fixture
def make(catalog: Catalog) -> Callable[..., Table]:
    def made(schema: pa.Schema = SCHEMA, **options: Any) -> Table:
        options = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
        return catalog.create_table("a.t", schema, primary_key=["id"], options={"bucket": 1, **options})

    return made


def prepared(table: Table, *rows: tuple[Any, ...], kinds: str = "+I", flush_each: bool = False) -> CommitMessage:
    """What a writer has written and not committed yet."""
    names = [*table.schema.column_names]
    with table.new_write() as writer:
        for part in [[row] for row in rows] if flush_each else [list(rows)]:
            data = pa.table(dict(zip(names, map(list, zip(*part, strict=True)), strict=True)))
            writer.write(data.cast(table.schema.to_arrow()).append_column("_k", pa.repeat(kinds, len(part))), "_k")
            writer.flush()
        return writer.prepare_commit()


def commit(table: Table, message: CommitMessage, user: str = "u") -> None:
    table.commit_messages([message], commit_id=CommitId(f"{user}{random.random()}", 1))


def shown(table: Table) -> dict[int, Any]:
    return {row.pop("id"): tuple(row.values()) for row in table.to_arrow().to_pylist()}


def replayed(table: Table) -> dict[int, Any]:
    """The table, as somebody holds it who follows its changes."""
    held: dict[int, Any] = {}
    for row in table.changes().to_pylist():
        kind, number = row.pop("rowkind"), row.pop("id")
        row.pop("snapshot_id")
        if kind in ("+I", "+U"):
            held[number] = tuple(row.values())
        elif kind == "-D":
            held.pop(number, None)
    return held


def data_files(table: Table) -> set[str]:
    return {path.name for path in Path(table.store.paths.root).rglob("bucket-*/*")}


def named(table: Table) -> set[str]:
    """The data files and changelog files that snapshots name."""
    manifests = table.store.manifests
    return {
        entry.file.name
        for snapshot in table.store.snapshots.all()
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
        if name is not None
        for manifest in manifests.read_list(name)
        for entry in manifests.read(manifest.name)
    }


@pytest.mark.parametrize("producer", PRODUCERS)
def test_who_commits_last_is_shown_and_is_what_the_changes_end_with(make: Callable[..., Table], producer: str) -> None:
    table = make(changelog_producer=producer)
    first = prepared(table, *((number, "x") for number in range(20, 40)), (1, "A"))
    second = prepared(table, (1, "B"), (21, "B"))
    commit(table, first)
    commit(table, second)
    table.compact()
    assert shown(table) == dict.fromkeys(range(20, 40), ("x",)) | {1: ("B",), 21: ("B",)} == replayed(table)
    assert table.check(deep=True) == []


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_delete_that_comes_late_deletes(make: Callable[..., Table], producer: str) -> None:
    table = make(changelog_producer=producer)
    commit(table, prepared(table, (1, "old"), (2, "old")))
    late = prepared(table, (1, "old"), kinds="-D")
    for text in "abc":
        commit(table, prepared(table, (1, text)))
    commit(table, late)
    table.compact()
    assert shown(table) == {2: ("old",)} == replayed(table)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_of_all_types_stay_what_they_are(catalog: Catalog, file_format: str) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("amount", pa.decimal128(12, 2)),
            ("at", pa.timestamp("us")),
            ("ms", pa.timestamp("ms")),
            ("zoned", pa.timestamp("us", "UTC")),
            ("time", pa.time32("ms")),
            ("text", pa.string()),
            ("bytes", pa.binary()),
            ("list", pa.list_(pa.int64())),
            ("flag", pa.bool_()),
            ("n", pa.int16()),
            ("x", pa.float32()),
            ("map", pa.map_(pa.string(), pa.int64())),
            ("row", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ]
    )
    options = {"bucket": 1, "changelog-producer": "input", "file.format": file_format, "metadata.stats-mode": "full"}
    table = catalog.create_table("a.t", schema, primary_key=["id"], options=options)

    def rows(start: int) -> pa.Table:
        ids = list(range(start, start + 5))
        plain = {
            "id": ids,
            "day": ids,
            "at": ids,
            "ms": ids,
            "zoned": ids,
            "time": ids,
            "n": ids,
            "amount": ids,
            "x": ids,
        }
        columns = []
        for field in schema:
            if field.name in plain:
                small = field.name in ("day", "time")
                column = pa.array(plain[field.name], pa.int32() if small else pa.int64())
                column = column.cast(pa.decimal128(38, 2)) if field.name == "amount" else column
                columns.append(column.cast(field.type))
            else:
                made = {
                    "text": [f"t{value}" for value in ids],
                    "bytes": [b"\0\xff" * value for value in ids],
                    "list": [None if value % 2 else [value, None] for value in ids],
                    "flag": [value % 2 == 0 for value in ids],
                    "map": [{"k": value}.items() for value in ids],
                    "row": [{"a": value, "b": None} for value in ids],
                }[field.name]
                columns.append(pa.array(list(map(list, made)) if field.name == "map" else made, field.type))
        return pa.Table.from_arrays(columns, schema=schema)

    writers = [table.new_write() for _ in range(3)]
    for number, writer in enumerate(writers):
        writer.write(rows(number * 2))
    messages = [writer.prepare_commit() for writer in writers]
    for message in reversed(messages):
        commit(table, message)
    expected = pa.concat_tables([rows(0), rows(2).slice(3), rows(4).slice(3)])
    assert table.to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    before = [file for message in messages for entry in message.added for file in [entry.file]]
    files = {data_file["max_sequence_number"]: data_file for data_file in table.system_table("files").to_pylist()}
    assert len(files) == 3
    last = table.store.delta_of(table.store.snapshots.get(3))[0].file
    # Whatever describes the rows stays as the writer said.
    for name in ("row_count", "min_key", "max_key", "key_stats", "value_stats", "value_stats_columns", "level"):
        assert getattr(last, name) == getattr(before[0], name)
    assert last.min_sequence_number == 10
    assert table.check(deep=True) == []


def test_several_files_of_several_buckets_keep_their_order(make: Callable[..., Table]) -> None:
    table = make(bucket=3, changelog_producer="input", write_only=True)
    rows = [(number % 7, f"late {number}") for number in range(40)]
    late = prepared(table, *rows, flush_each=True)
    assert len(late.added) == 40
    for text in ("a", "b"):
        commit(table, prepared(table, *((number, text) for number in range(30))))
    commit(table, late)
    expected = dict.fromkeys(range(30), ("b",)) | {number: (text,) for number, text in rows}
    assert shown(table) == expected == replayed(table)
    assert data_files(table) == named(table)
    assert table.compact() is not None
    assert shown(table) == expected


def test_only_buckets_that_others_wrote_to_are_written_anew(make: Callable[..., Table]) -> None:
    table = make(bucket=4)
    late = prepared(table, *((number, "late") for number in range(40)))
    assert len(late.added) == 4
    commit(table, prepared(table, *[(1, "b")] * 50))
    commit(table, late)
    names = {entry.file.name for entry in late.added}
    kept = {entry.file.name for entry in table.store.delta_of(table.store.snapshots.get(2))} & names
    assert len(kept) == 3


def test_whoever_meets_nobody_or_a_compaction_writes_nothing_anew(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(bucket=1)
    for number in range(3):
        commit(table, prepared(table, (number, "x")))
    late = prepared(table, (1, "late"))
    table.compact()
    monkeypatch.setattr(renumber, "_copy", lambda *_: pytest.fail("nothing was to be written anew"))
    commit(table, late)
    commit(table, prepared(table, (2, "y")))
    assert shown(table) == {0: ("x",), 1: ("late",), 2: ("y",)}


def test_an_overwrite_in_between_does_not_hide_what_comes_after_it(make: Callable[..., Table]) -> None:
    table = make()
    commit(table, prepared(table, (1, "first")))
    late = prepared(table, (1, "late"))
    table.overwrite(pa.table({"id": range(100), "v": ["new"] * 100}))
    commit(table, late)
    assert shown(table)[1] == ("late",)


def test_numbers_are_raised_above_the_live_files_where_history_has_expired(make: Callable[..., Table]) -> None:
    table = make(write_only=True)
    late = prepared(table, (1, "late"))
    for text in "abcd":
        commit(table, prepared(table, (1, text), (2, text)))
    table.expire(retain_last=1)
    commit(table, late)
    assert shown(table) == {1: ("late",), 2: ("d",)}
    assert table.check(deep=True) == []


def test_tables_without_a_key_keep_the_order_of_commits_in_a_bucket(catalog: Catalog) -> None:
    table = catalog.create_table("a.p", SCHEMA, options={"bucket": 1, "bucket-key": "id"})
    with table.new_write() as slow, table.new_write() as fast:
        slow.write(pa.table({"id": [5, 6], "v": ["late", "late"]}))
        fast.write(pa.table({"id": [1, 2, 3], "v": ["x"] * 3}))
        late, soon = slow.prepare_commit(), fast.prepare_commit()
    commit(table, soon)
    commit(table, late)
    files = sorted(table.system_table("files").to_pylist(), key=lambda file: file["min_sequence_number"])
    assert [(data_file["min_sequence_number"], data_file["max_sequence_number"]) for data_file in files] == [
        (0, 2),
        (3, 4),
    ]
    assert table.to_arrow()["id"].to_pylist() == [1, 2, 3, 5, 6]


# --- merge engines


def test_rows_of_equal_sequence_fields_go_by_the_order_of_commits(make: Callable[..., Table]) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("v", pa.string())])
    table = make(schema, sequence__field="at")
    late = prepared(table, (1, 5, "late"), (2, 1, "late"))
    for text in "ab":
        commit(table, prepared(table, (1, 5, text), (2, 2, text)))
    commit(table, late)
    assert shown(table) == {1: (5, "late"), 2: (2, "b")}


def test_the_first_row_is_that_of_the_first_snapshot(make: Callable[..., Table]) -> None:
    table = make(merge_engine="first-row", changelog_producer="lookup")
    early = prepared(table, (1, "prepared first"))
    commit(table, prepared(table, (9, "x"), (1, "committed first")))
    commit(table, early)
    table.compact()
    assert shown(table) == {1: ("committed first",), 9: ("x",)} == replayed(table)


def test_partial_updates_and_aggregates_take_the_last_snapshot_for_the_last(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    for engine in ("partial-update", "aggregation"):
        table = catalog.create_table(
            f"a.{engine[:4]}", schema, primary_key=["id"], options={"bucket": 1, "merge-engine": engine}
        )
        late = prepared(table, (1, "late", None))
        for text in "xyz":
            commit(table, prepared(table, (1, text, text)))
        commit(table, late)
        assert shown(table) == {1: ("late", "z")}


# --- tries


def interleaved(table: Table, monkeypatch: pytest.MonkeyPatch, before: Iterator[Callable[[], None]]) -> None:
    """Let somebody act before a snapshot is created, once for each try."""
    real = table.store.snapshots.create
    active = [False]

    def create(snapshot: Any, *needed: Any) -> bool:
        act = None if active[0] else next(before, None)
        if act is not None:
            active[0] = True
            act()
            active[0] = False
        return real(snapshot, *needed)

    monkeypatch.setattr(table.store.snapshots, "create", create)


def test_a_commit_that_loses_races_is_numbered_anew_each_time_and_leaves_nothing_behind(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(write_only=True, changelog_producer="input")
    late = prepared(table, (1, "late"))
    others = [prepared(table, *((number, text) for number in range(50))) for text in "abcdef"]
    commit(table, others[0])
    interleaved(table, monkeypatch, iter([lambda other=other: commit(table, other) for other in others[1:]]))
    commit(table, late)
    assert shown(table)[1] == ("late",) == replayed(table)[1]
    assert len(table.store.snapshots.ids()) == 7
    assert data_files(table) == named(table)


def test_room_is_left_so_that_the_next_try_need_not_write_again(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(write_only=True)
    late = prepared(table, (1, "late"))
    others = [lambda text=text: commit(table, prepared(table, (1, text))) for text in "abcdefgh"]
    others[0]()
    times = []
    real = renumber._copy
    monkeypatch.setattr(renumber, "_copy", lambda *arguments: (times.append(1), real(*arguments))[1])
    interleaved(table, monkeypatch, iter(others[1:]))
    commit(table, late)
    assert shown(table) == {1: ("late",)}
    assert len(times) == 2


def test_a_commit_that_fails_leaves_neither_its_files_nor_those_written_anew(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(write_only=True)
    late = prepared(table, (1, "late"))
    commit(table, prepared(table, (1, "a")))

    def refuse(*_: Any) -> None:
        raise CommitConflict("no")

    monkeypatch.setattr(table.store.manifests, "write", refuse)
    with pytest.raises(CommitConflict):
        table.new_commit().commit([late])
    assert data_files(table) == named(table)


def test_a_commit_whose_outcome_is_unknown_keeps_all_files_and_can_be_repeated(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(write_only=True)
    late = prepared(table, (1, "late"))
    commit(table, prepared(table, (1, "a")))

    def lost(_: Any) -> bool:
        raise OSError("no answer")

    real, real_find = table.store.snapshots.create, table.store.snapshots.find
    with monkeypatch.context() as patch:
        patch.setattr(table.store.snapshots, "create", lambda *given: (real(*given), lost(given))[1])
        patch.setattr(table.store.snapshots, "find", lambda number: lost(number) if number > 1 else real_find(number))
        with pytest.raises(CommitOutcomeUnknown):
            table.new_commit(CommitId("job", 1)).commit([late])
    # It did land: what it names is there, and a repetition changes nothing.
    assert shown(table) == {1: ("late",)}
    assert table.new_commit(CommitId("job", 1)).commit([late]).id == 2  # type: ignore[union-attr]
    assert shown(table) == {1: ("late",)}
    assert data_files(table) == named(table)


def test_a_commit_that_did_not_land_is_repeated_from_the_same_message(
    make: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(write_only=True)
    late = prepared(table, (1, "late"))
    commit(table, prepared(table, (1, "a")))

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    with monkeypatch.context() as patch:
        patch.setattr(table.store.manifests, "write_list", broken)
        with pytest.raises(OSError, match="disk"):
            table.new_commit(CommitId("job", 1)).commit([late])
    table.new_commit(CommitId("job", 1)).commit([late])
    assert shown(table) == {1: ("late",)}


# --- at random


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("seed", range(3))
def test_commits_in_any_order_make_the_same_table_and_the_same_changes(
    make: Callable[..., Table], producer: str, seed: int
) -> None:
    chosen = random.Random(seed)
    table = make(bucket=chosen.choice([1, 2]), changelog_producer=producer)
    expected: dict[int, Any] = {}
    waiting: list[tuple[list[tuple[int, str]], str, CommitMessage]] = []
    for step in range(40):
        if len(waiting) < 5 and chosen.random() < 0.6:
            rows = [(chosen.randrange(12), f"{step}.{number}") for number in range(chosen.choice([1, 3, 30]))]
            kinds = chosen.choice(["+I", "+U", "+I", "-D"])
            flushes = chosen.random() < 0.2
            waiting.append((rows, kinds, prepared(table, *rows, kinds=kinds, flush_each=flushes)))
        elif waiting:
            rows, kinds, message = waiting.pop(chosen.randrange(len(waiting)))
            commit(table, message)
            for number, text in rows:
                if kinds == "-D":
                    expected.pop(number, None)
                else:
                    expected[number] = (text,)
            assert shown(table) == expected, f"seed {seed}, step {step}"
            if producer in ("none", "input"):
                assert replayed(table) == expected, f"seed {seed}, step {step}"
        if chosen.random() < 0.1:
            table.compact(full=chosen.random() < 0.5)
    table.compact()
    assert shown(table) == expected == replayed(table), f"seed {seed}"
    assert table.check(deep=True) == []


def test_threads_that_write_the_same_keys_leave_changes_that_end_with_the_table(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path)).create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 2})
    errors: list[BaseException] = []

    def write(number: int) -> None:
        own = Catalog(str(tmp_path)).table("a.t")
        chosen = random.Random(number)
        try:
            for step in range(15):
                ids = chosen.sample(range(30), chosen.choice([1, 20]))
                own.write(pa.table({"id": ids, "v": [f"{number}.{step}"] * len(ids)}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert shown(table) == replayed(table)
    assert table.check(deep=True) == []
