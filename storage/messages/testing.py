"""What every format of messages has to do: a test class that implementations run.

class TestMyFormat(MessageFormatContract):
    @pytest.fixture
    def make(self):
        return open_format
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from ..data_types import DataField, parse_type
from ..errors import InvalidRequest
from .json_codec import JsonCodec
from .message_format import DELETE, INSERT, MessageFormat
from .registry import MakeFormat

# What is tried of each type: the name of a column, and a value.
_TRIED: dict[str, tuple[str, Any]] = {
    "BOOLEAN": ("flag", True),
    "SMALLINT": ("small", -3),
    "INT": ("id", 1),
    # No double is that number.
    "BIGINT": ("big", 2**62 + 1),
    "DOUBLE": ("weight", 1.5),
    "DECIMAL(10, 2)": ("price", "12.34"),
    "STRING": ("name", 'a,"b"\nc'),
    "BYTES": ("data", b"\x00\xff"),
    "DATE": ("day", 19844),
    "TIMESTAMP(3)": ("at", 1714564800123),
    "TIMESTAMP_LTZ(6)": ("moment", 1714564800123456),
    "TIME(3)": ("clock", 43200123),
}


class MessageFormatContract:
    """Tests of an implementation. Fixtures: `make`, the function that an entry point names; `options`, without the format's name
    before them; `codec`, for a format that needs one; `types`, the columns that it can hold: names and types, of these:
    BOOLEAN, SMALLINT, INT, BIGINT, DOUBLE, DECIMAL(10, 2), STRING, BYTES, DATE, TIMESTAMP(3), TIMESTAMP_LTZ(6), TIME(3).
    """

    @pytest.fixture
    def make(self) -> MakeFormat:
        """The implementation."""
        raise NotImplementedError

    @pytest.fixture
    def options(self) -> Mapping[str, str]:
        return {}

    @pytest.fixture
    def codec(self) -> JsonCodec | None:
        return None

    @pytest.fixture
    def types(self) -> Mapping[str, str]:
        """The columns that rows are tried with: one for each sort of type, and a text. A format that holds fewer says which."""
        return {name: text for text, (name, _) in _TRIED.items()}

    @pytest.fixture
    def format_(
        self, make: MakeFormat, options: Mapping[str, str], codec: JsonCodec, types: Mapping[str, str]
    ) -> MessageFormat:
        fields = [DataField(index, name, parse_type(text)) for index, (name, text) in enumerate(types.items())]
        return make(tuple(fields), options, codec)

    @pytest.fixture
    def rows(self, types: Mapping[str, str]) -> pa.Table:
        """A row with a value in each column, one with an empty text alone, one of nulls."""
        if others := [text for text in types.values() if text not in _TRIED]:
            pytest.fail(f"`types` holds {', '.join(others)}. Types that are tried: {', '.join(_TRIED)}.", pytrace=False)
        empty = {name: "" if text == "STRING" else None for name, text in types.items()}
        rows = [{name: _TRIED[text][1] for name, text in types.items()}, empty, dict.fromkeys(types)]
        return pa.table({name: _column(text, [row[name] for row in rows]) for name, text in types.items()})

    def test_a_format_reads_what_it_writes(self, format_: MessageFormat, rows: pa.Table) -> None:
        """Rows come back, each from its message, and none is left out."""
        messages = format_.encode(rows)
        assert messages.type == pa.binary() and len(messages) == rows.num_rows
        decoded = format_.decode(messages.combine_chunks())
        assert decoded.malformed == ()
        assert decoded.messages.to_pylist() == [0, 1, 2]
        assert decoded.kinds.to_pylist() == [INSERT] * 3
        assert decoded.rows.schema.names == rows.schema.names
        for name in rows.schema.names:
            assert decoded.rows.column(name).to_pylist() == rows.column(name).to_pylist(), name

    def test_parts_of_arrays_and_rows_in_several_chunks_are_taken(self, format_: MessageFormat, rows: pa.Table) -> None:
        """Also none at all."""
        chunked = pa.concat_tables([rows.slice(0, 1), rows.slice(1)])
        messages = format_.encode(chunked).combine_chunks()
        assert messages.to_pylist() == format_.encode(rows).to_pylist()
        decoded = format_.decode(messages.slice(1, 1))
        assert decoded.rows.to_pylist() == rows.slice(1, 1).to_pylist() and decoded.messages.to_pylist() == [0]
        assert len(format_.encode(rows.slice(0, 0))) == 0
        assert format_.decode(messages.slice(0, 0)).rows.num_rows == 0

    def test_metadata_that_it_does_not_have_is_refused(self, format_: MessageFormat, rows: pa.Table) -> None:
        """And what it says that it has is there, a value for each row."""
        messages = format_.encode(rows).combine_chunks()
        with pytest.raises(InvalidRequest):
            format_.decode(messages, ["no-such-key"])
        decoded = format_.decode(messages, list(format_.readable_metadata))
        assert set(decoded.metadata) == set(format_.readable_metadata)
        assert all(len(values) == decoded.rows.num_rows for values in decoded.metadata.values())

    def test_a_tombstone_is_passed_over(self, format_: MessageFormat, types: Mapping[str, str]) -> None:
        """Or read as a row of nulls, by a format that has one for it."""
        decoded = format_.decode(pa.array([None], pa.binary()))
        assert decoded.malformed == () and decoded.rows.schema.names == list(types)
        assert decoded.rows.to_pylist() == [dict.fromkeys(types)] * len(decoded.kinds)

    def test_deletes_are_told_or_refused(self, format_: MessageFormat, rows: pa.Table) -> None:
        kinds = pa.array([INSERT, DELETE, INSERT], pa.int8())
        if format_.is_insert_only:
            with pytest.raises(InvalidRequest):
                format_.encode(rows, kinds)
        else:
            assert format_.decode(format_.encode(rows, kinds).combine_chunks()).kinds.to_pylist() == kinds.to_pylist()

    def test_what_is_no_message_stops_nothing(self, format_: MessageFormat, rows: pa.Table) -> None:
        """A broken message is named with its place, or read as a row; those beside it are read. Nothing is raised."""
        good = format_.encode(rows.slice(0, 1)).to_pylist()
        decoded = format_.decode(pa.array([good[0], b"\xff{<broken", good[0]], pa.binary()))
        assert [each.message for each in decoded.malformed] in ([], [1])
        assert {0, 2} <= set(decoded.messages.to_pylist())

    def test_an_unknown_option_is_refused(
        self, make: MakeFormat, codec: JsonCodec, types: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        fields = tuple(DataField(index, name, parse_type(text)) for index, (name, text) in enumerate(types.items()))
        with pytest.raises(InvalidRequest, match="no-such-option"):
            make(fields, {**options, "no-such-option": "1"}, codec)


def _column(text: str, values: list[Any]) -> pa.Array:
    arrow = parse_type(text).to_arrow()
    return pa.array(values, pa.string()).cast(arrow) if pa.types.is_decimal(arrow) else pa.array(values, arrow)
