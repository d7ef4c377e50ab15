"""What was main until a branch of the table became it: its snapshots are in no branch any more, and have their own lane."""

from storage import BranchHistory, SnapshotRef

from .facts import Place, Platform, place_of

# In the place of a branch's name: no branch is called so.
FORMER = "main~"


def lane_place(platform: Platform, ref: SnapshotRef, time_ms: int) -> Place:
    """Where a snapshot is drawn that was committed then: its branch, or what was main before its table got another one."""
    place = place_of(ref)
    history = platform.branches.get(place)
    if place[3] != "main" or history is None or not history.was_branch:
        return place
    return (*place[:3], FORMER) if _is_of_former_main(history, ref, time_ms) else place


def fork_of_former_main(history: BranchHistory, place: Place) -> SnapshotRef | None:
    """The last snapshot that main, and what was main before, have both; None if that is not known."""
    if history.begun_at is None or history.begun_at[0] != "main":
        return None
    return SnapshotRef(*place[:3], "main", history.begun_at[1])


def _is_of_former_main(history: BranchHistory, ref: SnapshotRef, time_ms: int) -> bool:
    newest = history.snapshots[-1].id if history.snapshots else 0
    is_here = ref.snapshot_id in history.ids or ref.snapshot_id in history.tagged_ids or ref.snapshot_id <= newest
    if "~" not in ref.branch and is_here:
        return False
    begun = history.begun_at[1] if history.begun_at is not None and history.begun_at[0] == "main" else 0
    # Before the branch was made there may have been another table of the name.
    since = history.find(begun) or (history.snapshots[0] if history.snapshots else None)
    return ref.snapshot_id > begun and (since is None or time_ms >= since.time_ms)
