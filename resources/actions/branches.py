"""Actions on the branches of a table."""

from typing import Annotated

from .action import Given, Reach, action
from .kinds import BRANCH, FLAG, NAME, NUMBER, TABLE, TAG
from .outcome import Outcome
from .sentences import merged, replaced

TheTable = Annotated[str, Given(TABLE)]
TheBranch = Annotated[str, Given(BRANCH, alias_option="--name")]
NewBranch = Annotated[str, Given(NAME, alias_option="--name")]
DiscardMain = Annotated[bool, Given(FLAG, "Give up what main has done since the branch began.", "--discard-main")]


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
    if ignore_if_exists and branch in branches.names():
        return Outcome(f"Branch {branch} of {table} was there already.")
    branches.create(branch, tag=tag, snapshot_id=snapshot_id, empty=empty)
    return Outcome(f"Branch {branch} of {table} is there: read and write it as {table}$branch_{branch}.")


@action("", "delete-branch")
def delete_branch(reach: Reach, table: TheTable, branch: TheBranch) -> Outcome:
    """Delete a branch and the files that only it needs."""
    reach.table(table).branches.delete(branch)
    return Outcome(f"Branch {branch} of {table} is deleted.")


@action("branch merge", "merge-branch")
def merge_branch(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardMain = False) -> Outcome:
    """Take a branch over into main; the branch lives on. What main did elsewhere stays.

    Refused, naming what would be lost, if main has changed the same buckets since.
    """
    return Outcome(merged(table, branch, reach.table(table).branches.merge(branch, discard_main=discard_main)))


@action("branch fast-forward", "fast-forward")
def fast_forward(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardMain = False) -> Outcome:
    """Make main what a branch is. Refused, naming what would be lost, if main has moved at all since."""
    return Outcome(merged(table, branch, reach.table(table).branches.fast_forward(branch, discard_main=discard_main)))


@action("branch replace-main", "replace-main-branch")
def replace_main_branch(reach: Reach, table: TheTable, branch: TheBranch, discard_main: DiscardMain = False) -> Outcome:
    """Make a branch the main of the table. Jobs that write to the branch go on; what main was is dropped.

    What main did elsewhere is put on top of the branch. Refused, naming what would be lost, if main has changed the same
    buckets since.
    """
    verdict = reach.table(table).branches.replace_main(branch, discard_main=discard_main)
    return Outcome(replaced(table, branch, verdict, reach.table(table).snapshot()))


@action("")
def branch_verdict(reach: Reach, table: TheTable, branch: TheBranch) -> Outcome:
    """Say whether main can take a branch over: clean, disjoint or diverged."""
    verdict = reach.table(table).branches.verdict(branch)
    return Outcome("", ["verdict", "meaning"], [(verdict.kind, verdict.describe())])
