"""What a commit replaces of the rows that are there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..arguments import checked
from ..errors import InvalidRequest
from ..metadata.table_store import TableStore


@checked
@dataclass(frozen=True, slots=True)
class Overwrite:
    """Which live files a commit replaces. Rows outside of that may not be written by the same commit.

    `matching` lists partitions by the values (`storage.values`) of some or all partition columns; None means the whole
    table. `dynamic`: the partitions that the rows go to, whichever those are.
    """

    matching: tuple[Mapping[str, Any], ...] | None = None
    dynamic: bool = False

    def __post_init__(self) -> None:
        if self.matching is not None and not all(self.matching):
            raise InvalidRequest(
                "A partition without any value would be the whole table. Give values of partition columns, or leave the "
                "partition out."
            )

    def settled(self, written: frozenset[bytes]) -> "Overwrite":
        """A dynamic overwrite, once it is known which partitions were written."""
        return _SettledOverwrite(partitions=written) if self.dynamic else self

    def covers(self, store: TableStore, partition: bytes) -> bool:
        """Whether a partition is replaced."""
        if self.matching is None:
            return True
        values = store.partition_values(partition)
        return any(all(values[name] == value for name, value in each.items()) for each in self.matching)


@dataclass(frozen=True, slots=True)
class _SettledOverwrite(Overwrite):
    partitions: frozenset[bytes] = frozenset()

    def covers(self, store: TableStore, partition: bytes) -> bool:
        return partition in self.partitions
