"""Consumers: how far each named reader of changes has come. What it has not read yet does not expire.

Follows `docs/format.md`, "Consumers".
"""

import json
import re
from dataclasses import dataclass

from ..document import integer, read_document, sealed
from ..errors import CorruptData, InvalidRequest
from ..file_io import FileIO
from ..identifier import check_file_name
from ..paths import TablePaths
from .witness import WitnessOf, no_witness

# Who wrote the file last.
_WRITER_KEY = "snapline.writer"
_CONSUMER_FILE = re.compile(r"consumer-(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of changes, and the first snapshot that it has not read."""

    name: str
    next_snapshot_id: int


class ConsumerFiles:
    """The consumers of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of

    def content(self, name: str) -> bytes | None:
        """What the file of a consumer holds, by which it is told whether it has changed; None if there is none."""
        path = self._paths.consumer(check_file_name(name, "consumer"))
        return None if "/" in name else self._file_io.read_bytes_or_none(path)

    def find(self, name: str) -> Consumer | None:
        return self.parsed(name, self.content(name))

    def parsed(self, name: str, content: bytes | None) -> Consumer | None:
        """The consumer that a content tells of. Raises CorruptData that names the file."""
        if content is None:
            return None
        path = self._paths.consumer(name)
        try:
            return Consumer(name, integer(read_document(content, path).get("nextSnapshot"), path, "nextSnapshot"))
        except CorruptData as error:
            raise CorruptData(f"{error} Reset or delete the consumer.") from None

    def all(self, not_before_ms: int | None = None) -> list[Consumer]:
        """Every consumer, by name; those that have not moved since a time are left out."""
        while True:
            files = self._files()
            consumers = []
            for name, modified_ms in files.items():
                recent = not_before_ms is None or modified_ms is None or modified_ms >= not_before_ms
                if recent and (consumer := self.find(name)) is not None:
                    consumers.append(consumer)
            # One may have come because another was where it began, which has moved on before it was read.
            if self._files().keys() == files.keys():
                return sorted(consumers, key=lambda consumer: consumer.name)

    def _files(self) -> dict[str, int | None]:
        """When the file of each consumer was last written, in milliseconds since 1970."""
        listed = self._file_io.list_files(self._paths.consumer_directory)
        return {match[1]: file.modified_ms for file in listed if (match := _CONSUMER_FILE.fullmatch(file.name))}

    def put(self, consumer: Consumer, before: bytes | None, writer: str) -> bytes | None:
        """Remember how far a consumer has come, if its file still is what was read; returns what it holds then, or None.

        `writer` is a name that nobody else uses: no two contents are the same.
        """
        check_file_name(consumer.name, "consumer")
        number = consumer.next_snapshot_id
        if isinstance(number, bool) or not isinstance(number, int) or number >= 2**63:
            raise InvalidRequest(f"The next snapshot of a consumer is a whole number, not {number!r}.")
        if not consumer.name or "/" in consumer.name or consumer.next_snapshot_id < 1:
            raise InvalidRequest(
                f"A consumer has a name without '/' and a next snapshot from 1 on, not {consumer.name!r} and "
                f"{consumer.next_snapshot_id}."
            )
        value = {"nextSnapshot": consumer.next_snapshot_id, _WRITER_KEY: writer}
        content = json.dumps(sealed(value, f"consumer-{consumer.name}")).encode()
        return content if self.replace(consumer.name, before, content) else None

    def replace(self, name: str, before: bytes | None, after: bytes | None) -> bool:
        """Let the file of a consumer hold something else (None: there is none), if it is what was read; says whether it was."""
        path = self._paths.consumer(name)
        if after is not None:
            return self._file_io.replace_if(path, before, after, of=self._of())
        return before is not None and self._file_io.delete_if(path, before)

    def announce_expiry(self, next_snapshot_id: int) -> None:
        """Say that snapshots below a number may expire from now on, before looking which consumers there are."""
        if self._file_io.is_local:
            self._file_io.raise_number(self._paths.expiring, next_snapshot_id, of=self._of())
            return
        # Where no number is raised in one step, each has a file of its own, and the highest counts.
        lower = [number for number in self._expiring() if number < next_snapshot_id]
        self._file_io.create_exclusively(f"{self._paths.expiring}-{next_snapshot_id}", b"", of=self._of())
        for number in lower:
            self._file_io.delete(f"{self._paths.expiring}-{number}")

    def expiring_below(self) -> int:
        """The number below which snapshots may expire at any moment, unless a consumer keeps them; 0 for none."""
        written = self._file_io.read_number(self._paths.expiring) or 0
        return written if self._file_io.is_local else max([written, *self._expiring()])

    def _expiring(self) -> list[int]:
        directory, _, name = self._paths.expiring.rpartition("/")
        prefix = f"{name}-"
        numbers = [
            file.name.removeprefix(prefix)
            for file in self._file_io.list_files(directory)
            if file.name.startswith(prefix)
        ]
        return [int(number) for number in numbers if number.isdigit()]
