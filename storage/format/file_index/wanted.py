"""Which columns of a table have which file indexes, by the options of the table, and the indexes of the rows of a file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...data_types import DataType
from ...errors import InvalidRequest, Unsupported
from ...option_texts import parse_size_bytes
from ..named_checksum import checksum
from . import bit_slices, bitmap, bloom_filter, range_bitmap
from .container import write_container
from .keys import Ranked, rank

PREFIX = "file-index."
# How the name of a file that holds the indexes of a data file ends. Those that are written here have the data file's name,
# and the checksum of their content before it.
INDEX_SUFFIX = ".index"
_WITH_CHECKSUM = re.compile(r".*\.([0-9a-f]{8})\.index")
_COLUMNS = ".columns"
KINDS = (bloom_filter.KIND, bitmap.KIND, bit_slices.KIND, range_bitmap.KIND)
_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME")
_LARGEST_FILTER_BITS = 2**31 - 8
_PLAIN_KEYS = ("in-manifest-threshold", "read.enabled")
# What may be said of a column, by type of index.
_SETTINGS = {
    bloom_filter.KIND: ("items", "fpp"),
    bitmap.KIND: ("version", "index-block-size"),
    bit_slices.KIND: (),
    range_bitmap.KIND: ("chunk-size",),
}
# A name in a file has two bytes for its length.
_LONGEST_NAME_BYTES = 65535


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that files shall have: its type, its column, and what is said of it beyond."""

    kind: str
    column: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def build(self, ranked: Ranked, data_type: DataType) -> bytes | None:
        """The bytes for a column; None if these values have no such index."""
        if self.kind == bloom_filter.KIND:
            return bloom_filter.write_bloom_filter(ranked, data_type, *self._bloom())
        if self.kind == bitmap.KIND:
            version = int(self.settings.get("version", "2"))
            return bitmap.write_bitmaps(
                ranked, data_type, version, self._size("index-block-size", bitmap.DEFAULT_BLOCK_BYTES)
            )
        if self.kind == bit_slices.KIND:
            return bit_slices.write_bit_slices(ranked, data_type)
        chunk_bytes = self._size("chunk-size", range_bitmap.default_chunk_bytes(data_type))
        return range_bitmap.write_range_bitmap(ranked, data_type, chunk_bytes)

    def check(self, data_type: DataType) -> None:
        """Raise Unsupported if columns of the type have no such index, InvalidRequest for settings that make no sense."""
        option = f"{PREFIX}{self.kind}{_COLUMNS}"
        if not _has_index(self.kind, data_type):
            raise Unsupported(
                f"Option {option!r} names column {self.column!r} of type {data_type}: such columns have no index {self.kind!r} "
                "that every reader understands alike. Leave the column out."
            )
        if len(self.column.encode()) > _LONGEST_NAME_BYTES // 3:
            raise Unsupported(f"Option {option!r} names a column whose name is too long for an index.")
        try:
            if self.kind == bloom_filter.KIND:
                items, share = self._bloom()
                if items < 1 or not 0 < share < 1:
                    raise InvalidRequest("'items' is 1 at the least, and 'fpp' lies between 0 and 1")
                _check_filter_size(items, share)
            elif self.settings.get("version", "2") not in ("1", "2"):
                raise InvalidRequest("'version' is 1 or 2")
            for name in ("index-block-size", "chunk-size"):
                if self._size(name, 1024) > 2**30 or (name == "index-block-size" and self._size(name, 1024) < 64):
                    raise InvalidRequest(f"{name!r} lies between 64 b and 1 gb")
        except (InvalidRequest, ValueError) as error:
            raise InvalidRequest(f"Options {PREFIX}{self.kind}.{self.column}.*: {error}.") from None

    def _bloom(self) -> tuple[int, float]:
        items = int(self.settings.get("items", str(bloom_filter.DEFAULT_ITEMS)))
        return items, float(self.settings.get("fpp", str(bloom_filter.DEFAULT_FALSE_POSITIVES)))

    def _size(self, name: str, default: int) -> int:
        return parse_size_bytes(self.settings[name]) if name in self.settings else default


def _check_filter_size(items: int, share: float) -> None:
    if bloom_filter.bits_for(items, share) > _LARGEST_FILTER_BITS:
        raise InvalidRequest("so many 'items' at so small an 'fpp' are more bits than a filter has")


def _has_index(kind: str, data_type: DataType) -> bool:
    root = data_type.root
    if kind == bloom_filter.KIND:
        return (
            data_type.is_text
            or data_type.is_bytes
            or data_type.is_float
            or data_type.is_timestamp
            or root in _WHOLE_NUMBERS
        )
    # Beyond microseconds, Java would take different moments for the same one.
    if data_type.is_timestamp:
        return data_type.precision <= 6
    if root in _WHOLE_NUMBERS:
        return True
    if root == "DECIMAL":
        return kind != bitmap.KIND and data_type.precision <= 18
    return kind != bit_slices.KIND and (data_type.is_text or data_type.is_float or root == "BOOLEAN")


