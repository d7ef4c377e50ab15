"""Give a table another name where no directory is moved at once: on object stores, file by file.

Every branch is closed first, so that nothing changes any more; the new place is claimed by a file that is created if absent;
everything is copied, data before what names it, and the first schema last: with it the table is there. Then the branches are
opened again in the new place, and the old table is dropped. Each step can be repeated by whoever does the same. Follows
`docs/protocols.md`, "Object stores".
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..document import read_document, sealed, text
from ..errors import AlreadyExists, CommitConflict, CorruptData, NotFound
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, Identifier
from ..metadata.discard import all_files, discard, is_named_again
from ..metadata.main_branch import find_main
from ..metadata.pointed_schema import point_at_main
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import branch_names, on_branch
from ..write.close import RENAMING, close, closed_for, decide, decision_file, open_again, refuse_closed

_TRIES = 20
_CLAIM = "MOVING"


@dataclass(frozen=True, slots=True)
class _Move:
    """A table on its way: main and its branches, each with the snapshot that closes it, and where it goes."""

    main: TableStore
    closed: Sequence[tuple[TableStore, Snapshot]]
    target: Identifier
    target_root: str
    # Main's first schema: no other table has the same.
    schema: bytes

    @property
    def closing(self) -> Snapshot:
        """What closes main: by it a move is known."""
        return self.closed[0][1]

    @property
    def paths(self) -> TablePaths:
        """Main in the new place."""
        return TablePaths(self.target_root, self.main.paths.branch)

    @property
    def claim(self) -> bytes:
        content = {"source": self.main.paths.root, "closing": self.closing.identity}
        return json.dumps(sealed(content, _CLAIM)).encode()

    def has_claim(self) -> bool:
        return self.main.file_io.read_bytes_or_none(_claim_path(self.target_root)) == self.claim

    def moved(self, branch: str = MAIN_BRANCH) -> TableStore:
        """A branch of the table in the new place. Raises NotFound as long as it is not there."""
        identifier = Identifier(self.target.database, self.target.table, branch)
        return TableStore(self.main.file_io, self.target_root, identifier, clock=self.main.clock)

    def has_arrived(self) -> bool:
        """Whether the table in the new place is this one."""
        return self.main.file_io.read_bytes_or_none(self.paths.schema(0)) == self.schema


def move_table(store: TableStore, target: Identifier, target_root: str, refuse: Callable[[], None]) -> None:
    """Copy a table to another place and drop the old one. `refuse` raises CommitConflict for what must not be renamed; asked
    once all branches are closed.

    Raises AlreadyExists if the name is taken, NotFound if the table goes meanwhile, CommitConflict if writers come first each
    time; the table is open again then. Whatever else fails leaves it closed, until the call is repeated.
    """
    main = on_branch(store, MAIN_BRANCH)
    closed = _close_all(main, f"{RENAMING} {target.full_name}")
    move = _Move(main, closed, target, target_root, main.file_io.read_bytes(main.paths.schema(0)))
    if not move.has_arrived():
        try:
            refuse()
            _claim(move)
            _copy(move)
            if not decide(main, move.closing, "done"):
                raise CommitConflict(
                    f"{main.identifier.full_name} has been opened again by somebody else. Nothing is done."
                )
            _arrive(move)
        except (AlreadyExists, CommitConflict, NotFound):
            if not move.has_arrived():
                _stay(move)
                raise
    for branch, closing in move.closed:
        moved = move.moved(branch.identifier.branch)
        latest = moved.snapshots.latest()
        if latest is not None and latest.identity == closing.identity:
            open_again(moved, closing)
    arrived = move.moved(MAIN_BRANCH)
    point_at_main(arrived.file_io, arrived.paths, arrived.read_witness)
    was_dropped = _drop_old(move)
    main.file_io.delete_if(_claim_path(target_root), move.claim)
    if not was_dropped:
        raise NotFound(f"{main.identifier.full_name} has been renamed by somebody else.")


def refuse_renaming(store: TableStore) -> None:
    """Raise CommitConflict if a table is about to get another name, file by file."""
    latest = on_branch(store, MAIN_BRANCH).snapshots.latest()
    if (closed_for(latest) or "").startswith(RENAMING):
        refuse_closed(store, latest)


def refuse_claimed(file_io: FileIO, root: str) -> None:
    """Raise CommitConflict if a table is about to be moved to a place, and whoever does it may go on."""
    path = _claim_path(root)
    content = file_io.read_text_or_none(path)
    if content is None:
        return
    try:
        claim = read_document(content, path)
        source = text(claim.get("source"), path, "source")
    except CorruptData as error:
        raise CorruptData(f"{error} If nobody is renaming a table to this name, delete the file.") from None
    database, table = source.rsplit("/", 2)[1:]
    identifier = Identifier(database.removesuffix(".db"), table)
    try:
        latest = TableStore(file_io, source, identifier).snapshots.latest()
    except NotFound:
        return
    if latest is not None and latest.identity == claim.get("closing"):
        raise CommitConflict(
            f"{identifier} is being renamed to the name of {root}. Wait for it; if whoever did it has died, rename it again."
        )


def _claim_path(root: str) -> str:
    return f"{TablePaths(root).schema_directory}/{_CLAIM}"


def _close_all(main: TableStore, reason: str) -> list[tuple[TableStore, Snapshot]]:
    """Close main, then every branch; opens them again if one cannot be closed, unless somebody else goes on."""
    closed: dict[str, tuple[TableStore, Snapshot]] = {}
    try:
        while missing := [name for name in (MAIN_BRANCH, *branch_names(main)) if name not in closed]:
            for name in missing:
                with _unless_deleted(main, name):
                    closed[name] = _close(main, name, reason)
    except (CommitConflict, NotFound):
        if closed and main.is_same_table() and decide(main, closed[MAIN_BRANCH][1], "opened"):
            _open_all(list(closed.values()))
        raise
    return list(closed.values())


@contextmanager
def _unless_deleted(main: TableStore, name: str) -> Iterator[None]:
    """A branch that goes meanwhile needs nothing."""
    try:
        yield
    except NotFound:
        if name == MAIN_BRANCH or not main.is_same_table():
            raise


def _close(main: TableStore, name: str, reason: str) -> tuple[TableStore, Snapshot]:
    for _ in range(_TRIES):
        branch = main if name == MAIN_BRANCH else on_branch(main, name)
        latest = branch.snapshots.latest()
        branch.refuse_other_table()
        if latest is not None and closed_for(latest) == reason:
            return branch, latest
        refuse_closed(branch, latest)
        closing = close(branch, latest, reason)
        if closing is not None:
            return branch, closing
    raise CommitConflict(
        f"Writers of {main.identifier.full_name} come first each time. Stop them, then rename the table."
    )


def _open_all(closed: Sequence[tuple[TableStore, Snapshot]]) -> None:
    """Open what was closed, main last: as long as it is closed nobody makes a branch."""
    for branch, closing in reversed(closed):
        latest = branch.snapshots.latest()
        if latest is not None and latest.identity == closing.identity:
            open_again(branch, closing)


def _claim(move: _Move) -> None:
    """Make the new place one's own. Who creates a table there looks for the claim afterwards, and who claims for a table."""
    file_io, path = move.main.file_io, _claim_path(move.target_root)
    held = file_io.read_bytes_or_none(path)
    if held != move.claim:
        refuse_claimed(file_io, move.target_root)
        _refuse_taken(move)
        # What a rename or a drop that died has left.
        discard(file_io, move.target_root, lambda: _is_taken(move))
        if not file_io.create_exclusively(path, move.claim) and not move.has_claim():
            raise AlreadyExists(f"Table {move.target.full_name} is being made by somebody else.")
    _refuse_taken(move)


