"""Consumers: how far each named reader of changes has come. What it has not read yet does not expire.

Follows `docs/format.md`, "Consumers".
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..document import integer, read_document, sealed, text
from ..errors import CorruptData, InvalidRequest
from ..file_io import FileIO
from ..identifier import check_file_name
from ..paths import TablePaths
from .rising_number import RisingNumber
from .witness import WitnessOf, no_witness

_log = logging.getLogger(__name__)
# Who wrote the file last.
_WRITER_KEY = "snapline.writer"
# The identity of the snapshot before the next one, since a number alone may come to mean another snapshot.
_LAST_READ_KEY = "snapline.last-read"
# In the file of a consumer that is not sure yet, for it may be that what it is to begin with expires: what it was before.
_WAS_KEY = "snapline.was"
# Of a consumer that has read nothing yet, and is to begin with the table as a whole.
_BEGINS_KEY = "snapline.begins"
_CONSUMER_FILE = re.compile(r"consumer-(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of changes, and the first snapshot that it has not read. `last_read`: the identity of the snapshot before that;
    None if there is none, or whoever wrote the file did not say. `begins`: it keeps what it is to read from expiring, and has
    read nothing, so that its first reading is still that of the whole table.
    """

    name: str
    next_snapshot_id: int
    last_read: str | None = None
    begins: bool = False


def check_consumer_name(name: str) -> None:
    """Raise InvalidRequest for what cannot name a consumer."""
    check_file_name(name, "consumer")
    if not name or "/" in name:
        raise InvalidRequest(f"{name!r} cannot name a consumer: it must not be empty or contain a slash.")


def _consumer(name: str, value: Mapping[str, Any], path: str) -> Consumer:
    last_read, number = value.get(_LAST_READ_KEY), integer(value.get("nextSnapshot"), path, "nextSnapshot")
    if number < 1:
        raise CorruptData(f"File {path} is damaged: nextSnapshot is {number}, no number of a snapshot.")
    return Consumer(
        name,
        number,
        None if last_read is None else text(last_read, path, _LAST_READ_KEY),
        value.get(_BEGINS_KEY) is True,
    )


def _document(consumer: Consumer) -> dict[str, Any]:
    said = {} if consumer.last_read is None else {_LAST_READ_KEY: consumer.last_read}
    return {"nextSnapshot": consumer.next_snapshot_id, **said, **({_BEGINS_KEY: True} if consumer.begins else {})}


