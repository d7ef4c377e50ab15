"""Whether a table belongs to a publication that is open, and the refusal of what must not be done beside one.

A publication commits to a main, and may have to take that back: both go by what main was when it was judged. So whoever
rolls a main back, makes it another branch, or gives the table another name comes before a publication or after it. He says
first that he is there (a hold, a closing, a lock) and then looks at the journal; who publishes makes his entry first and
then looks for those. Follows `docs/protocols.md`, "Publications".
"""

import re
from collections.abc import Sequence
from contextlib import suppress

from ..errors import CorruptData
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, PUBLICATION_PREFIX
from ..journal import (
    DISCARD_DAMAGED,
    PUBLICATION_USER,
    RECOVERY_USER,
    UNDO_USER,
    DamagedEntry,
    Journal,
    Publication,
    refusal,
)
from ..metadata.committed import Committed
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import all_branches, on_branch
from ..write.attempt import Guard
from ..write.close import CLOSED_BY_PROPERTY, FENCE_PROPERTY, closed_by, fence
from ..write.taken_over import ids_of
from .hold import is_holding
from .move_table import refuse_renaming

# How the texts end by which snapshots and tags name a publication.
_NUMBER = re.compile(r"(?:\A|publication[ -])([0-9]{1,18})\Z")


def refuse_open(
    journal: Journal,
    stores: Sequence[TableStore],
    *,
    before: int | None = None,
    branch: str | None = None,
) -> None:
    """Raise CommitConflict if a publication of one of the tables is open, CorruptData if one may be whose journal is damaged.

    `before`: only those with a lower number count; `branch`: only those of the branch.
    """
    entries = journal.entries()
    names = {store.identifier.full_name for store in stores}
    for publication in entries.open:
        both = sorted(names & set(publication.before))
        counts = (before is None or int(publication.name) < before) and branch in (None, publication.branch)
        if both and counts:
            raise refusal(publication, journal.outcome(publication), both)
    for store in stores if entries.damaged else ():
        refuse_damaged(store, [entry for entry in entries.damaged if int(entry.name) != before])


def journal_of(store: TableStore) -> Journal:
    """The journal of the warehouse that a table lies in."""
    return Journal.of_table(store.file_io, store.paths.root)


def beside(store: TableStore, guard: Guard | None = None, *, publication: int | None = None) -> Guard:
    """A guard that refuses what is done by hand to a main beside a publication, and then asks another. Where it is no main,
    it refuses nothing. `publication`: the number of the one that the commit is part of. Those with a higher number give way
    to it, as each does to lower ones: whoever has made such an entry and died is in nobody's way.
    """
    journal = journal_of(store)

    def refuse(latest: Snapshot | None) -> None:
        if store.identifier.branch == MAIN_BRANCH:
            refuse_open(journal, [store], before=publication)
        if guard is not None:
            guard(latest)

    return refuse


def stop_others(store: TableStore, publication: Publication) -> None:
    """Make whoever works on a main by hand, or moves the table, look at the journal again: called once there is an entry.

    Raises NotFound if the table has been moved, CommitConflict if it is about to be, file by file.
    """
    store.file_io.wait_for_moves(store.read_witness())
    if not store.file_io.moves_at_once:
        refuse_renaming(store)
    if is_holding(store):
        fence(store, f"publication {int(publication.name)}")


def refuse_damaged(store: TableStore, damaged: Sequence[DamagedEntry]) -> None:
    """Raise CorruptData, naming the file and what ends that, if a table bears marks of a publication whose journal is damaged."""
    for entry in damaged:
        if bears_marks(store, entry):
            raise CorruptData(
                f"{entry.why} It is of publication {int(entry.name)}, which has to do with {store.identifier.full_name}: end "
                f"that by `{DISCARD_DAMAGED}`."
            )


def bears_marks(store: TableStore, entry: DamagedEntry) -> bool:
    """Whether a publication has come to a table, by the tag that it puts on a branch before its commit, by the commit, or by
    main that it has closed.
    """
    branches = _branches(store)
    is_tagged = any(store.file_io.exists(branch.paths.tag(entry.tag)) for branch in branches)
    main, number = branches[0], int(entry.name)
    return is_tagged or closed_by(main.snapshots.latest()) == number or commit_of_number(main, number) is not None


def is_tagged(file_io: FileIO, root: str, tag: str) -> bool:
    """Whether a branch of a table that may be damaged has a tag, by its files alone."""
    main = TablePaths(root)
    directories = file_io.list_directories(main.branch_directory)
    branches = [
        TablePaths(root, directory.removeprefix("branch-"))
        for directory in directories
        if directory.startswith("branch-")
    ]
    return any(file_io.exists(value.tag(tag)) for value in (main, *branches))


def commit_of_number(main: TableStore, number: int) -> Snapshot | None:
    """The commit of a publication on a main, of whatever branch; None if there is none."""
    users = (PUBLICATION_USER, RECOVERY_USER)
    history = main.snapshots.backwards()
    return next(
        (
            snapshot
            for snapshot in history
            if snapshot.commit_identifier == number and snapshot.commit_user.startswith(users)
        ),
        None,
    )


def highest_number(store: TableStore, branch: str) -> int:
    """The highest number of a publication whose marks a table's main bears, or the tags of any branch; 0: of none.

    That of a new publication is above it, wherever the journal is: a table that was copied without its warehouse's journal
    has commits that would be taken for those of the new one. Of commits that have expired those that published `branch`
    count, as those are looked for.
    """
    branches = _branches(store)
    main = branches[0]
    texts = [name for branch in branches for name in branch.tags.names() if name.startswith(PUBLICATION_PREFIX)]
    ids: list[Committed] = []
    for number in main.snapshots.listed_ids():
        # What is damaged is refused by whoever looks for a commit there.
        with suppress(CorruptData):
            snapshot = main.snapshots.find(number)
            if snapshot is not None:
                properties = snapshot.properties or {}
                texts += [properties.get(key, "") for key in (CLOSED_BY_PROPERTY, FENCE_PROPERTY)]
                ids += ids_of([snapshot])
    name = f"{branch}/{store.identifier.full_name.replace('.', '/')}"
    users = [f"{undo}{user}{name}" for undo in ("", UNDO_USER) for user in (PUBLICATION_USER, RECOVERY_USER)]
    ids += [committed for user in users if (committed := main.committed.find(user)) is not None]
    numbers = [int(match[1]) for text in texts if (match := _NUMBER.search(text))]
    for committed in ids:
        if committed.user.startswith((PUBLICATION_USER, RECOVERY_USER, UNDO_USER)):
            numbers += [committed.highest or 0, *(last for _, last, _ in committed.ranges)]
    return max((number for number in numbers if number < BATCH_COMMIT_IDENTIFIER), default=0)


def _branches(store: TableStore) -> list[TableStore]:
    """Main, then the others."""
    return all_branches(on_branch(store, MAIN_BRANCH))