def _is_taken(move: _Move) -> bool:
    paths = TablePaths(move.target_root)
    return move.main.file_io.exists(paths.schema(0)) or (
        move.paths == paths and find_main(move.main.file_io, move.target_root) != paths
    )


def _refuse_taken(move: _Move) -> None:
    if _is_taken(move):
        raise AlreadyExists(f"Table {move.target.full_name} exists. Drop it first, or choose another name.")


def _copy(move: _Move) -> None:
    """Copy all files but main's first schema: those that others name before those that name them."""
    file_io, root = move.main.file_io, move.main.paths.root
    plain = [path for path in all_files(file_io, root) if not is_named_again(path, root)]
    file_io.copy_files({path: _moved(move, path) for path in plain})
    copied: dict[str, bytes] | None = None
    # What is needed by a tag that has come meanwhile has been there before. Expiries, and who changes what is beside the
    # history, come to an end: they look whether the table is closed.
    while (there := _named(move)) != copied:
        for path, content in sorted(there.items()):
            if copied is None or copied.get(path) != content:
                _put(move, _moved(move, path), content)
        _take_away_others(move, {_moved(move, path) for path in there})
        copied = there


def _named(move: _Move) -> dict[str, bytes]:
    """The files that others may change, with what they hold, but for those of the move itself."""
    file_io, root = move.main.file_io, move.main.paths.root
    own = [move.main.paths.schema(0), decision_file(move.main, move.closing), _claim_path(root)]
    if move.main.paths.branch != MAIN_BRANCH:
        # What points at the branch that main is follows once the table is there.
        directory = TablePaths(root).schema_directory
        own += [f"{directory}/{file.name}" for file in file_io.list_files(directory)]
    named = [path for path in all_files(file_io, root) if is_named_again(path, root) and path not in own]
    contents = ((path, file_io.read_bytes_or_none(path)) for path in named)
    return {path: content for path, content in contents if content is not None}


