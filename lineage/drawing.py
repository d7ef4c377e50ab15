"""Lineage as something to look at: a text tree, Mermaid, Graphviz, or rows."""

from collections.abc import Callable, Iterable
from typing import Any

from storage import MAIN_BRANCH, SnapshotRef, TopicRange

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
        topics = topic_texts(graph.ranges_of(ref))
        for index, text in enumerate(topics):
            lines.append(f"{indent}{'└── ' if index == len(topics) - 1 and not following else '├── '}{text}")
        for index, child in enumerate(following):
            last = index == len(following) - 1
            again = child in shown and bool(graph.next_to(child) or graph.ranges_of(child))
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
    lines += [f'    {name}["{_in_mermaid(_noted(ref, note))}"]' for ref, name in names.items()]
    lines += [f"    {names[edge.source]} --> {names[edge.sink]}" for edge in graph.edges]
    for index, (text, sink) in enumerate(_topics_of(graph)):
        lines += [f'    t{index}[("{_in_mermaid(text)}")]', f"    t{index} --> {names[sink]}"]
    return "\n".join(lines)


def _in_mermaid(text: str) -> str:
    """A label, in which Mermaid reads what HTML would, and its own codes."""
    codes = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;"}
    return "".join(codes.get(each, each) for each in text)


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
    for text, sink in _topics_of(graph):
        lines += [f"    {_quoted(text)} [shape=cylinder];", f"    {_quoted(text)} -> {_quoted(str(sink))};"]
    return "\n".join([*lines, "}"])


def topic_texts(ranges: Iterable[TopicRange]) -> list[str]:
    """A line for each topic that was read through a Kafka table: the offsets of each partition, the last one not among them."""
    by_topic: dict[tuple[str, str, str, str], list[str]] = {}
    for each in sorted(ranges):
        offsets = f"{each.partition} [{each.start}, {each.end})"
        by_topic.setdefault((each.catalog, each.database, each.table, each.topic), []).append(offsets)
    return [
        f"{_table(SnapshotRef(catalog, database, table, MAIN_BRANCH, 0))}: topic {topic}, offsets {', '.join(offsets)}"
        for (catalog, database, table, topic), offsets in by_topic.items()
    ]


def _topics_of(graph: LineageGraph) -> list[tuple[str, SnapshotRef]]:
    sinks = sorted({sink for sink, _ in graph.topics})
    return [(text, sink) for sink in sinks for text in topic_texts(graph.ranges_of(sink))]


def _noted(ref: SnapshotRef, note: _Note) -> str:
    said = note(ref)
    return f"{ref} ({said})" if said else str(ref)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _table(ref: SnapshotRef) -> str:
    return str(ref).rpartition("@")[0]


def rows(graph: LineageGraph) -> list[dict[str, Any]]:
    """One row an edge: source and sink by table, with its catalog unless that is the default one, and snapshot id; job and
    barrier. Of topics: a partition, `database.table topic/0`, and the offset before which reading ended.
    """
    snapshots = [
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
    return [*snapshots, *_topic_rows(graph)]


def _topic_rows(graph: LineageGraph) -> list[dict[str, Any]]:
    """What was read of topics in the same columns: a partition, `database.table topic/0`, and the offset that was read up to."""
    return [
        {
            "source": f"{_table(SnapshotRef(each.catalog, each.database, each.table, MAIN_BRANCH, 0))} {each.place}",
            "source_snapshot_id": each.end,
            "sink": _table(sink),
            "sink_snapshot_id": sink.snapshot_id,
            "job": None,
            "barrier_id": None,
        }
        for sink, each in graph.topics
    ]
