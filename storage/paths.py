"""Where the files of a table lie. Follows `docs/format.md`, "Layout".

Metadata of a branch lies in the branch's own directory; manifests and data files of all branches share the table's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .data_types import DataField
from .errors import InvalidRequest, Unsupported
from .identifier import MAIN_BRANCH
from .options import TableOptions
from .values import cast_text, java_text

# File systems take no longer names.
_MOST_BYTES = 255
# What Java's `Character.isWhitespace` takes for blank: no blank that holds words together, as Python's `str.strip` does.
BLANK = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(0x20)}


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths of one branch of one table. `root` is the table's directory; `branch` names a directory, `main` its own."""

    root: str
    branch: str = MAIN_BRANCH
    # A branch that is being made, or deleted, lies where nobody looks.
    making: str | None = None

    @property
    def metadata_root(self) -> str:
        """Directory of schemas, snapshots, tags and consumers of the branch."""
        if self.making is not None:
            return f"{self.root}/branch/.{self.making}"
        return self.root if self.branch == MAIN_BRANCH else f"{self.root}/branch/branch-{self.branch}"

    @property
    def schema_directory(self) -> str:
        """Where the versions of the branch's schema lie."""
        return f"{self.metadata_root}/schema"

    @property
    def snapshot_directory(self) -> str:
        """Where the snapshots of the branch lie, and their hints."""
        return f"{self.metadata_root}/snapshot"

    @property
    def tag_directory(self) -> str:
        """Where the tags of the branch lie."""
        return f"{self.metadata_root}/tag"

    @property
    def branch_directory(self) -> str:
        """Where the branches of the table lie."""
        return f"{self.root}/branch"

    @property
    def main_branch_file(self) -> str:
        """The file that names the branch which is main, if that was replaced."""
        return f"{self.root}/MAIN-BRANCH"

    @property
    def origin(self) -> str:
        """What the branch was made from."""
        return f"{self.metadata_root}/ORIGIN"

    @property
    def consumer_directory(self) -> str:
        """Where the consumers of the branch lie."""
        return f"{self.metadata_root}/consumer"

    @property
    def expiring(self) -> str:
        """Up to which snapshot somebody is expiring."""
        return f"{self.snapshot_directory}/EXPIRING"

    @property
    def trouble_directory(self) -> str:
        """What has failed after commits."""
        return f"{self.metadata_root}/trouble"

    @property
    def committed_directory(self) -> str:
        """Commit ids of snapshots that have expired."""
        return f"{self.metadata_root}/committed"

    @property
    def changelog_directory(self) -> str:
        """Where changelogs lie that outlive their snapshots."""
        return f"{self.metadata_root}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """The copy of a snapshot file that is kept for its changelog."""
        return f"{self.changelog_directory}/changelog-{snapshot_id}"

    def consumer(self, name: str) -> str:
        """The file of a consumer."""
        return f"{self.consumer_directory}/consumer-{name}"

    def schema(self, schema_id: int) -> str:
        """The file of a version of the schema."""
        return f"{self.schema_directory}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        """The file of a snapshot."""
        return f"{self.snapshot_directory}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        """The file of a tag."""
        return f"{self.tag_directory}/tag-{name}"

    def manifest(self, name: str) -> str:
        """The file of a manifest, or of a list of manifests."""
        return f"{self.root}/manifest/{name}"

    def index(self, name: str) -> str:
        """The file of an index."""
        return f"{self.root}/index/{name}"

    def statistics(self, name: str) -> str:
        """The file of statistics."""
        return f"{self.root}/statistics/{name}"

    def data_root(self, options: TableOptions) -> str:
        """Directory of partitions and buckets."""
        below = options.data_file_path_directory
        return f"{self.root}/{below}" if below else self.root

    def bucket(self, partition_path: str, bucket: int, options: TableOptions) -> str:
        """Directory of a bucket; `partition_path` is empty for tables without partitions."""
        name = "bucket-postpone" if bucket == -2 else f"bucket-{max(bucket, 0)}"
        root = self.data_root(options)
        return f"{root}/{partition_path}/{name}" if partition_path else f"{root}/{name}"


def escape(text: str) -> str:
    """Escape a partition column or value for use in a directory name."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def partition_path(
    fields: Sequence[DataField], values: Sequence[Any], options: TableOptions, *, for_writing: bool = False
) -> str:
    """`k1=v1/k2=v2` for the values (as `storage.values` holds them) of a partition; empty without partitions.

    The directory does not identify the partition: null, empty and blank text share one. Whoever writes there says
    `for_writing`: InvalidRequest for a value that makes no directory name is raised before anything is written.
    """
    parts = []
    for field, value in zip(fields, values, strict=True):
        if field.type.is_bytes:
            raise Unsupported(
                f"Partition column {field.name!r} is {field.type}: binary partitions have no directory name."
            )
        text = java_text if options.partition_legacy_name else cast_text
        shown = None if value is None else text(field.type, value)
        if shown is None or not shown.strip(BLANK):
            shown = options.partition_default_name
        elif for_writing and shown == options.partition_default_name:
            raise InvalidRequest(
                f"{shown!r} is no value of partition column {field.name!r} that can be written: partition.default-name names the "
                "partition of NULL so, and nobody could tell the two apart. Write NULL, or another value; "
                "ALTER TABLE … DROP PARTITION removes one that is there."
            )
        part = f"{escape(field.name)}={escape(shown)}"
        if for_writing and len(part.encode(errors="replace")) > _MOST_BYTES:
            raise InvalidRequest(
                f"A value of partition column {field.name!r} is too long, {shown[:40]!r}…: its directory would have a name "
                f"of more than {_MOST_BYTES} bytes."
            )
        parts.append(part)
    return "/".join(parts)
