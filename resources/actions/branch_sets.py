"""Actions on the branches of several tables at once, and on their publications."""

from collections.abc import Mapping
from typing import Annotated

import pyarrow as pa

from storage import BranchSet, InvalidRequest, NotFound, name_and_version, whole_number

from .action import Given, Reach, action
from .branches import DiscardMain
from .kinds import BRANCH, FLAG, TABLES
from .outcome import Outcome
from .sentences import published

Tables = Annotated[list[str], Given(TABLES)]
TheBranch = Annotated[str, Given(BRANCH, "The name of the branch, the same on all tables.", "--name")]


def _branch_set(reach: Reach, branch: str, tables: list[str]) -> BranchSet:
    return reach.session.catalog_of(reach.catalog).branch_set(branch, [reach.full_name(each) for each in tables])


@action("branch create")
def create_branches(
    reach: Reach,
    tables: Annotated[list[str], Given(TABLES, "Each at its latest state, or at the snapshot or tag behind an @.")],
    branch: TheBranch,
) -> Outcome:
    """Fork tables, each at its latest state or at the snapshot or tag behind the @; all or none."""
    parts = [name_and_version(each) for each in tables]
    versions = {
        reach.full_name(table): number if (number := whole_number(version)) is not None else version
        for table, version in parts
        if version
    }
    names = [table for table, _ in parts]
    _branch_set(reach, branch, names).create(versions)
    return Outcome(f"Created branch {branch} of {', '.join(names)}.", facts={"branch": branch, "tables": names})


@action("branch verdict")
def branch_verdicts(reach: Reach, tables: Tables, branch: TheBranch) -> Outcome:
    """Say for each table whether main can take the branch over: clean, disjoint or diverged."""
    verdicts = _branch_set(reach, branch, tables).verdicts()
    return Outcome("", ["table", "verdict"], [(table, verdict.describe()) for table, verdict in verdicts.items()])


@action("branch publish")
def publish_branches(
    reach: Reach,
    tables: Tables,
    branch: TheBranch,
    discard_main: DiscardMain = False,
    replace_main: Annotated[
        bool, Given(FLAG, "Make the branch main itself, instead of merging it into main.", "--replace-main")
    ] = False,
) -> Outcome:
    """Make every main take its branch over, all or none. A crash in between is finished by `branch recover`."""
    branches = _branch_set(reach, branch, tables)
    publish = branches.replace_main if replace_main else branches.publish
    columns, rows = published(publish(discard_main=discard_main))
    return Outcome("", columns, rows, {"by snapshot": pa.int64()})


@action("branch delete")
def delete_branches(reach: Reach, tables: Tables, branch: TheBranch) -> Outcome:
    """Delete the branch of every table that has it."""
    branches = _branch_set(reach, branch, tables)
    having = [each for each in tables if branch in reach.table(each).branches.names()]
    if not having:
        raise NotFound(
            f"None of {', '.join(tables)} has a branch {branch!r}. `snapline branches` lists those of a table."
        )
    branches.delete()
    return Outcome(f"Deleted branch {branch} of {', '.join(having)}.", facts={"branch": branch, "tables": having})


@action("branch recover")
def recover_branches(
    reach: Reach,
    undo: Annotated[bool, Given(FLAG, "Roll the tables back instead of going on.", "--undo")] = False,
    discard_main: Annotated[bool, Given(FLAG, "Give up what a main has done meanwhile.", "--discard-main")] = False,
    only_list: Annotated[
        bool, Given(FLAG, "List the publications that are open, do nothing.", "--list", also=("list",))
    ] = False,
    dry_run: Annotated[bool, Given(FLAG, "Say what would become of each table, do nothing.", "--dry-run")] = False,
    discard_damaged: Annotated[
        bool,
        Given(FLAG, "End those whose journal cannot be read, and keep the damaged files aside.", "--discard-damaged"),
    ] = False,
) -> Outcome:
    """Finish, or undo, publications that a crash or a conflict left open.

    With --discard-damaged: those whose files in the journal are damaged, and no others. What they have done is undone on
    every table, unless they were published already or replaced mains.
    """
    if discard_damaged:
        _refuse_beside("discard-damaged", {"undo": undo, "list": only_list, "dry-run": dry_run})
        return _discard_damaged(reach, discard_main)
    if only_list:
        _refuse_beside("list", {"undo": undo, "discard-main": discard_main, "dry-run": dry_run})
        return _open_publications(reach)
    if dry_run:
        return _foreseen(reach, undo, discard_main)
    return _recover(reach, undo, discard_main)


def _refuse_beside(chosen: str, others: Mapping[str, bool]) -> None:
    given = [name for name, value in others.items() if value]
    if given:
        raise InvalidRequest(f"{', '.join(given)} cannot be combined with {chosen}: leave one of them out.")


def _discard_damaged(reach: Reach, discard_main: bool) -> Outcome:
    ended = [str(each) for each in reach.session.catalog_of(reach.catalog).discard_damaged(discard_main=discard_main)]
    return Outcome(
        "" if ended else "No journal of a publication is damaged.",
        ["publication"],
        [(each,) for each in ended],
        lines=ended,
    )


def _open_publications(reach: Reach) -> Outcome:
    catalog = reach.session.catalog_of(reach.catalog)
    rows: list[tuple[str, ...]] = [
        (
            str(each.number),
            each.branch,
            each.kind,
            ", ".join(each.tables),
            ", ".join(each.done),
            each.outcome or "",
            each.advice(),
        )
        for each in catalog.publications()
    ]
    rows += [(str(number), "", "damaged", "", "", "", why) for number, why in catalog.damaged_publications().items()]
    return Outcome("", ["publication", "branch", "how", "tables", "done", "decided", "what to do"], rows)


def _foreseen(reach: Reach, undo: bool, discard_main: bool) -> Outcome:
    catalog = reach.session.catalog_of(reach.catalog)
    foreseen = catalog.foresee_recovery(undo=undo, discard_main=discard_main)
    rows = [(str(number), name, fate) for number, tables in foreseen.items() for name, fate in tables.items()]
    rows += [(str(number), "", f"damaged: {why}") for number, why in catalog.damaged_publications().items()]
    return Outcome("", ["publication", "table", "what would become of it"], rows)


def _recover(reach: Reach, undo: bool, discard_main: bool) -> Outcome:
    catalog = reach.session.catalog_of(reach.catalog)
    # What somebody has begun to undo is undone, whatever is asked for.
    undone = {each.number for each in catalog.publications() if undo or each.outcome == "undone"}
    ended = catalog.recover(undo=undo, discard_main=discard_main)
    lines = []
    for each in ended:
        if int(each.name) in undone:
            lines.append(f"Branch {each.branch} is taken back from {', '.join(each.before)}.")
            continue
        made = catalog.made_by(each).items()
        by = [name if snapshot is None else f"{name} (snapshot {snapshot.id})" for name, snapshot in made]
        lines.append(f"Branch {each.branch} is published on {', '.join(by)}.")
    rows = [(each.branch, ", ".join(each.before)) for each in ended]
    return Outcome("" if ended else "No publication is open.", ["branch", "tables"], rows, lines=lines)
