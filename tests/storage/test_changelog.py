"""Changelogs: every reader of changes that applies them arrives at the table, whoever wrote them down."""

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, InvalidRequest, NotFound, SetOptions, Table, Unsupported

TABLES = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.int64())])


def make(catalog: Catalog, **options: Any) -> Table:
    return catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 2, **options})


def batch(*rows: tuple[Any, ...]) -> pa.Table:
    names = [*SCHEMA.names, "op"] if rows and len(rows[0]) == 4 else SCHEMA.names
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def changes_of(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return [
        (change["rowkind"], change["id"], change["name"], change["v"])
        for change in table.changes(**options).to_pylist()
    ]


def state(table: Table, **options: Any) -> dict[int, tuple[Any, ...]]:
    return {row["id"]: (row["name"], row["v"]) for row in table.to_arrow(**options).to_pylist()}


def applied(changes: list[tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    """What a reader has who believes every row: an update must take away just what it has."""
    held: dict[int, tuple[Any, ...]] = {}
    for kind, key, *values in changes:
        if kind in ("-U", "-D"):
            assert held.pop(key) == tuple(values), f"{kind} of {key} does not name the row that is there"
        else:
            assert key not in held, f"{kind} of {key}, which is there already"
            held[key] = tuple(values)
    return held


@pytest.mark.parametrize("name", ["jv_input", "jv_lookup"])
def test_changelogs_of_java_are_read(name: str) -> None:
    table = Catalog(str(TABLES / name)).table(f"golden.{name}")
    views = json.loads((TABLES / name / "expected.json").read_text())["views"]
    for view in views:
        if view.get("changelog_rows"):
            number = view["snapshot_id"]
            changes = table.changes(after=number - 1 if number > 1 else None, until=number)
            rows = [{"kind": row.pop("rowkind"), **row} for row in changes.drop(["snapshot_id"]).to_pylist()]
            assert sorted(rows, key=str) == sorted(view["changelog_rows"], key=str)


def test_input_stores_what_the_writer_was_given(catalog: Catalog) -> None:
    table = make(catalog, **{"changelog-producer": "input"})
    table.write(batch((1, "a", 1, "+I"), (1, "a", 1, "-U"), (1, "b", 2, "+U"), (2, "c", 3, "+I")), row_kind_column="op")
    assert sorted(changes_of(table)) == [("+I", 1, "a", 1), ("+I", 2, "c", 3), ("+U", 1, "b", 2), ("-U", 1, "a", 1)]
    assert applied(changes_of(table)) == state(table)
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.changelog_record_count == 4


@pytest.mark.parametrize(
    ("producer", "engine"),
    [
        *(("lookup", engine) for engine in ("deduplicate", "partial-update", "aggregation", "first-row")),
        *(("full-compaction", engine) for engine in ("deduplicate", "partial-update", "aggregation")),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_applying_the_changelog_gives_the_table(catalog: Catalog, producer: str, engine: str, seed: int) -> None:
    options = {"changelog-producer": producer, "merge-engine": engine, "fields.v.aggregate-function": "sum"}
    if engine != "aggregation":
        del options["fields.v.aggregate-function"]
    table = make(catalog, **options, **{"num-sorted-run.compaction-trigger": 3})
    chosen = random.Random(seed)
    for step in range(25):
        rows = [(chosen.randrange(30), chosen.choice("abc"), chosen.randrange(5)) for _ in range(chosen.randint(1, 12))]
        if engine == "deduplicate" and chosen.random() < 0.5:
            table.write(
                batch(*[(*row, chosen.choice(["+I", "+U", "-D"])) for row in {row[0]: row for row in rows}.values()]),
                row_kind_column="op",
            )
        else:
            table.write(batch(*rows))
        if chosen.random() < 0.2:
            table.compact(full=True)
        if chosen.random() < 0.1 and engine == "deduplicate":
            table.overwrite(batch(*rows))
        if producer == "lookup":
            assert applied(changes_of(table)) == state(table), f"seed {seed}, step {step}"
    table.compact(full=True)
    assert applied(changes_of(table)) == state(table)


def test_updates_that_change_nothing_are_left_out_on_demand(catalog: Catalog) -> None:
    table = make(catalog, **{"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"})
    table.write(batch((1, "a", 1), (2, None, 2)))
    table.write(batch((1, "a", 1), (2, "b", 2)))
    assert changes_of(table, after=2) == [("-U", 2, None, 2), ("+U", 2, "b", 2)]


def test_full_compaction_comes_after_a_number_of_commits(catalog: Catalog) -> None:
    table = make(catalog, bucket=1, **{"changelog-producer": "full-compaction", "full-compaction.delta-commits": 2})
    table.write(batch((1, "a", 1)))
    assert changes_of(table) == []
    table.write(batch((1, "b", 1)))
    assert changes_of(table) == [("+I", 1, "b", 1)]


def test_a_write_without_change_tracking_is_not_seen_by_readers_of_changes(catalog: Catalog) -> None:
    table = make(catalog)
    table.write(batch((1, "a", 1)))
    table.write(batch((2, "b", 2)), change_tracking=False)
    table.overwrite(batch((3, "c", 3)), change_tracking=False)
    table.write(batch((4, "d", 4)))
    assert changes_of(table) == [("+I", 1, "a", 1), ("+I", 4, "d", 4)]
    assert set(state(table)) == {3, 4}


def test_change_tracking_is_turned_off_for_a_table_and_on_again(catalog: Catalog) -> None:
    table = make(catalog, **{"change-tracking": "false", "changelog-producer": "input"})
    table.write(batch((1, "a", 1)))
    table = table.alter(SetOptions({"change-tracking": "true"}))
    table.write(batch((2, "b", 2)))
    assert changes_of(table) == [("+I", 2, "b", 2)]


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_change_tracking_is_turned_off_for_a_partition(catalog: Catalog, producer: str) -> None:
    table = catalog.create_table(
        "a.p",
        pa.schema([("day", pa.string()), ("id", pa.int64())]),
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 1, "change-tracking.off-partitions": "day=x", "changelog-producer": producer},
    )
    table.write(pa.table({"day": ["x", "y"], "id": [1, 2]}))
    assert table.changes(columns=["day", "id"]).select(["day", "id"]).to_pylist() == [{"day": "y", "id": 2}]


def test_what_cannot_be_left_untold_is_refused(catalog: Catalog) -> None:
    with pytest.raises(Unsupported, match="changelog-producer"):
        make(catalog, **{"changelog-producer": "lookup"}).write(batch((1, "a", 1)), change_tracking=False)


def test_a_partition_that_is_misspelt_in_an_option_is_named(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequest, match="dya=x"):
        catalog.create_table(
            "a.p",
            pa.schema([("day", pa.string())]),
            partition_by=["day"],
            options={"change-tracking.off-partitions": "dya=x"},
        )


def test_an_overwrite_shows_only_what_it_changed(catalog: Catalog) -> None:
    table = make(catalog)
    table.write(batch((1, "a", 1), (2, "b", 2)))
    table.overwrite(batch((2, "b", 2), (3, "c", 3)))
    assert changes_of(table, after=1) == [("-D", 1, "a", 1), ("+I", 3, "c", 3)]
    quiet = table.alter(SetOptions({"streaming-read-overwrite": "false"}))
    assert changes_of(quiet, after=1) == []


def test_the_audit_log_shows_rows_with_their_kind(catalog: Catalog) -> None:
    table = make(catalog, **{"write-only": "true"})
    table.write(batch((1, "a", 1), (2, "b", 2)))
    table.write(batch((1, None, None, "-D"), (3, "c", 3, "+U")), row_kind_column="op")
    rows = {(row["rowkind"], row["id"]) for row in table.system_table("audit_log").to_pylist()}
    assert rows == {("-D", 1), ("+I", 2), ("+U", 3)}
    assert catalog.read("a.t$audit_log").num_rows == 3


def test_what_a_consumer_has_not_read_does_not_expire(catalog: Catalog) -> None:
    table = make(catalog)
    for number in range(6):
        table.write(batch((number, "a", number)))
    table.consumers.reset("report", 3)
    table.expire(retain_last=1)
    assert table.store.snapshots.ids()[0] == 3
    assert table.system_table("consumers").to_pylist() == [{"consumer_id": "report", "next_snapshot_id": 3}]
    table.consumers.delete("report")
    table.expire(retain_last=1)
    assert len(table.store.snapshots.ids()) == 1
    with pytest.raises(Exception, match="Consumers: none"):
        table.consumers.get("report")


PRODUCERS = ("none", "input", "lookup", "full-compaction")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_readers_of_changes_see_no_change_in_a_rescale(catalog: Catalog, producer: str) -> None:
    table = make(catalog, **{"changelog-producer": producer})
    table.write(batch((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    table.compact()
    before = table.snapshot()
    assert before is not None
    rescaled = table.rescale(3)
    assert rescaled is not None
    table = catalog.table("a.t")
    assert changes_of(table, after=before.id) == []
    table.compact()
    assert changes_of(table, after=before.id) == []
    table.write(batch((4, "d", 4)))
    table.compact()
    assert applied(changes_of(table)) == state(table)
    assert len(state(table)) == 4


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_a_rescale_and_an_overwrite_tell_what_no_changelog_has_told_yet(catalog: Catalog, producer: str) -> None:
    # Rows of several files for a bucket, with deletes among them.
    options = {"changelog-producer": producer, "write-only": True, "write-buffer-size": "1 kb"}
    table = make(catalog, **options)
    rows = [(key, "x", key) for key in range(100)]
    table.write(batch(*rows[:50]))
    table.write(batch(*[(*row, "-D") for row in rows[10:20]]), row_kind_column="op")
    table.rescale(3)
    table = catalog.table("a.t")
    assert applied(changes_of(table)) == state(table)
    assert len(state(table)) == 40
    # Readers that leave out what replaces files get it from the compaction before.
    compacted = [snapshot.id for snapshot in table.store.snapshots.all() if snapshot.operation == "COMPACT"]
    assert applied(changes_of(table, until=compacted[0])) == state(table)
    pieces = [piece for number in range(4) for piece in batch(*rows[number::4]).to_batches()]
    table.overwrite(pa.RecordBatchReader.from_batches(pieces[0].schema, pieces))
    assert applied(changes_of(table)) == state(table) == {key: ("x", key) for key in range(100)}
    assert {entry.file.level for entry in table.scan().entries} == {table.store.options.top_level}
    table.compact()
    assert applied(changes_of(table)) == state(table)
    assert table.remove_orphan_files(older_than=dt.timedelta(0), dry_run=True) == []
    assert table.check(deep=True) == []


def test_readers_of_changes_follow_what_brings_files_back_that_were_not_told_yet(catalog: Catalog) -> None:
    table = make(catalog, **{"changelog-producer": "lookup"})
    table.write(batch((1, "a", 1), (2, "b", 2)))
    written = table.write(batch((1, "c", 3), (3, "d", 4)))
    assert written is not None
    # As it was before the compaction that told of it.
    table.overwrite(batch((9, "z", 9)))
    table.rollback_to(written.id)
    assert applied(changes_of(table)) == state(table) == {1: ("c", 3), 2: ("b", 2), 3: ("d", 4)}
    table.branches.create("b", snapshot_id=written.id)
    branch = table.on_branch("b")
    with branch.new_write() as writer:
        writer.write(batch((4, "e", 5)))
        message = writer.prepare_commit()
    # A writer that died before it compacted.
    branch.new_commit().commit([message])
    table.branches.merge("b", discard_main=True)
    assert applied(changes_of(table)) == state(table)
    assert state(table)[4] == ("e", 5)
    table.overwrite(batch((9, "z", 9)))
    latest = table.snapshot()
    assert latest is not None
    table.branches.adopt("b", until=latest.id, commit_id=CommitId("u", 1))
    assert applied(changes_of(table)) == state(table)
    assert state(table)[4] == ("e", 5)
    assert table.troubles() == []


@pytest.mark.parametrize("deduplicate", [False, True], ids=["", "row-deduplicate"])
@pytest.mark.parametrize(
    "producer",
    ["lookup", "full-compaction"],
)
@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("partial-update", {}),
        ("aggregation", {"fields.v.aggregate-function": "sum"}),
        ("aggregation", {"fields.v.aggregate-function": "max"}),
        ("aggregation", {"fields.v.aggregate-function": "sum", "fields.list.aggregate-function": "collect"}),
    ],
)
def test_rows_that_come_late_are_told(
    catalog: Catalog, engine: str, options: dict[str, str], producer: str, deduplicate: bool
) -> None:
    """By a sequence field they go behind rows that are there, and change what those have become all the same."""
    schema = SCHEMA.append(pa.field("at", pa.int64())).append(pa.field("list", pa.list_(pa.int64())))
    table = catalog.create_table(
        "a.t",
        schema,
        primary_key=["id"],
        options={
            "bucket": 1,
            "merge-engine": engine,
            "changelog-producer": producer,
            "sequence.field": "at",
            "changelog-producer.row-deduplicate": deduplicate,
            **options,
        },
    )
    chosen = random.Random(f"{engine} {options} {producer}")
    held: dict[int, Any] = {}
    for _ in range(12):
        ids = chosen.sample(range(6), 3)
        rows = [
            (row_id, "n", chosen.choice([None, *range(5)]), chosen.randrange(9), [chosen.randrange(4)])
            for row_id in ids
        ]
        table.write(pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True)), schema=schema))
        if producer == "full-compaction":
            table.compact()
    for change in table.changes().to_pylist():
        row = {name: change[name] for name in schema.names}
        if change["rowkind"] in ("-U", "-D"):
            assert held.pop(change["id"]) == row
        else:
            assert held.setdefault(change["id"], row) == row
    assert held == {current["id"]: current for current in table.to_arrow().to_pylist()}


def test_changes_that_expired_with_their_files_are_not_left_out(catalog: Catalog) -> None:
    kept = {"changelog.num-retained.min": 100, "changelog.num-retained.max": 100, "changelog.time-retained": "1 d"}
    table = catalog.create_table(
        "d.none", pa.schema([("k", pa.int64())]), primary_key=["k"], options={"bucket": 1, **kept}
    )
    for number in range(4):
        table.write(pa.table({"k": [number]}))
    table.expire(retain_last=1)
    for after in (None, 1, 2):
        with pytest.raises(NotFound):
            table.changes(after)
    assert table.changes(3)["k"].to_pylist() == [3]


def test_manifests_of_the_changelog_are_listed(catalog: Catalog) -> None:
    """As in Java's system table."""
    table = catalog.create_table(
        "a.listed",
        pa.schema([("k", pa.int64())]),
        primary_key=["k"],
        options={"bucket": 1, "changelog-producer": "input"},
    )
    table.write(pa.table({"k": [1]}))
    latest = table.store.snapshots.latest()
    assert latest is not None
    listed = [manifest.name for manifest in table.store.changelog_manifests_of(latest)]
    assert listed and set(listed) <= set(table.system_table("manifests")["file_name"].to_pylist())
