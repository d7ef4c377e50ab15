"""What Dagster is told of a commit: metadata, data version, provenance, and the numbers of each partition."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from lineage import sources_of
from storage import InvalidRequest, Snapshot, SnapshotRef, StorageError, Table, check_new_tag_name

from .launchpad import Launchpads, if_it_is_bad
from .partition_tags import tag_newest
from .ui_metadata import CommitNumbers, partition_metadata, table_metadata

# What tags of partitions begin with whose keys are numbers.
_OF_NUMBER = "p-"


@dataclass(frozen=True)
class Materialization:
    """What a step has made of a table. `partitions`: values of partition columns by Dagster partition key, each of which
    becomes a tag if `tag_partitions`; `event_key` gives for a key the partition that Dagster's event is about.
    """

    context: dg.AssetExecutionContext
    key: dg.AssetKey
    table: Table
    tags: Mapping[str, str]
    partitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tag_partitions: bool = False
    event_key: Callable[[str], str] = str
    snapshot_tags: Sequence[str] = ()

    def result(
        self, snapshot: Snapshot | None, sources: Sequence[SnapshotRef], *, is_same: bool = False
    ) -> dg.MaterializeResult[Any]:
        """What Dagster is told of a snapshot, which gets its tags; of none (None), why nothing was committed: `is_same` if the
        rows were those that there are.

        A snapshot that is there stays there, whatever happens to the table meanwhile: what fails from here on is told as a
        warning, not as a commit that failed.
        """
        if snapshot is None:
            return self._unchanged(is_same=is_same)
        try:
            return self._committed(snapshot, sources)
        except StorageError as error:
            return self._not_finished(snapshot, error)

    def _not_finished(self, snapshot: Snapshot, error: StorageError) -> dg.MaterializeResult[Any]:
        branch = self.table.identifier.branch
        warning = (
            f"Snapshot {snapshot.id} of {self.table.identifier} is committed; its tags and numbers are not: {error}"
        )
        self.context.log.warning(warning)
        return dg.MaterializeResult(
            asset_key=self.key,
            metadata={"snapshot": snapshot.id, "branch": branch, "warning": warning},
            data_version=dg.DataVersion(f"{branch}@{snapshot.id}"),
            tags=self.tags,
        )

    def _committed(self, snapshot: Snapshot, sources: Sequence[SnapshotRef]) -> dg.MaterializeResult[Any]:
        self._tag(snapshot.id)
        ref = self.table.ref(snapshot.id)
        assert ref is not None
        numbers = CommitNumbers.of(self.table, snapshot)
        way_out = if_it_is_bad(Launchpads.of_run(self.context.run), ref)
        metadata = way_out | table_metadata(self.table, snapshot, sources, numbers)
        if numbers.given.get("duplicate_keys"):
            self.context.log.warning(
                f"{numbers.given['rows_given']} rows were given to {ref}, {numbers.given['duplicate_keys']} of them under a key "
                f"that a later row has: {metadata['rows_added']} are written"
            )
        if "warning" in metadata:
            self.context.log.warning(f"{ref} is committed, but {metadata['warning']}")
        self.context.log.info(
            f"committed {ref}: {metadata['rows_added']} rows added, {metadata['rows_removed']} removed"
        )
        if self.partitions:
            metadata = self._of_partitions(snapshot, metadata, numbers)
        return dg.MaterializeResult(
            asset_key=self.key, metadata=metadata, data_version=dg.DataVersion(ref.data_version), tags=self.tags
        )

    def _unchanged(self, *, is_same: bool) -> dg.MaterializeResult[Any]:
        """The result of a run that committed nothing: downstream must not take the table for changed."""
        current = self.table.last_change()
        version = current.data_version if current else f"{self.table.identifier.branch}@0"
        why = "no other rows than there are" if is_same else "no rows"
        self.context.log.info(f"nothing to commit to {self.table.identifier}, which got {why}; it stays at {version}")
        # No rows to be added leave partitions as they are: that is how they were made.
        is_made = is_same or bool(self.partitions)
        if is_made and current is not None:
            self._tag(current.snapshot_id)
        snapshot = None if current is None else self.table.snapshot(current.snapshot_id)
        numbers = CommitNumbers.none(self.table)
        metadata: dict[str, Any] = {**numbers.total, "nothing_committed": f"got {why}, stays at {version}"}
        if is_made and snapshot is not None:
            metadata = table_metadata(self.table, snapshot, sources_of(snapshot), numbers) | metadata
            if self.partitions:
                metadata = self._of_partitions(snapshot, metadata, numbers)
        return dg.MaterializeResult(
            asset_key=self.key, metadata=metadata, data_version=dg.DataVersion(version), tags=self.tags
        )

    def _tag(self, snapshot_id: int) -> None:
        for name in self.snapshot_tags:
            tag_newest(self.table, name, snapshot_id)

    def _of_partitions(self, snapshot: Snapshot, metadata: dict[str, Any], numbers: CommitNumbers) -> dict[str, Any]:
        """Tag partitions and tell the numbers of each; returns what is true of all of them."""
        for partition_key, values in self.partitions.items():
            if self.tag_partitions:
                tag_newest(self.table, tag_name(partition_key), snapshot.id)
            self.context.add_asset_metadata(
                partition_metadata(self.table, snapshot, values, numbers),
                asset_key=self.key,
                partition_key=self.event_key(partition_key),
            )
        # Numbers of the whole table and the whole commit would be read as those of the partition.
        metadata = {name: value for name, value in metadata.items() if name not in (*numbers.total, "rows_given")}
        metadata["table_rows"] = metadata.pop("dagster/row_count")
        if len(self.partitions) == 1 and numbers.given:
            metadata["rows_given"] = numbers.given["rows_given"]
        if self.tag_partitions:
            metadata["tags"] = ", ".join(tag_name(partition) for partition in self.partitions)
        return metadata


def check_tags(partition_keys: Iterable[str], tags: Iterable[str] = ()) -> None:
    """Raise InvalidRequest for a key of a Dagster partition that cannot become a tag, or would become that of another one, and
    for `tags` that are set besides and cannot be.
    """
    for tag in tags:
        check_new_tag_name(tag)
    for partition_key in partition_keys:
        number = partition_key.removeprefix(_OF_NUMBER)
        if number != partition_key and number.isdigit():
            raise InvalidRequest(
                f"Partition {partition_key!r} cannot become a tag of its table: that is the tag of a partition {number!r}, since "
                "a number alone names a snapshot. Name the partition otherwise, or say tag_partitions=False."
            )
        try:
            check_new_tag_name(tag_name(partition_key))
        except InvalidRequest as error:
            raise InvalidRequest(
                f"Partition {partition_key!r} cannot become a tag of its table: {error} Name the partition otherwise, or say "
                "tag_partitions=False."
            ) from None


def tag_name(partition_key: str) -> str:
    """The tag of a Dagster partition: its key, unless that is a number, which would hide a snapshot id."""
    return f"{_OF_NUMBER}{partition_key}" if partition_key.isdigit() else partition_key
