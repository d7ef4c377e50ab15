"""What is to be known of the branches of a recovery besides what is left to do: which are gone, are of other tables by now, or
have changed since it was published.
"""

from collections.abc import Collection, Sequence

from storage import StorageError

from .on_main import changed_since
from .record import DROPPING, OPEN, PUBLISHED, RecoveryRecord
from .stages import Recovery


def remarks(recovery: Recovery, changed: Sequence[str], left: Collection[str]) -> tuple[str, ...]:
    """Sentences. `changed`: the tables that have changed since the recovery was published; `left`: those to compute anew then."""
    record = recovery.record
    if record.status == DROPPING:
        return ()
    gone, said = recovery.without_branch(), no_part_of(recovery)
    if record.status == PUBLISHED or changed:
        said += [f"Branch {recovery.branch} of {name} is gone; what was published stays." for name in gone]
    else:
        said += [
            f"Branch {recovery.branch} of {name} is gone, or was never made: what writes to it in this recovery makes it again, "
            "as it was when the recovery began."
            for name in gone
        ]
    if changed:
        first = f" To be computed anew before: {', '.join(left)}." if left else ""
        said.append(
            f"{', '.join(changed)} changed since it was published: main has not got what was written to the branch then. Publish "
            f"again (`snapline recovery publish {recovery.branch}`), or drop the recovery, which gives that up.{first}"
        )
    return tuple(said)


def no_part_of(recovery: Recovery) -> list[str]:
    """Sentences on the tables of the plan that were dropped, or made anew; of the corrected one also on what to do."""
    planned, said = recovery.planned, []
    for name, table in recovery.record.tables.items():
        if name not in planned:
            what = "made anew" if recovery.is_made_anew(name) else "dropped"
            said.append(f"{name} was {what} since the recovery began, and is no part of it any more.")
            if table.corrected and planned and recovery.record.status == OPEN:
                said.append(
                    f"Publish what was made from it on the branch ({', '.join(planned)}), or drop the recovery (`snapline "
                    f"recovery drop {recovery.branch}`) and make that anew on main."
                )
    return said


def left_out(record: RecoveryRecord, names: Sequence[str]) -> list[str]:
    """Those of some tables without which a recovery was published: by what has come to its branches since, more may be left."""
    said = [f"{override}," for override in record.overrides if override.startswith("published though not ")]
    return [name for name in names if any(f" {name}{end}" in text for text in said for end in (",", " ("))]


def differences_since(recovery: Recovery) -> list[str]:
    """For each table that has changed since the recovery was published, in what, as a sentence."""
    return [
        f"{name} changed since it was published: {difference_since(recovery, name)}."
        for name in changed_since(recovery)
    ]


def difference_since(recovery: Recovery, name: str) -> str:
    """In what the branch of a table differs from what was published of it, without a full stop."""
    try:
        return recovery.compare_since(name).describe()
    except StorageError as error:
        return f"not compared, {str(error).rstrip('.')}"
