"""Tags: names for snapshots. A tag is a copy of the snapshot's metadata; it outlives the snapshot."""

import datetime as dt
import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .. import document, late_requests
from ..arguments import shown
from ..errors import AlreadyExists, CorruptData, NotFound, StorageError
from ..file_io import FileIO
from ..identifier import BACK_PREFIX, BRANCH_PREFIX, PUBLICATION_PREFIX, RESERVED_TAGS, check_file_name, check_tag_name
from ..paths import TablePaths
from .snapshot import Snapshot, cannot_be_read
from .unchanged import unchanged
from .witness import WitnessOf, no_witness

_log = logging.getLogger(__name__)
# In a tag that was copied from another branch, along with its snapshot: the name of that branch.
TAG_BRANCH_KEY = "snapline.branch"
# In a tag that was renamed: who did it.
_RENAMED_KEY = "snapline.renamed"
# Of tags that keep files from Paimon's Java library alone: nobody else sees them.
AGAINST_JAVA = (BRANCH_PREFIX, BACK_PREFIX)
_TAG_FILE = re.compile(r"tag-(.+)", re.DOTALL)
# Where Java marks the tags that it has made, with `tag.create-success-file`.
_SUCCESS_FILES = "tag-success-file"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name and the snapshot it stands for."""

    name: str
    snapshot: Snapshot

    @property
    def is_of_its_branch(self) -> bool:
        """Whether it names a snapshot of its own branch's history, not what it keeps of another, or for the store itself."""
        return TAG_BRANCH_KEY not in self.snapshot.others and not self.name.startswith(RESERVED_TAGS)

    @property
    def create_time_parts(self) -> Sequence[int] | None:
        """Year, month, day, hour, minute, second, nanosecond (trailing zeros may be missing); None if not recorded."""
        return self.snapshot.others.get("tagCreateTime")

    @property
    def create_time(self) -> dt.datetime | None:
        """When it was created, local time; None if that was not recorded."""
        parts = self.create_time_parts
        if not parts:
            return None
        year, month, day, hour, minute, second, nanos = [*parts, 0, 0, 0, 0][:7]
        return dt.datetime(year, month, day, hour, minute, second, nanos // 1000)

    def was_there(self, time_ms: int) -> bool:
        """Whether it had been created by a moment, in milliseconds; so one that does not say when."""
        created = self.create_time
        return created is None or created.timestamp() * 1000 <= time_ms

    @property
    def time_retained_seconds(self) -> float | None:
        """For how long the tag is kept; None for good."""
        retained = self.snapshot.others.get("tagTimeRetained")
        return None if retained is None else float(retained)


class TagFiles:
    """The tag files of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of

    def find(self, name: str) -> Tag | None:
        """The tag of a name; None if there is none."""
        check_file_name(name, "tag")
        if "/" in name:
            return None
        path = self._paths.tag(name)
        return self._told(name, late_requests.alive(self._file_io, path, self._file_io.read_bytes_or_none(path)))

    def _told(self, name: str, content: bytes | None) -> Tag | None:
        """The tag that a content tells of. Raises CorruptData that says what to do about it."""
        try:
            return None if content is None else _parsed(name, content, self._paths.tag(name))
        except CorruptData as error:
            raise CorruptData(f"{str(error).rstrip('.')}. {_way_out(name)}") from None

    def get(self, name: str) -> Tag:
        """The tag of that name. Raises NotFound that lists which there are."""
        tag = self.find(name)
        if tag is None:
            raise NotFound(
                f"Tag {name!r} does not exist. Existing tags: {', '.join(self._own_names()) or 'none'}. "
                "Create it with `tag create`, or read by snapshot id."
            )
        return tag

    def _own_names(self) -> list[str]:
        """Those that users have given."""
        return [name for name in self.names() if not name.startswith(RESERVED_TAGS)]

    def names(self) -> list[str]:
        """The names of all tags, sorted."""
        listed, marks = self._listed()
        return [name for name in listed if name not in marks or self._live(name, marks[name]) is not None]

    def _listed(self) -> tuple[list[str], dict[str, frozenset[str]]]:
        """The names of all tag files, sorted; and which have marks of what was deleted lately."""
        directory = self._paths.tag_directory
        files = [file.name for file in self._file_io.list_files(directory, or_in_place=True)]
        if _SUCCESS_FILES in files and _SUCCESS_FILES in self._file_io.list_directories(directory):
            files.remove(_SUCCESS_FILES)
        marks = {
            match[1]: each for name, each in late_requests.marked(files).items() if (match := _TAG_FILE.fullmatch(name))
        }
        return sorted(match[1] for name in files if (match := _TAG_FILE.fullmatch(name))), marks

    def _live(self, name: str, marks: frozenset[str]) -> bytes | None:
        """What the file of a tag holds; None if there is none, or it was deleted and has come back."""
        content = self._file_io.read_bytes_or_none(self._paths.tag(name))
        return None if content is None or late_requests.is_marked(content, marks) else content

    def forget_marks(self, until_ms: int) -> None:
        """Delete the marks of tags that were deleted before a time, in milliseconds since 1970."""
        late_requests.forget_marks(self._file_io, self._paths.tag_directory, until_ms)

    def names_for_users(self) -> list[str]:
        """The names without those that keep files from Paimon's expiry."""
        return [name for name in self.names() if not name.startswith(AGAINST_JAVA)]

    def all(self, *, against_java: bool = False) -> list[Tag]:
        """Every tag, in the order of snapshot id and name; those that keep files from Paimon's expiry only if wanted."""
        contents = self._contents(against_java=against_java)
        tags = [tag for name, content in contents if (tag := self._told(name, content)) is not None]
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name))

    def _contents(self, *, against_java: bool) -> Iterator[tuple[str, bytes | None]]:
        """Every tag with what its file holds. What is deleted after the listing may as well be seen: no request more for each."""
        listed, marks = self._listed()
        for name in listed:
            if against_java or not name.startswith(AGAINST_JAVA):
                yield name, self._live(name, marks.get(name, frozenset()))

    def readable(self) -> list[Tag]:
        """Every tag that is not damaged, as `all` gives them; a warning names the others."""
        tags = []
        for name, content in self._contents(against_java=False):
            try:
                tag = self._told(name, content)
            except CorruptData as error:
                _log.warning("A tag is passed by: %s", error)
                continue
            tags += [] if tag is None else [tag]
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name))

    def is_damaged(self, name: str) -> bool:
        """Whether there is a tag of a name that cannot be read."""
        try:
            self.find(name)
        except CorruptData:
            return True
        return False

    def hand_over_damaged(self, target: "TagFiles") -> None:
        """Give another branch the tags of this one that cannot be read, as they are, but for names that it has: there they can be
        deleted, and until then nothing that they may keep goes.
        """
        for name in self.names():
            if not name.startswith(RESERVED_TAGS) and self.is_damaged(name):
                content = self._file_io.read_bytes_or_none(self._paths.tag(name))
                if content is not None:
                    _log.warning("Tag %r is damaged, and handed over as it is.", name)
                    late_requests.create(target._file_io, target._paths.tag(name), content, of=target._of())

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        replace: bool = False,
        retained_ms: int | None = None,
        now_ms: int = 0,
    ) -> Tag:
        """Give a snapshot a name, for as long as it is `retained_ms` from `now_ms` on, or for good.

        Returns the tag as it is: one that names this snapshot already stays. Raises AlreadyExists if it names another one,
        unless `replace`, NotFound if the table is another one by now.
        """
        check_tag_name(name)
        # A copy of another branch's snapshot remembers which.
        kept = {key: value for key, value in snapshot.others.items() if key == TAG_BRANCH_KEY}
        named = snapshot.with_others({**kept, **self._generation(name)})
        if retained_ms is not None:
            named = named.with_others({**named.others, **_retention(retained_ms, now_ms)})
        data = named.to_json(f"tag-{name}").encode()
        path = self._paths.tag(name)
        # By comparing, as all who change tags: none comes where another one is being renamed to.
        is_there = late_requests.create(self._file_io, path, data, of=self._of())
        while replace and not is_there:
            is_there = self._file_io.replace_if(path, self._file_io.read_bytes_or_none(path), data, of=self._of())
        if not is_there:
            existing = self.find(name)
            if existing is None or existing.snapshot.identity != snapshot.identity:
                was = f" and names snapshot {existing.snapshot.id}" if existing else ""
                raise AlreadyExists(f"Tag {name!r} exists{was}. Choose another name, delete it first, or replace it.")
            return existing
        return Tag(name, named)

    def _generation(self, name: str) -> dict[str, str]:
        """What tells a tag from others of its name; the store's own have names that are given once."""
        return {} if name.startswith(RESERVED_TAGS) else late_requests.generation(self._file_io)

    def rename(self, name: str, new_name: str, token: str) -> Tag:
        """Give a tag another name: on local disks in one step; on object stores it has both names for a moment.

        Raises NotFound, also if it is deleted, replaced or renamed meanwhile, or AlreadyExists if the name is taken. `token`
        tells this call, on object stores, from others that do the same: one of them ends it.
        """
        tag = self.get(name)
        check_tag_name(new_name)
        taken = AlreadyExists(f"Tag {new_name!r} exists. Choose another name, or delete it first.")
        if not self._file_io.moves_at_once:
            renamed = self._rename_in_two_steps(tag, new_name, token, taken)
        elif self.find(new_name) is not None:
            # Unless that is the very tag, which somebody else has renamed.
            self.get(name)
            raise taken
        else:
            renamed = self._rename_at_once(tag, new_name, taken)
        if renamed is None:
            raise NotFound(f"Tag {name!r} was deleted, replaced or renamed meanwhile. Nothing is done.")
        return renamed

    def _rename_at_once(self, tag: Tag, new_name: str, taken: AlreadyExists) -> Tag | None:
        """None if the tag is another one by now."""
        # With the checksum of the snapshot's own file, the content is right under any name.
        content = tag.snapshot.to_json().encode()
        path, target = self._paths.tag(tag.name), self._paths.tag(new_name)
        try:
            if not (self._put_if(tag, content) and self._file_io.rename_if(path, target, content)):
                return None
        except AlreadyExists:
            raise taken from None
        with suppress(OSError, StorageError):
            # It is done by now; with the checksum of its own name, it would be noticed in another one's place.
            self._file_io.replace_if(target, content, tag.snapshot.to_json(f"tag-{new_name}").encode())
        return Tag(new_name, tag.snapshot)

    def _rename_in_two_steps(self, tag: Tag, new_name: str, token: str, taken: AlreadyExists) -> Tag | None:
        """None if the tag is another one by now. Who dies in between leaves both names, until it is done again."""
        mine = Tag(new_name, tag.snapshot.with_others({**tag.snapshot.others, _RENAMED_KEY: token}))
        content = mine.snapshot.to_json(f"tag-{new_name}").encode()
        is_new = late_requests.create(self._file_io, self._paths.tag(new_name), content, of=self._of())
        if not is_new:
            there = self.find(new_name)
            # Whoever began it before and died has left both names.
            is_begun = there is not None and _unmarked(there.snapshot) == _unmarked(tag.snapshot)
            if there is None or not is_begun or not self._put_if(there, content):
                raise taken
        if self.delete_if(tag):
            return mine
        if is_new:
            # Unless somebody else has gone on with it.
            self.delete_if(mine)
        return None

    def _put_if(self, tag: Tag, content: bytes) -> bool:
        """Write a tag's file anew, if it still holds what was read; says whether it did."""
        path = self._paths.tag(tag.name)
        held = unchanged(self._file_io, path, Snapshot.from_json, tag.snapshot)
        return held is not None and self._file_io.replace_if(path, held, content)

    def delete_damaged(self, name: str) -> bool:
        """Forget a name whose file cannot be read, whatever it stood for; says whether it was so."""
        path = self._paths.tag(check_file_name(name, "tag"))
        if "/" in name:
            return False
        content = self._file_io.read_bytes_or_none(path)
        if content is None:
            return False
        is_damaged = cannot_be_read(content, path) or document.is_damaged(lambda: _parsed(name, content, path))
        return is_damaged and self._file_io.delete_if(path, content)

    def replace_if(self, tag: Tag, snapshot: Snapshot) -> bool:
        """Give a name to another snapshot, if it still stands for what was read; says whether it does."""
        named = snapshot.with_others(self._generation(tag.name))
        return self._put_if(tag, named.to_json(f"tag-{tag.name}").encode())

    def delete_if(self, tag: Tag) -> bool:
        """Forget a name, if it still stands for what was read; says whether it did."""
        path = self._paths.tag(tag.name)
        content = unchanged(self._file_io, path, Snapshot.from_json, tag.snapshot)
        return content is not None and late_requests.delete_if(self._file_io, path, content)


