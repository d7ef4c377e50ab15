"""`raw`: the message is the value of the only column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, DataType
from ..errors import InvalidRequest
from .json_codec import JsonCodec
from .message_format import (
    Decoded,
    FormatOption,
    Malformed,
    check_metadata,
    inserted,
    read_options,
    refuse_other_kinds,
)

_NUMBERS = {
    "BOOLEAN": "i1",
    "TINYINT": "i1",
    "SMALLINT": "i2",
    "INT": "i4",
    "BIGINT": "i8",
    "FLOAT": "f4",
    "DOUBLE": "f8",
}
_OPTIONS = {
    "charset": FormatOption("UTF-8", choices=("UTF-8",)),
    "endianness": FormatOption("big-endian", choices=("big-endian", "little-endian")),
}


@dataclass(frozen=True)
class RawFormat:
    """One column as bytes. A null message is a row with null."""

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    name: ClassVar[str] = "raw"
    is_insert_only: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = {}
    _values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_values", read_options(self.name, _OPTIONS, self.options))
        if len(self.fields) > 1:
            named = ", ".join(each.name for each in self.fields)
            raise InvalidRequest(f"Format 'raw' is for one column, and there are {len(self.fields)}: {named}.")
        for each in self.fields:
            if not (each.type.is_text or each.type.is_bytes or each.type.root in _NUMBERS):
                raise InvalidRequest(
                    f"Format 'raw' has no bytes for column {each.name!r}, {each.type}: STRING, BYTES, BOOLEAN or a number."
                )

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        refuse_other_kinds(self.name, kinds)
        column, type_ = rows.column(0).combine_chunks(), self.fields[0].type
        if type_.is_text or type_.is_bytes:
            return pa.chunked_array([column.cast(pa.binary())])
        kind = self._kind(type_)
        values = pc.fill_null(column.cast(pa.int8()) if type_.root == "BOOLEAN" else column, 0).to_numpy(
            zero_copy_only=False
        )
        packed = pa.Array.from_buffers(
            pa.binary(kind.itemsize), len(column), [None, pa.py_buffer(np.ascontiguousarray(values.astype(kind)))]
        )
        return pa.chunked_array([pc.if_else(pc.is_valid(column), packed.cast(pa.binary()), None)])

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        if not self.fields:
            return Decoded(pa.table({}), inserted(len(values)), pa.array(range(len(values)), pa.int64()), {})
        name, type_ = self.fields[0].name, self.fields[0].type
        malformed: list[Malformed] = []
        places = pa.array(range(len(values)), pa.int64())
        if type_.is_text or type_.is_bytes:
            good = values
            if type_.is_text:
                good, places, malformed = self._texts(values, places)
            return Decoded(
                pa.table({name: good.cast(type_.to_arrow())}), inserted(len(good)), places, {}, tuple(malformed)
            )
        kind = self._kind(type_)
        fits = pc.fill_null(pc.equal(pc.binary_length(values), kind.itemsize), True)
        for index in pc.indices_nonzero(pc.invert(fits)).to_pylist():
            malformed.append(
                Malformed(index, f"It has {len(values[index].as_py())} bytes, {type_} has {kind.itemsize}.")
            )
        good, places = values.filter(fits), places.filter(fits)
        filled = pc.fill_null(good, bytes(kind.itemsize)).cast(pa.binary(kind.itemsize))
        buffer = filled.buffers()[1]
        numbers = np.frombuffer(buffer or b"", kind)[filled.offset : filled.offset + len(filled)]
        numbers = numbers.astype(kind.newbyteorder("="))
        column = pc.if_else(
            pc.is_valid(good), pa.array(numbers).cast(pa.bool_() if type_.root == "BOOLEAN" else type_.to_arrow()), None
        )
        return Decoded(pa.table({name: column}), inserted(len(column)), places, {}, tuple(malformed))

    def _kind(self, type_: DataType) -> np.dtype[Any]:
        return np.dtype((">" if self._values["endianness"] == "big-endian" else "<") + _NUMBERS[type_.root])

    def _texts(self, values: pa.Array, places: pa.Array) -> tuple[pa.Array, pa.Array, list[Malformed]]:
        try:
            return values.cast(pa.string()), places, []
        except pa.ArrowInvalid:
            # Only where some are no text is each looked at.
            wrong = {}
            for index, value in enumerate(values.to_pylist()):
                try:
                    (value or b"").decode()
                except UnicodeDecodeError as error:
                    wrong[index] = Malformed(
                        index, f"It is no UTF-8: byte {error.start} is 0x{value[error.start]:02x}."
                    )
            kept = pc.invert(pc.is_in(places, pa.array([*wrong], pa.int64())))
            return values.filter(kept).cast(pa.string()), places.filter(kept), [*wrong.values()]
