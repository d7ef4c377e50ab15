"""Which columns of tables the columns of a Spark DataFrame are computed from: read off its plan, never guessed.

A table that is read gets a name in the plan by which it is found again. A column is computed from the columns whose values
its own are made of; conditions, joins and groups do not count. What goes through Python or through a query of its own
inside an expression is not known, nor is anything over Spark Connect, which keeps the plan to itself.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from lineage import SourceColumn
from storage import SnapshotRef

_MARK = "snapline:"
# Nodes that give on what they get.
_PASSING = {
    "Filter",
    "Sort",
    "Distinct",
    "GlobalLimit",
    "LocalLimit",
    "Limit",
    "Offset",
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "Deduplicate",
    "ResolvedHint",
    "SubqueryAlias",
    "Sample",
    "View",
    "WithCTE",
    "Tail",
}
_LEFT_ONLY = ("LeftSemi", "LeftAnti")
Sources = frozenset[SourceColumn] | None
# Id of an attribute, and what it comes from: None if that is not known.
Output = list[tuple[Any, str, Sources]]


def marked(frame: DataFrame, ref: SnapshotRef) -> DataFrame:
    """A DataFrame over a table, under a name by which `column_sources` finds it in a plan."""
    return frame.alias(_MARK + json.dumps([ref.catalog, ref.database, ref.table]))


def column_sources(frame: DataFrame) -> dict[str, list[SourceColumn]]:
    """For each column the columns of tables that it comes from; columns of which that is not known are left out."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return {}
    nodes = json.loads(plan.queryExecution().analyzed().toJSON())
    output = _Reader(nodes).output()
    return {name: sorted(sources) for _, name, sources in output or () if sources}


@dataclass
class _Reader:
    """Reads a plan: a list of nodes, each followed by its children."""

    nodes: Sequence[Mapping[str, Any]]
    position: int = 0

    def output(self) -> Output | None:
        """What the node at the position gives; goes on to the next. None if that is not known."""
        node = self.nodes[self.position]
        self.position += 1
        children = [self.output() for _ in range(node["num-children"])]
        kind = node["class"].rpartition(".")[2]
        if kind == "Union":
            return _union(children)
        if kind == "Join":
            return _join(node, children)
        if not children:
            return _leaf(node)
        child = children[0]
        if child is None or len(children) > 1:
            return None
        if kind == "SubqueryAlias" and node["identifier"]["name"].startswith(_MARK):
            catalog, database, table = json.loads(node["identifier"]["name"].removeprefix(_MARK))
            return [(each, name, frozenset([(catalog, database, table, name)])) for each, name, _ in child]
        if kind in _PASSING:
            return child
        if kind in ("Project", "Aggregate"):
            return _expressions(node["projectList" if kind == "Project" else "aggregateExpressions"], child)
        if kind == "Window":
            return child + _expressions(node["windowExpressions"], child)
        if kind == "Generate":
            made = _sources(node["generator"], child)
            return child + [(_id(each[0]), each[0]["name"], made) for each in node["generatorOutput"]]
        return _leaf(node)


def _union(children: Sequence[Output | None]) -> Output | None:
    known = [child for child in children if child is not None]
    if len(known) < len(children) or len({len(each) for each in known}) != 1:
        return None
    output: Output = []
    for columns in zip(*known, strict=True):
        sources = [column[2] for column in columns]
        together = (
            None
            if any(source is None for source in sources)
            else frozenset().union(*(source or () for source in sources))
        )
        output.append((columns[0][0], columns[0][1], together))
    return output


def _join(node: Mapping[str, Any], children: Sequence[Output | None]) -> Output | None:
    left, right = children
    if left is None or right is None:
        return None
    kind = str(node["joinType"].get("object", node["joinType"]))
    if "Existence" in kind:
        return None
    return left if any(each in kind for each in _LEFT_ONLY) else left + right


def _leaf(node: Mapping[str, Any]) -> Output | None:
    """Columns that come from somewhere that is not known."""
    output = node.get("output")
    if not isinstance(output, list):
        return None
    return [(_id(item[0]), item[0]["name"], None) for item in output]


def _expressions(listed: Sequence[Sequence[Mapping[str, Any]]], child: Output) -> Output:
    return [(_id(each[0]), each[0]["name"], _sources(each, child)) for each in listed]


def _sources(expression: Sequence[Mapping[str, Any]], child: Output) -> Sources:
    known = {each: sources for each, _, sources in child}
    columns_read: set[SourceColumn] = set()
    for node in expression:
        kind = node["class"].rpartition(".")[2]
        if "Subquery" in kind or kind in ("Exists", "OuterReference"):
            return None
        if kind == "AttributeReference":
            sources = known.get(_id(node))
            if sources is None:
                return None
            columns_read |= sources
    return frozenset(columns_read)


def _id(node: Mapping[str, Any]) -> tuple[Any, Any]:
    return node["exprId"]["id"], node["exprId"]["jvmId"]
