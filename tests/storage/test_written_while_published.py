"""A set of branches is published while somebody writes to them, or publishes as well: stopped before each call, main gets what
the branches had at one moment, and nothing stays open.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict
from tests.storage.interrupted import Act, Interrupted, acknowledged, calls_of, each_stop, leave, stops

NAMES = ["d.a", "d.b"]
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Act:
    """Two tables with branches, made once and copied to the warehouse of a catalog."""
    base = f"{tmp_path_factory.mktemp('base')}/w"
    prepare(Catalog(base))
    return lambda catalog: shutil.copytree(base, catalog.warehouse)


def row_of(value: int) -> pa.Table:
    return pa.table({"k": [1], "v": [value]}, SCHEMA)


def prepare(catalog: Catalog) -> None:
    for name in NAMES:
        catalog.create_table(name, SCHEMA, primary_key=["k"], options={"bucket": "1"}).write(row_of(0))
    catalog.branch_set("b", NAMES).create()
    for name, value in zip(NAMES, (10, -10), strict=True):
        catalog.table(name).on_branch("b").write(row_of(value))


def move(catalog: Catalog) -> None:
    """The sum over both branches is 0 before and after."""
    for name, value in zip(NAMES, (5, -5), strict=True):
        catalog.table(name).on_branch("b").write(row_of(value))


def publish(catalog: Catalog) -> None:
    catalog.branch_set("b", NAMES).publish()


def adopt(catalog: Catalog) -> None:
    catalog.branch_set("b", NAMES).adopt(dict.fromkeys(NAMES, 1), {})


def values(catalog: Catalog) -> tuple[int, ...]:
    return tuple(table.to_arrow().to_pylist()[0]["v"] for table in catalog.consistent(NAMES).values())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("act", [publish, adopt], ids=["merged", "adopted"])
def test_mains_get_what_the_branches_had_at_one_moment(prepared: Act, tmp_path: Path, act) -> None:  # type: ignore[no-untyped-def]
    seen = set()
    for call, catalog, done, moved in each_stop(str(tmp_path), prepared, act, move):
        assert done and moved, call
        assert values(catalog) in ((10, -10), (5, -5)), call
        assert not catalog.publications()
        seen.add(values(catalog))
        # What was written meanwhile is on the branches, and can be published as well.
        catalog.branch_set("b", NAMES).publish(discard_main=True)
        assert values(catalog) == (5, -5), call
    assert seen == {(10, -10), (5, -5)}


def test_what_was_judged_before_is_published_or_nothing(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path))
    prepare(catalog)
    heads = {}
    for name in NAMES:
        snapshot = catalog.table(name).on_branch("b").snapshot()
        assert snapshot is not None
        heads[name] = (snapshot.id, snapshot.identity)
    move(catalog)
    with pytest.raises(CommitConflict, match=r"it was written to on d\.a, d\.b since it was judged"):
        catalog.branch_set("b", NAMES).adopt(dict.fromkeys(NAMES, 1), {}, heads=heads)
    assert values(catalog) == (0, 0) and not catalog.publications()


def test_of_two_who_adopt_the_same_branch_none_stays_open(prepared: Act, tmp_path: Path) -> None:
    for call, catalog, _, _ in each_stop(str(tmp_path), prepared, adopt, adopt):
        assert values(catalog) == (10, -10), call
        assert not catalog.publications(), call


def test_a_publication_that_comes_too_late_and_has_done_nothing_is_undone(prepared: Act, tmp_path: Path) -> None:
    def write(catalog: Catalog) -> None:
        for name in NAMES:
            catalog.table(name).write(row_of(7))

    for call, catalog, done, _ in each_stop(str(tmp_path), prepared, adopt, write):
        if not done and catalog.publications():
            # Then one of the tables had it before the other main moved on.
            assert any(catalog.table(name).to_arrow().to_pylist()[0]["v"] == 7 for name in NAMES), call
            catalog.recover(undo=True, discard_main=True)
        assert not catalog.publications(), call


def test_a_publication_that_died_takes_what_was_judged(prepared: Act, tmp_path: Path) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    for number, call in stops(calls_of(str(tmp_path), prepared, adopt)):
        warehouse = f"{tmp_path}/{number}"
        prepared(Catalog(warehouse))
        with pytest.raises(KeyboardInterrupt):
            adopt(Catalog(warehouse, file_io=Interrupted(number, die, str(tmp_path))))
        catalog = Catalog(warehouse)
        was_open = bool(catalog.publications())
        assert acknowledged(move, catalog)
        catalog.recover()
        assert values(catalog) in (((10, -10),) if was_open else ((0, 0), (10, -10))), call
        leave(warehouse, number)
