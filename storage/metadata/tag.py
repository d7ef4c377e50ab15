"""Tags: names for snapshots. A tag is a copy of the snapshot's metadata; it outlives the snapshot."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import AlreadyExists, NotFound
from ..file_io import FileIO
from ..identifier import check_tag_name
from ..paths import TablePaths
from .snapshot import Snapshot

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
    def time_retained_seconds(self) -> float | None:
        retained = self.snapshot.others.get("tagTimeRetained")
        return None if retained is None else float(retained)


class TagFiles:
    """The tag files of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def find(self, name: str) -> Tag | None:
        path = self._paths.tag(name)
        text = self._file_io.read_text_or_none(path)
        return None if text is None else Tag(name, Snapshot.from_json(text, path))

    def get(self, name: str) -> Tag:
        """The tag of that name. Raises NotFound that lists which there are."""
        tag = self.find(name)
        if tag is None:
            raise NotFound(
                f"Tag {name!r} does not exist. Existing tags: {', '.join(self.names()) or 'none'}. "
                "Create it with `create-tag`, or read by snapshot id."
            )
        return tag

    def names(self) -> list[str]:
        matches = (_TAG_FILE.fullmatch(file.name) for file in self._file_io.list_files(self._paths.tag_directory))
        return sorted(match[1] for match in matches if match)

    def all(self) -> list[Tag]:
        """Every tag, in the order of snapshot id and name."""
        tags = [tag for name in self.names() if (tag := self.find(name)) is not None]
        return sorted(tags, key=lambda tag: (tag.snapshot.id, tag.name))

    def create(self, name: str, snapshot: Snapshot, *, replace: bool = False) -> Tag:
        """Give a snapshot a name. Raises AlreadyExists unless `replace`, or unless it names this snapshot already."""
        check_tag_name(name)
        data = snapshot.without_others().to_json().encode()
        path = self._paths.tag(name)
        if replace:
            self._file_io.overwrite(path, data)
        elif not self._file_io.create_exclusively(path, data):
            existing = self.get(name).snapshot
            if (existing.id, existing.uuid) != (snapshot.id, snapshot.uuid):
                raise AlreadyExists(
                    f"Tag {name!r} exists and names snapshot {existing.id}. Choose another name, delete it first, "
                    "or replace it."
                )
        return Tag(name, snapshot)

    def delete(self, name: str) -> None:
        """Forget a name. Raises NotFound if there is no such tag."""
        self.get(name)
        self._file_io.delete(self._paths.tag(name))
