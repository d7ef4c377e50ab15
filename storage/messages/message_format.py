"""What a format of messages does: rows with their kinds to bytes, and back, a batch at a time.

A message may yield no row (a tombstone), one, or several (an update in Debezium's form). Metadata of a message is the same
for all rows that it yields. Kinds are those of the store: +I -U +U -D as 0 to 3 (`pa.int8`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import InvalidRequest
from ..option_declaration import READERS

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Malformed:
    """A message that yielded no rows because of what it holds. `message`: its place among those given."""

    message: int
    reason: str


@dataclass(frozen=True)
class Decoded:
    """Rows of a batch of messages, in the order of the messages.

    `kinds`: int8, one for each row, also where no column is read; `messages`: int64, the place of the message that each row came
    from; `metadata`: the keys that were asked for, each as long as there are rows; `malformed`: messages that are left out, in
    order.
    """

    rows: pa.Table
    kinds: pa.Array
    messages: pa.Array
    metadata: Mapping[str, pa.ChunkedArray]
    malformed: tuple[Malformed, ...] = ()


def reads_by_name(format_: "MessageFormat") -> bool:
    """Whether messages of a format can be read with some of their columns alone."""
    return bool(getattr(format_, "reads_by_name", False))


class MessageFormat(Protocol):
    """One format, for given columns and options. It says what it can do, so that a table is checked when it is created.

    One whose messages hold the names of their fields says `reads_by_name = True`: it is made for the columns alone that a query
    needs. Any other is always given all of them.
    """

    @property
    def name(self) -> str:
        """What `'format' = '…'` calls it."""

    @property
    def is_insert_only(self) -> bool:
        """Whether messages can say nothing but that a row is there."""

    @property
    def readable_metadata(self) -> Mapping[str, DataType]:
        """Keys that messages of this format can tell, in the order in which they are handed over."""

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """One message (`pa.binary`) for each row; without `kinds` all rows are inserted.

        Raises InvalidRequest for a row that the format has no message for, and names it.
        """

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """Read messages (`pa.binary`; null: a tombstone, which is passed over). Raises nothing for what they hold.

        A field that cannot be read makes its message malformed or is null, as the options say.
        """


@dataclass(frozen=True, slots=True)
class FormatOption:
    """An option of a format: its default as text, what it may be (a kind of `option_declaration`, or the choices), and the value
    of another one without which it says nothing.
    """

    default: str
    kind: str = "text"
    choices: tuple[str, ...] = ()
    only_with: tuple[str, str] | None = None


def read_options(name: str, declared: Mapping[str, FormatOption], given: Mapping[str, str]) -> dict[str, Any]:
    """The values of all options of a format. Raises InvalidRequest for an unknown one and for a value that is none."""
    if unknown := sorted(set(given) - set(declared)):
        known = ", ".join(f"'{name}.{each}'" for each in declared) or "none"
        raise InvalidRequest(f"Format {name!r} has no option '{name}.{unknown[0]}'. It has: {known}.")
    values = {key: _value(f"{name}.{key}", option, given.get(key, option.default)) for key, option in declared.items()}
    for key in given:
        other = declared[key].only_with
        if other is not None and values[other[0]] != other[1]:
            raise InvalidRequest(
                f"Option '{name}.{key}' goes with '{name}.{other[0]}' = {other[1]!r}, and that is {values[other[0]]!r}."
            )
    return values


def _value(key: str, option: FormatOption, text: str) -> Any:
    if option.choices:
        match = next((choice for choice in option.choices if choice.lower() == text.lower()), None)
        if match is None:
            raise InvalidRequest(f"Option {key!r} = {text!r}. Supported: {', '.join(option.choices)}.")
        return match
    try:
        return READERS[option.kind](text)
    except (InvalidRequest, ValueError) as error:
        raise InvalidRequest(f"Option {key!r} = {text!r} is not a {option.kind}: {error}") from None


def check_metadata(name: str, readable: Mapping[str, DataType], asked: Iterable[str]) -> None:
    """Raise InvalidRequest for a key that a format does not have."""
    for key in asked:
        if key not in readable:
            raise InvalidRequest(f"Format {name!r} has no metadata {key!r}. It has: {', '.join(readable) or 'none'}.")


def texts_of(values: pa.Array, *, keeps_empty: bool = False) -> tuple[pa.Array, pa.Array, list[Malformed]]:
    """The messages that are there as texts (`pa.string`), their places (int64), and those that are no UTF-8.

    A null message is a tombstone, and is left out; so is an empty one, unless `keeps_empty`.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    places = pc.indices_nonzero(
        pc.fill_null(pc.greater_equal(pc.binary_length(whole), 0 if keeps_empty else 1), False)
    ).cast(pa.int64())
    present = whole if len(places) == len(whole) else whole.take(places)
    try:
        return present.cast(pa.string()), places, []
    except pa.ArrowInvalid:
        return _texts_one_by_one(present, places)


def _texts_one_by_one(present: pa.Array, places: pa.Array) -> tuple[pa.Array, pa.Array, list[Malformed]]:
    """Which of the messages are texts; only where some are not."""
    texts: list[str] = []
    kept: list[int] = []
    malformed: list[Malformed] = []
    for place, value in zip(places.to_pylist(), present.to_pylist(), strict=True):
        try:
            texts.append(value.decode())
            kept.append(place)
        except UnicodeDecodeError as error:
            malformed.append(Malformed(place, f"It is no UTF-8: byte {error.start} is 0x{value[error.start]:02x}."))
    return pa.array(texts, pa.string()), pa.array(kept, pa.int64()), malformed


def inserted(count: int) -> pa.Array:
    """The kinds of rows that are all inserted."""
    return pa.repeat(pa.scalar(INSERT, pa.int8()), count)


def refuse_other_kinds(name: str, kinds: pa.Array | None) -> None:
    """Raise InvalidRequest for a row that is not inserted, for formats that can say nothing else."""
    if kinds is not None and pc.any(pc.not_equal(kinds, INSERT)).as_py():
        row = pc.index(pc.not_equal(kinds, INSERT), pa.scalar(True)).as_py()
        raise InvalidRequest(
            f"Format {name!r} can only insert, and row {row} is {('+I', '-U', '+U', '-D')[kinds[row].as_py()]}. "
            "Use 'debezium-json', 'canal-json', or the connector 'upsert-kafka'."
        )
