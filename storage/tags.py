"""The tags of a branch, for users."""

import datetime as dt
import logging
from contextlib import suppress
from functools import partial

from .arguments import checked
from .document import is_damaged
from .errors import AlreadyExists, InvalidRequest, NotFound
from .iceberg.publish import publish_after
from .identifier import (
    BACK_PREFIX,
    BRANCH_PREFIX,
    HOLD_PREFIX,
    PUBLICATION_PREFIX,
    check_new_tag_name,
    refuse_reserved_tag,
)
from .journal import DISCARD_DAMAGED, Journal
from .maintain.tagging import create_due_tag, create_tag, delete_tag, expire_tags
from .metadata.history import at_latest, told_of_expiry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .metadata.tag import Tag, retained_seconds
from .metadata.trouble import TAG_CREATION
from .read.version import Version, named_version
from .same_table import of_same_table
from .store_errors import outcome
from .write.close import beside_history

_log = logging.getLogger(__name__)
_REPEAT = "What was done before stays done. Mend the store, then repeat the call."


@checked
class Tags:
    """The tags of one branch. `version`: what a new tag names by default, instead of the latest snapshot."""

    def __init__(self, store: TableStore, version: Version = None) -> None:
        self._store = store
        self._version = version

    @outcome(_REPEAT)
    def create(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        replace: bool = False,
        time_retained: dt.timedelta | None = None,
    ) -> Tag:
        """Name a snapshot: the latest (or that of the version at which the table was opened), unless an id is given. No data
        is copied.

        `time_retained`: how long the tag is kept; by default for `tag.default-time-retained`, or for good. Raises
        AlreadyExists, unless `replace` is set, if the name is taken by another snapshot, or is kept for another time than is
        asked for. Returns the tag as it is.
        """
        check_new_tag_name(refuse_reserved_tag(name))
        self._store.refuse_other_table()
        create = partial(self._create, name, replace=replace, time_retained=time_retained)
        if self._version is None and snapshot_id is None:
            return at_latest(self._store, lambda: self._chosen(None), create)
        return create(self._chosen(snapshot_id))

    def _chosen(self, snapshot_id: int | None) -> Snapshot:
        """The snapshot to tag: that of an id, or else of the version at which the table was opened, or the latest."""
        if self._version is None:
            with told_of_expiry(self._store):
                get, latest = self._store.snapshots.get, self._store.snapshots.latest
                snapshot = latest() if snapshot_id is None else get(snapshot_id)
        elif snapshot_id is not None:
            raise InvalidRequest(
                f"{self._store.identifier} was opened as of {self._version!r}, and snapshot {snapshot_id} is to be tagged: say "
                "one of these."
            )
        else:
            snapshot, _ = named_version(self._store, self._version)
        if snapshot is None:
            # A table that has gone meanwhile has none either.
            self._store.refuse_other_table()
            raise InvalidRequest(f"{self._store.identifier} has no snapshot to tag. Write to the table first.")
        return snapshot

    def _create(self, name: str, snapshot: Snapshot, *, replace: bool, time_retained: dt.timedelta | None) -> Tag:
        retained_ms = self._store.options.tag_default_time_retained_ms
        if time_retained is not None:
            retained_ms = time_retained // dt.timedelta(milliseconds=1)
            if retained_ms <= 0:
                raise InvalidRequest(f"A tag is kept for some time, not for {time_retained}.")
        with beside_history(self._store, f"Tag {name!r}"):
            tag = create_tag(self._store, name, snapshot, replace=replace, retained_ms=retained_ms)
        publish_after(self._store, None)
        if time_retained is not None and tag.time_retained_seconds != retained_seconds(retained_ms):
            kept = f"{tag.time_retained_seconds} s" if tag.time_retained_seconds is not None else "good"
            raise AlreadyExists(
                f"Tag {name!r} exists, names that snapshot, and is kept for {kept}, not for {time_retained}. Replace it."
            )
        return tag

    @outcome(_REPEAT)
    def create_due(self) -> Tag | None:
        """Create the tag of the last period that is over, if the options ask for it and it is not there."""
        self._store.refuse_other_table()
        with beside_history(self._store, "The tag that is due"):
            tag = create_due_tag(self._store)
        publish_after(self._store, None)
        self._store.troubles.clear(TAG_CREATION)
        return tag

    @outcome(_REPEAT)
    def rename(self, name: str, new_name: str) -> Tag:
        """Give a tag another name. Raises NotFound, or AlreadyExists if that name is taken."""
        _refuse_hold(name)
        self._refuse_published(name)
        check_new_tag_name(refuse_reserved_tag(new_name))
        self._store.refuse_other_table()
        with beside_history(self._store, f"Tag {name!r}"):
            try:
                renamed = self._store.tags.rename(name, new_name, self._store.clock.unique_name())
            except NotFound:
                if self._store.file_io.moves_at_once:
                    self._store.refuse_other_table()
                self._store.refuse_moved(f"Tag {new_name!r}")
                raise
        publish_after(self._store, None)
        return renamed

    @outcome(_REPEAT)
    def delete(self, name: str) -> list[str]:
        """Forget a name, and delete the files that nobody needs then; returns those. Raises NotFound, listing the tags.

        Of a tag that is damaged nobody knows its files: `remove_orphan_files` deletes them. Raises InvalidRequest for the tag
        of a publication that is open, damaged or not.
        """
        self._store.refuse_other_table()
        what = f"Tag {name!r}"
        # A branch whose newest snapshot is damaged is not closed, and a damaged tag is no part of what becomes main.
        if is_damaged(self._store.snapshots.latest) and self.is_damaged(name) and self._delete_damaged(name):
            self._store.refuse_moved(what)
            return []
        with beside_history(self._store, what), told_of_expiry(self._store):
            if self._delete_damaged(name):
                return []
            _refuse_hold(name)
            deleted = delete_tag(self._store, name)
        publish_after(self._store, None)
        return deleted

    def _delete_damaged(self, name: str) -> bool:
        """Forget a name whose file cannot be read; says whether it was so."""
        self._refuse_published(name)
        is_gone = self._store.tags.delete_damaged(name)
        if is_gone:
            _log.warning(
                "Tag %r of %s was damaged. It is deleted; which files it kept cannot be told.",
                name,
                self._store.identifier,
            )
        return is_gone

    @outcome(_REPEAT)
    @of_same_table
    def is_damaged(self, name: str) -> bool:
        """Whether there is a tag of that name that cannot be read."""
        return is_damaged(lambda: self._store.tags.find(name))

    def _refuse_published(self, name: str) -> None:
        """Raise InvalidRequest for the tag of a publication that is open: an undo goes back to it. It may be damaged."""
        if name.startswith(PUBLICATION_PREFIX):
            journal = Journal.of_table(self._store.file_io, self._store.paths.root)
            entries = journal.entries()
            for entry in entries.damaged:
                if entry.tag == name:
                    raise InvalidRequest(
                        f"Tag {name!r} is the store's own: it keeps what main was before publication {int(entry.name)}, whose "
                        f"journal is damaged. `{DISCARD_DAMAGED}` ends that, and deletes the tag."
                    )
            for publication in (*entries.open, *entries.left):
                if publication.tag == name:
                    raise InvalidRequest(
                        f"Tag {name!r} is the store's own: it keeps what main was before publication {int(publication.name)} of "
                        f"branch {publication.branch!r}. `snapline branch recover` finishes or undoes that, and deletes the tag."
                    )

    def delete_reserved(self, name: str) -> None:
        """Forget a tag that the store itself created, whatever it names by now, damaged or not; nothing if it is not there."""
        self._store.refuse_other_table()
        while not self._store.tags.delete_damaged(name) and self._store.tags.find(name) is not None:
            with suppress(NotFound):
                delete_tag(self._store, name)

    @outcome(_REPEAT)
    def expire(self) -> list[str]:
        """Delete the tags whose retention is over; returns their names."""
        self._store.refuse_other_table()
        with beside_history(self._store, "Tags"):
            expired = expire_tags(self._store)
        publish_after(self._store, None)
        return expired

    @outcome(_REPEAT)
    @of_same_table
    def get(self, name: str) -> Tag:
        """The tag of a name. Raises NotFound with the names there are."""
        with told_of_expiry(self._store):
            return self._store.tags.get(name)

    @outcome(_REPEAT)
    @of_same_table
    def list(self) -> list[Tag]:
        """All tags, by snapshot id, but for those that keep files from Paimon's expiry."""
        return self._store.tags.all()


def _refuse_hold(name: str) -> None:
    """Raise InvalidRequest for a tag that keeps files of a branch, or while something is made of them."""
    if name.startswith(BRANCH_PREFIX):
        raise InvalidRequest(
            f"Tag {name!r} is the store's own: it keeps files of a branch from the expiry of Paimon's Java library, and goes "
            "with the branch; what a crash has left of its kind, `remove-orphan-files` deletes."
        )
    if name.startswith(BACK_PREFIX):
        raise InvalidRequest(
            f"Tag {name!r} is the store's own: it keeps what a rollback or a merge has brought back from the expiry of Paimon's "
            "Java library, and goes once what came before that has expired: `expire-snapshots`, `expire-tags`."
        )
    if name.startswith(HOLD_PREFIX):
        raise InvalidRequest(
            f"Tag {name!r} is the store's own: it keeps files while something is made of them. It goes by itself; what a "
            "crash has left of its kind, `expire-tags` deletes a day after it was made."
        )
