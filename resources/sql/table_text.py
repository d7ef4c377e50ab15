"""A table as the statement that makes one like it."""

from typing import Any

from sqlglot import exp

from storage import TOPIC_ID, Table, shown_options
from storage.sql.dialect import SnaplineSql


def create_statement(table: Table) -> str:
    """A CREATE TABLE that makes a table like this one."""
    schema = table.schema
    lines = [_column_line(field) for field in schema.fields]
    if schema.primary_keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(_quoted, schema.primary_keys))}) NOT ENFORCED")
    text = (
        f"CREATE TABLE {'.'.join(map(_quoted, str(table.identifier).split('.')))} (\n  " + ",\n  ".join(lines) + "\n)"
    )
    if schema.comment:
        text += f"\nCOMMENT {_literal(schema.comment)}"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(_quoted, schema.partition_keys))})"
    # The id of the topic of a log is its own: another table gets one of its own.
    options = {key: value for key, value in shown_options(schema.options).items() if key != TOPIC_ID}
    if options:
        pairs = [f"  {_literal(key)} = {_literal(value)}" for key, value in sorted(options.items())]
        text += "\nWITH (\n" + ",\n".join(pairs) + "\n)"
    return text


def _column_line(field: Any) -> str:
    default = "" if field.default_value is None else f" DEFAULT {field.default_value}"
    return f"{_quoted(field.name)} {type_text(field.type)}{default}{_comment(field)}"


def _comment(field: Any) -> str:
    return f" COMMENT {_literal(field.description)}" if field.description is not None else ""


def type_text(kind: Any) -> str:
    """A type of the format as SQL has it, with NOT NULL and the comments of fields at every depth."""
    required = "" if kind.nullable else " NOT NULL"
    match kind.root:
        case "ARRAY":
            return f"ARRAY<{type_text(kind.element)}>{required}"
        case "MAP":
            return f"MAP<{type_text(kind.key)}, {type_text(kind.element)}>{required}"
        case "ROW":
            fields = (f"{_quoted(field.name)} {type_text(field.type)}{_comment(field)}" for field in kind.fields)
            return f"ROW<{', '.join(fields)}>{required}"
    return str(kind)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(SnaplineSql)


def _literal(text: str) -> str:
    return exp.Literal.string(text).sql(SnaplineSql)
