"""What the choices of a recovery are called where it is worked on: an error names what its reader can type."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lineage import NAME_LENGTH
from storage import InvalidRequest

# The op of each job.
OPS = {
    "recovery_list": "list_the_recoveries",
    "recovery_plan": "plan_the_recovery",
    "recovery_start": "start_the_recovery",
    "recovery_correct": "correct_the_source",
    "recovery_backfill": "compute_what_is_left",
    "recovery_compare": "compare_the_branch",
    "recovery_publish": "publish_the_branch",
    "recovery_drop": "drop_the_branch",
}


@dataclass(frozen=True)
class Words:
    """How to compute what is left (`{branch}` is filled in), and how each choice of a publication is said."""

    backfill: str
    replay: str
    discard_main: str
    allow_incomplete: str
    allow_failed_checks: str


COMMAND_LINE = Words(
    "`snapline recovery backfill {branch}`", "--replay", "--discard-main", "--allow-incomplete", "--allow-failed-checks"
)
JOBS = Words(
    "the job recovery_backfill",
    "replay: true",
    "discard_main: true",
    "allow_incomplete: true",
    "allow_failed_checks: true",
)
PYTHON = Words(
    "backfill(Recovery.open(session, {branch!r}), …)",
    "Recovery.replay()",
    "discard_main=True",
    "allow_incomplete=True",
    "allow_failed_checks=True",
)
BROWSER = Words(
    "`snapline recovery backfill {branch}`, or the job recovery_backfill",
    "`--replay` of `snapline recovery publish`",
    "give up what main has",
    "publish though something is left",
    "publish though checks fail",
)


def free_name(bad: str, taken: Sequence[str]) -> str:
    """A name for a recovery that no other has."""
    name = "fix-" + re.sub(r"[^A-Za-z0-9]+", "-", bad).strip("-")
    number = 1
    while (candidate := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return candidate


def refuse_name(branch: str) -> None:
    """Refuse what a new recovery cannot be called."""
    if branch.startswith("-"):
        raise InvalidRequest(
            f"{branch!r} cannot name a recovery: commands would take it for an option. Let it begin with a letter or a digit. "
            "Nothing has been done."
        )
    if len(branch) > NAME_LENGTH:
        raise InvalidRequest(
            f"{branch[:60]!r}… cannot name a recovery: it has {len(branch)} characters, and lineage keeps names of at most "
            f"{NAME_LENGTH}. Choose a shorter one. Nothing has been done."
        )