def wanted_indexes(options: Mapping[str, str]) -> tuple[WantedIndex, ...]:
    """The indexes that options ask for, in the order of types and columns."""
    return tuple(_wanted(options))


def _wanted(options: Mapping[str, str]) -> Iterator[WantedIndex]:
    for kind in KINDS:
        for name in options.get(f"{PREFIX}{kind}{_COLUMNS}", "").split(","):
            column = name.strip()
            if column:
                start = f"{PREFIX}{kind}.{column}."
                given = {key.removeprefix(start): value for key, value in options.items() if key.startswith(start)}
                settings = {key: value.strip() for key, value in given.items() if key in _SETTINGS[kind]}
                yield WantedIndex(kind, column, settings)


def check_file_indexes(options: Mapping[str, str], types: Mapping[str, DataType]) -> None:
    """Raise InvalidRequest or Unsupported, naming the option, for indexes that files of a table with columns of these types
    cannot have.
    """
    given = {key: value for key, value in options.items() if key.startswith(PREFIX)}
    for key, value in given.items():
        rest = key.removeprefix(PREFIX)
        if rest in _PLAIN_KEYS:
            continue
        kind = next((each for each in KINDS if rest.startswith(f"{each}.")), None)
        if kind is None:
            raise Unsupported(f"Option {key!r}: there is no file index of that type here. Types: {', '.join(KINDS)}.")
        _check_key(key, rest.removeprefix(f"{kind}."), value, kind, options)
    for index in wanted_indexes(options):
        option = f"{PREFIX}{index.kind}{_COLUMNS}"
        if index.column not in types:
            if index.column.endswith("]"):
                raise Unsupported(
                    f"Option {option!r} names {index.column!r}: single keys of maps are not indexed here."
                )
            raise InvalidRequest(
                f"Option {option!r}: there is no column {index.column!r}. Columns: {', '.join(types)}."
            )
        index.check(types[index.column])


def _check_key(key: str, rest: str, value: str, kind: str, options: Mapping[str, str]) -> None:
    if rest == "columns":
        if not all(part.strip() for part in value.split(",")):
            raise InvalidRequest(f"Option {key!r} = {value!r} has an empty column name.")
        return
    column, _, setting = rest.rpartition(".")
    if setting not in _SETTINGS[kind]:
        known = ", ".join(_SETTINGS[kind]) or "none"
        raise InvalidRequest(f"Unknown option {key!r}. What can be said of a column with index {kind!r}: {known}.")
    if column not in [name.strip() for name in options.get(f"{PREFIX}{kind}{_COLUMNS}", "").split(",")]:
        raise InvalidRequest(f"Option {key!r}: column {column!r} is not named by '{PREFIX}{kind}{_COLUMNS}'.")


def renamed_index_option(key: str, value: str, names: Mapping[str, str]) -> tuple[str, str]:
    """An option of file indexes after columns were renamed, by their old names."""
    for kind in KINDS:
        if key == f"{PREFIX}{kind}{_COLUMNS}":
            return key, ",".join(names.get(part.strip(), part.strip()) for part in value.split(","))
        if key.startswith(f"{PREFIX}{kind}."):
            column, _, setting = key.removeprefix(f"{PREFIX}{kind}.").rpartition(".")
            return f"{PREFIX}{kind}.{names.get(column, column)}.{setting}", value
    return key, value


def is_indexed(key: str, value: str, column: str) -> bool:
    """Whether an option of file indexes names a column."""
    other, changed = renamed_index_option(key, value, {column: f"{column}\0"})
    return (other, changed) != (key, value) and f"{column}\0" in f"{other},{changed}"


def build_indexes(indexes: tuple[WantedIndex, ...], rows: pa.Table, types: Mapping[str, DataType]) -> bytes | None:
    """The container of the indexes of a file's rows; None if there is none. Columns that the rows lack have none."""
    ranks: dict[str, Ranked] = {}
    built: dict[str, dict[str, bytes]] = {}
    for index in indexes:
        data_type = types.get(index.column)
        if data_type is None or index.column not in rows.column_names or not _has_index(index.kind, data_type):
            continue
        if index.column not in ranks:
            ranks[index.column] = rank(rows.column(index.column), data_type)
        data = index.build(ranks[index.column], data_type)
        if data is not None:
            built.setdefault(index.column, {})[index.kind] = data
    return write_container(built) if built else None


def index_suffix(content: bytes) -> str:
    """What the name of a file of indexes has behind the name of its data file."""
    return f".{checksum(content)}{INDEX_SUFFIX}"


def is_damaged(name: str, content: bytes) -> bool:
    """Whether the content of a file of indexes is another than its name says. Names of other writers say nothing."""
    named = _WITH_CHECKSUM.fullmatch(name)
    return named is not None and named[1] != checksum(content)


def index_file(extra_files: Sequence[str]) -> str | None:
    """The name of the file that holds the indexes of a data file, among its extra files."""
    return next((name for name in extra_files if name.endswith(INDEX_SUFFIX)), None)
