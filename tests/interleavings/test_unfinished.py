"""Whoever dies in the middle of something after which writers are refused has left a line in `check`, with the way to end it."""

import pytest

from storage import Catalog, NotFound, StorageError, Unfinished
from tests.interleavings.memory_files import Files, Killed, Process, Step
from tests.interleavings.operations import ALL, BILLS, DAY, KEYED, OPERATIONS, ORDERS, STOCK, Operation, rows
from tests.interleavings.schedules import Place, open_catalog, perform, start

# What closes a table, or changes how its rows are hashed, at some of its steps; on object stores a renaming too.
CLOSING = ("rescale", "replace main", "delete branch", "delete branch set", "publish as main", "rename table")
OTHERS = ("publish", "fast forward", "merge", "rollback", "drop table")
AS_MAIN = Operation(
    "publish as main",
    lambda catalog: catalog.branch_set("fix", ALL).replace_main(),
    repeat=lambda catalog: catalog.recover(),
)


def killed_at(place: Place, operation: Operation) -> list[tuple[Step, Files]]:
    """The files after each change of an operation whose process dies then."""
    whole = Process("whole", start(place).copy(), place.is_local)
    perform(operation, whole)
    states = []
    for point, step in enumerate(whole.steps):
        if not step.writes:
            continue
        files = start(place).copy()

        def die(process: Process, _: Step, at: int = point) -> None:
            if len(process.steps) > at:
                raise Killed

        process = Process("first", files, place.is_local, before=die)
        try:
            perform(operation, process)
        except Killed:
            states.append((step, files))
    return states


def refusals(catalog: Catalog) -> dict[str, str]:
    """Which tables and branches refuse a row, and why."""
    reasons: dict[str, str] = {}
    for table in (ORDERS, STOCK, BILLS):
        if not catalog.exists(table):
            continue
        for name in (table, *(f"{table}$branch_{branch}" for branch in catalog.table(table).branches.names())):
            try:
                catalog.table(name).write(rows(99, day=DAY).select(catalog.table(name).schema.column_names))
            except NotFound:
                # It has gone.
                continue
            except StorageError as error:
                reasons[name] = f"{type(error).__name__}: {error}"
    return reasons


def unfinished(catalog: Catalog) -> dict[str, str]:
    """What `check` says, by the name of the table or branch."""
    lines: dict[str, str] = {}
    for table in (ORDERS, STOCK, BILLS):
        for problem in catalog.table(table).check() if catalog.exists(table) else ():
            if isinstance(problem, Unfinished):
                lines[problem.where] = problem.what
    return lines


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_local", [True, False], ids=["local", "object store"])
@pytest.mark.parametrize("name", [*CLOSING, *OTHERS])
def test_check_names_what_refuses_writers_and_what_ends_it(name: str, is_local: bool) -> None:
    operation = AS_MAIN if name == AS_MAIN.name else OPERATIONS[name]
    refused = 0
    for step, files in killed_at(Place(KEYED, is_local), operation):
        lines = unfinished(open_catalog(Process("checker", files.copy(), is_local)))
        refusing = refusals(open_catalog(Process("writer", files.copy(), is_local)))
        assert refusing.keys() <= lines.keys(), (str(step), refusing, lines)
        refused += len(refusing)
        perform(operation.again(), Process("again", files, is_local))
        catalog = open_catalog(Process("after", files, is_local))
        assert unfinished(catalog) == {}, str(step)
        assert refusals(catalog) == {}, str(step)
    assert (refused > 0) == (name in CLOSING and not (is_local and name == "rename table"))


def test_the_commands_that_are_named_are_those_that_there_are() -> None:
    from resources.cli import cli

    assert {"replace-main-branch", "delete-branch", "rescale", "sql"} <= cli.commands.keys()
