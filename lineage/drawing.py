"""Lineage as something to look at: a text tree, Mermaid, Graphviz, or rows."""

from collections.abc import Callable, Iterable
from typing import Any

from storage import SnapshotRef

from .graph import LineageGraph

_Note = Callable[[SnapshotRef], str]


def text_tree(graph: LineageGraph, note: _Note = lambda _: "") -> str:
    """An indented tree from the root on. A snapshot that was shown before is not unfolded again.

    `note` says what there is to say about a snapshot, in a word or two.
    """

    lines = [_noted(graph.root, note)]
    shown: set[SnapshotRef] = set()

    def unfold(ref: SnapshotRef, indent: str) -> None:
        shown.add(ref)
        following = graph.next_to(ref)
        for index, child in enumerate(following):
            last = index == len(following) - 1
            again = child in shown and bool(graph.next_to(child))
            lines.append(
                f"{indent}{'└── ' if last else '├── '}{_noted(child, note)}{' (shown above)' if again else ''}"
            )
            if child not in shown:
                unfold(child, indent + ("    " if last else "│   "))

    unfold(graph.root, "")
    return "\n".join(lines)


def mermaid(graph: LineageGraph, besides: Iterable[SnapshotRef] = (), note: _Note = lambda _: "") -> str:
    """A Mermaid flow chart, sources on the left. `besides`: what is drawn though no edge leads there; `note` as in
    `text_tree`.
    """
    refs = sorted({graph.root, *graph.snapshots, *besides})
    names = {ref: f"s{index}" for index, ref in enumerate(refs)}
    lines = ["flowchart LR"]
    lines += [f'    {name}["{_noted(ref, note)}"]' for ref, name in names.items()]
    lines += [f"    {names[edge.source]} --> {names[edge.sink]}" for edge in graph.edges]
    return "\n".join(lines)


def dot(graph: LineageGraph, besides: Iterable[SnapshotRef] = (), note: _Note = lambda _: "") -> str:
    """The same in Graphviz's language; edges carry the job, and what a note says something of is dashed."""
    lines = ["digraph lineage {", "    rankdir=LR;", "    node [shape=box];"]
    for ref in sorted({graph.root, *graph.snapshots, *besides}):
        said = f" [label={_quoted(_noted(ref, note))}, style=dashed]" if note(ref) else ""
        lines.append(f"    {_quoted(str(ref))}{said};")
    lines += [
        f"    {_quoted(str(edge.source))} -> {_quoted(str(edge.sink))} [label={_quoted(edge.job)}];"
        for edge in graph.edges
    ]
    return "\n".join([*lines, "}"])


def _noted(ref: SnapshotRef, note: _Note) -> str:
    said = note(ref)
    return f"{ref} ({said})" if said else str(ref)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _table(ref: SnapshotRef) -> str:
    return str(ref).rpartition("@")[0]


def rows(graph: LineageGraph) -> list[dict[str, Any]]:
    """One row an edge: source and sink by table, with its catalog unless that is the default one, and snapshot id; job and
    barrier.
    """
    return [
        {
            "source": _table(edge.source),
            "source_snapshot_id": edge.source.snapshot_id,
            "sink": _table(edge.sink),
            "sink_snapshot_id": edge.sink.snapshot_id,
            "job": edge.job,
            "barrier_id": edge.barrier_id,
        }
        for edge in graph.edges
    ]
