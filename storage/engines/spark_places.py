"""Files that Spark reads itself, without the rows that do not stand: those are left out by file and position.

What stands is a bit for each row, in an array of whole numbers that every task of the scan has. A file is found in it by its
size, which Spark knows of each row as it knows the position: to look a row's bit up takes two reads of the array and no name.
Files of one size are found by the checksums of their names.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from ..read.standing_rows import StandingRows

_BITS = 64
# Of one scan: the more files, the longer the table in which each has a place of its own.
_MOST_FILES = 256


def frames_of_standing(
    spark: SparkSession, reader: DataFrameReader, files: Sequence[StandingRows], urls: Sequence[str]
) -> Iterator[DataFrame]:
    """The rows of some files that stand, in as few scans as it takes. `reader`: knows the schema; `urls`: of each file."""
    url_of = {rows.path: url for rows, url in zip(files, urls, strict=True)}
    by_size: dict[int, StandingRows] = {}
    for rows in files:
        if len(by_size) < _MOST_FILES:
            by_size.setdefault(rows.file.size_bytes, rows)
    by_name: list[dict[int, StandingRows]] = []
    for rows in files:
        if by_size.get(rows.file.size_bytes) is not rows:
            checksum = zlib.crc32(rows.file.name.encode())
            fitting = (group for group in by_name if len(group) < _MOST_FILES and checksum not in group)
            group = next(fitting, None)
            if group is None:
                by_name.append(group := {})
            group[checksum] = rows
    for number, group in enumerate([by_size, *by_name]):
        if group:
            frame = reader.parquet(*[url_of[rows.path] for rows in group.values()])
            yield frame.where(_stands(spark, frame, group, by_name=number > 0))


def _stands(spark: SparkSession, frame: DataFrame, files: Mapping[int, StandingRows], *, by_name: bool) -> Column:
    """Whether a row of a scan of these files stands. `files`: by their sizes, or by the checksums of their names."""
    identities = np.array(list(files), np.int64)
    modulus = _modulus(identities)
    starts, parts, end = np.zeros(modulus, np.int64), [], modulus
    for rows, place in zip(files.values(), identities % modulus, strict=True):
        words = _words(rows.stands)
        starts[place] = end * _BITS
        parts.append(words)
        end += len(words)
    numbers = pa.array(np.concatenate([starts, *parts]))
    # A subquery, unlike a literal, does not make plans as long as itself.
    table = pa.table({"numbers": pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), numbers)})
    array = spark.createDataFrame(table).scalar()
    source = frame.metadataColumn("_metadata")
    identity = F.crc32(source.getField("file_name")) if by_name else source.getField("file_size")
    start = F.get(array, (identity % modulus).cast("int"))
    place = start + source.getField("row_index")
    word = F.get(array, F.shiftright(place, 6).cast("int"))
    bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), place.bitwiseAND(F.lit(_BITS - 1)).cast("int"))
    return word.bitwiseAND(bit) != 0


def _words(stands: np.ndarray) -> np.ndarray:
    """Bits as whole numbers (int64), the first row's the lowest."""
    packed = np.packbits(stands, bitorder="little")
    return np.pad(packed, (0, -len(packed) % 8)).view("<i8").astype(np.int64, copy=False)


def _modulus(identities: np.ndarray) -> int:
    """A small number by which all have different remainders."""
    # Where there are many, smaller ones are hardly ever among those that do.
    modulus = max(len(identities), len(identities) ** 2 // 8)
    while len(np.unique(identities % modulus)) < len(identities):
        modulus += 1
    return modulus
