"""CREATE TABLE, INSERT INTO, DESCRIBE and SHOW CREATE TABLE of Kafka tables. The topic itself is somebody else's: it is neither
created nor dropped here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import Identifier, InvalidRequest, KafkaTable, StorageError, Unsupported
from storage.engines.kafka_rows import (
    CONNECTORS,
    KafkaColumn,
    check_topic_table,
    check_topic_writable,
    topic_table_like,
    write_topic,
)
from storage.sql.dialect import SnaplineSql
from storage.sql.table_definition import TableDefinition, define_table, like_of, options_of

from .computed import check_computed
from .engine import Engine
from .fill import Fill
from .held_names import held_names
from .names import Names
from .place import at
from .query_preparation import Prepare
from .result import Act, Result
from .settings import RUNTIME_MODE, Settings
from .table_text import type_text
from .unread import plain, refuse_clauses


class KafkaStatements:
    """Plans statements about Kafka tables."""

    def __init__(self, names: Names, prepare: Prepare, settings: Settings) -> None:
        self._names = names
        self._prepare = prepare
        self._settings = settings

    def create(self, tree: exp.Create) -> Act:
        """CREATE TABLE … WITH ('connector' = 'kafka', …): the definition is checked, the topic is not looked at."""
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        place = self._names.place(node)
        self._names.refuse_read_only(place)
        if tree.expression is not None:
            raise at(node, Unsupported("A Kafka table is not made AS a SELECT: create it, then INSERT INTO."))
        if_not_exists, or_replace = bool(tree.args.get("exists")), bool(tree.args.get("replace"))
        catalog = self._names.catalog(place)
        try:
            model = like_of(tree)
            if model is not None:
                made = self._like(model, options_of(tree), place.identifier)
                check_topic_table(made)
            else:
                definition = define_table(tree, connectors=CONNECTORS)
                made = _table(definition, place.identifier)
                check_topic_table(made)
                if definition.computed_columns or definition.watermark:
                    check_computed(_readable(definition), [column.name for column in made.columns])
        except StorageError as error:
            raise at(node, error) from None

        def act() -> Result:
            try:
                is_new = catalog.kafka_tables.create(made, if_not_exists=if_not_exists, or_replace=or_replace)
            except StorageError as error:
                raise at(node, error) from None
            if is_new:
                return Result(f"Created Kafka table {place.identifier}.")
            return Result(f"Kafka table {place.identifier} exists already; it stays as it is.")

        return act

    def _like(self, model: exp.Table, options: Mapping[str, str], identifier: Identifier) -> KafkaTable:
        """A Kafka table with the columns of another one, and its options but for those that are given; or with the columns of a
        table of the store: its primary key is one where records are upserts.
        """
        other = self.table(model)
        if other is not None:
            return replace(other, identifier=identifier, options={**other.options, **options})
        place = self._names.place(model)
        table = self._names.catalog(place).table(str(place.identifier))
        return topic_table_like(table.schema, identifier, options)

    def is_about(self, tree: exp.Create) -> bool:
        """Whether a CREATE TABLE makes a Kafka table: by its connector, or as one LIKE another one."""
        if connector_of(tree) is not None:
            return True
        written = plain(tree)
        assert isinstance(written, exp.Create)
        if "connector" in options_of(written):
            return False
        model = like_of(written)
        return model is not None and self.table(model) is not None

    def table(self, node: exp.Expr) -> KafkaTable | None:
        """The Kafka table that a name means, if it means one."""
        return self._names.kafka(self._names.place(node)) if isinstance(node, exp.Table) and node.name else None

    def insert(self, tree: exp.Insert, table: KafkaTable, engine: Engine) -> Act:
        """INSERT INTO: columns that are left out are null. Raises InvalidRequest for columns that are not written."""
        refuse_clauses(tree, "this", "expression", "with_")
        node = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if self._settings.options.get(RUNTIME_MODE) == "streaming":
            raise at(
                node,
                Unsupported(
                    f"{table.identifier} is a Kafka table, which no stream writes: SET '{RUNTIME_MODE}' = 'batch', or give a "
                    "table of the store a log ('log.system' = 'kafka') and stream into that."
                ),
            )
        try:
            check_topic_writable(table)
            listed = [column.name for column in table.written]
            given = _listed(tree, table) if isinstance(tree.this, exp.Schema) else listed
        except StorageError as error:
            raise at(node, error) from None
        if not isinstance(tree.expression, exp.Query | exp.Values):
            raise at(node, InvalidRequest("INSERT takes a SELECT, VALUES (…) or TABLE t."))
        source = tree.expression.copy()
        if tree.args.get("with_"):
            source.set("with_", tree.args["with_"].copy())
        query = self._prepare(source)
        schema = pa.schema([column.field.to_arrow() for column in table.written])

        def act() -> Result:
            rows = engine.rows(query)
            names = engine.columns(rows).names
            if len(names) != len(given):
                takes = f"{len(given)} columns ({', '.join(given)})"
                raise at(node, InvalidRequest(f"{table.identifier} takes {takes}, the query gives {len(names)}."))
            fills = [Fill(name, given.index(name) if name in given else None) for name in listed]
            filled = engine.fill(rows, fills)
            try:
                count = write_topic(
                    table, _not_null(engine.stored(filled, schema, str(table.identifier)), schema, table)
                )
            except StorageError as error:
                raise at(node, error) from None
            return Result(f"{count} records are in {table.options['topic']}.")

        return act


def connector_of(tree: exp.Create) -> str | None:
    """The connector of a CREATE TABLE, as far as it is one that is known here."""
    written = plain(tree)
    assert isinstance(written, exp.Create)
    connector = options_of(written).get("connector")
    return connector if connector in CONNECTORS else None


def described_topic(table: KafkaTable, extended: bool) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows of DESCRIBE."""
    rows = []
    held = {column.name: _described(column, table) for column in table.columns}
    held |= {each.name: (each.name, each.data_type, "YES", "", "", f"AS {each.expression}") for each in table.computed}
    rows = [held[name] for name in table.order]
    if not extended:
        return ["name", "type", "null", "key", "partition", "comment"], rows
    facts = [("kind", "Kafka table"), *sorted(table.options.items())]
    if table.watermark is not None:
        facts.append(("watermark", f"{table.watermark.column} AS {table.watermark.expression}"))
    columns = [("column", name, f"{kind}{f' {comment}' if comment else ''}") for name, kind, _, _, _, comment in rows]
    return ["kind", "name", "value"], [*columns, *(("property", key, value) for key, value in facts)]


