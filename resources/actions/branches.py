"""Actions on the branches of a table."""

from typing import Annotated

from storage import Verdict

from .action import Given, Reach, action
from .kinds import BRANCH, FLAG, NAME, NUMBER, TABLE, TAG
from .outcome import Outcome
from .sentences import merged, named_in, replaced

TheTable = Annotated[str, Given(TABLE)]
TheBranch = Annotated[str, Given(BRANCH, alias_option="--name")]
NewBranch = Annotated[str, Given(NAME, alias_option="--name")]
DiscardMain = Annotated[
    bool,
    Given(
        FLAG,
        "Give up what main has done since the branch began where both did something, or both were altered; what main did in "
        "other partitions and buckets stays.",
        "--discard-main",
    ),
]
DiscardAll = Annotated[bool, Given(FLAG, "Give up all that main has done since the branch began.", "--discard-main")]


@action("", "create-branch")
def create_branch(
    reach: Reach,
    table: TheTable,
    branch: NewBranch,
    tag: Annotated[str | None, Given(TAG, "Begin at this tag.", "--tag")] = None,
    ignore_if_exists: Annotated[
        bool, Given(FLAG, "Do nothing if there is such a branch.", "--ignore-if-exists", also=("ignoreifexists",))
    ] = False,
    snapshot_id: Annotated[
        int | None, Given(NUMBER, "Begin at this snapshot. Default: the latest.", "--snapshot", also=("snapshot",))
    ] = None,
    empty: Annotated[bool, Given(FLAG, "Take the schema alone.", "--empty")] = False,
) -> Outcome:
    """Fork a table. No data is copied; what is written to the branch is seen on the branch alone."""
    branches = reach.table(table).branches
    facts = {"table": table, "branch": branch}
    if ignore_if_exists and branch in branches.names():
        return Outcome(f"Branch {branch} of {table} existed already.", facts=facts | {"created": False})
    branches.create(branch, tag=tag, snapshot_id=snapshot_id, empty=empty)
    message = f"Created branch {branch} of {table}: read and write it as {table}$branch_{branch}."
    return Outcome(message, facts=facts | {"created": True})


@action("", "delete-branch")
def delete_branch(
    reach: Reach,
    table: TheTable,
    branch: Annotated[str, Given(BRANCH, "Several are separated by commas.", alias_option="--name")],
) -> Outcome:
    """Delete a branch and the files that only it needs."""
    branches = reach.table(table).branches
    there = branches.names()
    names = named_in(branch, there)
    # First those that may not be there: NotFound is raised before any other is gone.
    for name in sorted(names, key=lambda name: name in there):
        branches.delete(name)
    deleted = f"Deleted branch{'' if len(names) == 1 else 'es'} {', '.join(names)} of {table}."
    return Outcome(deleted, facts={"table": table, "branch": branch, "branches": names})


@action("branch merge", "merge-branch")
def merge_branch(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardMain = False) -> Outcome:
    """Take a branch over into main; the branch lives on. What main did elsewhere stays.

    Refused, naming what would be lost, if main has changed the same buckets since.
    """
    return _merged(table, branch, reach.table(table).branches.merge(branch, discard_main=discard_main))


@action("branch fast-forward", "fast-forward")
def fast_forward(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardAll = False) -> Outcome:
    """Make main what a branch is. Refused, naming what would be lost, if main has moved at all since."""
    return _merged(table, branch, reach.table(table).branches.fast_forward(branch, discard_main=discard_main))


@action("branch replace-main", "replace-main-branch")
def replace_main_branch(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardMain = False) -> Outcome:
    """Make a branch the main of the table. Jobs that write to the branch go on; what main was is dropped.

    What main did elsewhere is put on top of the branch. Refused, naming what would be lost, if main has changed the same
    buckets since.
    """
    verdict = reach.table(table).branches.replace_main(branch, discard_main=discard_main)
    snapshot = reach.table(table).snapshot()
    facts = {"table": table, "branch": branch, "verdict": verdict.kind, "snapshot": snapshot and snapshot.id}
    return Outcome(replaced(table, branch, verdict, snapshot), facts=facts)


@action("")
def branch_verdict(reach: Reach, table: TheTable, branch: TheBranch) -> Outcome:
    """Say whether main can take a branch over: clean, disjoint or diverged."""
    verdict = reach.table(table).branches.verdict(branch)
    return Outcome("", ["verdict", "meaning"], [(verdict.kind, verdict.describe())])


def _merged(table: str, branch: str, verdict: Verdict) -> Outcome:
    snapshot = None if verdict.made is None else verdict.made.id
    facts = {"table": table, "branch": branch, "verdict": verdict.kind, "snapshot": snapshot}
    return Outcome(merged(table, branch, verdict), facts=facts)
