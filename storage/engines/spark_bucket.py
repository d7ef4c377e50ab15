"""The bucket of each row, as a column of Spark.

A bucket is chosen by the Murmur3 hash of a row in the layout of `storage/format/binary_row.py`. Spark's own `hash` of bytes is
the same function with the same seed, so that for the usual types of keys the JVM does it all: the bytes are put together
by expressions. Other keys go through Python, which takes several times as long.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from ..data_types import DataField
from ..format.binary_row import buckets_of, hash_rows
from ..table import Table
from .spark_types import column_named

# Root of a type, and what Spark calls it.
_WHOLE_NUMBERS = {"TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint"}
_KNOWN = {**_WHOLE_NUMBERS, "BOOLEAN": "boolean", "DATE": "date", "CHAR": "string", "VARCHAR": "string"}
# Row kind and null bits take 8 bytes as long as there are no more columns than this.
_MOST_COLUMNS = 56


def bucket_of(frame: DataFrame, table: Table, count: int | None = None) -> Column:
    """The number of the bucket that each row of a frame belongs to. `count`: of so many; by default as many as the table has."""
    fields = table.schema.fields_named(table.schema.bucket_keys)
    count = count or table.schema.table_options.bucket
    types = dict(frame.dtypes)
    if len(fields) <= _MOST_COLUMNS and all(_is_known(field, types[field.name]) for field in fields):
        return F.abs(F.hash(_row_bytes(fields)) % F.lit(count))
    return _by_python(fields, count)


def _is_known(field: DataField, spark_type: str) -> bool:
    # Nulls have bits of their own; keys have none.
    return not field.type.nullable and _KNOWN.get(field.type.root) == spark_type


def _row_bytes(fields: list[DataField]) -> Column:
    """A row: null bits, a slot of 8 bytes for each column, then texts that do not fit into theirs."""
    slots, texts = [], []
    end: Column = F.lit(8 + 8 * len(fields)).cast("bigint")
    for field in fields:
        column = column_named(field.name)
        if not field.type.is_text:
            slots.append(_word(_number(column, field.type.root)))
            continue
        data = column.cast("binary")
        size = F.octet_length(column).cast("bigint")
        padded = F.floor((size + 7) / 8).cast("bigint") * 8
        fits = size <= 7
        inline = F.concat(F.rpad(data, 7, F.lit(b"\x00")), F.unhex(F.hex(size.bitwiseOR(F.lit(0x80)))))
        slots.append(F.when(fits, inline).otherwise(_word(F.shiftleft(end, 32).bitwiseOR(size))))
        texts.append(F.when(fits, F.lit(b"")).otherwise(F.rpad(data, padded.cast("int"), F.lit(b"\x00"))))
        end = end + F.when(fits, F.lit(0)).otherwise(padded)
    return F.concat(F.lit(bytes(8)), *slots, *texts)


def _number(column: Column, root: str) -> Column:
    """What stands in a slot, as a whole number of 64 bits."""
    if root == "BIGINT":
        return column
    width = {"BOOLEAN": 8, "TINYINT": 8, "SMALLINT": 16}.get(root, 32)
    whole = F.unix_date(column) if root == "DATE" else column.cast("int")
    # What lies above a negative number of fewer bits is zero.
    return whole.cast("bigint").bitwiseAND(F.lit((1 << width) - 1))


def _word(number: Column) -> Column:
    """8 bytes, the lowest first."""
    swapped: Column = F.lit(0).cast("bigint")
    for byte in range(8):
        moved = F.shiftrightunsigned(number, 8 * byte).bitwiseAND(F.lit(0xFF).cast("bigint"))
        swapped = swapped.bitwiseOR(F.shiftleft(moved, 8 * (7 - byte)))
    return F.unhex(F.lpad(F.hex(swapped), 16, "0"))


def _by_python(fields: list[DataField], count: int) -> Column:
    types = [field.type for field in fields]
    targets = [data_type.to_arrow() for data_type in types]

    def bucket(*columns: pa.Array) -> pa.Array:
        arrays = [column.cast(target) for column, target in zip(columns, targets, strict=True)]
        return pa.array(buckets_of(hash_rows(arrays, types), count), pa.int32())

    udf: Callable[..., Column] = F.arrow_udf(bucket, returnType=IntegerType())  # type: ignore[call-overload]
    return udf(*[column_named(field.name) for field in fields])