def _take_away_others(move: _Move, copied: Collection[str]) -> None:
    """Delete what was copied and has gone since. The highest number first, since numbers expire from below."""
    file_io, root = move.main.file_io, move.target_root
    kept = {*copied, _claim_path(root)}
    others = [path for path in all_files(file_io, root) if is_named_again(path, root) and path not in kept]
    for path in sorted(others, key=_number, reverse=True):
        content = file_io.read_bytes_or_none(path)
        if content is not None and move.has_claim() and not _is_taken(move):
            file_io.delete_if(path, content)


def _number(path: str) -> int:
    """The number at the end of a file's name; 0 if there is none."""
    last = path.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def _put(move: _Move, path: str, content: bytes) -> None:
    """Create a small file in the new place, or replace what was there when it was seen that this move may go on."""
    file_io = move.main.file_io
    held = file_io.read_bytes_or_none(path)
    if not move.has_claim():
        raise CommitConflict(
            f"{move.main.identifier.full_name} is moved by somebody else, or was. Open the table again."
        )
    if held != content and not file_io.replace_if(path, held, content) and file_io.read_bytes_or_none(path) != content:
        raise CommitConflict(f"{path} is written by somebody else. Rename the table again.")


def _moved(move: _Move, path: str) -> str:
    return move.target_root + path.removeprefix(move.main.paths.root)


def _arrive(move: _Move) -> None:
    """Create main's first schema in the new place. Raises AlreadyExists if another table has come there."""
    content = move.main.file_io.read_bytes(move.main.paths.schema(0))
    if not move.has_claim() or not move.main.file_io.create_exclusively(move.paths.schema(0), content):
        raise AlreadyExists(f"Table {move.target.full_name} exists. Drop it first, or choose another name.")


def _stay(move: _Move) -> None:
    """Open the table again where it was, and take away what was copied."""
    file_io = move.main.file_io
    if move.main.is_same_table() and decide(move.main, move.closing, "opened"):
        _open_all(move.closed)
    if not move.has_claim():
        return
    # What was copied, and nothing of a table that may have come to that place.
    for path, content in _named(move).items():
        file_io.delete_if(_moved(move, path), content)
    root = move.main.paths.root
    file_io.delete_quietly([_moved(move, path) for path in all_files(file_io, root) if not is_named_again(path, root)])
    file_io.delete_if(_claim_path(move.target_root), move.claim)


def _drop_old(move: _Move) -> bool:
    """Drop the table where it was, its schemas first: nothing more once another one has come there. False if somebody else
    has done it.
    """
    main = move.main
    first = main.paths.schema(0)
    content = main.file_io.read_bytes_or_none(first)
    latest = main.snapshots.latest()
    if content != move.schema or latest is None or latest.identity != move.closing.identity or not move.has_arrived():
        return False
    paths = TablePaths(main.paths.root)
    # Renamed back, the table has the same files again: as long as the claim is there, nobody has done that.
    return discard(
        main.file_io,
        paths.root,
        lambda: main.file_io.read_bytes_or_none(first) not in (None, content) or not move.has_claim(),
        first=(paths.schema_directory, paths.main_branch_file),
        ask_always=True,
    )
