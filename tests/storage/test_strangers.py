"""What people found who had not written it: each case stands for a class."""

import datetime as dt
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AlreadyExists,
    Catalog,
    CommitConflict,
    CommitId,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    Table,
    branch_set,
)
from storage.branches import Branches
from storage.maintain import adopt
from storage.metadata import manifest

SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])
ROWS = pa.table({"id": [1], "item": ["x"]}, SCHEMA)


@pytest.mark.parametrize(
    "name", ["shop.orders$branch_b", "shop.orders$branch_none", "shop.orders$snapshots", "shop.orders$x"]
)
def test_a_part_of_a_table_is_not_dropped_or_renamed_as_the_whole(catalog: Catalog, orders: Table, name: str) -> None:
    orders.write(ROWS)
    orders.branches.create("b")
    for act in (
        lambda: catalog.drop_table(name),
        lambda: catalog.drop_table(name, if_exists=True),
        lambda: catalog.rename_table(name, "shop.z"),
        lambda: catalog.rename_table("shop.orders", name),
    ):
        with pytest.raises(InvalidRequest, match="plain name"):
            act()
    assert orders.count() == 1
    assert orders.branches.names() == ["b"]


BAD: dict[str, Callable[[Table], Any]] = {
    "properties of numbers": lambda table: table.write(ROWS, properties={"rows": 5}),  # type: ignore[dict-item]
    "properties by number": lambda table: table.write(ROWS, properties={1: "a"}),  # type: ignore[dict-item]
    "a surrogate": lambda table: table.write(ROWS, properties={"a": "\ud800"}),
    "the store's own": lambda table: table.write(ROWS, properties={"snapline.closed": "x"}),
    "taken over": lambda table: table.write(ROWS, properties={"snapline.taken-over": "zz"}),
    "a commit id of text": lambda table: table.write(ROWS, commit_id=CommitId("u", "x")),  # type: ignore[arg-type]
    "a commit id too large": lambda table: table.write(ROWS, commit_id=CommitId("u", 10**30)),
    "no commit user": lambda table: table.write(ROWS, commit_id=CommitId(None, 1)),  # type: ignore[arg-type]
    "an operation": lambda table: table.write_changes(ROWS.append_column("k", pa.array(["+I"])), "k", 5),  # type: ignore[arg-type]
    "half a consumer": lambda table: table.consumers.reset("c", 1.5),  # type: ignore[arg-type]
    "a large consumer": lambda table: table.consumers.reset("c", 2**63),
    "no name": lambda table: table.tags.create(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_written_is_refused_and_leaves_the_table_as_it_was(orders: Table, bad: str) -> None:
    orders.write(ROWS)
    with pytest.raises(InvalidRequest):
        BAD[bad](orders)
    assert orders.count() == 1
    orders.write(pa.table({"id": [2], "item": ["y"]}, SCHEMA))
    assert orders.expire(retain_last=1).snapshot_ids == (1,)
    assert orders.check(deep=True) == []


OLD: dict[str, Callable[[Table], Any]] = {
    "read": lambda table: table.to_arrow(),
    "merge": lambda table: table.branches.merge("b"),
    "replace main": lambda table: table.branches.replace_main("b"),
    "delete a branch": lambda table: table.branches.delete("b"),
    "write to a branch": lambda table: table.on_branch("b").write(ROWS),
    "delete a tag": lambda table: table.tags.delete("t"),
    "rename a tag": lambda table: table.tags.rename("t", "u"),
    "delete a consumer": lambda table: table.consumers.delete("c"),
    "clean": lambda table: table.remove_orphan_files(),
    "alter": lambda table: table.truncate(),
}


@pytest.mark.parametrize("old", OLD)
def test_the_handle_of_a_dropped_table_does_nothing_to_the_one_made_anew(
    catalog: Catalog, orders: Table, old: str
) -> None:
    orders.write(ROWS)
    catalog.drop_table("shop.orders")
    anew = catalog.create_table("shop.orders", SCHEMA, primary_key=["id"], options={"bucket": 2})
    anew.write(pa.table({"id": [7, 8], "item": ["new", "new"]}, SCHEMA))
    anew.branches.create("b")
    anew.tags.create("t")
    anew.consumers.reset("c", 1)
    with pytest.raises(NotFound, match="not the table any more"):
        OLD[old](orders)
    assert anew.count() == 2
    assert [tag.name for tag in anew.tags.list()] == ["t"]
    assert anew.branches.names() == ["b"]
    assert [consumer.name for consumer in anew.consumers.list()] == ["c"]


@pytest.mark.parametrize("moment", [0, 1])
def test_a_commit_that_an_expiry_overtakes_is_put_on_the_newest_snapshot(
    catalog: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    from storage.metadata import manifest
    from storage.metadata.table_store import TableStore

    orders.write(ROWS)
    rival = catalog.table("shop.orders")
    manifests_of = TableStore.manifests_of
    waiting = iter([number == moment for number in range(2)])

    def slow(self: TableStore, snapshot: Any) -> Any:
        if self is orders.store and next(waiting, False):
            for number in range(3):
                rival.write(pa.table({"id": [number], "item": ["rival"]}, SCHEMA))
            rival.compact()
            rival.expire(retain_last=1)
            manifest.forget()
        return manifests_of(self, snapshot)

    monkeypatch.setattr(TableStore, "manifests_of", slow)
    orders.write(pa.table({"id": [9], "item": ["late"]}, SCHEMA))
    assert sorted(orders.to_arrow()["id"].to_pylist()) == [0, 1, 2, 9]
    assert orders.check(deep=True) == []


def test_changes_of_ones_own_are_repeated_without_a_key_too(catalog: Catalog) -> None:
    table = catalog.create_table("shop.plain", SCHEMA)
    table.write(ROWS)
    tries = []

    def rename(basis: Any) -> Any:
        rows = basis.scan().to_arrow()
        if not tries:
            catalog.table("shop.plain").update("id = 1", {"item": "other"})
        tries.append(rows["item"].to_pylist())
        old = rows.append_column("k", pa.array(["-U"]))
        new = pa.table({"id": [1], "item": [rows["item"][0].as_py() + "!"], "k": ["+U"]}).cast(old.schema)
        return table.write_changes(pa.concat_tables([old, new]), "k", "UPDATE", basis=basis)

    table.repeated(rename)
    assert tries == [["x"], ["other"]]
    assert table.to_arrow()["item"].to_pylist() == ["other!"]


def test_a_write_that_comes_too_late_leaves_no_table(catalog: Catalog, orders: Table, tmp_path: Path) -> None:
    orders.write(ROWS)
    catalog.rename_table("shop.orders", "shop.bills")
    with pytest.raises(NotFound):
        orders.write(ROWS)
    assert catalog.tables() == ["shop.bills"]
    assert catalog.table("shop.bills").count() == 1


def test_an_error_of_the_store_says_once_what_to_do(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("storage.local_write.os.link", full)
    with pytest.raises(
        StoreUnavailable, match=r"The disk is full: make room\. Nothing was committed by this call"
    ) as failed:
        orders.write(ROWS)
    assert str(failed.value).count("repeat") == 1


def test_a_publication_that_stays_open_says_once_what_to_do(
    catalog: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write(ROWS)
    branches = catalog.branch_set("fix", ["shop.orders"])
    branches.create()
    orders.on_branch("fix").write(ROWS)
    finish = branch_set.finish

    def overtaken(*arguments: Any, gives_up: bool) -> None:
        # As whoever takes it up once its publisher has died.
        orders.write(ROWS)
        finish(*arguments)

    monkeypatch.setattr(branch_set, "finish", overtaken)
    with pytest.raises(CommitConflict) as refused:
        branches.publish()
    assert "Insist with discard-main" not in str(refused.value)
    assert "End it by `snapline branch recover --discard-main`, or undo it by `snapline branch recover --undo`." in str(
        refused.value
    )
    [left] = catalog.publications()
    assert (left.number, left.branch, left.done, left.outcome) == (1, "fix", (), None)
    assert str(catalog.foresee_recovery()[1]["shop.orders"]).startswith("refused: diverged: main has moved")
    assert catalog.foresee_recovery(discard_main=True)[1]["shop.orders"].startswith("takes the branch over (diverged")
    assert catalog.foresee_recovery(branch="other") == {}
    catalog.recover(undo=True)
    assert catalog.publications() == []


def test_what_undoing_would_do_to_tables_that_are_gone_or_being_replaced_is_told(
    catalog: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write(ROWS)
    branches = catalog.branch_set("fix", ["shop.orders"])
    branches.create()
    orders.on_branch("fix").write(ROWS)

    def dying(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Branches, "replace_closed_main", dying)
        branches.replace_main()
    [left] = catalog.publications()
    assert (left.kind, left.outcome) == ("replaces main", "replacing")
    assert "undo" not in left.advice()
    assert "cannot be undone" in catalog.foresee_recovery(undo=True)[1]["shop.orders"]
    assert "takes the branch over" in catalog.foresee_recovery()[1]["shop.orders"]
    [publication] = catalog.recover()
    made = catalog.made_by(publication)["shop.orders"]
    assert made is not None
    assert made == catalog.table("shop.orders").snapshot()


def test_a_table_is_not_renamed_onto_one_that_comes_meanwhile(
    catalog: Catalog, orders: Table, events: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write(ROWS)
    exists = Catalog.exists
    # As it was a moment before.
    monkeypatch.setattr(Catalog, "exists", lambda self, name: name != "shop.events" and exists(self, name))
    with pytest.raises(AlreadyExists, match=r"Table shop.events exists. Drop it first"):
        catalog.rename_table("shop.orders", "shop.events")
    monkeypatch.undo()
    assert catalog.tables() == ["shop.events", "shop.orders"]
    assert catalog.table("shop.orders").count() == 1
    assert catalog.table("shop.events").count() == 0


def test_a_tag_and_a_branch_of_a_version_begin_there(catalog: Catalog, orders: Table) -> None:
    for number in range(3):
        orders.write(pa.table({"id": [number], "item": ["x"]}, SCHEMA))
    orders.tags.create("first", snapshot_id=1)
    first = orders.snapshot(1)
    assert first is not None
    for number, version in enumerate((1, "first", first, dt.datetime.fromtimestamp(first.time_ms / 1000))):
        then = orders.at(version)
        if not isinstance(version, dt.datetime):
            assert then.count() == 1
        then.tags.create(f"tag{number}")
        then.branches.create(f"branch{number}")
        assert orders.tags.get(f"tag{number}").snapshot.id == then.snapshot().id  # type: ignore[union-attr]
        assert orders.on_branch(f"branch{number}").count() == then.count()
    pinned = orders.pinned()
    orders.write(pa.table({"id": [9], "item": ["x"]}, SCHEMA))
    pinned.branches.create("pinned")
    assert orders.on_branch("pinned").count() == 3
    # A branch that begins at a tag knows it, as one that is told the tag.
    assert [tag.name for tag in orders.on_branch("branch1").tags.list()] == ["first"]


def test_a_version_is_not_ignored_by_what_has_no_use_for_it(orders: Table) -> None:
    orders.write(ROWS)
    orders.branches.create("b")
    orders.on_branch("b").write(pa.table({"id": [2], "item": ["y"]}, SCHEMA))
    then = orders.at(1)
    for act in (
        lambda: then.tags.create("t", snapshot_id=1),
        lambda: then.branches.create("c", snapshot_id=1),
        lambda: then.branches.create("c", empty=True),
        lambda: then.branches.merge("b"),
        lambda: then.branches.fast_forward("b"),
        lambda: then.branches.replace_main("b"),
        lambda: then.branches.verdict("b"),
        lambda: orders.at("b.1").tags.create("t"),
        lambda: orders.at("b.1").branches.create("c"),
    ):
        with pytest.raises(InvalidRequest):
            act()
    assert orders.tags.list() == []
    assert orders.branches.names() == ["b"]
    assert orders.count() == 1


def test_a_tag_that_is_kept_for_another_time_is_not_said_to_be_kept_for_this_one(orders: Table) -> None:
    orders.write(ROWS)
    day, week = dt.timedelta(days=1), dt.timedelta(days=7)
    orders.tags.create("good")
    with pytest.raises(AlreadyExists, match="kept for good"):
        orders.tags.create("good", time_retained=day)
    made = orders.tags.create("short", time_retained=day)
    assert orders.tags.create("short", time_retained=day) == orders.tags.get("short")
    assert orders.tags.create("short").time_retained_seconds == 86_400
    assert made.time_retained_seconds == 86_400
    with pytest.raises(AlreadyExists, match=r"86400\.0 s"):
        orders.tags.create("short", time_retained=week)
    assert orders.tags.create("short", time_retained=week, replace=True) == orders.tags.get("short")
    assert orders.tags.get("short").time_retained_seconds == 7 * 86_400


@pytest.mark.parametrize("act", ["fast_forward", "merge", "publish"])
def test_main_that_is_discarded_for_an_empty_branch_is_empty(catalog: Catalog, orders: Table, act: str) -> None:
    orders.write(ROWS)
    orders.branches.create("bare", empty=True)
    if act == "publish":
        with pytest.raises(CommitConflict, match="diverged"):
            catalog.branch_set("bare", ["shop.orders"]).publish()
        catalog.branch_set("bare", ["shop.orders"]).publish(discard_main=True)
    else:
        with pytest.raises(CommitConflict, match="diverged"):
            getattr(orders.branches, act)("bare")
        verdict = getattr(orders.branches, act)("bare", discard_main=True)
        assert [snapshot.id for snapshot in verdict.lost] == [snapshot.id for snapshot in orders.store.snapshots.all()][
            :-1
        ]
    assert orders.count() == 0
    assert orders.is_taken_back(1)
    orders.rollback_to(1)
    assert orders.count() == 1


def test_an_overwrite_of_a_partition_without_values_is_not_one_of_the_table(events: Table) -> None:
    events.write(pa.table({"day": ["x", "y"], "what": ["a", "b"]}))
    more = pa.table({"day": ["z"], "what": ["c"]})
    for act in (
        lambda: events.overwrite(more, partition={}),
        lambda: events.compact(partition={}),
        lambda: events.drop_partition({}),
    ):
        with pytest.raises(InvalidRequest):
            act()
    assert events.count() == 2
    assert events.remove_orphan_files(older_than=dt.timedelta(0), dry_run=True) == []


LINEAGE: dict[str, tuple[str, ...]] = {
    "snapline.sources": ("oops", "{}", "[1]", '[["c", "d", "t", "b"]]', '[["c", "d", "t", "b", "1"]]', "[" * 10_000),
    "snapline.columns": ("oops", "[]", '{"a": "b"}', '{"a": [["c", "d", "t"]]}', '{"a": [["c", "d", "t", 1]]}'),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in LINEAGE.items() for value in values])
def test_lineage_that_cannot_be_read_is_refused_where_it_is_set(orders: Table, key: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=key):
        orders.write(ROWS, properties={key: value})
    assert orders.snapshot() is None


def test_lineage_of_both_forms_is_taken(orders: Table) -> None:
    sources = json.dumps([["c", "d", "t", "main", 1], ["c", "d", "u", "main", 2, 1_700_000_000_000]])
    columns = json.dumps({"item": [["c", "d", "t", "item"]], "id": []})
    orders.branches.create("b", empty=True)
    branch = orders.on_branch("b")
    branch.write(ROWS, properties={"snapline.sources": sources, "snapline.columns": columns})
    orders.branches.merge("b")
    merged = orders.snapshot()
    assert merged is not None
    assert merged.properties is not None
    assert json.loads(merged.properties["snapline.sources"]) == json.loads(sources)


def test_a_merge_brings_the_tags_of_what_the_branch_did_and_no_others(orders: Table) -> None:
    orders.write(ROWS)
    orders.tags.create("v1")
    orders.branches.create("b", tag="v1")
    orders.tags.delete("v1")
    branch = orders.on_branch("b")
    branch.tags.create("again", snapshot_id=1)
    branch.write(pa.table({"id": [2], "item": ["y"]}, SCHEMA))
    branch.tags.create("done")
    orders.branches.merge("b")
    # Main has deleted the one, and never had the other.
    assert [tag.name for tag in orders.tags.list()] == ["done"]
    assert orders.to_arrow(version="done").num_rows == 2


@pytest.mark.parametrize("side", ["main", "b"])
def test_an_adoption_whose_snapshot_expires_is_judged_again(
    orders: Table, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    orders.write(ROWS)
    orders.branches.create("b")
    branch = orders.on_branch("b")
    branch.write(pa.table({"id": [2], "item": ["y"]}, SCHEMA))
    orders.write(pa.table({"id": [3], "item": ["z"]}, SCHEMA))
    latest = orders.snapshot()
    assert latest is not None
    real = adopt.live_entries
    done: list[int] = []

    def live_entries(*arguments: Any) -> Any:
        if not done:
            done.append(1)
            others = orders if side == "main" else branch
            others.compact()
            others.expire(retain_last=1)
            manifest.forget()
        return real(*arguments)

    monkeypatch.setattr(adopt, "live_entries", live_entries)
    assert orders.branches.adopt("b", until=latest.id, commit_id=CommitId("u", 1)) is not None
    assert done
    assert sorted(orders.to_arrow().column("id").to_pylist()) == [1, 2]
