"""The branches of a table, for users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from .arguments import checked
from .errors import CorruptData, DirectoryInPlace, InvalidRequest, NotFound
from .identifier import MAIN_BRANCH, check_branch_name
from .maintain.adopt import adopt
from .maintain.beside_publication import beside, journal_of, refuse_open
from .maintain.create_branch import create_branch, drafted_branch
from .maintain.delete_branch import delete_branches, origins_of
from .maintain.drop_damaged import delete_damaged_branch
from .maintain.follow import tell_after
from .maintain.lost_schema import has_lost_schema
from .maintain.merge_branch import copy_tags, fast_forward, merge_branch, restore_earlier
from .maintain.prepare_replacement import close_main, settle
from .maintain.replace_main import replace_closed, replace_main
from .maintain.rescale import rescale_left
from .maintain.verdict import Verdict, judge
from .metadata.branch_origin import read_origin
from .metadata.earlier_files import seen_up_to
from .metadata.history import at_latest, despite_expiry, told_of_expiry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .metadata.trouble import RESCALING, afterwards
from .read.version import Version, branch_names, named_version, on_branch
from .same_table import of_same_table
from .store_errors import outcome
from .write.attempt import Guard
from .write.commit_id import CommitId
from .write.listeners import CommitListener
from .write.own_properties import refuse_own_properties

_REPEAT = "What was done before stays done. Mend the store, then repeat the call, which goes on from there."


@checked
class Branches:
    """The branches of a table: forks that share its data files. `version`: where a new one begins by default, instead of the
    latest state.
    """

    def __init__(self, store: TableStore, listeners: Sequence[CommitListener], version: Version = None) -> None:
        self._store = store
        self._listeners = listeners
        self._version = version

    @outcome(_REPEAT)
    @of_same_table
    def names(self) -> list[str]:
        """All branches but main."""
        return branch_names(self._store)

    @outcome(_REPEAT)
    @of_same_table
    def begun_at(self, name: str) -> tuple[str, int] | None:
        """The branch and the number of the snapshot that a branch began with; None for one that began empty, that another writer
        made, or that is not there. Raises InvalidRequest for what is no name of a branch, CorruptData if that cannot be read.
        """
        check_branch_name(name)
        origin = read_origin(self._store.file_io, replace(self._store.paths, branch=name))
        return None if origin is None or origin.snapshot_id is None else (origin.branch, origin.snapshot_id)

    @outcome(_REPEAT)
    def create(
        self,
        name: str,
        *,
        tag: str | None = None,
        snapshot_id: int | None = None,
        empty: bool = False,
        schema_id: int | None = None,
    ) -> TableStore:
        """Fork at a tag, at a snapshot, or (by default) at the latest state, or the version at which the table was opened;
        `empty` takes the schema alone. `schema_id`: a schema that the table has had since, instead of that of the snapshot, or
        of the latest one. Returns the branch as it was made.

        Raises AlreadyExists if there is one of that name, InvalidRequest for a schema that its snapshot is not of.
        """
        made = make_branch(self, name, tag=tag, snapshot_id=snapshot_id, empty=empty, schema_id=schema_id)
        with outcome(f"Branch {name!r} is there."):
            show_branch(self, made)
        return made

    @outcome(_REPEAT)
    def delete(self, name: str) -> None:
        """Delete a branch and the files that only it needs. Raises CommitConflict if it is becoming main, or is part of a
        publication that is open.
        """
        self._store.refuse_other_table()
        refuse = partial(refuse_open, journal_of(self._store), [self._store], branch=name)
        try:
            is_main = on_branch(self._store, name).identifier.branch == MAIN_BRANCH
        except DirectoryInPlace:
            raise
        except (CorruptData, NotFound) as error:
            if isinstance(error, NotFound) and not has_lost_schema(self._store.file_io, self._store.paths.root, name):
                raise
            delete_damaged_branch(self._store, name, refuse)
            return
        origins = origins_of([self._store], name)
        refuse()
        count = delete_branches(origins, name, refuse)
        if is_main:
            raise InvalidRequest("The main branch cannot be deleted. Drop the table instead.")
        if not count:
            # It may be main by now.
            self._store.refuse_other_table()
            raise NotFound(f"Branch {name!r} of {self._store.identifier.full_name} was deleted meanwhile.")

    @outcome(_REPEAT)
    @of_same_table
    def verdict(self, name: str, *, up_to: tuple[int, str] | None = None) -> Verdict:
        """Whether main can take a branch over without losing anything; `up_to`: what that had at a snapshot, by number and
        identity (0: none).
        """
        main, branch = self._sides(name)
        return despite_expiry((main, branch), lambda: judge(main, seen_up_to(branch, up_to)))

    @outcome(_REPEAT)
    def merge(
        self,
        name: str,
        *,
        discard_main: bool = False,
        commit_id: CommitId | None = None,
        guard: Guard | None = None,
        publication: int | None = None,
        up_to: tuple[int, str] | None = None,
    ) -> Verdict:
        """Take a branch over into main, by one commit; the branch stays. A repeated `commit_id` changes nothing. `up_to`: what
        the branch had at a snapshot, by number and identity, whatever came after it.

        What main did elsewhere since is kept. Raises CommitConflict that names what would be lost if main has diverged,
        unless `discard_main`; and if a publication of the table is open, unless this is part of it, by its number
        `publication`. `guard` is asked with main's newest snapshot before each try.
        """
        main, branch = self._sides(name)
        return merge_branch(
            main,
            branch,
            discard_main=discard_main,
            commit_id=commit_id,
            guard=self._beside(publication, guard),
            listeners=self._listeners,
            up_to=up_to,
        )

    @outcome(_REPEAT)
    def fast_forward(self, name: str, *, discard_main: bool = False) -> Verdict:
        """Make main what a branch is, by one commit; the branch stays.

        Raises CommitConflict that names what would be lost if main has moved, unless `discard_main`; and if a publication of
        the table is open.
        """
        main, branch = self._sides(name)
        guard = self._beside(None, None)
        return fast_forward(main, branch, discard_main=discard_main, guard=guard, listeners=self._listeners)

    @outcome(_REPEAT)
    def adopt(
        self,
        name: str,
        *,
        until: int,
        point: tuple[int, str] | None = None,
        given_up: int | None = None,
        commit_id: CommitId,
        properties: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        publication: int | None = None,
        up_to: tuple[int, str] | None = None,
    ) -> Snapshot | None:
        """Make main's rows those of a branch, by one commit on top; the branch stays, and so does main's history. `up_to`: what
        the branch had at a snapshot, by number and identity, whatever came after it.

        What main did up to the snapshot `until` is replaced, and counts as taken back after the snapshot `given_up`. Raises
        CommitConflict if it has changed rows since, or has not the snapshot `point`, by number and identity, and if a publication
        of the table is open, unless this is part of it. `guard` is asked with main's newest snapshot before each try.
        """
        refuse_own_properties(properties)
        main, branch = self._sides(name)
        return adopt(
            main,
            branch,
            until=until,
            point=point,
            given_up=given_up,
            up_to=up_to,
            commit_id=commit_id,
            properties=properties,
            guard=self._beside(publication, guard),
            listeners=self._listeners,
        )

    @outcome(_REPEAT)
    def replace_main(
        self,
        name: str,
        *,
        discard_main: bool = False,
        guard: Guard | None = None,
        publication: int | None = None,
    ) -> Verdict:
        """Make a branch the main of the table: jobs that write to it go on, what main was is dropped.

        What main did elsewhere since is put on top of the branch. Can be called again after a crash. Tables that were
        opened before have to be opened again. Raises CommitConflict that names what would be lost if main has diverged,
        unless `discard_main`; and if a publication of the table is open, unless this is part of it. `guard` is asked with
        main's newest snapshot before main is closed, and once it is.
        """
        self._refuse_version()
        self._store.refuse_other_table()
        _refuse_main(name)
        guard = self._beside(publication, guard)
        return replace_main(self._store, name, discard_main=discard_main, guard=guard, listeners=self._listeners)

    @outcome(_REPEAT)
    def close_main(self, name: str, *, publication: int, discard_main: bool, guard: Guard) -> None:
        """The first step of the replacement of main in a publication: main is closed, and waits for the other tables. Raises
        as `replace_main`: then it is not closed.
        """
        guard = self._beside(publication, guard)
        close_main(self._store, name, publication=publication, discard_main=discard_main, guard=guard)

    @outcome(_REPEAT)
    def settle_main(self, name: str, *, publication: int, discard_main: bool, guard: Guard, gives: bool) -> None:
        """The second step, once all mains are closed: judge again; and, if it `gives`, the branch gets what main has
        done elsewhere. Raises as `replace_main`: main stays closed.
        """
        settle(
            self._store,
            name,
            publication=publication,
            discard_main=discard_main,
            guard=self._beside(publication, guard),
            listeners=self._listeners,
            gives=gives,
        )

    @outcome(_REPEAT)
    def replace_closed_main(self, name: str, *, publication: int, guard: Guard) -> Verdict:
        """The last step, once it is decided for all tables: main that was closed for it is replaced."""
        guard = self._beside(publication, guard)
        return replace_closed(self._store, name, guard=guard, publication=publication, listeners=self._listeners)

    @outcome(_REPEAT)
    @of_same_table
    def has_other(self, name: str) -> bool:
        """Whether there is a branch of that name, and it is not the main one. Raises NotFound if there is none."""
        return on_branch(self._store, name).identifier.branch != MAIN_BRANCH

    @outcome(_REPEAT)
    def lengthen(self, name: str, earliest_id: int) -> None:
        """Give a branch main's earlier snapshots, back to one, and main's tags of them."""
        main, branch = self._sides(name)
        restore_earlier(main, branch, from_id=earliest_id)
        copy_tags(main, branch, common=judge(main, branch).common)

    def _beside(self, publication: int | None, guard: Guard | None) -> Guard:
        """The guard of a commit to main. Raises CommitConflict at once if a publication is open that it is no part of."""
        main = on_branch(self._store, MAIN_BRANCH)
        beside(main, publication=publication)(None)
        return beside(main, guard, publication=publication)

    def _refuse_version(self) -> None:
        if self._version is not None:
            raise InvalidRequest(
                f"{self._store.identifier} was opened as of {self._version!r}, where a branch can begin. What becomes of one "
                "is decided by what main is now: open the table itself."
            )

    def _sides(self, name: str) -> tuple[TableStore, TableStore]:
        self._refuse_version()
        self._store.refuse_other_table()
        _refuse_main(name)
        return on_branch(self._store, MAIN_BRANCH), on_branch(self._store, name)


def _refuse_main(name: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidRequest("Main is what takes a branch over: name another branch.")


@outcome(_REPEAT)
def make_branch(
    branches: Branches,
    name: str,
    *,
    tag: str | None = None,
    snapshot_id: int | None = None,
    empty: bool = False,
    schema_id: int | None = None,
) -> TableStore:
    """As `Branches.create`, without what lets readers see all rows of a branch, and writers write to it (`show_branch`)."""
    if tag is None and snapshot_id is None and branches._version is None and not empty:
        store = branches._store
        return at_latest(
            store,
            lambda: named_version(store, None)[0],
            lambda latest: create_branch(store, name, latest, schema_id=_last_schema(store, latest, schema_id)),
        )
    with draft_branch(branches, name, tag=tag, snapshot_id=snapshot_id, empty=empty, schema_id=schema_id) as give_name:
        return give_name()


@contextmanager
def draft_branch(
    branches: Branches,
    name: str,
    *,
    tag: str | None = None,
    snapshot_id: int | None = None,
    empty: bool = False,
    schema_id: int | None = None,
) -> Iterator[Callable[[], TableStore]]:
    """As `make_branch` of one of these, in the two steps of `drafted_branch`."""
    version = branches._version
    if sum((tag is not None, snapshot_id is not None, empty, version is not None)) > 1:
        raise InvalidRequest(
            "A branch begins at a tag, at a snapshot, empty, or at the version at which the table was opened: give one of "
            "these."
        )
    with outcome(_REPEAT):
        snapshot, named = None, None
        if tag is not None:
            with told_of_expiry(branches._store):
                named = branches._store.tags.get(tag)
            snapshot = named.snapshot
        elif not empty:
            snapshot, named = named_version(branches._store, snapshot_id if version is None else version)
        last = _last_schema(branches._store, snapshot, schema_id)
        if last is None and snapshot is not None:
            last = snapshot.schema_id
        with drafted_branch(branches._store, name, snapshot, named, schema_id=last) as give_name:
            yield give_name


def _last_schema(store: TableStore, snapshot: Snapshot | None, schema_id: int | None) -> int | None:
    """The schema that was asked for. Raises InvalidRequest for one that the table has not, or that is older than the snapshot."""
    if schema_id is None:
        return None
    least = 0 if snapshot is None else snapshot.schema_id
    if schema_id < least or schema_id not in store.schemas.ids():
        raise InvalidRequest(
            f"A branch of {store.identifier} that begins here has schema {least} or a later one, not {schema_id}. Schemas: "
            f"{', '.join(map(str, sorted(store.schemas.ids())))}."
        )
    return schema_id


def show_branch(branches: Branches, made: TableStore) -> None:
    """Compact what readers of a new branch would not see: where they skip files of level 0. And hash its rows anew if it has got
    the schema of a rescale that is not done.
    """
    if made.options.hides_level_0:
        tell_after(made, None, branches._listeners)
    afterwards(made, RESCALING, lambda: rescale_left(made, branches._store, branches._listeners), None)
