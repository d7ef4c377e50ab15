"""Two ancestries compared: random histories against sets that a plain walk gives, and the sentence for each shape."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from lineage import LineageStore, Parting, compare_ancestries, open_lineage_store
from storage import SnapshotRef
from tests.lineage.test_questions import record, ref
from tests.scale import seeds


@pytest.fixture
def store(tmp_path: Path) -> LineageStore:
    return open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path / 'lineage.db'}"})


def ancestry(sources: dict[SnapshotRef, list[SnapshotRef]], start: SnapshotRef) -> set[SnapshotRef]:
    seen: set[SnapshotRef] = set()
    waiting = [start]
    while waiting:
        ref = waiting.pop()
        if ref not in seen:
            seen.add(ref)
            waiting += sources.get(ref, [])
    return seen


@pytest.mark.parametrize("seed", seeds(12, 500))
def test_random_ancestries_are_split_as_sets_are(seed: int, store: LineageStore) -> None:
    chance = random.Random(seed)
    tables = [f"t{number}" for number in range(6)]
    newest = dict.fromkeys(tables, 0)
    sources: dict[SnapshotRef, list[SnapshotRef]] = {}
    for _ in range(40):
        number = chance.randrange(len(tables))
        name = tables[number]
        newest[name] += 1
        read = chance.sample(tables[:number], min(number, chance.randrange(3)))
        made = ref(name, newest[name])
        sources[made] = [ref(table, newest[table]) for table in read if newest[table]]
        if newest[name] > 1 and chance.random() < 0.3:
            sources[made].append(ref(name, newest[name] - 1))
        record(store, made, *sources[made])
    refs = sorted(sources)
    for _ in range(20):
        left, right = chance.choice(refs), chance.choice(refs)
        compared = compare_ancestries({"c": store}, left, right)
        ours, theirs = ancestry(sources, left), ancestry(sources, right)
        assert set(compared.only_left) == ours - theirs
        assert set(compared.only_right) == theirs - ours
        assert set(compared.both) == ours & theirs
        assert {(edge.source, edge.sink) for edge in compared.edges} == {
            (source, sink) for sink in ours | theirs for source in sources[sink]
        }
        assert [compared.side(snapshot) for snapshot, _ in compared.rows()] == [side for _, side in compared.rows()]
        check_partings(compared.partings, sources, left, right, ours, theirs)


def check_partings(
    partings: tuple[Parting, ...],
    sources: dict[SnapshotRef, list[SnapshotRef]],
    left: SnapshotRef,
    right: SnapshotRef,
    ours: set[SnapshotRef],
    theirs: set[SnapshotRef],
) -> None:
    """Each has a side that nothing upstream explains, and what is left out is explained by the other side."""
    differing = (ours ^ theirs) - {left, right}
    first = {snapshot for snapshot in differing if not (ancestry(sources, snapshot) - {snapshot}) & differing}
    named = {parting.table for parting in partings}
    assert bool(named) == bool(differing)
    assert named <= {f"c.d.{snapshot.table}" for snapshot in first}
    for parting in partings:
        assert {parting.left, parting.right} & first
    for snapshot in first:
        others = {other for other in differing - first if other.table == snapshot.table}
        assert f"c.d.{snapshot.table}" in named or others or {left, right} & {snapshot}
    for parting in partings:
        assert parting.left is None or parting.left in ours
        assert parting.right is None or parting.right in theirs
        assert parting.left != parting.right


def test_the_first_difference_is_named_and_what_follows_from_it_is_not(store: LineageStore) -> None:
    for number, raw in ((1, 1), (2, 2)):
        record(store, ref("core", number), ref("raw", raw), ref("planes", 1))
        record(store, ref("mart", number), ref("core", number))
    compared = compare_ancestries({"c": store}, ref("mart", 1), ref("mart", 2))
    assert compared.describe() == "They differ first in c.d.raw@1 → @2."
    assert compared.both == (ref("planes", 1),)


def test_what_was_made_from_a_source_before_it_was_changed_in_place_is_explained_by_that(store: LineageStore) -> None:
    record(store, ref("raw", 2), ref("raw", 1))
    for number in (1, 2):
        record(store, ref("core", number), ref("raw", number))
        record(store, ref("mart", number), ref("core", number))
    # core@1 was made from nothing that mart@2 was not made from too: core@2 says why they differ.
    assert compare_ancestries({"c": store}, ref("mart", 1), ref("mart", 2)).describe() == (
        "They differ first in c.d.raw@1 → @2."
    )


def test_two_that_explain_each_other_are_both_named(store: LineageStore) -> None:
    record(store, ref("b", 1), ref("a", 1))
    record(store, ref("a", 2), ref("b", 2))
    record(store, ref("x", 1), ref("b", 1))
    record(store, ref("x", 2), ref("a", 2))
    compared = compare_ancestries({"c": store}, ref("x", 1), ref("x", 2))
    assert [parting.table for parting in compared.partings] == ["c.d.a", "c.d.b"]


def test_a_source_that_was_changed_in_place_is_named_by_both_versions(store: LineageStore) -> None:
    record(store, ref("raw", 2), ref("raw", 1))
    record(store, ref("core", 1), ref("raw", 1))
    record(store, ref("core", 2), ref("raw", 2))
    stores = {"c": store}
    assert (
        compare_ancestries(stores, ref("core", 1), ref("core", 2)).describe() == "They differ first in c.d.raw@1 → @2."
    )
    assert compare_ancestries(stores, ref("raw", 2), ref("raw", 1)).describe() == "c.d.raw@2 was made from c.d.raw@1."
    assert compare_ancestries(stores, ref("raw", 1), ref("core", 2)).describe() == (
        "c.d.core@2 was made from c.d.raw@1, and from 1 snapshots that the other was not made from."
    )


def test_every_other_shape_has_a_sentence(store: LineageStore) -> None:
    record(store, ref("core", 1), ref("raw", 1))
    record(store, ref("core", 2), ref("raw", 1))
    record(store, ref("core", 3), ref("raw", 1), ref("extra", 1))
    record(store, ref("other", 1), ref("far", 1))
    stores = {"c": store}

    def said(left: SnapshotRef, right: SnapshotRef) -> str:
        return compare_ancestries(stores, left, right).describe()

    assert said(ref("core", 1), ref("core", 1)) == "c.d.core@1 is one snapshot."
    assert said(ref("core", 1), ref("core", 2)) == (
        "Both were made from the same snapshots: c.d.core@1 by job 'job of core', barrier 1, c.d.core@2 by job 'job of core', "
        "barrier 2."
    )
    assert said(ref("core", 1), ref("core", 3)) == (
        "They differ first in c.d.extra@1, which the right alone was made from."
    )
    assert said(ref("core", 1), ref("other", 1)) == (
        "They differ first in c.d.far@1, which the right alone was made from; c.d.raw@1, which the left alone was made from. "
        "They have no snapshot in common."
    )
    assert said(ref("raw", 1), ref("far", 1)) == "Of neither c.d.raw@1 nor c.d.far@1 is it known what it was made from."


def test_snapshots_of_one_history_are_not_said_to_have_nothing_in_common(store: LineageStore) -> None:
    """A branch that read another version, and was merged."""
    fix = replace(ref("core", 2), branch="fix")
    record(store, ref("core", 1), ref("raw", 1))
    record(store, fix, ref("raw", 2))
    record(store, ref("core", 2), fix, ref("raw", 2))
    record(store, ref("core", 3), ref("raw", 3))
    stores = {"c": store}
    apart = "No source is common to both, but"

    def said(left: SnapshotRef, right: SnapshotRef) -> str:
        return compare_ancestries(stores, left, right).describe()

    assert said(ref("core", 1), ref("core", 3)) == (
        f"They differ first in c.d.raw@1 → @3. {apart} c.d.core@3 has c.d.core@1 in its history."
    )
    assert said(fix, ref("core", 3)) == (
        f"They differ first in c.d.raw@2 → @3. {apart} c.d.core@3 has c.d.core$branch_fix@2 in its history."
    )


def test_lineage_that_goes_round_in_a_circle_is_compared_all_the_same(store: LineageStore) -> None:
    record(store, ref("a", 1), ref("b", 1))
    record(store, ref("b", 1), ref("a", 1))
    record(store, ref("x", 1), ref("a", 1))
    record(store, ref("x", 2), ref("y", 1))
    compared = compare_ancestries({"c": store}, ref("x", 1), ref("x", 2))
    assert {parting.table for parting in compared.partings} == {"c.d.a", "c.d.b", "c.d.y"}
