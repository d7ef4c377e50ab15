"""A streaming INSERT from a Kafka table, row by row: records are applied in the order of their partition, changes with kinds.

Of a query that is not row by row (a join, an aggregate), rows that are inserted alone can be read; changes are refused.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from sqlglot import exp

from storage import InvalidRequest, KafkaTable
from storage.engines.kafka_rows import holds_changes
from storage.engines.kafka_stream import KIND_COLUMN, ORDER_COLUMN, read_topic_stream
from storage.sql.dialect import SnaplineSql
from storage.sql.pure_expression import is_of_row_alone

from . import changes
from .fill import Fill
from .names import RECORDS_PER_BATCH
from .query import Input, Query
from .spark_engine import SparkEngine

_ROW_BY_ROW = {"expressions", "from_", "where", "kind"}


def topic_frame(engine: SparkEngine, read: Input, *, kinds: bool = False, order: bool = False) -> DataFrame:
    """The records of a Kafka table as a stream, of the columns that a query needs."""
    assert read.source.kafka is not None
    given = {key: value for key, value in read.source.options.items() if key == RECORDS_PER_BATCH}
    catalog = read.source.catalog
    return read_topic_stream(
        engine.session, read.source.kafka, catalog, given, columns=read.columns, kinds=kinds, order=order
    )


def topics_of(query: Query) -> list[KafkaTable]:
    """The Kafka tables that a query reads."""
    return [source.source.kafka for source in query.inputs if source.source.kafka is not None]


def ordered_rows(engine: SparkEngine, query: Query, target: changes.Target) -> tuple[DataFrame, str | None] | None:
    """The rows of a query row by row over a Kafka table, under the columns of the sink, with ORDER_COLUMN; and the column of
    their kinds, if they are changes. None for another query. Raises InvalidRequest for one that cannot apply changes.
    """
    topics = topics_of(query)
    changing = [topic for topic in topics if holds_changes(topic)]
    why_not = _why_not_row_by_row(query)
    if not topics or (why_not and not changing):
        return None
    if changing:
        _refuse_unfit(changing[0], target, why_not)
    [read] = query.inputs
    tree = query.tree.copy()
    assert isinstance(tree, exp.Select)
    hidden = [*([KIND_COLUMN] if changing else []), ORDER_COLUMN]
    tree.set("expressions", [*_without_stars(tree, read), *(exp.column(name, quoted=True) for name in hidden)])
    rows = engine.over({read.view: topic_frame(engine, read, kinds=bool(changing), order=True)}, tree)
    names = rows.columns[: -len(hidden)]
    fills = changes.fitted(names, target)
    if changing and changing[0].connector == "upsert-kafka":
        _refuse_upserts(changing[0], tree, fills, target)
    fills += [Fill(name, len(names) + number) for number, name in enumerate(hidden)]
    return engine.cast(engine.fill(rows, fills), target.table), KIND_COLUMN if changing else None


def _why_not_row_by_row(query: Query) -> str | None:
    """What keeps a query from being one row for one row of a table."""
    tree = query.tree
    if not isinstance(tree, exp.Select) or len(query.inputs) != 1:
        return "more than one SELECT FROM one table"
    clauses = sorted(key for key, value in tree.args.items() if value and key not in _ROW_BY_ROW)
    if clauses:
        return clauses[0].rstrip("_").upper()
    parts = [*tree.expressions, *([tree.args["where"].this] if tree.args.get("where") else [])]
    for node in (each for part in parts for each in part.walk()):
        if not isinstance(node, exp.Star) and not is_of_row_alone(node):
            return str(node.sql(SnaplineSql))
    # What is computed is put in as a query around the table.
    return (
        None if len(list(tree.find_all(exp.Select))) <= 1 + bool(query.inputs[0].source.computed) else "a query in it"
    )


def _refuse_unfit(topic: KafkaTable, target: changes.Target, why_not: str | None) -> None:
    table = target.table
    if why_not:
        raise InvalidRequest(
            f"{topic.identifier} holds changes, and a stream applies them row by row: {why_not} cannot be followed. Stream the "
            "changes into a table with a primary key as they are, and the rest from that table."
        )
    if not table.schema.primary_keys:
        raise InvalidRequest(
            f"{topic.identifier} holds changes, and {table.identifier} has no primary key, by which rows that change are found. "
            "Give the sink a primary key."
        )
    if table.schema.options.get("rowkind.field"):
        raise InvalidRequest(
            f"The sink {table.identifier} has 'rowkind.field', and {topic.identifier} tells the kinds of its changes itself: "
            "write into a table without it."
        )


def _refuse_upserts(topic: KafkaTable, tree: exp.Select, fills: list[Fill], target: changes.Target) -> None:
    """Raise InvalidRequest where a record that has no row before it, or a key alone, would not say what goes."""
    keys = {name.lower() for name in topic.primary_key}
    where = tree.args.get("where")
    if where and any(column.name.lower() not in keys for column in where.find_all(exp.Column)):
        raise InvalidRequest(
            f"A record of {topic.identifier} ('upsert-kafka') replaces the row of its key, and does not say what that was: a "
            f"condition of a stream speaks of its PRIMARY KEY ({', '.join(topic.primary_key)}) alone."
        )
    for fill in fills:
        if fill.name in target.table.schema.primary_keys and fill.position is not None:
            given = {column.name.lower() for column in tree.expressions[fill.position].find_all(exp.Column)}
            if not given <= keys:
                raise InvalidRequest(
                    f"{fill.name!r}, part of the primary key of {target.table.identifier}, is made of other columns than the "
                    f"PRIMARY KEY ({', '.join(topic.primary_key)}) of {topic.identifier}: a record that deletes has no others."
                )


def _without_stars(tree: exp.Select, read: Input) -> Iterator[exp.Expr]:
    """What is selected, with columns in the place of a star, which would stand for the hidden ones as well."""
    names = [*read.source.schema.names, *(each.name for each in read.source.computed)]
    for each in tree.expressions:
        star = each.this if isinstance(each, exp.Column) and isinstance(each.this, exp.Star) else each
        if not isinstance(star, exp.Star):
            yield each
            continue
        left_out = {column.name.lower() for column in star.args.get("except_") or []}
        if star.args.get("replace") or star.args.get("rename"):
            raise InvalidRequest("A stream of a Kafka table takes * and * EXCEPT (…): list the columns instead.")
        yield from (exp.column(name, quoted=True) for name in names if name.lower() not in left_out)
