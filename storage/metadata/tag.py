"""Tags: names for snapshots. A tag is a copy of the snapshot's metadata; it outlives the snapshot."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import AlreadyExists, CorruptData, NotFound
from ..file_io import FileIO
from ..identifier import RESERVED_TAGS, check_file_name, check_tag_name
from ..paths import TablePaths
from .snapshot import Snapshot

# In a tag that was copied from another branch, along with its snapshot: the name of that branch.
TAG_BRANCH_KEY = "snapline.branch"
# In a tag that was renamed: who did it.
_RENAMED_KEY = "snapline.renamed"
_TAG_FILE = re.compile(r"tag-(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tag:
    """A name and the snapshot it stands for."""

    name: str
    snapshot: Snapshot

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

    @property
    def time_retained_seconds(self) -> float | None:
        retained = self.snapshot.others.get("tagTimeRetained")
        return None if retained is None else float(retained)


class TagFiles:
    """The tag files of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def find(self, name: str) -> Tag | None:
        check_file_name(name, "tag")
        path = self._paths.tag(name)
        try:
            text = self._file_io.read_text_or_none(path)
            return None if text is None else Tag(name, Snapshot.from_json(text, path))
        except CorruptData as error:
            raise CorruptData(f"{str(error).rstrip('.')}. Delete the tag: `delete-tag --name {name}`.") from None

    def get(self, name: str) -> Tag:
        """The tag of that name. Raises NotFound that lists which there are."""
        tag = self.find(name)
        if tag is None:
            raise NotFound(
                f"Tag {name!r} does not exist. Existing tags: {', '.join(self._own_names()) or 'none'}. "
                "Create it with `create-tag`, or read by snapshot id."
            )
        return tag

    def _own_names(self) -> list[str]:
        """Those that users have given."""
        return [name for name in self.names() if not name.startswith(RESERVED_TAGS)]

    def names(self) -> list[str]:
        matches = (_TAG_FILE.fullmatch(file.name) for file in self._file_io.list_files(self._paths.tag_directory))
        return sorted(match[1] for match in matches if match)

    def all(self) -> list[Tag]:
        """Every tag, in the order of snapshot id and name."""
        tags = [tag for name in self.names() if (tag := self.find(name)) is not None]
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name))

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

        Raises AlreadyExists unless `replace`, or unless it names this snapshot already.
        """
        check_tag_name(name)
        # A copy of another branch's snapshot remembers which.
        named = snapshot.with_others({key: value for key, value in snapshot.others.items() if key == TAG_BRANCH_KEY})
        if retained_ms is not None:
            named = named.with_others({**named.others, **_retention(retained_ms, now_ms)})
        data = named.to_json(f"tag-{name}").encode()
        path = self._paths.tag(name)
        if replace:
            self._file_io.overwrite(path, data)
        elif not self._file_io.create_exclusively(path, data):
            existing = self.find(name)
            if existing is None or existing.snapshot.identity != snapshot.identity:
                was = f" and names snapshot {existing.snapshot.id}" if existing else ""
                raise AlreadyExists(f"Tag {name!r} exists{was}. Choose another name, delete it first, or replace it.")
        return Tag(name, named)

    def rename(self, name: str, new_name: str, token: str) -> Tag:
        """Give a tag another name. `token` tells this call from others that do the same: one of them ends it.

        Raises NotFound, also if it is deleted, replaced or renamed meanwhile, or AlreadyExists if the name is taken.
        """
        tag = self.get(name)
        check_tag_name(new_name)
        mine = Tag(new_name, tag.snapshot.with_others({**tag.snapshot.others, _RENAMED_KEY: token}))
        content = mine.snapshot.to_json(f"tag-{new_name}").encode()
        is_new = self._file_io.create_exclusively(self._paths.tag(new_name), content)
        if not is_new:
            there = self.find(new_name)
            # Whoever began it before and died has left both names.
            is_begun = there is not None and _unmarked(there.snapshot) == _unmarked(tag.snapshot)
            if there is None or not is_begun or not self._put_if(there, content):
                raise AlreadyExists(f"Tag {new_name!r} exists. Choose another name, or delete it first.")
        if not self.delete_if(tag):
            if is_new:
                # Unless somebody else has gone on with it.
                self.delete_if(mine)
            raise NotFound(f"Tag {name!r} was deleted, replaced or renamed meanwhile. Nothing is done.")
        return mine

    def _put_if(self, tag: Tag, content: bytes) -> bool:
        """Write a tag's file anew, if it still holds what was read; says whether it did."""
        path = self._paths.tag(tag.name)
        text = self._file_io.read_text_or_none(path)
        if text is None or Snapshot.from_json(text, path) != tag.snapshot:
            return False
        return self._file_io.replace_if(path, text.encode(), content)

    def delete_damaged(self, name: str) -> bool:
        """Forget a name whose file cannot be read, whatever it stood for; says whether it was so."""
        path = self._paths.tag(check_file_name(name, "tag"))
        try:
            content = self._file_io.read_bytes(path)
            self.find(name)
        except NotFound:
            return False
        except CorruptData:
            return self._file_io.delete_if(path, content)
        return False

    def replace_if(self, tag: Tag, snapshot: Snapshot) -> bool:
        """Give a name to another snapshot, if it still stands for what was read; says whether it does."""
        return self._put_if(tag, snapshot.without_others().to_json(f"tag-{tag.name}").encode())

    def delete_if(self, tag: Tag) -> bool:
        """Forget a name, if it still stands for what was read; says whether it did."""
        path = self._paths.tag(tag.name)
        text = self._file_io.read_text_or_none(path)
        if text is None or Snapshot.from_json(text, path) != tag.snapshot:
            return False
        return self._file_io.delete_if(path, text.encode())


def _unmarked(snapshot: Snapshot) -> Snapshot:
    """The snapshot of a tag without what tells who renamed it."""
    return snapshot.with_others({key: value for key, value in snapshot.others.items() if key != _RENAMED_KEY})


def _retention(retained_ms: int, now_ms: int) -> dict[str, Any]:
    """When a tag was created and how long it is kept, as the format writes it."""
    now = dt.datetime.fromtimestamp(now_ms / 1000)
    parts = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
    return {"tagCreateTime": parts, "tagTimeRetained": retained_ms / 1000}
