"""Statements and clauses that sqlglot has no tree for."""

from typing import ClassVar

from sqlglot import exp


class CreateCatalog(exp.Expression):
    """CREATE CATALOG [IF NOT EXISTS] name WITH ('key' = 'value', …)"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False, "options": False}


class DropCatalog(exp.Expression):
    """DROP CATALOG [IF EXISTS] name"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "exists": False}


class UseCatalog(exp.Expression):
    """USE CATALOG name"""


class Show(exp.Expression):
    """SHOW what [IN | FROM place] [PARTITION (…)] [('key')] [LIKE 'pattern']; `this` is upper-case words."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "place": False,
        "pattern": False,
        "partition": False,
        "keys": False,
    }


class DescribeTable(exp.Expression):
    """DESCRIBE [TABLE] [EXTENDED | DETAIL | FORMATTED] table [PARTITION (…)]"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "extended": False, "partition": False}


class AlterTable(exp.Expression):
    """ALTER TABLE table [PARTITION (…)] action; `action` names it, `values` are what it takes."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "action": True,
        "partition": False,
        "exists": False,
        "action_exists": False,
        "values": False,
    }


class AnalyzeTable(exp.Expression):
    """ANALYZE TABLE table COMPUTE STATISTICS [FOR COLUMNS a, b | FOR ALL COLUMNS]; without FOR, of the table alone."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "columns": False, "all_columns": False}


class AlterView(exp.Expression):
    """ALTER VIEW view action; `action` names it, `values` are what it takes."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "action": True, "values": False, "action_exists": False}


class AddedColumn(exp.Expression):
    """A column of ALTER TABLE … ADD COLUMN; `this` is a ColumnDef, `name` the path to it."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "name": True, "after": False, "first": False}


class Export(exp.Expression):
    """COPY (query) | table TO 'path' (key value, …), or INSERT OVERWRITE [LOCAL] DIRECTORY 'path' USING format OPTIONS (…) query;
    `options` are pairs of a key and a text, or None.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "path": True,
        "form": False,
        "options": False,
        "as_spark": False,
        "is_local": False,
    }


class Call(exp.Expression):
    """CALL sys.procedure(value, …) or (name => value, …)"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Explain(exp.Expression):
    """EXPLAIN [mode] statement"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "mode": False}


class SetOption(exp.Expression):
    """SET 'key' = 'value'; without a value it shows them."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "value": False}


class ResetOption(exp.Expression):
    """RESET ['key']"""

    arg_types: ClassVar[dict[str, bool]] = {"this": False}


class MetadataConstraint(exp.Expression):
    """column type METADATA [FROM 'key'] [VIRTUAL]"""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "virtual": False}


class WatermarkConstraint(exp.Expression):
    """WATERMARK FOR column AS expression"""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}
