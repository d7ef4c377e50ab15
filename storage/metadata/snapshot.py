"""Snapshots: one JSON file for each committed state of a table.

Follows `docs/format.md`, "Snapshot files".
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from .. import document
from ..errors import CorruptData, MainReplaced

APPEND, COMPACT, OVERWRITE, ANALYZE = "APPEND", "COMPACT", "OVERWRITE", "ANALYZE"
# The operation of a snapshot that shows the state before the one below it, whose files are not there.
TAKE_BACK = "TAKE BACK"
# The operation of a snapshot by which rows are hashed to another number of buckets; the property tells those that hash what a
# commit has brought from those that end a rescale.
RESCALE = "RESCALE"
RESCALED_BROUGHT_PROPERTY = "snapline.rescaled-brought"
# The operation of a snapshot in the place of one whose file could not be read.
STAND_IN = "STAND IN"
# The identifier of commits that nobody will ask for again.
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
# The property by which a snapshot names the one that it was put on top of.
FOLLOWS_PROPERTY = "snapline.follows"
# In the place of the last snapshot of a main that is no more, so that none can follow it.
REPLACED_BY = "replacedBy"
SNAPSHOT_FILE = re.compile(r"snapshot-(\d+)")
_NUMBERED = re.compile(r"(?:snapshot|changelog)-(\d+)")


def _json_key(name: str, *, required: bool = False, kind: Callable[[Any, str, str], Any] = document.integer) -> Any:
    return field(default=None, metadata={"key": name, "required": required, "kind": kind}, kw_only=True)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed state. Attributes are those of the JSON file, in its order."""

    id: int = _json_key("id", required=True)
    schema_id: int = _json_key("schemaId", required=True)
    base_manifest_list: str = _json_key("baseManifestList", required=True, kind=document.file_name)
    base_manifest_list_size: int | None = _json_key("baseManifestListSize")
    delta_manifest_list: str = _json_key("deltaManifestList", required=True, kind=document.file_name)
    delta_manifest_list_size: int | None = _json_key("deltaManifestListSize")
    changelog_manifest_list: str | None = _json_key("changelogManifestList", kind=document.file_name)
    changelog_manifest_list_size: int | None = _json_key("changelogManifestListSize")
    index_manifest: str | None = _json_key("indexManifest", kind=document.file_name)
    commit_user: str = _json_key("commitUser", required=True, kind=document.text)
    writer_version: str | None = _json_key("writerVersion", kind=document.text)
    commit_identifier: int = _json_key("commitIdentifier", required=True)
    commit_kind: str = _json_key("commitKind", required=True, kind=document.text)
    time_ms: int = _json_key("timeMillis", required=True, kind=document.moment)
    # Of a table with a log: for each of its partitions, an offset below which nothing of later snapshots is.
    log_offsets: Mapping[str, int] | None = _json_key("logOffsets", kind=document.numbers)
    total_record_count: int = _json_key("totalRecordCount", required=True)
    delta_record_count: int = _json_key("deltaRecordCount", required=True)
    changelog_record_count: int | None = _json_key("changelogRecordCount")
    watermark: int | None = _json_key("watermark")
    statistics: str | None = _json_key("statistics", kind=document.file_name)
    properties: Mapping[str, str] | None = _json_key("properties", kind=document.texts)
    next_row_id: int | None = _json_key("nextRowId")
    operation: str | None = _json_key("operation", kind=document.text)
    uuid: str | None = _json_key("uuid", kind=document.file_name)
    # Keys of other writers, of tags among them: kept as they are.
    others: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def from_json(cls, text: str, source: str) -> "Snapshot":
        """Read a snapshot or tag file. Raises CorruptData that names `source`, MainReplaced for the end of a main."""
        value = _read(text, source)
        if REPLACED_BY in value:
            raise MainReplaced(
                f"Main has been replaced with branch {value[REPLACED_BY]!r} since the table was opened. Open it again."
            )
        values: dict[str, Any] = {each.name: value.get(each.metadata["key"]) for each in _FIELDS}
        missing = [each.metadata["key"] for each in _FIELDS if each.metadata["required"] and values[each.name] is None]
        if missing:
            raise CorruptData(f"{source} is not a readable snapshot: {', '.join(missing)} is missing.")
        for item in _FIELDS:
            if values[item.name] is not None:
                item.metadata["kind"](values[item.name], source, item.metadata["key"])
        others = {key: other for key, other in value.items() if key not in _KEYS}
        numbered = _NUMBERED.fullmatch(source.rsplit("/", 1)[-1])
        if numbered and int(numbered[1]) != values["id"]:
            raise CorruptData(f"{source} is not a readable snapshot: the file says it is snapshot {values['id']}.")
        return cls(**values, others=others)

    def to_json(self, name: str | None = None) -> str:
        """The content of the file of that name, by default of the snapshot's own."""
        value: dict[str, Any] = {"version": 3}
        for each in _FIELDS:
            content = getattr(self, each.name)
            if content is not None:
                value[each.metadata["key"]] = content
        whole = document.sealed(value | dict(self.others), name or f"snapshot-{self.id}")
        return json.dumps(whole, indent=2, ensure_ascii=False)

    @property
    def changes_rows(self) -> bool:
        """Whether rows are other ones than before: a compaction only moves them, and statistics are not rows."""
        return self.commit_kind not in (COMPACT, ANALYZE)

    @property
    def identity(self) -> str:
        """What no other snapshot has, whatever its number: the uuid, which writers of older versions leave out."""
        return self.uuid or self.delta_manifest_list

    @property
    def follows(self) -> str | None:
        """The identity of the snapshot that this one was put on top of; None if the writer did not say."""
        return (self.properties or {}).get(FOLLOWS_PROPERTY)

    def number(self, key: str) -> int | None:
        """The number that a property says; None if it is not there. Raises CorruptData that names the property."""
        said = (self.properties or {}).get(key)
        try:
            return None if said is None else int(said)
        except ValueError as error:
            raise self.unreadable(key, error) from None

    def unreadable(self, key: str, why: object) -> CorruptData:
        """The error that says that a property is not what the store writes."""
        return CorruptData(f"Property {key!r} of snapshot {self.id} is unreadable: {why}")

    def takes_back(self, below: "Snapshot | None") -> bool:
        """Whether this one was put on top of another because the other's files are not there: nobody needs that any more."""
        return below is not None and self.operation == TAKE_BACK and self.follows == below.identity

    def with_others(self, others: Mapping[str, Any]) -> "Snapshot":
        """The snapshot with what a tag adds to it."""
        return replace(self, others=others)

    def without_others(self) -> "Snapshot":
        """The snapshot without what a tag added to it."""
        return replace(self, others={})


def cannot_be_read(content: bytes, source: str) -> bool:
    """Whether the content of a snapshot or tag file is damaged."""
    try:
        Snapshot.from_json(content.decode(), source)
    except (CorruptData, UnicodeDecodeError):
        return True
    return False


def _read(text: str, source: str) -> dict[str, Any]:
    try:
        number = json.loads(text)["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        number = None
    try:
        # A tag may be a copy of the file, byte by byte.
        return document.read_document(text, source, source.rsplit("/", 1)[-1], f"snapshot-{number}")
    except CorruptData as error:
        said = str(error).removeprefix(f"File {source} is damaged: ")
        raise CorruptData(f"{source} is not a readable snapshot: {said}") from None


_FIELDS = [each for each in fields(Snapshot) if "key" in each.metadata]
_KEYS = {each.metadata["key"] for each in _FIELDS} | {"version"}


def standing(history: Iterable[Snapshot]) -> list[Snapshot]:
    """The snapshots of a history, in order, without those that were taken back because their files are not there."""
    kept: list[Snapshot] = []
    for snapshot in history:
        if kept and snapshot.takes_back(kept[-1]):
            kept.pop()
        kept.append(snapshot)
    return kept
