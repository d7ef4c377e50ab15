"""The query that a stream began with, beside its checkpoint: going on with another one would mix the rows of both."""

import json
from pathlib import Path

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

from . import changes
from .query import Query
from .settings import JOB_OPTION

_FILE = "query.json"
_SHOWN = 300


def refuse_other_query(checkpoint: str, job: str, query: Query, target: changes.Target) -> None:
    """Remember the query of a stream that begins. Raises InvalidRequest for one that goes on from what another has read."""
    directory = Path(checkpoint)
    given = {"sink": str(target.table.identifier), "query": _text(query, target)}
    path = directory / _FILE
    if path.exists() and any((directory / "offsets").glob("[0-9]*")):
        begun = json.loads(path.read_text("utf-8"))
        if begun != given:
            raise InvalidRequest(
                f"The stream {job!r} began with another query, INSERT INTO {begun['sink']} {begun['query'][:_SHOWN]!r}, and has "
                "come to what that has read: rows of both would be mixed. Run it as it was, or give this one a name of its own: "
                f"SET '{JOB_OPTION}' = '{job}-2'."
            )
        return
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(given), "utf-8")


def _text(query: Query, target: changes.Target) -> str:
    """The query over the names of its tables, without the hints that say where it begins and how much it takes at once."""
    names = {one.view: one.source.name for one in query.inputs}
    tree = query.tree.copy()
    for table in tree.find_all(exp.Table):
        if table.name in names:
            table.set("this", exp.to_identifier(names[table.name], quoted=True))
    columns = "" if target.by_name else f"({', '.join(target.columns)}) "
    constants = "".join(f"PARTITION {name} = {value!r} " for name, value in sorted(target.partition.items()))
    return constants + columns + tree.sql(SnaplineSql, comments=False)
