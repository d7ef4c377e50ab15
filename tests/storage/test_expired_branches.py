"""Branches whose first snapshots have expired: the verdict knows where they and main parted, and is never clean in vain."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, Table
from storage.document import sealed

NAME = "a.t"
SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("item", pa.string())])


def batch(*ids: int, item: str = "main", day: str = "x") -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids), "item": [item] * len(ids)}, SCHEMA)


def rows(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def keyed(catalog: Catalog, *, is_keyed: bool, **options: Any) -> Table:
    arguments = (
        {"primary_key": ["day", "id"], "options": {"bucket": 1, **options}} if is_keyed else {"options": options}
    )
    return catalog.create_table(NAME, SCHEMA, partition_by=["day"], **arguments)


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    made = keyed(catalog, is_keyed=request.param == "keyed")
    for number in range(3):
        made.write(batch(number))
    return made


def written(table: Table, *ids: int, retain: int = 2) -> Table:
    """The branch `b`, with a commit for each id, and all but some of its snapshots expired."""
    branch = table.on_branch("b")
    for number in ids:
        branch.write(batch(number, item="fixed"))
    branch.expire(retain_last=retain)
    return branch


def test_an_automatic_expiry_of_what_both_have_moves_no_main(catalog: Catalog) -> None:
    table = keyed(catalog, is_keyed=True, **{"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 2})
    for number in range(3):
        table.write(batch(number))
    table.branches.create("b")
    branch = table.on_branch("b")
    for number in range(5, 9):
        branch.write(batch(number))
    verdict = table.branches.verdict("b")
    assert (verdict.kind, verdict.common, verdict.lost) == ("clean", 3, ())
    table.branches.merge("b")
    assert rows(catalog.table(NAME)) == rows(branch)
    assert table.check(deep=True) == []


@pytest.mark.parametrize("way", ["merge", "fast_forward", "replace_main"])
def test_an_expired_branch_is_taken_over_each_way(catalog: Catalog, table: Table, way: str) -> None:
    table.branches.create("b")
    wanted = rows(written(table, 5, 6, 7))
    getattr(table.branches, way)("b")
    assert rows(catalog.table(NAME)) == wanted
    assert catalog.table(NAME).check(deep=True) == []


def test_a_branch_of_a_branch_knows_where_both_left_main(table: Table) -> None:
    table.branches.create("a")
    first = table.on_branch("a")
    for number in (5, 6):
        first.write(batch(number))
    first.branches.create("b")
    written(table, 7, 8)
    verdict = table.branches.verdict("b")
    assert (verdict.kind, verdict.common) == ("clean", 3)
    table.branches.merge("b")
    assert rows(table) == rows(table.on_branch("b"))


def test_a_branch_that_was_merged_and_has_expired_goes_on(table: Table) -> None:
    table.branches.create("b")
    written(table, 5, 6)
    table.branches.merge("b")
    branch = written(table, 7, 8, 9)
    verdict = table.branches.verdict("b")
    assert (verdict.kind, verdict.lost) == ("clean", ())
    # Main forgets where they parted, but has been what the branch was.
    table.compact(full=True)
    table.expire(retain_last=2)
    assert table.branches.verdict("b").kind == "clean"
    table.branches.merge("b")
    assert rows(table) == rows(branch)
    assert table.check(deep=True) == []


def test_a_branch_made_anew_is_not_told_by_what_had_its_name(table: Table) -> None:
    table.branches.create("b")
    written(table, 5, 6)
    table.branches.merge("b")
    table.branches.delete("b")
    table.branches.create("b", snapshot_id=3)
    written(table, 7, 8, 9)
    assert table.branches.verdict("b").kind == "diverged"


def test_commits_that_have_expired_are_not_put_on_top_of_a_main_that_moved_elsewhere(table: Table) -> None:
    table.tags.create("both")
    table.branches.create("b", tag="both")
    written(table, 5, 6, 7)
    table.write(batch(1, day="y"))
    verdict = table.branches.verdict("b")
    assert verdict.kind == "diverged"
    assert verdict.describe().endswith(" has expired, and cannot be put on top of them")
    with pytest.raises(CommitConflict, match="has expired, and cannot be put on top"):
        table.branches.merge("b")


def test_a_tag_of_what_main_took_back_is_nothing_in_common(table: Table) -> None:
    table.tags.create("both")
    table.branches.create("b", tag="both")
    written(table, 5, 6, retain=9)
    table.rollback_to(1)
    assert table.branches.verdict("b").kind == "diverged"


def test_a_main_that_was_replaced_since_knows_where_it_was_left(catalog: Catalog, table: Table) -> None:
    table.branches.create("b")
    table.branches.create("other")
    written(table, 5, 6, 7)
    other = table.on_branch("other")
    table.branches.replace_main("other")
    table = catalog.table(NAME)
    assert (table.branches.verdict("b").kind, table.branches.verdict("b").common) == ("clean", 3)
    table.write(batch(9))
    assert table.branches.verdict("b").kind == ("diverged")
    assert other.store.paths.branch == table.store.paths.branch


def test_the_number_alone_is_enough_for_a_main_that_was_never_replaced(table: Table) -> None:
    table.branches.create("b")
    branch = written(table, 5, 6, 7)
    path = Path(branch.store.paths.origin.removeprefix("file://"))
    old = {key: value for key, value in json.loads(path.read_text()).items() if key != "points"}
    path.write_text(json.dumps(sealed(old, "ORIGIN")))
    assert table.branches.verdict("b").kind == "clean"
    path.write_text("damaged")
    assert table.branches.verdict("b").kind == "diverged"


MAIN_STEPS = ("write", "elsewhere", "compact", "expire", "rollback", "merge")


@pytest.mark.parametrize("is_keyed", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_verdict_is_clean_only_if_main_loses_nothing(catalog: Catalog, seed: int, is_keyed: bool) -> None:
    """Against a model: the set of ids that each side wrote. Ids are written once, so that what a merge loses is seen."""
    chance = random.Random(seed)
    table = keyed(catalog, is_keyed=is_keyed)
    for number in range(3):
        table.write(batch(number))
    table.branches.create("b")
    branch, apart, next_id = table.on_branch("b"), False, 10
    forked = {0, 1, 2}
    for number in range(12):
        step = "merge" if number == 11 else chance.choice((*MAIN_STEPS, *["branch write", "branch expire"] * 3))
        next_id += 1
        ids = {row[1] for row in rows(table)}
        if step == "write":
            table.write(batch(next_id))
        elif step == "elsewhere":
            table.write(batch(next_id, day="y"))
        elif step == "compact":
            table.compact(full=True)
        elif step == "expire":
            table.expire(retain_last=chance.choice((1, 2, 3)))
        elif step == "rollback":
            table.rollback_to(chance.choice(table.store.snapshots.ids()))
        elif step == "branch write":
            branch.write(batch(next_id, item="fixed"))
        elif step == "branch expire":
            branch.expire(retain_last=chance.choice((1, 2)))
        else:
            verdict = table.branches.verdict("b")
            theirs = {row[1] for row in rows(branch)}
            if verdict.kind == "diverged":
                with pytest.raises(CommitConflict):
                    table.branches.merge("b")
                continue
            table.branches.merge("b")
            after = {row[1] for row in rows(table)}
            # Nothing that was written to main goes, nothing of the branch is missing, nothing is there twice, and nothing
            # that main took back comes again.
            assert ids <= after and len(rows(table)) == len(after)
            assert theirs - forked <= after and forked & after == forked & ids
        apart = apart or step in ("write", "elsewhere", "rollback")
        verdict = table.branches.verdict("b")
        if not apart:
            assert verdict.kind == "clean" or step == "expire" or (table.store.snapshots.earliest_id() or 0) > 4, (
                step,
                verdict,
            )
    assert table.check(deep=True) == []