def _parsed(name: str, content: bytes, path: str) -> Tag:
    """The tag that a file holds. Raises CorruptData that names the file."""
    tag = Tag(name, Snapshot.from_json(document.as_text(content, path), path))
    try:
        _ = tag.create_time
        if math.isfinite(tag.time_retained_seconds or 0):
            return tag
    except (TypeError, ValueError, OverflowError):
        pass
    others = tag.snapshot.others
    raise CorruptData(
        f"File {path} is damaged: tagCreateTime is {shown(others.get('tagCreateTime'))}, tagTimeRetained is "
        f"{shown(others.get('tagTimeRetained'))}, no time and seconds"
    )


def _way_out(name: str) -> str:
    """What to do about a tag that cannot be read."""
    if not name.startswith(PUBLICATION_PREFIX):
        return f"Delete the tag: `delete-tag --name {name}`."
    return (
        "End its publication by `snapline branch recover`, or by `--undo`, which also deletes the tag; if that has ended: "
        f"`delete-tag --name {name}`."
    )


def _unmarked(snapshot: Snapshot) -> Snapshot:
    """The snapshot of a tag without what tells who renamed it."""
    return snapshot.with_others({key: value for key, value in snapshot.others.items() if key != _RENAMED_KEY})


def _retention(retained_ms: int, now_ms: int) -> dict[str, Any]:
    """When a tag was created and how long it is kept, as the format writes it."""
    now = dt.datetime.fromtimestamp(now_ms / 1000)
    parts = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
    return {"tagCreateTime": parts, "tagTimeRetained": retained_seconds(retained_ms)}


def retained_seconds(retained_ms: int | None) -> float | None:
    """How long a tag is kept, as the format writes it; None: for good."""
    return None if retained_ms is None else retained_ms / 1000
