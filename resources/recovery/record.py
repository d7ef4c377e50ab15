"""What is remembered of a recovery, in the warehouse: from when, on which tables, and how far it has come.

Nobody writes over what he has not seen: a change is made on what is there by then, or refused if that is another recovery, or
one that has ended meanwhile.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from storage import AlreadyExists, Catalog, CommitConflict, CorruptData, NotFound

from .renamed import name_now, renamed_since

_KIND = "recovery"
# Which snapshots the mains of a recovery are, in a document of its own: versions before read no record that has more.
_MAINS_KIND = "recovery-mains"
# Whoever drops it says so first, and takes its branches away then.
OPEN, PUBLISHED, DROPPING = "open", "published", "dropping"


@dataclass(frozen=True)
class TableRecord:
    """A table of a recovery: `main` is its main branch's newest change that the branch stands for. `partitions`: those to
    compute anew, None for the whole table, and for a table that nothing is to be computed for if `corrected`. `main_identity`
    tells that change from another one of its number.
    """

    main: int | None
    branch_at: int | None
    partitions: list[dict[str, Any]] | None = None
    corrected: bool = False
    # Recoveries of versions before have none.
    main_identity: str | None = None
    # The newest snapshot of the branch when a replay moved `main` on: what was written by hand before did not know main's.
    replayed_at: int | None = None
    # The newest snapshot of the branch that what is made from it is computed from: a publication has brought later rows of
    # production beside it, which are left to production's next runs.
    computed_at: int | None = None


@dataclass(frozen=True)
class RecoveryRecord:
    """`base`: the snapshot of every table of the warehouse when the branch was made: tables that are not branched are read
    there. `tables`: those that are, or are to be, branched. `overrides`: what was published in spite of what, in sentences.
    """

    branch: str
    created_ms: int
    base: Mapping[str, int]
    tables: Mapping[str, TableRecord] = field(default_factory=dict)
    mode: str = "full"
    bad: str = ""
    status: str = OPEN
    overrides: list[str] = field(default_factory=list)

    def with_table(self, name: str, table: TableRecord) -> "RecoveryRecord":
        """A copy in which the record of one table is added or replaced."""
        return replace(self, tables={**self.tables, name: table})


def read_record(catalog: Catalog, branch: str) -> RecoveryRecord | None:
    """None if there is no recovery of that name. Raises CorruptData that says what to do if it cannot be read."""
    try:
        content = catalog.notes(_KIND).read(branch)
    except CorruptData as error:
        raise _damaged(branch, str(error)) from None
    return None if content is None else _parsed(catalog, branch, content)


def _parsed(catalog: Catalog, branch: str, content: Mapping[str, Any]) -> RecoveryRecord:
    try:
        # What a later version keeps besides says nothing to this one.
        known = {**_known(RecoveryRecord, content), "tables": {}}
        record = RecoveryRecord(**known)
        for name, table_content in content["tables"].items():
            record = record.with_table(name, TableRecord(**_known(TableRecord, table_content)))
        return _by_names_of_now(catalog, _with_identities(catalog, record))
    except (TypeError, LookupError, AttributeError):
        raise _damaged(branch, f"File {catalog.notes(_KIND).path(branch)} describes no recovery.") from None


def _damaged(branch: str, reason: str) -> CorruptData:
    return CorruptData(
        f"{reason.rstrip('.')}. Give recovery {branch!r} up by `snapline recovery drop {branch} --discard-damaged`, which "
        "keeps the file aside."
    )


def _by_names_of_now(catalog: Catalog, record: RecoveryRecord) -> RecoveryRecord:
    """With each table by the name that it has now, if it was renamed since the recovery began."""
    renamed = renamed_since(catalog, {*record.base, *record.tables}, record.created_ms)
    if not renamed:
        return record
    table, at, snapshot = record.bad.rpartition("@")
    return replace(
        record,
        base={name_now(renamed, name): number for name, number in record.base.items()},
        tables={name_now(renamed, name): each for name, each in record.tables.items()},
        bad=f"{name_now(renamed, table)}{at}{snapshot}",
    )


def get_record(catalog: Catalog, branch: str) -> RecoveryRecord:
    """Raises NotFound that lists the recoveries."""
    record = read_record(catalog, branch)
    if record is None:
        known = names(catalog)
        listed = f"There are: {', '.join(known)}." if known else "There is none: start one from a bad snapshot."
        raise NotFound(f"There is no recovery {branch!r}. {listed}")
    return record


def create_record(catalog: Catalog, record: RecoveryRecord) -> None:
    """Raises AlreadyExists."""
    if not catalog.notes(_KIND).create(record.branch, _document(record)):
        raise AlreadyExists(f"Recovery {record.branch!r} exists. Go on with it, drop it, or choose another name.")
    _keep_identities(catalog, record)


def change_record(
    catalog: Catalog, seen: RecoveryRecord, change: Callable[[RecoveryRecord], RecoveryRecord], *, ends: bool = False
) -> RecoveryRecord:
    """Make a change of the record that was `seen`, on what others have made of it since; returns what is remembered now.

    Raises CommitConflict, with nothing written, if the recovery was dropped meanwhile, or published, or if somebody drops it;
    `ends`: what ends it is remembered though others have ended it too.
    """
    made = seen

    def changed(content: Mapping[str, Any] | None) -> Mapping[str, Any]:
        nonlocal made
        now = None if content is None else _parsed(catalog, seen.branch, content)
        if now is None or now.created_ms != seen.created_ms:
            raise CommitConflict(
                f"Recovery {seen.branch!r} was dropped meanwhile: nothing is written down of it any more."
            )
        if now.status != seen.status and not ends:
            reason = "is being dropped" if now.status == DROPPING else "was published meanwhile"
            raise CommitConflict(f"Recovery {seen.branch!r} {reason}. What it has remembered stays as it is.")
        made = change(now)
        # First: those of numbers that the record does not have yet count for nothing.
        _keep_identities(catalog, made)
        return _document(made)

    catalog.notes(_KIND).change(seen.branch, changed)
    return made


def refuse_another(catalog: Catalog, dropping: RecoveryRecord) -> None:
    """Raise CommitConflict unless a recovery is still that which somebody was dropping."""
    now = read_record(catalog, dropping.branch)
    if now is None or now.created_ms != dropping.created_ms or now.status != DROPPING:
        raise CommitConflict(
            f"Recovery {dropping.branch!r} was dropped by somebody else meanwhile, and may have been started anew. Nothing is "
            "done."
        )


def delete_record(catalog: Catalog, record: RecoveryRecord) -> None:
    """Delete what is stored of a recovery; another one of its name stays."""

    def deleted(content: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return None if content is None or content.get("created_ms") == record.created_ms else content

    catalog.notes(_KIND).change(record.branch, deleted)
    try:
        catalog.notes(_MAINS_KIND).change(record.branch, deleted)
    except CorruptData:
        catalog.notes(_MAINS_KIND).delete(record.branch)


def set_record_aside(catalog: Catalog, branch: str) -> str:
    """Put what is remembered of a recovery where nobody reads it; returns the path."""
    catalog.notes(_MAINS_KIND).delete(branch)
    return catalog.notes(_KIND).set_aside(branch)


def _known(kind: type[TableRecord | RecoveryRecord], values: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {key: value for key, value in values.items() if key in names}


def _document(record: RecoveryRecord) -> dict[str, Any]:
    document = asdict(record)
    for table in document["tables"].values():
        del table["main_identity"]
        for key in ("replayed_at", "computed_at"):
            if table[key] is None:
                del table[key]
    return document


def _keep_identities(catalog: Catalog, record: RecoveryRecord) -> None:
    mains = {
        name: (table.main or 0, table.main_identity)
        for name, table in record.tables.items()
        if table.main_identity is not None
    }
    if not mains:
        return

    def kept(content: Mapping[str, Any] | None) -> Mapping[str, Any]:
        before = (
            content.get("mains") if content is not None and content.get("created_ms") == record.created_ms else None
        )
        # Of two who move a main on at once, the one who has seen more is right.
        newer = {name: point for name, point in _points(before).items() if name in mains and point[0] > mains[name][0]}
        return {"created_ms": record.created_ms, "mains": {**mains, **newer}}

    notes = catalog.notes(_MAINS_KIND)
    try:
        notes.change(record.branch, kept)
    except CorruptData:
        notes.replace(record.branch, kept(None))


def _with_identities(catalog: Catalog, record: RecoveryRecord) -> RecoveryRecord:
    """With the identities that were kept of that very recovery, of the numbers that it has now: a version before moves those
    without them. A document that cannot be read, which `snapline check` names, is as none.
    """
    kept: dict[str, Any] | None = None
    with suppress(CorruptData):
        kept = catalog.notes(_MAINS_KIND).read(record.branch)
    mains = kept.get("mains") if kept is not None and kept.get("created_ms") == record.created_ms else None
    for name, (number, identity) in _points(mains).items():
        table = record.tables.get(name)
        if table is not None and number == table.main:
            record = record.with_table(name, replace(table, main_identity=identity))
    return record


def _points(mains: Any) -> dict[str, tuple[int, str]]:
    """Numbers and identities of snapshots by the names of tables, as far as they are such."""
    return {
        name: (point[0], point[1])
        for name, point in (mains.items() if isinstance(mains, dict) else ())
        if isinstance(point, list) and len(point) == 2 and isinstance(point[0], int) and isinstance(point[1], str)
    }


def names(catalog: Catalog) -> list[str]:
    """The recoveries that there are."""
    return catalog.notes(_KIND).names()


def with_moved(record: RecoveryRecord, name: str, moved: TableRecord) -> RecoveryRecord:
    """A record with what a replay has found of a table, and with what another one has that was at it meanwhile."""
    known = record.tables.get(name)
    if known is None:
        return record.with_table(name, moved)
    newer = known if (known.main or 0) > (moved.main or 0) else moved
    partitions: list[dict[str, object]] | None = None
    if known.partitions is not None and moved.partitions is not None:
        partitions = [
            *known.partitions,
            *(partition for partition in moved.partitions if partition not in known.partitions),
        ]
    replayed_at = max(table_record.replayed_at or 0 for table_record in (known, moved)) or None
    return record.with_table(name, replace(newer, partitions=partitions, replayed_at=replayed_at))


def refuse_dropping(record: RecoveryRecord) -> None:
    """Raise CommitConflict if somebody has begun to drop the recovery."""
    if record.status == DROPPING:
        raise CommitConflict(f"Recovery {record.branch!r} is being dropped. If whoever did it has died, drop it again.")


def without_identities(tables: Mapping[str, TableRecord]) -> dict[str, TableRecord]:
    """Tables of a recovery by what was planned: which snapshots had those numbers is told when it is published."""
    return {name: replace(table, main_identity=None) for name, table in tables.items()}
