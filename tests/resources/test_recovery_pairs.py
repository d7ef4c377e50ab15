"""Two operations on one recovery at once: the first is stopped before each of its calls to the file system that matters, and dies
there and is repeated. What both have acknowledged is there afterwards, and whoever goes on comes to the end.
"""

from pathlib import Path
from random import Random

import pytest

from resources import Session
from resources.recovery import Recovery
from resources.recovery.record import OPEN, PUBLISHED, read_record
from storage import CommitConflict, InvalidRequest
from storage.warehouse_check import Unpublished
from tests.resources.recovery_schedules import (
    OPERATIONS,
    STATES,
    Beginnings,
    correct,
    drop,
    produce,
    publish_it,
    replay,
    steps,
    stopped,
)
from tests.resources.shop import rows
from tests.scale import FULL, blocks, seeds

pytestmark = pytest.mark.dagster
# What refuses, or finds nothing to go on with, when others have come first.
_REFUSALS = ("CommitConflict", "CommitOutcomeUnknown", "AlreadyExists", "NotFound", "InvalidRequest")
NEAR = [("mended", "replay", "publish"), ("moved", "beside", "replay"), ("started", "beside", "drop")]
OTHERS = [
    ("started", "replay", "insist"),
    ("mended", "publish", "replay"),
    ("moved", "replay", "replay"),
    ("mended", "publish", "drop"),
    ("mended", "drop", "publish"),
    ("started", "drop", "start"),
    ("planned", "start", "start"),
]
FIRSTS = [name for name in OPERATIONS if name != "produce"]


def _wrong(session: Session, state: str, done: dict[str, str], *, dies: bool) -> list[str]:
    """What is wrong once both have ended, with what became of each."""
    wrong = [f"{name}: {said}" for name, said in done.items() if said != "done" and not said.startswith(_REFUSALS)]
    finished = {name for name, said in done.items() if said == "done"}
    # Who dies in the midst of a publication may leave it open, when main moves on before it is tried again.
    wrong += [str(problem) for problem in session.catalog.check() if not (dies and isinstance(problem, Unpublished))]
    for name in ("db.src", "db.other"):
        wrong += [str(problem) for problem in session.table(name).check(deep=True)]
    record = read_record(session.catalog, "fix")
    branched = [name for name in ("db.src", "db.other") if "fix" in session.table(name).branches.names()]
    if record is None and branched:
        wrong.append(f"{branched} have branches of a recovery that is not there")
    if record is not None and not branched:
        wrong.append("a recovery without a branch")
    published = finished & {"publish", "insist"}
    if record is not None and published and not finished & {"drop", "start"}:
        if record.status != PUBLISHED:
            wrong.append(f"it was published, and is {record.status}")
        if "publish" not in finished and not record.overrides and state == "started" and "correct" not in done:
            wrong.append("what it was published in spite of is gone")
    if record is not None and record.status not in (OPEN, PUBLISHED):
        wrong.append(f"it is {record.status}")
    wrong += _main_is_wrong(session, state, finished)
    return wrong


def _main_is_wrong(session: Session, state: str, finished: set[str]) -> list[str]:
    moved = state in ("moved", "replayed")
    kept = [(1, 10), *([(3, 30)] if moved else []), *([(4, 40)] if "produce" in finished else [])]
    source_rows, other = rows(session.table("db.src")), rows(session.table("db.other"))
    wrong = []
    if [row for row in source_rows if row not in ((2, 20), (2, 666))] != kept or len(source_rows) != len(kept) + 1:
        wrong.append(f"main has {source_rows}")
    # What is written beside the plan is written by everybody who does so. Written once more behind a replay that said so, by who
    # died behind his commit, it stands for what production has done.
    expected = [(1, 1)] if other.count((9, 9)) == 2 and "replay" in finished else [(1, 1), *([(5, 5)] if moved else [])]
    if [row for row in other if row != (9, 9)] not in (expected, [(1, 1), *([(5, 5)] if moved else [])]):
        wrong.append(f"main of the other table has {other}")
    return wrong


def _not_ended(session: Session, state: str, done: dict[str, str]) -> list[str]:
    """What is wrong once somebody has gone on to the end."""
    record = read_record(session.catalog, "fix")
    if record is None:
        return []
    try:
        if record.status == OPEN:
            correct(session)
        replay(session)
    except CommitConflict as error:
        # Who published has died before main was written to by others, and said what to do.
        if "branch recover --undo" not in str(error):
            raise
        session.catalog.recover(undo=True)
        replay(session)
    try:
        publish_it(session)
    except InvalidRequest as error:
        if "db.other" not in str(error):
            raise
        # It is written by hand, as it is to be.
        Recovery.open(session, "fix").correct("INSERT OVERWRITE db.other VALUES (1, 1), (5, 5)")
        publish_it(session)
    wrong = _main_is_wrong(session, state, {name for name, said in done.items() if said == "done"})
    if (2, 20) not in rows(session.table("db.src")):
        wrong.append("main is not corrected")
    drop(session)
    produce(session)
    return wrong


def _tried(beginnings: Beginnings, state: str, first: str, at: int, second: str, *, dies: bool) -> list[str]:
    """What is wrong after a schedule, each with what it was."""
    with beginnings.session(state) as session:
        outcome, other = stopped(OPERATIONS[first], at, OPERATIONS[second], session, dies=dies)
        now, done = Session(), {first: outcome, second if second != first else f"{second} again": other}
        try:
            problems = _wrong(now, state, done, dies=dies) or _not_ended(now, state, done)
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
    where = f"{state}: {first!r} stopped at {at}{', dead' if dies else ''}, {second!r}: {done}"
    return [f"{where}: {problem}" for problem in problems]


@pytest.fixture
def beginnings(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beginnings:
    return Beginnings(tmp_path, monkeypatch)


@pytest.mark.parametrize(("state", "first", "second"), [*NEAR, *(OTHERS if FULL else ())])
def test_one_operation_at_each_step_of_another(beginnings: Beginnings, state: str, first: str, second: str) -> None:
    with beginnings.session(state) as session:
        count = len(steps(OPERATIONS[first], session))
    # Every step in `make test-full`, which takes a quarter of an hour for each pair.
    tried = range(0, count, 1 if FULL else 12)
    wrong = [problem for at in tried for problem in _tried(beginnings, state, first, at, second, dies=False)]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(tried)} steps", *wrong[:10]])


@pytest.mark.parametrize("chosen", blocks(seeds(4, 2_000, full=200), 4))
def test_any_two_at_any_step_or_a_death(beginnings: Beginnings, chosen: list[int]) -> None:
    counts: dict[tuple[str, str], int] = {}
    wrong = []
    for seed in chosen:
        random = Random(seed)
        state, first, second = random.choice(STATES[1:]), random.choice(FIRSTS), random.choice(list(OPERATIONS))
        if (state, first) not in counts:
            with beginnings.session(state) as session:
                counts[state, first] = len(steps(OPERATIONS[first], session))
        at, dies = random.randrange(counts[state, first]), random.random() < 0.5
        wrong += [f"seed {seed}: {problem}" for problem in _tried(beginnings, state, first, at, second, dies=dies)]
    assert not wrong, "\n".join(wrong)
