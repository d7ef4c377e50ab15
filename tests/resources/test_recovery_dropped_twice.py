"""Whoever drops a recovery, and sleeps until others have dropped it and begun another one of its name, leaves that."""

from pathlib import Path

import pytest

from resources import Session
from resources.recovery import Recovery
from resources.recovery.record import OPEN, read_record
from storage import StorageError
from tests.resources.recovery_schedules import Beginnings, correct, drop, start, watched
from tests.resources.shop import rows
from tests.scale import amount

pytestmark = pytest.mark.dagster


def test_a_drop_that_slept_leaves_a_new_recovery_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beginnings, number, stayed, ended = Beginnings(tmp_path, monkeypatch), 0, 0, False
    while not ended:
        with beginnings.session("started") as session:
            made: list[int] = []
            ended = _dropped_beside_another(session, number, made)
            record = read_record(session.catalog, "fix")
            if made:
                assert record is not None, number
                assert (record.created_ms, record.status) == (made[0], OPEN), number
                assert Recovery.open(session, "fix").changed() == ["db.src"], number
                assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20)], number
                stayed += 1
        number += amount(5, 1)
    assert stayed > 2


def _dropped_beside_another(session: Session, at: int, made: list[int]) -> bool:
    """Stop a drop before one of its calls for others; whether it has fewer calls. `made`: when the new recovery was begun."""
    looked: list[int] = []

    def before(number: int, call: str) -> None:
        if number >= at and not looked:
            looked.append(number)
            try:
                drop(session)
                start(session)
                correct(session)
            except StorageError:
                # Too late: it is being dropped.
                return
            made.append(Recovery.open(session, "fix").record.created_ms)

    try:
        recovery = Recovery.open(session, "fix").as_seen()
        with watched(before):
            recovery.drop()
    except StorageError:
        pass
    return not looked
