"""Files that were written before Java gave their column another type: every pair of types that Java changes, in every format."""

import datetime as dt
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage import Catalog, Unsupported
from storage.data_types import DataField, DataType, parse_type
from tests import scale
from tests.interop.java_paimon import JavaPaimon, plain, since_1_3
from tests.interop.line_process import UnsupportedBySecondReader
from tests.interop.test_java_types import NOT_IN, VALUES, values_of

pytestmark = [
    pytest.mark.pypaimon_differs("it casts as Arrow does"),
    pytest.mark.java_differs("compared here, value by value, but for what decision 0020 tells"),
]
# One of so many pairs is tried.
_SHARE = scale.amount(12, 1, full=1)
_NUMBERS = [
    "12",
    " 12 ",
    "-7",
    "+5",
    "1.5",
    ".5",
    "5.",
    "-",
    "1e3",
    "1E3",
    "1d",
    "1f",
    "-0.0",
    "300",
    "70000",
    "99999999999",
    "99999999999999999999",
    "NaN",
    "nan",
    "Infinity",
    "inf",
    "0x10",
    "1_0",
    "1.005",
    "2.675",
    "0.005",
    "1e-5",
]
_WORDS = ["", "abc", "true", "TRUE", "F", "yes", "No", "0", "1", "é😀xyz"]
_TIMES = [
    "2020",
    "2020-2-9",
    "2020-02-29",
    "2020-02-30",
    "2020-13-01",
    " 2020-02-29 ",
    "2020-02-29x",
    "2020-02-29T10:00:00",
    "2020-02-29 10:11",
    "2020-02-29 1:2:3",
    "2020-02-29 10:11:12.123456",
    "10",
    "1:2:3",
    "10:11:12.5",
    "10:11:12.123456789",
]
_FLOATS = [
    float(text)
    for text in [
        "-inf",
        "-1.5",
        "0.25",
        "3.0",
        "inf",
        "nan",
        "1e10",
        "1.1",
        "300.7",
        "-129.5",
        "1e-5",
        "0.001",
        "1234567.0",
        "12345678.0",
        "-0.0",
        "3e38",
    ]
]
_WIDE_DECIMALS = ["1234567890123456789.0123456789", "0.0000012345", "-1E-10", "-2.5", "2.5"]
_MORE: dict[str, list[Any]] = {
    "STRING": [*_NUMBERS, *_WORDS, *_TIMES],
    "VARCHAR(60)": [*_NUMBERS, *_WORDS, *_TIMES],
    "VARCHAR(2)": ["12", "a", "é"],
    "CHAR(3)": ["12 ", "1.5", "abc"],
    "FLOAT": _FLOATS,
    "DOUBLE": [*_FLOATS, -1.5e300, 0.1, 12345678.9, 1e21, 123.456789012345678, 2.0**63],
    "INT": [-(2**31), 0, 7, 2**31 - 1, 1_700_000_000, 70_000, 300],
    "BIGINT": [-(2**63), -1, 0, 7, 2**63 - 1, 1_700_000_000, 70_000, 1_700_000_000_123],
    "DECIMAL(38, 0)": [Decimal(10**38 - 1), Decimal(2**63), Decimal(-(2**63) - 1), Decimal(5)],
    "DECIMAL(38, 10)": [Decimal(text) for text in _WIDE_DECIMALS],
    "DECIMAL(10, 2)": [Decimal(text) for text in ["1.00", "12345678.90", "0.30", "-2.50", "2.50"]],
    "VARBINARY(3)": [b"", b"a", b"\xff\x80"],
    "TIME(3)": [0, 1, 500, 120, 86_399_999],
    "TIMESTAMP(1)": [-100, -1_500_000_000_100, 0, 100, 1_700_000_000_100],
}
TYPES = list({**VALUES, **_MORE})


def values(kind: str, file_format: str) -> list[Any]:
    return _MORE[kind] if kind in _MORE else values_of(parse_type(kind), file_format)


def is_known_to_differ(old: DataType, new: DataType, value: Any, theirs: Any) -> bool:
    """What `docs/decisions/0020` says of changed types."""
    if old.root == "TIMESTAMP" and value < 0 and new.root in ("DATE", "TIME"):
        # Towards 1970: the day after, and times below zero.
        return True
    if old.root == "BIGINT" and new.is_timestamp and abs(value) > 2**62:
        # Java's seconds overflow.
        return True
    if new.is_timestamp and old.is_timestamp and isinstance(theirs, str):
        # Finer than the type, or beyond 64 bits of nanoseconds.
        return "is finer than" in theirs or "too large to convert" in theirs
    # Java keeps digits that the new type does not have.
    return old.is_timestamp and new.is_timestamp and old.precision > new.precision


