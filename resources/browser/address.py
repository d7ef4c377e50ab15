"""Addresses of pages of the browser, for those who link to it from elsewhere."""

from urllib.parse import quote

from storage import SnapshotRef


def snapshot_address(base: str, ref: SnapshotRef) -> str:
    """The page of a snapshot; `base`: where the browser is served."""
    parts = (ref.catalog, ref.database, ref.table, ref.branch, str(ref.snapshot_id))
    return f"{base}/snapshot/{'/'.join(quote(part, safe='') for part in parts)}"


def recovery_address(base: str, branch: str) -> str:
    """The page of a recovery."""
    return f"{base}/recoveries/{quote(branch, safe='')}"
