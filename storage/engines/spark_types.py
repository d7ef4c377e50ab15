"""Schemas and options between the store and Spark."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, MapType, NullType, StringType, StructField, StructType, VariantType

from ..data_types import type_from_arrow
from ..errors import InvalidRequest, Unsupported
from ..secret import revealed

# The name of the data source in Spark.
FORMAT = "snapline"


def storage_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Storage options as options of the data source. Spark is told to show none of them (`spark.redaction.regex`)."""
    plain: dict[str, Any] = revealed(options)
    return {f"storage.{key}": value if isinstance(value, str) else json.dumps(value) for key, value in plain.items()}


def column_named(name: str) -> Column:
    """The column of a name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of columns of the store. Raises Unsupported for types Spark does not have."""
    try:
        return from_arrow_schema(schema, prefer_timestamp_ntz=True)
    except Exception as error:
        wrong = [field for field in schema if not _is_known(field)]
        named = ", ".join(f"{field.name!r} ({field.type})" for field in wrong)
        raise Unsupported(
            f"Spark has no type for {named or error}. Select other columns, or use the engine duckdb, which reads it."
        ) from None


def _is_known(field: pa.Field) -> bool:
    try:
        from_arrow_schema(pa.schema([field]), prefer_timestamp_ntz=True)
    except Exception:
        return False
    return True


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark DataFrame, as a new table would have it. Raises InvalidRequest for other types."""
    try:
        return to_arrow_schema(_with_nulls(schema), timezone="UTC", prefers_large_types=False)
    except Exception as error:
        raise InvalidRequest(f"The DataFrame has a column that a table cannot hold: {error}") from None


def _with_nulls(kind: Any) -> Any:
    """The same type where what is of the type of NULL may be null, as Arrow wants it: `array()` says that it is not."""
    if isinstance(kind, StructType):
        fields = [
            StructField(
                field.name,
                _with_nulls(field.dataType),
                field.nullable or isinstance(field.dataType, NullType),
                field.metadata,
            )
            for field in kind
        ]
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(_with_nulls(kind.elementType), kind.containsNull or isinstance(kind.elementType, NullType))
    if isinstance(kind, MapType):
        contains_null = kind.valueContainsNull or isinstance(kind.valueType, NullType)
        # A key is never null: such a map is empty.
        keys = StringType() if isinstance(kind.keyType, NullType) else _with_nulls(kind.keyType)
        return MapType(keys, _with_nulls(kind.valueType), contains_null)
    return kind


def rows_of_frame(frame: DataFrame) -> pa.Table:
    """All rows of a DataFrame, with variants as the store has them: Spark's own way fails at one that is null, and at what is of
    the type of NULL and may not be null.
    """
    names, frame = frame.columns, _nullable(frame)
    return _rows(frame).rename_columns(names)


def _nullable(frame: DataFrame) -> DataFrame:
    """The same rows, as columns c0, c1, … (names may occur twice), where what is of the type of NULL may be null."""
    if _with_nulls(frame.schema) == frame.schema:
        return frame
    numbered = frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])

    def column(field: StructField) -> Column:
        if isinstance(field.dataType, NullType):
            return F.lit(None).alias(field.name)
        return F.col(field.name).cast(_with_nulls(field.dataType))

    return numbered.select(*map(column, numbered.schema))


def _rows(frame: DataFrame) -> pa.Table:
    plain = _with_variants_in_parts(frame.schema)
    if plain == frame.schema:
        return frame.toArrow()
    held = arrow_schema_of(plain)

    def in_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [column.cast(field.type) for column, field in zip(batch.columns, held, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=held)

    rows = frame.mapInArrow(in_parts, plain).toArrow()
    for index, field in enumerate(arrow_schema_of(frame.schema)):
        if plain[index] != frame.schema[index]:
            marked = type_from_arrow(field.type).to_arrow()
            rows = rows.set_column(index, rows.schema.field(index).with_type(marked), rows.column(index).cast(marked))
    return rows


def _with_variants_in_parts(kind: Any) -> Any:
    """The same type with rows of bytes in the place of variants."""
    if isinstance(kind, VariantType):
        return StructType([StructField(name, BinaryType()) for name in ("value", "metadata")])
    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(field.name, _with_variants_in_parts(field.dataType), field.nullable, field.metadata)
                for field in kind
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_with_variants_in_parts(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_variants_in_parts(kind.valueType), kind.valueContainsNull)
    return kind


def as_spark_expects(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the exact Arrow types that Spark takes for its schema."""
    if batch.schema.types == schema.types:
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