class Pair:
    """A column of one type, and of another once its rows are there."""

    def __init__(self, java: JavaPaimon, directory: Path, old: str, new: str, file_format: str) -> None:
        self.java, self.directory, self.format = java, directory, file_format
        self.old, self.new = parse_type(old), parse_type(new)
        self._made = 0

    def read(self, listed: list[Any]) -> tuple[list[Any] | str, list[Any] | str] | None:
        """The values as Java and we read them, or how each fails; None if Java does not change the type."""
        self._made += 1
        warehouse = str(self.directory / str(self._made))
        self.java.create(warehouse, "db.t", {"a": self.old}, options={"bucket": "-1", "file.format": self.format})
        rows = pa.table({"a": pa.array(listed, plain(pa.table({"a": pa.array([], self.old.to_arrow())}))["a"].type)})
        self.java.write(warehouse, "db.t", rows, [DataField(0, "a", self.old)])
        try:
            self.java.ask(warehouse, "db.t", "change type", column="a", type=self.new.to_json())
        except RuntimeError:
            return None
        theirs: list[Any] | str
        ours: list[Any] | str
        try:
            theirs = plain(self.java.read(warehouse, "db.t"))["a"].to_pylist()
        except (RuntimeError, OverflowError, AssertionError) as error:
            theirs = str(error)
        try:
            ours = plain(Catalog(warehouse).table("db.t").to_arrow())["a"].to_pylist()
        except Unsupported as error:
            # Nothing is said to be damaged.
            ours = str(error)
        return theirs, ours

    def differences(self) -> list[tuple[Any, Any, Any]]:
        """Value, and what Java and we read."""
        listed = values(str(self.old), self.format)
        both = self.read(listed)
        if both is None:
            return []
        if isinstance(both[0], list) and isinstance(both[1], list):
            compared = list(zip(listed, *both, strict=True))
        else:
            # Some value comes to grief: which?
            compared = []
            for value in listed:
                sides = self.read([value])
                assert sides is not None
                theirs, ours = (side[0] if isinstance(side, list) else side for side in sides)
                if not all(isinstance(side, str) for side in sides):
                    compared.append((value, theirs, ours))
        return [
            (value, theirs, ours)
            for value, theirs, ours in compared
            if repr(theirs) != repr(ours) and not is_known_to_differ(self.old, self.new, value, theirs)
        ]


@since_1_3
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_pair_of_types_is_read_as_java_reads_it(java: JavaPaimon, tmp_path: Path, file_format: str) -> None:
    wrong = {}
    for old in (kind for kind in TYPES if kind not in NOT_IN[file_format]):
        for new in (kind for kind in TYPES if kind not in NOT_IN[file_format] and kind != old):
            if zlib.crc32(f"{file_format} {old} {new}".encode()) % _SHARE:
                continue
            directory = tmp_path / f"{TYPES.index(old)}-{TYPES.index(new)}"
            differences = Pair(java, directory, old, new, file_format).differences()
            if differences:
                wrong[f"{old} → {new}"] = differences[:3]
    assert wrong == {}


def test_what_cannot_be_had_under_a_new_type_is_no_damage(java: JavaPaimon, tmp_path: Path) -> None:
    warehouse = str(tmp_path)
    java.create(warehouse, "db.t", {"a": "STRING"}, options={"bucket": "-1"})
    Catalog(warehouse).table("db.t").write(pa.table({"a": ["many"]}))
    java.ask(warehouse, "db.t", "change type", column="a", type="INT")
    table = Catalog(warehouse).table("db.t")
    with pytest.raises(
        Unsupported, match=r"'a' was of type STRING .* is of type INT now.*'many'.*change the type back"
    ):
        table.to_arrow()
    assert table.check(deep=True) == []


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STRING", "INT"),
        ("INT", "TINYINT"),
        ("DOUBLE", "INT"),
        ("DECIMAL(10, 2)", "INT"),
        ("DECIMAL(10, 2)", "STRING"),
        ("INT", "STRING"),
        ("INT", "BOOLEAN"),
        ("TIMESTAMP(3)", "DATE"),
        ("TIMESTAMP(3)", "STRING"),
        ("STRING", "VARCHAR(2)"),
    ],
)
def test_conditions_find_what_is_read_under_the_new_type(
    java: JavaPaimon, tmp_path: Path, old: str, new: str, file_format: str
) -> None:
    """Bounds in manifests and in files are those of the old type."""
    warehouse, column = str(tmp_path), parse_type(old)
    java.create(
        warehouse,
        "db.t",
        {"a": column},
        options={"bucket": "-1", "file.format": file_format, "metadata.stats-mode": "full"},
    )
    # A file for each value, so that all that can be left out is.
    for value in ["12", "-7", "300", "70000", "9"] if old == "STRING" else [*values(old, file_format)[-4:], 513_000]:
        row = pa.array([Decimal(value) if old.startswith("DECIMAL") else value])
        stored = row.cast(plain(pa.table({"a": pa.array([], column.to_arrow())}))["a"].type)
        java.write(warehouse, "db.t", pa.table({"a": stored}), [DataField(0, "a", column)])
    java.ask(warehouse, "db.t", "change type", column="a", type=new)
    table = Catalog(warehouse).table("db.t")
    rows = table.to_arrow()["a"]
    assert len(rows) > 2
    for value in rows.to_pylist():
        literal = f"'{value}'" if isinstance(value, str | dt.date) else str(value)
        scalar = pa.scalar(value, rows.type)
        for sign, compare in {"=": pc.equal, "<": pc.less, ">=": pc.greater_equal, "<>": pc.not_equal}.items():
            kept = table.to_arrow(where=f"a {sign} {literal}")["a"]
            assert sorted(kept.to_pylist()) == sorted(rows.filter(compare(rows, scalar)).to_pylist()), (sign, literal)


@since_1_3
@pytest.mark.parametrize("column", ["p", "k"])
def test_java_changes_no_types_of_keys_and_partitions(java: JavaPaimon, tmp_path: Path, column: str) -> None:
    """Key ranges and partitions of all files are of one type."""
    java.create(str(tmp_path), "db.t", {"p": "INT", "k": "INT"}, primary_key=["p", "k"], partition_by=["p"])
    with pytest.raises(UnsupportedBySecondReader, match="Cannot update"):
        java.ask(str(tmp_path), "db.t", "change type", column=column, type="BIGINT")
