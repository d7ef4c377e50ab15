"""Addresses of pages of the browser, for those who link to it from elsewhere."""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from storage import SnapshotRef

from .shown_text import in_shell


def snapshot_address(base: str, ref: SnapshotRef) -> str:
    """The page of a snapshot; `base`: where the browser is served."""
    return f"{base}/snapshot?{_query(ref)}"


def spoilt_address(base: str, ref: SnapshotRef) -> str:
    """The page of what a snapshot has spoilt."""
    return f"{base}/spoilt?{_query(ref)}"


def plan_address(base: str, ref: SnapshotRef, mode: str = "") -> str:
    """The plan of a recovery from a snapshot, in a mode or in the usual one."""
    return f"{base}/plan?{_query(ref)}{f'&mode={quote(mode)}' if mode else ''}"


def recovery_address(base: str, branch: str) -> str:
    """The page of a recovery."""
    return f"{base}/recoveries/{quote(branch, safe='')}"


def command(words: str, *arguments: str, **options: str | Sequence[str]) -> str:
    """A command to copy into a shell, whatever its arguments hold. An option without values is a flag."""
    given: list[str] = []
    for name, values in options.items():
        given += [f"--{name.replace('_', '-')}", *([values] if isinstance(values, str) else values)]
    # What begins with a hyphen would be taken for an option.
    parts = (
        [*given, "--", *arguments] if any(argument.startswith("-") for argument in arguments) else [*arguments, *given]
    )
    return " ".join(("snapline", words, *map(in_shell, parts)))


def _query(ref: SnapshotRef) -> str:
    return urlencode({"ref": text_of(ref)}, safe="@$")


def text_of(ref: SnapshotRef) -> str:
    """A snapshot as addresses name it, `catalog.db.t[$branch_b]@5`."""
    return f"{ref.catalog}.{ref.table_name}@{ref.snapshot_id}"
