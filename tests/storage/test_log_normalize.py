"""Complete changes beside a plain dictionary."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from storage.log.debezium import _WIDE, decode_values, encode_keys, encode_values
from storage.log.normalize import Normalizer

COLUMNS = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.float64())])
Row = tuple[int, str, float | None]


def as_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], schema=COLUMNS)


def as_rows(table: pa.Table) -> list[Row]:
    return [(row["a"], row["b"], row["v"]) for row in table.to_pylist()]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(30))
def test_changes_are_completed_as_a_dictionary_would_complete_them(seed: int) -> None:
    own = random.Random(seed)
    normalizer = Normalizer(("a", "b"), as_table([]))
    known: dict[tuple[int, str], Row] = {}
    for _ in range(6):
        given = [
            (own.choice(["+I", "+U", "-D"]), (own.randrange(3), own.choice("xy"), own.choice([None, 0.5, 1.0])))
            for _ in range(own.randrange(12))
        ]
        expected: list[tuple[str, Row, int]] = []
        for place, (kind, row) in enumerate(given):
            before = known.get(row[:2])
            if kind == "-D":
                if before is not None:
                    expected.append(("-D", known.pop(row[:2]), place))
            elif before is None:
                expected.append(("+I", row, place))
                known[row[:2]] = row
            elif before != row:
                expected += [("-U", before, place), ("+U", row, place)]
                known[row[:2]] = row
        kinds, rows, places = normalizer.apply(
            pa.array([kind for kind, _ in given], pa.string()), as_table([row for _, row in given])
        )
        assert list(zip(kinds.to_pylist(), as_rows(rows), places.to_pylist(), strict=True)) == expected
        assert sorted(as_rows(normalizer.rows), key=str) == sorted(known.values(), key=str)
    wanted = {row[:2]: row for row in [(0, "x", 9.0), (7, "z", None), (1, "y", 0.5)]}
    kinds, rows = normalizer.become(as_table(list(wanted.values())))
    for kind, row in zip(kinds.to_pylist(), as_rows(rows), strict=True):
        if kind in ("-U", "-D"):
            assert known.pop(row[:2]) == row
        else:
            known[row[:2]] = row
    assert known == wanted


def test_values_come_back_as_they_were_written() -> None:
    schema = pa.schema(
        [
            ("i", pa.int64()),
            ("s", pa.string()),
            ("f", pa.float64()),
            ("d", pa.decimal128(20, 2)),
            ("day", pa.date32()),
            ("t", pa.timestamp("us")),
            ("z", pa.timestamp("ms", "UTC")),
            ("o", pa.bool_()),
            ("raw", pa.binary()),
            ("time", pa.time32("ms")),
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("r", pa.struct([("x", pa.date32()), ("y", pa.decimal128(5, 2))])),
        ]
    )
    row = {
        "i": 2**62,
        "s": 'a"\\\n\x01é',
        "f": float("inf"),
        "d": "12345678.90",
        "day": 19_000,
        "t": 1_700_000_000_123_456,
        "z": 1_700_000_000_123,
        "o": True,
        "raw": b"\x00\xff",
        "time": 3_723_004,
        "l": [1, None],
        "m": [("k", -0.5)],
        "r": {"x": None, "y": None},
    }
    columns = [pa.array([row[field.name] if field.name != "d" else None, None], field.type) for field in schema]
    rows = pa.table(columns, schema=schema)
    rows = rows.set_column(3, schema.field("d"), pa.array([row["d"], None]).cast(pa.decimal128(20, 2)))
    flat = rows.select(schema.names[:10])
    for given in (rows, flat, flat.drop_columns(["f"])):
        values = encode_values(given, pa.array(["+I", "-D"]))
        read, gone = decode_values(values, given.schema)
        assert read.equals(given.cast(read.schema))
        assert gone.to_pylist() == [False, True]
    assert values[1].as_py().startswith(b'{"before":{"i":null,')


@pytest.mark.parametrize("scale", [0, 1, 2, 9, 18, 38])
def test_decimals_are_written_plain_at_any_depth(scale: int) -> None:
    kind = pa.decimal128(38, scale)
    unscaled = [0, 1, -1, 7, -12, 10**6, 10**37, 10**38 - 1, -(10**38 - 1)]
    written = [f"{Decimal(number).scaleb(-scale, _WIDE):f}" for number in unscaled]
    column = pa.array([None, *written]).cast(kind)
    nested = pa.ListArray.from_arrays(pa.array(range(len(column) + 1), pa.int32()), column)
    rows = pa.table({"d": column, "l": nested}).slice(1)
    values = encode_values(rows, pa.array(["+I"] * len(rows)))
    assert values.to_pylist() == [
        f'{{"before":null,"after":{{"d":{text},"l":["{text}"]}},"op":"c"}}'.encode() for text in written
    ]
    assert encode_keys(rows, ["d"]).to_pylist() == [f'{{"d":{text}}}'.encode() for text in written]
    for columns in (["d"], ["d", "l"]):
        given = rows.select(columns)
        read, _ = decode_values(encode_values(given, pa.array(["+I"] * len(rows))), given.schema)
        assert read.equals(given)
