"""`csv`: a line for each row, without a head. Values are read by the rules of `json` for texts."""

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from ..data_types import STRING, DataField, DataType
from ..errors import InvalidRequest, Unsupported
from .json_codec import JsonCodec, JsonStyle
from .json_format import as_messages, in_order, without, worded
from .message_format import (
    Decoded,
    FormatOption,
    Malformed,
    check_metadata,
    inserted,
    read_options,
    refuse_other_kinds,
    texts_of,
)

_OPTIONS = {
    "field-delimiter": FormatOption(","),
    "quote-character": FormatOption('"'),
    "disable-quote-character": FormatOption("false", "true or false"),
    "null-literal": FormatOption(""),
    "ignore-parse-errors": FormatOption("false", "true or false"),
}
_READ = JsonStyle(numbers_may_be_infinite=True)


@dataclass(frozen=True)
class CsvFormat:
    """Rows as lines. What is written as `null-literal`, by default nothing, is null; an empty text is written with quotes."""

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    name: ClassVar[str] = "csv"
    is_insert_only: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = {}
    _values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        values = read_options(self.name, _OPTIONS, self.options)
        for key in ("field-delimiter", "quote-character"):
            if len(values[key]) != 1:
                raise InvalidRequest(f"Option 'csv.{key}' = {values[key]!r} is not one character.")
        for each in self.fields:
            if each.type.is_nested or each.type.root in ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY"):
                raise Unsupported(f"Format 'csv' has no form for column {each.name!r}, {each.type}. Use 'json'.")
        object.__setattr__(self, "_values", values)

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        refuse_other_kinds(self.name, kinds)
        columns = [
            self._written(rows.column(index).combine_chunks(), each.type) for index, each in enumerate(self.fields)
        ]
        return as_messages(pc.binary_join_element_wise(*columns, self._values["field-delimiter"]))

    def _written(self, column: pa.Array, type_: DataType) -> pa.Array:
        if type_.is_bytes:
            # Arrow has no base64.
            texts = pa.array([None if each is None else base64.b64encode(each).decode() for each in column.to_pylist()])
        elif type_.is_float:
            texts = _numbers(column)
        else:
            texts = column
        return pc.fill_null(self._quoted(texts.cast(pa.string())), self._values["null-literal"])

    def _quoted(self, texts: pa.Array) -> pa.Array:
        quote, delimiter = self._values["quote-character"], self._values["field-delimiter"]
        special = [quote, delimiter, "\n", "\r"]
        needs = pc.equal(texts, self._values["null-literal"])
        for character in special:
            needs = pc.or_(needs, pc.match_substring(texts, character))
        if self._values["disable-quote-character"]:
            if pc.any(pc.equal(texts, self._values["null-literal"])).as_py():
                raise InvalidRequest(
                    "A value is written as 'csv.null-literal', and 'csv.disable-quote-character' is true."
                )
            if pc.any(pc.match_substring_regex(texts, f"[\\n\\r\\x{ord(delimiter):02x}]")).as_py():
                raise InvalidRequest(
                    "A value has the delimiter or a line break in it, and 'csv.disable-quote-character' is true."
                )
            return texts
        doubled = pc.replace_substring(texts, quote, quote * 2)
        return pc.if_else(needs, pc.binary_join_element_wise(quote, doubled, quote, ""), texts)

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        # The only column may be null, which is written as nothing.
        texts, places, malformed = texts_of(values, keeps_empty=True)
        table = self._parsed(texts) if self._are_lines(texts) else None
        if table is None:
            table, good, broken = self._one_by_one(texts)
            malformed += [Malformed(places[each.message].as_py(), each.reason) for each in broken]
            places = places.take(good)
        objects = self.codec.write(table, [DataField(0, each.name, STRING) for each in self.fields], JsonStyle())
        read = self.codec.read(objects, self.fields, _READ, lenient=self._values["ignore-parse-errors"])
        rows = read.rows
        if read.faults:
            malformed += [
                Malformed(places[each.message].as_py(), worded(each.field, each.reason)) for each in read.faults
            ]
            kept = without(len(objects), [each.message for each in read.faults])
            rows, places = rows.take(kept), places.take(kept)
        return Decoded(rows, inserted(len(places)), places, {}, in_order(malformed))

    def _are_lines(self, texts: pa.Array) -> bool:
        """Whether the messages may be read together: each is one line, and ends what it begins."""
        if pc.any(pc.match_substring_regex(texts, "[\\n\\r]")).as_py():
            return False
        if len(self.fields) > 1 and pc.any(pc.equal(texts, "")).as_py():
            return False
        if self._values["disable-quote-character"]:
            return True
        quotes = pc.count_substring(texts, self._values["quote-character"])
        return not pc.any(pc.not_equal(pc.bit_wise_and(quotes, 1), 0)).as_py()

    def _parsed(self, texts: pa.Array) -> pa.Table | None:
        """Messages at once, as texts; None if some is not one row."""
        if not self.fields or not len(texts):
            return pa.table({each.name: pa.array([], pa.string()) for each in self.fields}) if self.fields else None
        block = "".join(f"{text}\n" for text in texts.to_pylist()).encode()
        quote = False if self._values["disable-quote-character"] else self._values["quote-character"]
        names = [each.name for each in self.fields]
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                arrow_csv.ReadOptions(column_names=[f"c{index}" for index in range(len(names))]),
                arrow_csv.ParseOptions(
                    delimiter=self._values["field-delimiter"],
                    quote_char=quote,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                arrow_csv.ConvertOptions(
                    column_types={f"c{index}": pa.string() for index in range(len(names))},
                    null_values=[self._values["null-literal"]],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return table.rename_columns(names) if table.num_rows == len(texts) else None

    def _one_by_one(self, texts: pa.Array) -> tuple[pa.Table, pa.Array, list[Malformed]]:
        """Each message by itself: the rows, which of the messages they are, and the others."""
        rows = [pa.table({each.name: pa.array([], pa.string()) for each in self.fields})]
        good: list[int] = []
        broken: list[Malformed] = []
        for index, text in enumerate(texts.to_pylist()):
            reason = self._why_broken(text)
            row = None if reason else self._parsed(texts.slice(index, 1))
            if row is None or row.num_rows != 1:
                broken.append(Malformed(index, reason or "It is not one line of values."))
            else:
                rows.append(row)
                good.append(index)
        return pa.concat_tables(rows), pa.array(good, pa.int64()), broken

    def _why_broken(self, text: str) -> str:
        """Why a message is no row; empty if it is one. Which values are quoted, Python's reader does not tell."""
        quoting: Any = csv.QUOTE_NONE if self._values["disable-quote-character"] else csv.QUOTE_MINIMAL
        quote = self._values["quote-character"]
        read = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self._values["field-delimiter"],
            quotechar=quote,
            quoting=quoting,
            strict=True,
        )
        try:
            lines = list(read) if text else [[""]]
        except csv.Error as error:
            return f"It is not one line of values quoted by {quote}: {error}."
        if len(lines) == 1 and len(lines[0]) == len(self.fields):
            return ""
        content = f"{len(lines)} lines" if len(lines) != 1 else f"{len(lines[0])} values"
        return f"It has {content}, and not one line of {len(self.fields)} values."


def _numbers(column: pa.Array) -> pa.Array:
    """Floating numbers as texts: what is no finite number in the words of Java, which reads no others."""
    texts = column.cast(pa.string())
    for word, java in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, word), java, texts)
    return texts
