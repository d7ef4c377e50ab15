"""Of tests with many cases each run leaves some out, and none is left out for ever."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.turns import in_turn, left_out_of


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


def test_where_time_may_run_out_each_turn_begins_with_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [case(f"a.py::test_{number}") for number in range(9)]
    monkeypatch.delenv("SNAPLINE_TEST_UNTIL", raising=False)
    assert in_turn(items, 3) == items
    monkeypatch.setenv("SNAPLINE_TEST_UNTIL", "1")
    orders = [in_turn(items, at) for at in range(100)]
    assert all(sorted(order, key=items.index) == items for order in orders)
    assert {order[0].nodeid for order in orders} == {item.nodeid for item in items}
    over_hosts = [case(f"tests/cluster/test_cluster.py::test_{number}") for number in range(9)]
    assert in_turn(over_hosts, 3) == over_hosts


def test_when_time_is_over_no_test_begins(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_runtest_setup, pytest_terminal_summary  # noqa: F401"
    )
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): assert False")

    def last_lines(until: float) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)],
            env=dict(os.environ, PYTHONPATH=str(ROOT), SNAPLINE_TEST_UNTIL=str(until)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    over = last_lines(time.time() - 1)
    assert "2 skipped in" in over
    assert "Time was over before 2 tests began" in over
    assert "1 failed, 1 passed in" in last_lines(time.time() + 600)
