"""Snapshots: one JSON file for each committed state of a table, numbered without gaps.

Follows `docs/format.md`, "Snapshot files". The hints LATEST and EARLIEST are where a search starts, never its answer.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .. import document
from ..errors import CorruptData, MainReplaced, NotFound
from ..file_io import FileIO
from ..paths import TablePaths

APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
# The identifier of commits that nobody will ask for again.
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
# In the place of the last snapshot of a main that is no more, so that none can follow it.
_REPLACED_BY = "replacedBy"
_SNAPSHOT_FILE = re.compile(r"snapshot-(\d+)")
_NUMBERED = re.compile(r"(?:snapshot|changelog)-(\d+)")
_HINT = re.compile(r"\s*([0-9]{1,18})\s*")


def _json_key(name: str, *, required: bool = False, kind: Callable[[Any, str, str], Any] = document.integer) -> Any:
    return field(default=None, metadata={"key": name, "required": required, "kind": kind}, kw_only=True)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state. Attributes are those of the JSON file, in its order."""

    id: int = _json_key("id", required=True)
    schema_id: int = _json_key("schemaId", required=True)
    base_manifest_list: str = _json_key("baseManifestList", required=True, kind=document.text)
    base_manifest_list_size: int | None = _json_key("baseManifestListSize")
    delta_manifest_list: str = _json_key("deltaManifestList", required=True, kind=document.text)
    delta_manifest_list_size: int | None = _json_key("deltaManifestListSize")
    changelog_manifest_list: str | None = _json_key("changelogManifestList", kind=document.text)
    changelog_manifest_list_size: int | None = _json_key("changelogManifestListSize")
    index_manifest: str | None = _json_key("indexManifest", kind=document.text)
    commit_user: str = _json_key("commitUser", required=True, kind=document.text)
    writer_version: str | None = _json_key("writerVersion", kind=document.text)
    commit_identifier: int = _json_key("commitIdentifier", required=True)
    commit_kind: str = _json_key("commitKind", required=True, kind=document.text)
    time_ms: int = _json_key("timeMillis", required=True)
    total_record_count: int = _json_key("totalRecordCount", required=True)
    delta_record_count: int = _json_key("deltaRecordCount", required=True)
    changelog_record_count: int | None = _json_key("changelogRecordCount")
    watermark: int | None = _json_key("watermark")
    statistics: str | None = _json_key("statistics", kind=document.text)
    properties: Mapping[str, str] | None = _json_key("properties", kind=document.texts)
    next_row_id: int | None = _json_key("nextRowId")
    operation: str | None = _json_key("operation", kind=document.text)
    uuid: str | None = _json_key("uuid", kind=document.text)
    # Keys of other writers, of tags among them: kept as they are.
    others: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def from_json(cls, text: str, source: str) -> "Snapshot":
        """Read a snapshot or tag file. Raises CorruptData that names `source`, MainReplaced for the end of a main."""
        value = _read(text, source)
        if _REPLACED_BY in value:
            raise MainReplaced(
                f"Main has been replaced with branch {value[_REPLACED_BY]!r} since the table was opened. Open it again."
            )
        values: dict[str, Any] = {one.name: value.get(one.metadata["key"]) for one in _FIELDS}
        missing = [one.metadata["key"] for one in _FIELDS if one.metadata["required"] and values[one.name] is None]
        if missing:
            raise CorruptData(f"{source} is not a readable snapshot: {', '.join(missing)} is missing.")
        for one in _FIELDS:
            if values[one.name] is not None:
                one.metadata["kind"](values[one.name], source, one.metadata["key"])
        others = {key: other for key, other in value.items() if key not in _KEYS}
        numbered = _NUMBERED.fullmatch(source.rsplit("/", 1)[-1])
        if numbered and int(numbered[1]) != values["id"]:
            raise CorruptData(f"{source} is not a readable snapshot: the file says it is snapshot {values['id']}.")
        return cls(**values, others=others)

    def to_json(self, name: str | None = None) -> str:
        """The content of the file of that name, by default of the snapshot's own."""
        value: dict[str, Any] = {"version": 3}
        for one in _FIELDS:
            content = getattr(self, one.name)
            if content is not None:
                value[one.metadata["key"]] = content
        whole = document.sealed(value | dict(self.others), name or f"snapshot-{self.id}")
        return json.dumps(whole, indent=2, ensure_ascii=False)

    @property
    def changes_rows(self) -> bool:
        """Whether rows are other ones than before: a compaction only moves them, and statistics are not rows."""
        return self.commit_kind not in (COMPACT, ANALYZE)

    def with_others(self, others: Mapping[str, Any]) -> "Snapshot":
        """The snapshot with what a tag adds to it."""
        return replace(self, others=others)

    def without_others(self) -> "Snapshot":
        """The snapshot without what a tag added to it."""
        return replace(self, others={})


