"""CALL sys.*: the actions on tables, tags, branches and lineage, by name. Arguments by position or by name, also by the names
that Paimon's Spark and Flink connectors give them. What Paimon has and this platform has not is refused, with the reason.
"""

import difflib
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from storage import InvalidRequest, Unsupported

from ..actions import Action, Parameter, Procedure, Reach, procedures
from .result import Result

PROCEDURES = procedures()
# Parameters that say how Paimon does something, not what comes of it.
_WITHOUT_EFFECT = {"remove_orphan_files": ("parallelism", "mode")}
_SORTED = "rows are not sorted by other columns here"
_REFUSED_PARAMETERS = {
    "compact": {
        "order_strategy": _SORTED,
        "order_by": _SORTED,
        "where": "name partitions, by 'partitions'",
        "options": "set them on the table, by ALTER TABLE … SET",
        "partition_idle_time": "name partitions, by 'partitions'",
    },
    "compact_database": {"options": "set them on the tables, by ALTER TABLE … SET"},
    "rescale": {
        "partitions": "all partitions get the same number of buckets",
        "where": "all partitions get the same number of buckets",
    },
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
    "remove_unexisting_files": "`snapline check` names missing files, and `drop_lost_files` takes them out",
    "remove_unexisting_manifests": "`snapline check` names them; roll back to a snapshot that has them",
    "purge_files": "TRUNCATE TABLE removes the rows, expire_snapshots and remove_orphan_files the files",
    "mark_partition_done": "partitions are not marked as done here",
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
    plain = name.lower().removeprefix("sys.")
    if plain in _REFUSED:
        raise Unsupported(f"CALL sys.{plain}: {_REFUSED[plain]}.")
    if plain not in PROCEDURES:
        near = difflib.get_close_matches(plain, PROCEDURES, n=1)
        hint = f" Did you mean sys.{near[0]}?" if near else ""
        raise InvalidRequest(f"There is no procedure {name!r}.{hint} SHOW PROCEDURES lists them.")
    action, procedure = PROCEDURES[plain]
    return _result(action, reach, {**_bound(procedure, arguments), **procedure.preset})


def _result(action: Action, reach: Reach, values: dict[str, Any]) -> Result:
    outcome = action.carry_out(reach, values)
    return Result(rows=outcome.to_arrow()) if outcome.columns else Result(outcome.message)


def _bound(procedure: Procedure, arguments: Sequence[tuple[str | None, exp.Expr]]) -> dict[str, Any]:
    """What is given to each parameter. NULL is none given, but for those that may be left out."""
    given: dict[str, Any] = {}
    for position, (key, node) in enumerate(arguments):
        label = (key or "").lower()
        reason = _REFUSED_PARAMETERS.get(procedure.name, {}).get(label)
        if reason is not None:
            raise Unsupported(f"CALL sys.{procedure.name} with {key!r}: {reason}.")
        if label in _WITHOUT_EFFECT.get(procedure.name, ()):
            continue
        parameter = _parameter(procedure, label, position, len(arguments))
        if parameter is None or parameter.name in given:
            raise InvalidRequest(
                f"sys.{procedure.name} has no argument {label or (parameter and parameter.name)!r} left. "
                f"Arguments: {procedure.signature}."
            )
        constant = _constant(node)
        given[parameter.name] = None if constant is None else parameter.value(constant)
    missing = [each.name for each in procedure.parameters if each.required and given.get(each.name) is None]
    if missing:
        raise InvalidRequest(f"sys.{procedure.name} needs {', '.join(missing)}. Arguments: {procedure.signature}.")
    return given


def _parameter(procedure: Procedure, label: str, position: int, count: int) -> Parameter | None:
    """The parameter of a name, one of Paimon's included, or at a position; None if there is none of the name."""
    if label:
        return next((each for each in procedure.parameters if label in (each.name, *each.given.also)), None)
    if position < len(procedure.parameters):
        return procedure.parameters[position]
    raise InvalidRequest(
        f"sys.{procedure.name} takes {len(procedure.parameters)} arguments ({procedure.signature}), {count} are given."
    )


def known_procedures() -> list[str]:
    """The names that are carried out or refused with a reason."""
    return sorted({*PROCEDURES, *_REFUSED})


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
