"""The query that a stream began with, beside its checkpoint: going on with another one would mix the rows of both."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

from . import changes
from .query import Query
from .settings import JOB_OPTION

_FILE = "query.json"
_SHOWN = 300


def refuse_other_query(
    checkpoint: str, job: str, query: Query, target: changes.Target, renewed: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Remember the query of a stream that begins. Raises InvalidRequest for one that goes on from what another has read, and
    for a second one that makes the rows of a table anew. `renewed`: of a stream that does, the constants that each column of
    the sink's key takes.
    """
    directory = Path(checkpoint)
    given = {"sink": str(target.table.identifier), "query": _text(query, target)}
    whole = {**given, "table": target.table.directory, "renewed": renewed}
    path = directory / _FILE
    if renewed is not None:
        _refuse_second(directory, whole)
    if path.exists() and any((directory / "offsets").glob("[0-9]*")):
        begun = json.loads(path.read_text("utf-8"))
        if {key: begun.get(key) for key in given} != given:
            raise InvalidRequest(
                f"The stream {job!r} began with another query, INSERT INTO {begun['sink']} {begun['query'][:_SHOWN]!r}, and has "
                "come to what that has read: rows of both would be mixed. Run it as it was, its tables named as they were, or "
                f"give this one a name of its own (SET '{JOB_OPTION}' = '{job}-2') and a sink that no other stream has filled."
            )
        return
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole), "utf-8")


def _refuse_second(directory: Path, given: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if another stream makes rows of the same table anew, and their keys may meet: each would take those
    of the other for gone.
    """
    for path in sorted(directory.parent.glob(f"*/{_FILE}")):
        if path.parent == directory or not any((path.parent / "offsets").glob("[0-9]*")):
            continue
        other = json.loads(path.read_text("utf-8"))
        if other.get("table") != given["table"] or other.get("renewed") is None:
            continue
        apart = any(
            not set(constants) & set(other["renewed"].get(column, constants))
            for column, constants in given["renewed"].items()
        )
        if not apart:
            raise InvalidRequest(
                f"The stream {path.parent.name!r} makes the rows of {given['sink']} anew: it and this one take each other's "
                "rows for gone. Write both into one stream by UNION ALL, or give each a constant of its own in the key. If "
                f"{path.parent.name!r} is not to go on, remove {path.parent}, and empty the sink by TRUNCATE TABLE "
                f"{given['sink']}: rows that its sources have lost since would stay."
            )


def _text(query: Query, target: changes.Target) -> str:
    """The query over the names of its tables, without the hints that say where it begins and how much it takes at once."""
    names = {source.view: source.source.name for source in query.inputs}
    tree = query.tree.copy()
    for table in tree.find_all(exp.Table):
        if table.name in names:
            table.set("this", exp.to_identifier(names[table.name], quoted=True))
    columns = "" if target.by_name else f"({', '.join(target.columns)}) "
    constants = "".join(f"PARTITION {name} = {value!r} " for name, value in sorted(target.partition.items()))
    return constants + columns + tree.sql(SnaplineSql, comments=False)
