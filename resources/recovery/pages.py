"""What the jobs of a recovery show in the Dagster UI: whole tables, with links to assets, and the ways on as links to launchpads
with the recovery's name filled in.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import dagster as dg

from storage.engines.duckdb_compare import Comparison

from ..assets.launchpad import Launchpads
from ..links.dagster_links import DagsterLinks
from .plan import Mode, RecoveryPlan
from .progress import BEING_PUBLISHED, TO_BE_CORRECTED, TO_BE_PUBLISHED, Progress
from .words import OPS, free_name


def page(*parts: str) -> dg.MarkdownMetadataValue:
    """Parts of a page, those that are not empty below each other."""
    return dg.MetadataValue.md("\n\n".join(part for part in parts if part))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; cells may hold links."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(' '.join(str(cell).split()) for cell in line)} |" for line in lines)


def text(value: object) -> str:
    """What comes from outside, as a cell that shows it letter by letter."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", str(value))


def asset_link(name: str) -> str:
    """A table, as a link to its asset."""
    return f"[{text(name)}](/assets/{'/'.join(name.split('.'))})"


def plan_page(plan: RecoveryPlan) -> str:
    """Every table of a plan, and what happens to it."""
    rows = [
        (asset_link(name), bad, newest, branch_at, text(what)) for name, bad, newest, branch_at, what in plan.rows()
    ]
    shown = table(("table", "bad from snapshot", "newest", "branched at", "what happens"), rows)
    leaves = f"\n\n{text(plan.leaves)}" if plan.leaves else ""
    return f"Bad: {text(plan.bad)}, mode {plan.mode}.\n\n{shown}{leaves}"


def ways_to_start(plan: RecoveryPlan, taken: Sequence[str], launchpads: Launchpads) -> str:
    """How a plan is begun: under a name that is free, in either mode, the planned one first."""
    if not plan.tables:
        return "Nothing is spoilt now: there is nothing to recover."
    modes = sorted(get_args(Mode), key=lambda mode: mode != plan.mode)
    texts = {
        "incremental": "Start it: compute anew what came after the last good snapshot",
        "full": "Start it: compute everything downstream anew",
    }
    bad = f"{plan.bad.table_name}@{plan.bad.snapshot_id}"
    return _next(
        launchpads.link(
            texts[mode],
            "recovery_start",
            OPS["recovery_start"],
            {"branch": free_name(bad, taken), "bad": bad, "mode": mode},
        )
        for mode in modes
    )


def state_page(progress: Progress, launchpads: Launchpads, done: str = "") -> str:
    """How far a recovery has come, what is left, its runs, and the ways on, without the job that has been done just now."""
    left = f" Left: {', '.join(map(asset_link, progress.left))}." if progress.left else ""
    unfinished = f" {text(progress.unfinished)}" if progress.unfinished else ""
    spite = f" In spite of: {text('; '.join(progress.overrides))}." if progress.overrides else ""
    remarks = "".join(f" {text(remark)}" for remark in progress.remarks)
    runs = f"[Its runs]({DagsterLinks().runs_of_recovery(progress.branch)})"
    said = f"Recovery **{text(progress.branch)}**: {text(progress.state)}.{unfinished}{left}{spite}{remarks} {runs}."
    return f"#### State\n\n{said}\n\n{_next(ways(progress, launchpads, done))}"


def ways(progress: Progress, launchpads: Launchpads, done: str = "") -> list[str]:
    """What can be done next with a recovery, what is to be done first."""

    def way(label: str, job: str, **config: Any) -> str:
        return launchpads.link(label, job, OPS[job], {"branch": progress.branch, **config})

    if progress.trouble:
        return []
    if progress.state == BEING_PUBLISHED:
        return [way("Publish it again", "recovery_publish")]
    drop = [] if progress.unfinished else [way("Drop it", "recovery_drop")]
    if progress.is_published:
        return [*([way("Publish it again", "recovery_publish")] if progress.changed else []), *drop]
    compare = way("Compare with main", "recovery_compare")
    if progress.state == TO_BE_PUBLISHED:
        publish = way("Publish it", "recovery_publish")
        return [publish, *drop] if done == "recovery_compare" else [compare, publish, *drop]
    backfill = way("Compute what is left", "recovery_backfill")
    correct = way("Correct the source by SQL", "recovery_correct", sql="")
    if progress.state != TO_BE_CORRECTED:
        return [backfill, *([] if done == "recovery_compare" else [compare]), correct, *drop]
    back = way("Take the source back to before the bad snapshot", "recovery_correct", undo_bad=True)
    return [correct, *([back] if progress.bad else []), *drop]


def _next(links: Iterable[str]) -> str:
    return "\n".join(["#### Next", "", *(f"- {link}" for link in links)])


def list_page(listed: Sequence[Progress], launchpads: Launchpads) -> str:
    """Every recovery, with its state and the ways on."""
    if not listed:
        return (
            "There is no recovery. The page of an asset leads to one: events of its snapshots have a link to plan it."
        )
    columns = ["recovery", "state", "left", "bad", "mode", "tables", "next"]
    rows = [
        [
            f"**{text(recovery.branch)}**",
            text(": ".join(filter(None, [recovery.state, recovery.unfinished, " ".join(recovery.remarks)]))),
            ", ".join(map(asset_link, recovery.left)) or "nothing",
            text(recovery.bad),
            recovery.mode,
            ", ".join(map(asset_link, recovery.tables)),
            " · ".join(ways(recovery, launchpads)),
        ]
        for recovery in listed
    ]
    if any(each.overrides or each.trouble for each in listed):
        columns.append("in spite of")
        for row, recovery in zip(rows, listed, strict=True):
            row.append(text("; ".join(recovery.overrides) or recovery.trouble))
    return table(columns, rows)


def dropped_page(branch: str, tables: Sequence[str]) -> str:
    """What has gone with a recovery."""
    gone = f"its branches of {', '.join(map(asset_link, tables))}" if tables else "it had a branch of no table"
    return f"Recovery **{text(branch)}** is dropped: {gone}."


def comparison_page(comparisons: Mapping[str, Comparison], sides: tuple[str, str]) -> str:
    """How the two sides of each table differ."""
    rows = [
        (
            asset_link(name),
            comparison.rows_before,
            comparison.rows_after,
            comparison.added,
            comparison.removed,
            comparison.changed,
            ", ".join(f"{text(column)} in {count} rows" for column, count in comparison.changed_columns.items()),
        )
        for name, comparison in comparisons.items()
    ]
    return table(("table", f"rows {sides[0]}", sides[1], "added", "removed", "changed", "columns that differ"), rows)


def differing_rows_page(comparisons: Mapping[str, Comparison], sides: tuple[str, str]) -> str:
    """The first rows of each table that differ, with all columns of which anything is known."""
    parts = []
    for name, comparison in comparisons.items():
        if comparison.examples is not None and comparison.examples.num_rows:
            columns = comparison.examples.to_pydict()
            known = [column for column, values in columns.items() if any(value is not None for value in values)]
            rows = zip(*([cell(value) for value in columns[column]] for column in known), strict=True)
            parts += [
                f"#### First rows of {asset_link(name)} that differ",
                table([_heading(column, sides) for column in known], list(rows)),
            ]
    return "\n\n".join(parts)


def _heading(column: str, sides: tuple[str, str]) -> str:
    """A column of a comparison, by the names of its sides."""
    for end, side in zip((" before", " after"), sides, strict=True):
        if column.endswith(end):
            return text(f"{column.removesuffix(end)} {side}")
    return text(column)


def cell(value: object) -> str:
    """A value of a row."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else text(value)
