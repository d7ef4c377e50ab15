"""CALL sys.*: the actions on tables, tags, branches and lineage, by name. Arguments by position or by name, also by the names
that Paimon's Spark and Flink connectors give them. What Paimon has and this platform has not is refused, with the reason.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from storage import InvalidRequest, Unsupported
from storage.sql.added_statements import know_statements

from ..actions import ACTIONS, Action, Procedure, Reach, procedures
from .result import Result

PROCEDURES = procedures()
know_statements(action.statement for action in ACTIONS.values() if action.statement is not None)
_A_COUNT = r"[1-9]\d*"
# Parameters that say how Paimon does something, not what comes of it, and the values that they have there.
_WITHOUT_EFFECT: dict[str, dict[str, str]] = {
    "remove_orphan_files": {"parallelism": _A_COUNT, "mode": "local|distributed"},
    "rescale": {"scan_parallelism": _A_COUNT, "sink_parallelism": _A_COUNT},
}
# What arguments without a name stand for in Paimon's Spark procedures, where that is more than is carried out here.
# Parameters of this platform alone come behind them.
_POSITIONS = {
    "compact": (
        "table",
        "partitions",
        "compact_strategy",
        "order_strategy",
        "order_by",
        "where",
        "options",
        "partition_idle_time",
    ),
    "compact_database": ("including_databases", "including_tables", "excluding_tables", "options"),
    "expire_partitions": (
        "table",
        "expiration_time",
        "timestamp_formatter",
        "timestamp_pattern",
        "expire_strategy",
        "max_expires",
        "options",
    ),
    "expire_snapshots": ("table", "retain_max", "retain_min", "older_than", "max_deletes", "options"),
    "expire_tags": ("table", "older_than"),
    "remove_orphan_files": ("table", "older_than", "dry_run", "parallelism", "mode"),
    "rescale": ("table", "buckets", "partition", "where"),
}
_SORTED = "rows are not sorted by other columns here"
_REFUSED_PARAMETERS = {
    "compact": {
        "order_strategy": _SORTED,
        "order_by": _SORTED,
        "where": "name partitions, by 'partitions'",
        "options": "set them on the table, by ALTER TABLE … SET",
        "partition_idle_time": "name partitions, by 'partitions'",
        "full": "everything is merged, unless 'triggers' is TRUE",
        "buckets": "all buckets of a partition are compacted",
    },
    "compact_database": {
        "options": "set them on the tables, by ALTER TABLE … SET",
        "table_options": "set them on the tables, by ALTER TABLE … SET",
        "mode": "each table is compacted by itself",
        "partition_idle_time": "compact tables by themselves, and name partitions",
        "compact_strategy": "everything is merged; compact tables by themselves, with 'compact_strategy'",
    },
    "rescale": {"where": "name a partition, by 'partition'"},
    "expire_snapshots": {
        "max_deletes": "the option 'snapshot.expire.limit' is for commits",
        "options": "set them on the table",
    },
    "expire_partitions": dict.fromkeys(
        ("expiration_time", "timestamp_formatter", "timestamp_pattern", "expire_strategy", "max_expires", "options"),
        "set the options 'partition.*' on the table",
    ),
    "expire_tags": {"older_than": "tags expire by the time that they were given"},
}
_FUNCTIONS = "functions are not kept in a catalog here; views are"
_INDEXES = "global indexes are not built here; file indexes are, by the options 'file-index.*'"
_USERS = "there are no users and privileges here: whoever reads the warehouse reads all of it"
_COPIES = "copy what you need by CREATE TABLE … AS SELECT"
_REFUSED = {
    "rename_branch": "branches keep their names; create another one at the same snapshot",
    "compact_manifest": "commits merge manifests, by the options 'manifest.*'",
    "remove_unexisting_files": "`snapline check` names missing files; restore them, or roll back to what has them all",
    "remove_unexisting_manifests": "`snapline check` names them; roll back to a snapshot that has them",
    "purge_files": "TRUNCATE TABLE removes the rows, expire_snapshots and remove_orphan_files the files",
    "rewrite_file_index": "files get their indexes when they are written: `compact` writes those that need it",
    "repair": "there is no Hive metastore to repair",
    "migrate_table": _COPIES,
    "migrate_database": _COPIES,
    "copy": _COPIES,
    "copy_files": _COPIES,
    "clone": _COPIES,
    "merge_into": "write MERGE INTO",
    "query_service": "there is no query service here",
    "data_evolution_merge_into": "write MERGE INTO",
    "vector_search": "columns of vectors are not kept here",
    "create_global_index": _INDEXES,
    "drop_global_index": _INDEXES,
    "alter_view_dialect": "views have one text here",
    "create_function": _FUNCTIONS,
    "alter_function": _FUNCTIONS,
    "drop_function": _FUNCTIONS,
    "create_privileged_user": _USERS,
    "drop_privileged_user": _USERS,
    "grant_privilege_to_user": _USERS,
    "revoke_privilege_from_user": _USERS,
    "init_file_based_privilege": _USERS,
}


def call(reach: Reach, name: str, arguments: Sequence[tuple[str | None, exp.Expr]]) -> Result:
    """Run a procedure. Raises InvalidRequest that lists the procedures, or its arguments; Unsupported for what Paimon has and
    this platform has not.
    """
    action, values, labels = called(name, arguments)
    outcome = action.carry_out(reach, values, labels)
    return Result(rows=outcome.to_arrow()) if outcome.columns else Result(outcome.message)


def called(
    name: str, arguments: Sequence[tuple[str | None, exp.Expr]]
) -> tuple[Action, dict[str, Any], dict[str, str]]:
    """The action that a procedure is, the values of its parameters, and what they are called where they were given. Raises as
    `call`.
    """
    plain = name.lower().removeprefix("sys.")
    if plain in _REFUSED:
        raise Unsupported(f"CALL sys.{plain}: {_REFUSED[plain]}.")
    if plain not in PROCEDURES:
        near = difflib.get_close_matches(plain, PROCEDURES, n=1)
        hint = f" Did you mean sys.{near[0]}?" if near else ""
        raise InvalidRequest(f"There is no procedure {name!r}.{hint} SHOW PROCEDURES lists them.")
    action, procedure = PROCEDURES[plain]
    labels: dict[str, str] = {}
    return action, _bound(procedure, arguments, labels), labels


def _bound(
    procedure: Procedure, arguments: Sequence[tuple[str | None, exp.Expr]], labels: dict[str, str]
) -> dict[str, Any]:
    """What is given to each parameter, whose name as it was typed goes into `labels`. NULL is none given, but for those that
    may be left out.
    """
    given: dict[str, Any] = {}
    positions = _positions(procedure)
    for position, (key, node) in enumerate(arguments):
        if key is None and any(name is not None for name, _ in arguments[:position]):
            raise InvalidRequest(
                f"sys.{procedure.name}: argument {position + 1} has no name and comes behind one that has: name it, or put it "
                f"first. Arguments: {procedure.signature}."
            )
        if key is None and position >= len(positions):
            raise InvalidRequest(
                f"sys.{procedure.name} takes {len(procedure.parameters)} arguments ({procedure.signature}), "
                f"{len(arguments)} are given."
            )
        label, constant = (key or positions[position]).lower(), _constant(node)
        reason = _REFUSED_PARAMETERS.get(procedure.name, {}).get(label)
        if reason is not None and (key or constant is not None):
            raise Unsupported(f"CALL sys.{procedure.name} with {key or label!r}: {reason}.")
        without_effect = _WITHOUT_EFFECT.get(procedure.name, {}).get(label)
        if without_effect is not None:
            _check_without_effect(procedure.name, label, constant, without_effect)
        if reason is not None or without_effect is not None:
            continue
        parameter = next((each for each in procedure.parameters if label in (each.name, *each.given.also)), None)
        if parameter is None or parameter.name in given:
            raise InvalidRequest(
                f"sys.{procedure.name} has no argument {label!r} left. Arguments: {procedure.signature}."
            )
        labels[parameter.name] = label
        given[parameter.name] = None if constant is None else parameter.value(constant, label)
    missing = [each.name for each in procedure.parameters if each.required and given.get(each.name) is None]
    if missing:
        raise InvalidRequest(f"sys.{procedure.name} needs {', '.join(missing)}. Arguments: {procedure.signature}.")
    return given


def _positions(procedure: Procedure) -> list[str]:
    """The names that arguments without one have, in their order."""
    of_paimon = _POSITIONS.get(procedure.name, ())
    return [*of_paimon, *(each.name for each in procedure.parameters if each.name not in of_paimon)]


def known_procedures() -> list[str]:
    """The names that are carried out or refused with a reason."""
    return sorted({*PROCEDURES, *_REFUSED})


def _check_without_effect(name: str, label: str, value: Any, pattern: str) -> None:
    """Raise InvalidRequest for a value that a parameter does not have in Paimon either."""
    if value is not None and not re.fullmatch(pattern, str(value), re.IGNORECASE):
        wanted = "a whole number from 1 on" if pattern == _A_COUNT else pattern.replace("|", " or ")
        raise InvalidRequest(f"CALL sys.{name}: {label!r} = {value!r} is not {wanted}.")


def _constant(node: exp.Expr) -> Any:
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        return -_constant(node.this)
    if isinstance(node, exp.Array):
        return [_constant(each) for each in node.expressions]
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return int(node.name) if node.is_int else float(node.name)
    raise InvalidRequest(
        f"{node.sql()!r} is no constant: a procedure takes texts, numbers, TRUE, FALSE, NULL and ARRAY(…)."
    )
