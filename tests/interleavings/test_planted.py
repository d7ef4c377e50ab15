"""The harness finds each known bug that is put back."""

import pytest

from tests.interleavings.planted import BUGS, Bug
from tests.interleavings.schedules import explore, forget_all


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_is_found(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    bug.patch(monkeypatch)
    forget_all()
    try:
        violations = explore(bug.place, bug.first, bug.second, every_death=True).violations
    finally:
        forget_all()
    assert violations
