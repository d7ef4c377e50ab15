"""What was done to tables and branches, in a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from storage import MAIN_BRANCH, Snapshot, Table, Verdict


def shown_table(name: str, opened: Table) -> str:
    """A table as it was named, or the branch that it stands for: in a correction of a recovery a table means its branch."""
    return name if opened.identifier.branch == MAIN_BRANCH else str(opened.identifier)


def rolled_back(table: str, version: object, snapshot: Snapshot | None) -> str:
    """What a rollback did, in a sentence."""
    if snapshot is None:
        return f"{table} holds the rows of {version} already."
    return (
        f"{table} holds the rows of {version} again, by snapshot {snapshot.id}. Those before it stay until they expire."
    )


def merged(table: str, branch: str, verdict: Verdict) -> str:
    """What a merge did, in a sentence."""
    if verdict.made is None:
        return f"{table} has taken nothing over from branch {branch}: it has all of it already{_of_main(verdict)}."
    return (
        f"{table} has taken {counted(len(verdict.new), 'snapshot')} over from branch {branch} ({verdict.kind}), by snapshot "
        f"{verdict.made.id}{_of_main(verdict)}."
    )


def _of_main(verdict: Verdict) -> str:
    """What has become of what main had done since both parted."""
    ids = ", ".join(str(snapshot.id) for snapshot in verdict.lost if snapshot.changes_rows)
    if not ids or verdict.kind == "clean":
        return ""
    return f"; main's work of {ids} {'is given up' if verdict.kind == 'diverged' else 'lies elsewhere and stays'}"


def replaced(table: str, branch: str, verdict: Verdict, snapshot: Snapshot | None) -> str:
    """What the replacement of a main did, in a sentence; `snapshot` is the newest that main has now."""
    where = "without a snapshot" if snapshot is None else f"at snapshot {snapshot.id}"
    return f"Branch {branch} is the main of {table} ({verdict.kind}), {where}{_of_main(verdict)}."


def published(verdicts: Mapping[str, Verdict]) -> tuple[list[str], list[tuple[str, str, int | None]]]:
    """Names and rows of a table that says how each main has taken its branch over, and by which snapshot."""
    rows = [
        (name, verdict.describe(), None if verdict.made is None else verdict.made.id)
        for name, verdict in verdicts.items()
    ]
    return ["table", "verdict", "by snapshot"], rows


def partition_text(values: Mapping[str, Any]) -> str:
    """A partition as people read it: `day=2024-05-01/region=eu`; a null value is NULL."""
    return "/".join(f"{column}={'NULL' if value is None else value}" for column, value in values.items())


def short_partition(values: Mapping[str, Any]) -> str:
    """A partition in a list of them: the value alone where there is one column; an empty text as quotes."""
    texts = {
        column: "NULL" if value is None else "''" if value == "" else str(value) for column, value in values.items()
    }
    return partition_text(texts) if len(texts) > 1 else "".join(texts.values())


def named_in(text: str, there: Sequence[str]) -> list[str]:
    """The names in a text: itself if it is one of those that are there, which may hold commas; else those between its commas."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [text] if text in there or not parts else list(dict.fromkeys(parts))


def counted(count: int, noun: str) -> str:
    """A number of things: 1 file, 2 files."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_text(size_bytes: int) -> str:
    """A size for people: 12.3 MB (powers of 1000)."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
