"""The harness finds each known bug that is put back, and other tests what is no matter of interleavings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interleavings.planted import BUGS, FAULTS, Bug, Fault
from tests.interleavings.schedules import explore, forget_all

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    bug.patch(monkeypatch)
    forget_all()
    try:
        outcome = explore(bug.place, bug.first, bug.second, every_death=True, until_found=True)
    finally:
        forget_all()
    print(f"{bug.place}: {bug.first} x {bug.second}: {outcome.schedules} schedules until it was found")
    assert outcome.violations


class _Planted:
    """Plants, in another run of pytest, before each test the fault that it has to find; keeps how each test ended."""

    def __init__(self) -> None:
        self._faults = {f"{TESTS.name}/{fault.test}": fault for fault in FAULTS}
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            self._faults[item.nodeid].patch(patch)
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.outcomes[report.nodeid] = f"{report.when} {report.outcome}"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """How the tests end that have to find a fault each."""
    planted = _Planted()
    root = TESTS.parent
    arguments = [f"--rootdir={root}", "-p", "no:cacheprovider", "-p", "no:terminal"]
    pytest.main([*arguments, *(f"{TESTS}/{fault.test}" for fault in FAULTS)], plugins=[planted])
    return planted.outcomes


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_known_fault_fails_a_test(outcomes: dict[str, str], fault: Fault) -> None:
    assert outcomes[f"{TESTS.name}/{fault.test}"] == "call failed"