class ConsumerFiles:
    """The consumers of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of
        self._expiring = RisingNumber(file_io, paths.expiring, of)

    def content(self, name: str) -> bytes | None:
        """What the file of a consumer holds, by which it is told whether it has changed; None if there is none."""
        path = self._paths.consumer(check_file_name(name, "consumer"))
        return None if "/" in name else self._file_io.read_bytes_or_none(path)

    def find(self, name: str) -> Consumer | None:
        """The consumer of a name; None if there is none."""
        return self.parsed(name, self.content(name))

    def parsed(self, name: str, content: bytes | None) -> Consumer | None:
        """The consumer that a content tells of: what it was before, as long as it is not sure. Raises CorruptData that names
        the file.
        """
        return self._read(name, content)[0]

    def is_sure(self, name: str, content: bytes) -> bool:
        """Whether a content says where a consumer stands, and not where somebody is about to let it begin."""
        return self._read(name, content)[1]

    def _read(self, name: str, content: bytes | None, *, held: bool = False) -> tuple[Consumer | None, bool]:
        """A consumer, and whether it is sure. `held`: what it keeps from expiring, sure or not."""
        if content is None:
            return None, True
        path = self._paths.consumer(name)
        try:
            value = read_document(content, path)
            consumer, was = _consumer(name, value, path), value.get(_WAS_KEY)
            if _WAS_KEY not in value or held:
                return consumer, _WAS_KEY not in value
            if was is None:
                return None, False
            if not isinstance(was, dict):
                raise CorruptData(f"File {path} is damaged: {_WAS_KEY} is no object.")
            return _consumer(name, was, path), False
        except CorruptData as error:
            raise CorruptData(f"{error} Reset or delete the consumer.") from None

    def all(self) -> list[Consumer]:
        """Every consumer, by name."""
        return [consumer for consumer, _ in self._all(None, held=False)]

    def hand_over(self, target: "ConsumerFiles", going_on: Callable[[Consumer], Consumer], writer: str) -> None:
        """Give another branch the consumers of this one, each as it goes on there, but for names that it has. One that cannot
        be read comes there as it is: it stays as damaged as it was, and can be reset or deleted.
        """
        for name in sorted(self._files()):
            path = self._paths.consumer(name)
            content = self._file_io.read_bytes_or_none(path)
            try:
                consumer, _ = self._read(name, content)
            except CorruptData as error:
                _log.warning("%s It is handed over as it is.", error)
                target.replace(name, None, content)
            else:
                if consumer is not None:
                    target.put(going_on(consumer), None, writer)

    def kept_from(self, not_before_ms: int | None = None, always: Collection[str] = ()) -> int | None:
        """The first snapshot that a consumer keeps, those among them that are not sure yet; None if there are none. Those that
        have not moved since a time are left out, but for some that `always` count.
        """
        kept = self._all(not_before_ms, held=True, always=always)
        return min((each.next_snapshot_id for each, _ in kept), default=None)

    def _all(
        self, not_before_ms: int | None, *, held: bool, always: Collection[str] = ()
    ) -> list[tuple[Consumer, bool]]:
        while True:
            files = self._files()
            consumers = []
            for name, modified_ms in sorted(files.items()):
                recent = name in always or not_before_ms is None or modified_ms is None or modified_ms >= not_before_ms
                consumer, is_sure = self._read(name, self.content(name), held=held) if recent else (None, True)
                if consumer is not None:
                    consumers.append((consumer, is_sure))
            # One may have come because another was where it began, which has moved on before it was read.
            if self._files().keys() == files.keys():
                return consumers

    def give_up_unsure(self, until_ms: int, writer: str) -> None:
        """Let the consumers be what they were that somebody began before a time, and who has died."""
        for name, modified_ms in self._files().items():
            content = self.content(name) if modified_ms is not None and modified_ms <= until_ms else None
            with suppress(CorruptData):
                was, is_sure = self._read(name, content)
                if not is_sure and was is not None:
                    self.put(was, content, writer)
                elif not is_sure:
                    self.replace(name, content, None)

    def _files(self) -> dict[str, int | None]:
        """When the file of each consumer was last written, in milliseconds since 1970."""
        listed = self._file_io.list_files(self._paths.consumer_directory, or_in_place=True)
        return {match[1]: file.modified_ms for file in listed if (match := _CONSUMER_FILE.fullmatch(file.name))}

    def put(self, consumer: Consumer, before: bytes | None, writer: str) -> bytes | None:
        """Remember how far a consumer has come, if its file still is what was read; returns what it holds then, or None.

        `writer` is a name that nobody else uses: no two contents are the same.
        """
        return self._put(consumer, before, {**_document(consumer), _WRITER_KEY: writer})

    def begin(self, consumer: Consumer, was: Consumer | None, before: bytes | None, writer: str) -> bytes | None:
        """As `put`, before it is sure that a consumer can begin there: users see what it was, or that there was none, and what
        it would read is kept.
        """
        known = None if was is None else _document(was)
        return self._put(consumer, before, {**_document(consumer), _WRITER_KEY: writer, _WAS_KEY: known})

    def _put(self, consumer: Consumer, before: bytes | None, value: Mapping[str, Any]) -> bytes | None:
        check_consumer_name(consumer.name)
        number = consumer.next_snapshot_id
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**63:
            raise InvalidRequest(f"The next snapshot of a consumer is a whole number from 1 on, not {number!r}.")
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
        self._expiring.raise_to(next_snapshot_id)

    def expiring_below(self) -> int:
        """The number below which snapshots may expire at any moment, unless a consumer keeps them; 0 for none."""
        return self._expiring.read()
