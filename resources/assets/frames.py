"""The kinds of rows that functions of assets take and give: Spark, Arrow, DuckDB, pandas, and polars where it is installed."""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame

from storage import InvalidRequest

_LARGER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_TAKEN = "a Spark DataFrame, a pyarrow Table, a duckdb relation, a pandas or a polars DataFrame"
# Classes are looked up by name where their package may be missing, or costs time to import.
_SPARK = {
    "pyspark.sql.dataframe.DataFrame",
    "pyspark.sql.classic.dataframe.DataFrame",
    "pyspark.sql.connect.dataframe.DataFrame",
}
_HUGE = ("HUGEINT", "UHUGEINT")
_FROM_ARROW: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow.lib.Table": lambda rows: rows,
    "duckdb.DuckDBPyRelation": lambda rows: duckdb.from_arrow(rows),
    "pandas.DataFrame": lambda rows: _to_pandas(rows),
    "polars.DataFrame": lambda rows: _polars().from_arrow(rows),
    "polars.LazyFrame": lambda rows: _polars().from_arrow(rows).lazy(),
}


def _polars() -> Any:
    if "polars" not in sys.modules and importlib.util.find_spec("polars") is None:
        raise InvalidRequest("polars is not installed. Install it, or take the rows as pa.Table.")
    return importlib.import_module("polars")


def name_of(kind: Any) -> str:
    """The name of a class with its package, without the modules inside of it that users do not see."""
    if not isinstance(kind, type):
        return str(kind)
    module, name = kind.__module__, kind.__qualname__
    package = module.partition(".")[0]
    if package in ("pandas", "polars", "duckdb", "_duckdb"):
        return f"{package.removeprefix('_')}.{name}"
    return name if module == "builtins" else f"{module}.{name}"


def check_taken(parameter: str, kind: Any) -> None:
    """Raise InvalidRequest for an annotation that no rows can be given as."""
    if kind is not Any and name_of(kind) not in _SPARK and name_of(kind) not in _FROM_ARROW:
        raise InvalidRequest(f"input {parameter!r} is annotated {name_of(kind)}. Annotate it as {_TAKEN}.")


def check_given(kind: Any) -> None:
    """Raise InvalidRequest for an annotation of what is returned that surely is no rows."""
    if kind is type(None) or kind in (list, dict, tuple, set, str, int, float, bool):
        raise InvalidRequest(f"the function is annotated to return {name_of(kind)}. Return {_TAKEN}.")


def wants_arrow(kind: Any) -> bool:
    """Whether an input with such an annotation is read without Spark."""
    return name_of(kind) in _FROM_ARROW


def as_wanted(rows: Any, kind: Any) -> Any:
    """Rows as a parameter is annotated: a Spark DataFrame stays, an Arrow table becomes what is wanted."""
    convert = _FROM_ARROW.get(name_of(kind))
    return rows if convert is None or not isinstance(rows, pa.Table) else convert(rows)


def as_rows(name: str, made: Any) -> "DataFrame | pa.Table":
    """What the function of an asset has returned as a Spark DataFrame or an Arrow table.

    Raises InvalidRequest that names the asset and what may be returned.
    """
    if isinstance(made, DataFrame | pa.Table):
        return made
    kind = name_of(type(made))
    try:
        if kind == "duckdb.DuckDBPyRelation":
            return _from_duckdb(made)
        if kind == "pandas.DataFrame":
            return _from_pandas(made)
        if kind == "polars.LazyFrame":
            return _from_polars(made.collect())
        if kind == "polars.DataFrame":
            return _from_polars(made)
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise InvalidRequest(f"Asset {name} returned a {kind} that is no table of typed columns: {said}") from None
    if isinstance(made, pa.RecordBatch):
        return pa.Table.from_batches([made])
    if isinstance(made, pa.RecordBatchReader):
        return made.read_all()
    what = "nothing (None)" if made is None else f"a {kind}"
    raise InvalidRequest(f"Asset {name} returned {what}. Return {_TAKEN}.")


def _to_pandas(rows: pa.Table) -> Any:
    """Rows for pandas: a column of whole numbers or truths with a null in it has pandas' type that knows nulls (`Int64`,
    `boolean`), since a float would hold other numbers; one without has NumPy's.
    """
    import pandas as pd  # type: ignore[import-untyped]

    known = {
        pa.bool_(): pd.BooleanDtype(),
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
    }
    with_nulls = [
        name
        for name, column in zip(rows.column_names, rows.columns, strict=True)
        if column.type in known and column.null_count
    ]
    others = rows.drop_columns(with_nulls).to_pandas(integer_object_nulls=True)
    if not with_nulls:
        return others
    return pd.concat([others, rows.select(with_nulls).to_pandas(types_mapper=known.get)], axis="columns")[
        rows.column_names
    ]


def _from_duckdb(relation: Any) -> pa.Table:
    """Raises ValueError for values of which Arrow would have others: whole numbers beyond 38 digits, times with a zone."""
    kinds = [str(kind) for kind in relation.types]
    lost = [
        name
        for name, kind in zip(relation.columns, kinds, strict=True)
        if "TIME WITH TIME ZONE" in kind or ("HUGEINT" in kind and kind not in _HUGE)
    ]
    if lost:
        raise ValueError(
            f"column {', '.join(map(repr, lost))} holds times with a zone, or numbers of 128 bits inside of others. Cast it."
        )
    if any(kind in _HUGE for kind in kinds):
        # By position: names may occur twice, which is refused later.
        chosen = []
        for number, (name, kind) in enumerate(zip(relation.columns, kinds, strict=True), 1):
            value = f"CAST(#{number} AS DECIMAL(38, 0))" if kind in _HUGE else f"#{number}"
            quoted = name.replace('"', '""')
            chosen.append(f'{value} AS "{quoted}"')
        relation = relation.project(", ".join(chosen))
    try:
        return relation.to_arrow_table()
    except duckdb.ConversionException as error:
        raise ValueError(str(error)) from None


def _from_polars(frame: Any) -> pa.Table:
    """Raises ValueError for a column of Python's objects, of which polars would give the addresses in memory."""
    held = [name for name, kind in frame.schema.items() if _holds_objects(kind)]
    if held:
        raise ValueError(
            f"column {', '.join(map(repr, held))} holds objects of Python. Cast it, to pl.String say, or make it of values that "
            "polars has a type for."
        )
    return _signed(frame.to_arrow())


def _holds_objects(kind: Any) -> bool:
    """Whether a type of polars is Object, or has it inside."""
    if kind == _polars().Object:
        return True
    inner = getattr(kind, "inner", None)
    fields = getattr(kind, "fields", None) or ()
    return (inner is not None and _holds_objects(inner)) or any(_holds_objects(field.dtype) for field in fields)


def _signed(rows: pa.Table) -> pa.Table:
    """Rows whose unsigned columns, which polars gives for each count, are of the next larger type, as tables have them."""
    fields = [field.with_type(_LARGER.get(field.type, field.type)).remove_metadata() for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _from_pandas(frame: Any) -> pa.Table:
    """Raises ValueError for an index that has a name: it is a column to whoever gave it the name, and would be lost."""
    named = [str(name) for name in frame.index.names if name is not None]
    if named:
        raise ValueError(f"its index has the name {', '.join(named)} and would be lost. Call reset_index() first.")
    if len(frame) and (frame.index.nlevels > 1 or frame.index.dtype.kind not in "iu"):
        raise ValueError(
            "its index holds values, which would be lost. Call reset_index() first, or reset_index(drop=True)."
        )
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