def _read(text: str, source: str) -> dict[str, Any]:
    try:
        number = json.loads(text)["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        number = None
    try:
        # A tag may be a copy of the file, byte by byte.
        return document.read_document(text, source, source.rsplit("/", 1)[-1], f"snapshot-{number}")
    except CorruptData as error:
        raise CorruptData(f"{source} is not a readable snapshot: {error}") from None


_FIELDS = [one for one in fields(Snapshot) if "key" in one.metadata]
_KEYS = {one.metadata["key"] for one in _FIELDS} | {"version"}


def _comparable_watermark(snapshot: Snapshot) -> tuple[bool, int]:
    return snapshot.watermark is not None, snapshot.watermark or 0


class SnapshotFiles:
    """The snapshot files of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def get(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id. Raises NotFound that lists which there are."""
        found = self.find(snapshot_id)
        if found is None:
            raise self.missing(snapshot_id)
        return found

    def missing(self, snapshot_id: int) -> NotFound:
        """The error that says that a snapshot is not there."""
        return NotFound(f"Snapshot {snapshot_id} does not exist. {self.describe_existing()}")

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id, or None."""
        path = self._paths.snapshot(snapshot_id)
        text = self._file_io.read_text_or_none(path)
        return None if text is None else Snapshot.from_json(text, path)

    def describe_existing(self) -> str:
        ids = self.ids()
        if not ids:
            return "The table has no snapshot yet: write to it first."
        return f"Existing snapshots: {ids[0]} to {ids[-1]}." if len(ids) > 1 else f"Existing snapshot: {ids[0]}."

    def ids(self) -> list[int]:
        """All snapshot ids, ascending."""
        matches = (_SNAPSHOT_FILE.fullmatch(f.name) for f in self._file_io.list_files(self._paths.snapshot_directory))
        return sorted(int(match[1]) for match in matches if match)

    def latest_id(self) -> int | None:
        """The highest snapshot id, or None for a table without snapshots."""
        hint = self._hint("LATEST")
        if hint:
            # Go upwards from the hint: others may have committed since it was written.
            latest = hint
            while self._file_io.exists(self._paths.snapshot(latest + 1)):
                latest += 1
                if latest > hint + 16:
                    break
            else:
                if latest > hint or self._file_io.exists(self._paths.snapshot(latest)):
                    return latest
        ids = self.ids()
        return ids[-1] if ids else None

    def latest(self) -> Snapshot | None:
        latest_id = self.latest_id()
        return None if latest_id is None else self.get(latest_id)

    def earliest_id(self) -> int | None:
        """The lowest snapshot id, or None for a table without snapshots."""
        hint = self._hint("EARLIEST")
        if hint and self._file_io.exists(self._paths.snapshot(hint)):
            return hint
        ids = self.ids()
        return ids[0] if ids else None

    def all(self) -> Iterator[Snapshot]:
        """Every snapshot, ascending."""
        for snapshot_id in self.ids():
            found = self.find(snapshot_id)
            if found is not None:
                yield found

    def backwards(self) -> Iterator[Snapshot]:
        """Every snapshot, newest first, read one at a time."""
        snapshot_id = self.latest_id() or 0
        while snapshot_id > 0 and (found := self.find(snapshot_id)) is not None:
            yield found
            snapshot_id -= 1

    def at_or_before(self, time_ms: int) -> Snapshot | None:
        """The latest snapshot committed at or before a time, or None. Reads a logarithmic number of files."""
        ids = self.ids()
        count = bisect_right(ids, time_ms, key=lambda one: self.get(one).time_ms)
        return self.get(ids[count - 1]) if count else None

    def first_with_watermark(self, mark: int) -> Snapshot | None:
        """The earliest snapshot whose watermark has reached a mark, or None. Reads a logarithmic number of files."""
        ids = self.ids()
        # Those before the first watermark have not reached any.
        count = bisect_left(ids, (True, mark), key=lambda one: _comparable_watermark(self.get(one)))
        return self.get(ids[count]) if count < len(ids) else None

    def create(self, snapshot: Snapshot) -> bool:
        """Commit: create the snapshot file; False if its id is taken. Hints follow and may be lost in a crash."""
        if not self._file_io.create_exclusively(self._paths.snapshot(snapshot.id), snapshot.to_json().encode()):
            return False
        self.write_hint("LATEST", snapshot.id)
        if snapshot.id == 1:
            self.write_hint("EARLIEST", 1)
        return True

    def restore(self, snapshot: Snapshot) -> None:
        """Bring back the file of a snapshot that has expired, from a tag that remembers it."""
        self._file_io.create_exclusively(self._paths.snapshot(snapshot.id), snapshot.to_json().encode())

    def replace(self, snapshot: Snapshot) -> None:
        """Put a snapshot in the place of the one that has its number."""
        self._file_io.overwrite(self._paths.snapshot(snapshot.id), snapshot.to_json().encode())

    def delete(self, snapshot_id: int) -> None:
        """Forget a snapshot."""
        self._file_io.delete(self._paths.snapshot(snapshot_id))

    def end(self, snapshot_id: int, replaced_by: str) -> None:
        """Turn the last snapshot into the mark that nothing follows here: main is that branch now."""
        text = json.dumps({"version": 3, "id": snapshot_id, _REPLACED_BY: replaced_by})
        self._file_io.overwrite(self._paths.snapshot(snapshot_id), text.encode())

    def write_hint(self, name: str, snapshot_id: int) -> None:
        """Write LATEST or EARLIEST; a failure is ignored, since a hint is no truth."""
        try:
            self._file_io.write_in_place(f"{self._paths.snapshot_directory}/{name}", str(snapshot_id).encode())
        except OSError:
            return

    def _hint(self, name: str) -> int | None:
        try:
            text = self._file_io.read_text_or_none(f"{self._paths.snapshot_directory}/{name}")
        except CorruptData:
            return None
        match = _HINT.fullmatch(text or "")
        return int(match[1]) if match else None
