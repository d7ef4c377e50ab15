"""Of tests with many cases each run leaves some out, and none is left out for ever."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.turns import left_out_of


class Case:
    def __init__(self, nodeid: str, share: int | None) -> None:
        self.nodeid = nodeid
        self._marker = None if share is None else SimpleNamespace(args=(share,))

    def get_closest_marker(self, name: str) -> SimpleNamespace | None:
        return self._marker


def case(nodeid: str, share: int | None = None) -> Any:
    return Case(nodeid, share)


def test_each_case_has_its_turn() -> None:
    drawn = [case(f"a.py::test_of_many[{number}]", 3) for number in range(7)]
    alone = [case("a.py::test_of_one[x]", 3)]
    on_spark = [case(f"b.py::test_{number}[spark]") for number in range(9)]
    others = [case("b.py::test_1[duckdb]"), case("b.py::test_of_sparks[sparks]"), case("b.py::test_spark")]
    kept = [
        {item.nodeid for item in (*drawn, *alone, *on_spark, *others)}
        - {item.nodeid for item in left_out_of([*drawn, *alone, *on_spark, *others], at)}
        for at in range(6)
    ]
    for of_run in kept:
        assert {item.nodeid for item in (*alone, *others)} <= of_run
        assert len([item for item in drawn if item.nodeid in of_run]) in (2, 3)
    assert set.union(*kept) == {item.nodeid for item in (*drawn, *alone, *on_spark, *others)}
    assert any(len([item for item in on_spark if item.nodeid in of_run]) < len(on_spark) for of_run in kept)


def test_on_a_slow_machine_all_have_their_turn_but_those_over_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPLINE_TEST_SHARE", "2")
    items = [*(case(f"a.py::test_{number}") for number in range(9)), case("tests/cluster/test_cluster.py::test_a")]
    kept = [{*items} - {*left_out_of(items, at)} for at in range(2)]
    assert kept[0] | kept[1] == {*items}
    assert kept[0] & kept[1] == {items[-1]}