def create_topic_statement(table: KafkaTable) -> str:
    """A CREATE TABLE that makes a table like this one."""
    held = {
        column.name: f"{_quoted(column.name)} {type_text(column.type)}{_clauses(column)}" for column in table.columns
    }
    held |= {
        each.name: f"{_quoted(each.name)}{f' {each.data_type}' if each.data_type else ''} AS {each.expression}"
        + (f" COMMENT {_literal(each.comment)}" if each.comment else "")
        for each in table.computed
    }
    lines = [held[name] for name in table.order]
    if table.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(_quoted, table.primary_key))}) NOT ENFORCED")
    if table.watermark is not None:
        lines.append(f"WATERMARK FOR {_quoted(table.watermark.column)} AS {table.watermark.expression}")
    name = ".".join(map(_quoted, str(table.identifier).split(".")))
    comment = f"\nCOMMENT {_literal(table.comment)}" if table.comment else ""
    options = ",\n".join(f"  {_literal(key)} = {_literal(value)}" for key, value in sorted(table.options.items()))
    return f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + f"\n){comment}\nWITH (\n{options}\n)"


def _table(definition: TableDefinition, identifier: Any) -> KafkaTable:
    if definition.partition_by:
        raise InvalidRequest("A Kafka table has no PARTITIONED BY: records are placed by their keys.")
    for field in definition.fields:
        if field.default_value is not None:
            raise InvalidRequest(f"Column {field.name!r} of a Kafka table has no DEFAULT: what is left out is null.")
    columns = {
        field.name: KafkaColumn(field.name, field.type, comment=field.description) for field in definition.fields
    }
    declared = [*columns]
    for each in definition.metadata_columns:
        columns.setdefault(each.name, KafkaColumn(each.name, each.type, each.key, each.is_virtual, each.comment))
        declared.append(each.name)
    order = tuple(definition.order)
    return KafkaTable(
        identifier,
        tuple(columns[name] for name in dict.fromkeys(order) if name in columns),
        definition.options,
        tuple(held_names(definition.primary_key, declared)),
        definition.comment,
        tuple(definition.computed_columns),
        definition.watermark,
        order,
    )


def _readable(definition: TableDefinition) -> TableDefinition:
    """The definition as one whose metadata columns are columns like others: what is computed may use them."""
    metadata = [KafkaColumn(each.name, each.type).field for each in definition.metadata_columns]
    return TableDefinition(
        [*definition.fields, *metadata],
        computed_columns=definition.computed_columns,
        watermark=definition.watermark,
    )


def _listed(tree: exp.Insert, table: KafkaTable) -> list[str]:
    named = [expression.name for expression in tree.this.expressions]
    every = [*(column.name for column in table.columns), *(each.name for each in table.computed)]
    column_names = held_names(named, every)
    written = [column.name for column in table.written]
    for name in column_names:
        if name in written:
            continue
        if name in every:
            kind = "VIRTUAL" if name in table.schema.names else "computed"
            raise InvalidRequest(f"Column {name!r} of {table.identifier} is {kind}: it is read, and not written.")
        raise InvalidRequest(
            f"{table.identifier} has no column {name!r}. Columns that are written: {', '.join(written)}."
        )
    return column_names


def _not_null(parts: Iterator[pa.Table], schema: pa.Schema, table: KafkaTable) -> Iterator[pa.Table]:
    for part in parts:
        for field, column in zip(schema, part.columns, strict=True):
            is_key = field.name in table.primary_key
            if column.null_count and (is_key or not field.nullable):
                what = "part of the PRIMARY KEY" if is_key else "NOT NULL"
                raise InvalidRequest(f"Column {field.name!r} of {table.identifier} is {what}, and a row has no value.")
        yield part


def _described(column: KafkaColumn, table: KafkaTable) -> tuple[Any, ...]:
    null = "YES" if column.type.nullable else "NO"
    key = "PRI" if column.name in table.primary_key else ""
    comment = " ".join(filter(None, [_metadata(column), column.comment]))
    return column.name, type_text(column.type).removesuffix(" NOT NULL"), null, key, "", comment


def _metadata(column: KafkaColumn) -> str:
    if column.metadata is None:
        return ""
    return f"METADATA FROM {_literal(column.metadata)}{' VIRTUAL' if column.is_virtual else ''}"


def _clauses(column: KafkaColumn) -> str:
    metadata = f" {_metadata(column)}" if column.metadata is not None else ""
    return metadata + (f" COMMENT {_literal(column.comment)}" if column.comment else "")


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(SnaplineSql)


def _literal(text: str) -> str:
    return exp.Literal.string(text).sql(SnaplineSql)
