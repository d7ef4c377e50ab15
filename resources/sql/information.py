"""The tables of `information_schema`: what a catalog holds, as rows."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from storage import KafkaTable, NotFound, Table

from .table_text import type_text

INFORMATION_SCHEMA = "information_schema"


def information(
    name: str,
    catalog: str,
    tables: Callable[[], list[Table]],
    databases: list[str],
    views: Callable[[], list[tuple[str, str]]] = list,
    topics: Callable[[], list[KafkaTable]] = list,
) -> pa.Table:
    """The rows of a table of `information_schema`: of what a catalog holds. Raises NotFound that lists them."""
    text, number = pa.string(), pa.int32()
    match name:
        case "schemata":
            columns = {"catalog_name": text, "schema_name": text}
            rows: list[tuple[Any, ...]] = [(catalog, database) for database in databases]
        case "tables":
            columns = {
                "table_catalog": text,
                "table_schema": text,
                "table_name": text,
                "table_type": text,
                "comment": text,
            }
            rows = [
                (catalog, table.identifier.database, table.identifier.table, "BASE TABLE", table.schema.comment)
                for table in tables()
            ]
            rows += [
                (catalog, topic.identifier.database, topic.identifier.table, "BASE TABLE", topic.comment)
                for topic in topics()
            ]
            rows += [(catalog, *view, "VIEW", None) for view in views()]
        case "columns":
            columns = {
                "table_catalog": text,
                "table_schema": text,
                "table_name": text,
                "column_name": text,
                "ordinal_position": number,
                "is_nullable": text,
                "data_type": text,
                "comment": text,
                "column_default": text,
            }
            rows = [
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
                for identifier, fields in [
                    *((table.identifier, table.schema.fields) for table in tables()),
                    *((topic.identifier, [column.field for column in topic.columns]) for topic in topics()),
                ]
                for position, field in enumerate(fields, 1)
            ]
        case _:
            raise NotFound(f"There is no {INFORMATION_SCHEMA}.{name}. There are schemata, tables and columns.")
    arrays = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(columns.values())]
    return pa.Table.from_arrays(arrays, list(columns))
