"""The tables of `information_schema`: what a catalog holds, as rows."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from storage import KafkaTable, NotFound, Table

from .table_text import type_text

INFORMATION_SCHEMA = "information_schema"
_SCHEMAS = {
    "schemata": dict.fromkeys(("catalog_name", "schema_name"), pa.string()),
    "tables": dict.fromkeys(("table_catalog", "table_schema", "table_name", "table_type", "comment"), pa.string()),
    "columns": {
        **dict.fromkeys(("table_catalog", "table_schema", "table_name", "column_name"), pa.string()),
        "ordinal_position": pa.int32(),
        **dict.fromkeys(("is_nullable", "data_type", "comment", "column_default"), pa.string()),
    },
}


def information(
    name: str,
    catalog: str,
    tables: Callable[[], list[Table]],
    databases: list[str],
    views: Callable[[], list[tuple[str, str]]] = list,
    topics: Callable[[], list[KafkaTable]] = list,
) -> pa.Table:
    """The rows of a table of `information_schema`: of what a catalog holds. Raises NotFound that lists them."""
    match name:
        case "schemata":
            rows: list[tuple[Any, ...]] = [(catalog, database) for database in databases]
        case "tables":
            rows = _tables(catalog, tables(), views(), topics())
        case "columns":
            rows = _columns(catalog, tables(), topics())
        case _:
            raise NotFound(f"There is no {INFORMATION_SCHEMA}.{name}. There are schemata, tables and columns.")
    columns = _SCHEMAS[name]
    arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(columns.values())]
    return pa.Table.from_arrays(arrays, list(columns))


def _tables(
    catalog: str, tables: list[Table], views: list[tuple[str, str]], topics: list[KafkaTable]
) -> list[tuple[Any, ...]]:
    commented = [
        *((table.identifier, table.schema.comment) for table in tables),
        *((topic.identifier, topic.comment) for topic in topics),
    ]
    return [
        *((catalog, name.database, name.table, "BASE TABLE", comment) for name, comment in commented),
        *((catalog, *view, "VIEW", None) for view in views),
    ]


def _columns(catalog: str, tables: list[Table], topics: list[KafkaTable]) -> list[tuple[Any, ...]]:
    held = [
        *((table.identifier, table.schema.fields) for table in tables),
        *((topic.identifier, [column.field for column in topic.columns]) for topic in topics),
    ]
    return [
        (
            catalog,
            identifier.database,
            identifier.table,
            field.name,
            position,
            "YES" if field.type.nullable else "NO",
            type_text(field.type).removesuffix(" NOT NULL"),
            field.description,
            field.default_value,
        )
        for identifier, fields in held
        for position, field in enumerate(fields, 1)
    ]
