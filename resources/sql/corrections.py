"""What a correction may do: change rows and columns of branches. All else would reach past them, to main or to other tables."""

from collections.abc import Sequence

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.commands import (
    AlterTable,
    AnalyzeTable,
    Call,
    DescribeTable,
    Explain,
    ResetOption,
    SetOption,
    Show,
)

from .place import at
from .unread import statement_name

_CHANGES = (exp.Insert, exp.Delete, exp.Update, exp.Merge, exp.TruncateTable, AnalyzeTable)
_LOOKS = (exp.Query, exp.Values, Show, DescribeTable, Explain, SetOption, ResetOption)
# Those that change the rows of one table, or how they lie.
_PROCEDURES = (
    "compact",
    "drop_partition",
    "rollback",
    "rollback_to",
    "rollback_to_timestamp",
    "rollback_to_watermark",
)
_CORRECTIONS = (
    f"Corrections are INSERT, UPDATE, DELETE, MERGE, TRUNCATE TABLE, ALTER TABLE and CALL of {', '.join(_PROCEDURES)}."
)


def refuse_without_change(trees: Sequence[exp.Expr]) -> None:
    """Raise InvalidRequest for statements none of which can change a row or a column: the table would not be corrected."""
    if all(isinstance(tree, (*_LOOKS, AnalyzeTable)) for tree in trees):
        names = ", ".join(dict.fromkeys(statement_name(tree) for tree in trees)) or "An empty text"
        raise InvalidRequest(f"{names} changes nothing, and is no correction. {_CORRECTIONS}")


def refuse_beyond_branches(tree: exp.Expr) -> None:
    """Raise InvalidRequest for a statement that changes more than the rows and columns of the tables that it names."""
    is_renaming = isinstance(tree, AlterTable) and tree.args["action"] == "rename to"
    if isinstance(tree, (*_CHANGES, *_LOOKS)) or (isinstance(tree, AlterTable) and not is_renaming):
        return
    if isinstance(tree, Call) and tree.name.lower().removeprefix("sys.") in _PROCEDURES:
        return
    name = "ALTER TABLE … RENAME TO" if is_renaming else statement_name(tree)
    raise at(
        tree,
        InvalidRequest(f"{name} is no correction: it would not be done on a branch. {_CORRECTIONS}"),
    )
