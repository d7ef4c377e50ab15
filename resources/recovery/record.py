"""What is remembered of a recovery, in the warehouse: from when, on which tables, and how far it has come."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from storage import AlreadyExists, Catalog, CorruptData, NotFound

_KIND = "recovery"
# Which snapshots the mains of a recovery are, in a document of its own: versions before read no record that has more.
_MAINS_KIND = "recovery-mains"
OPEN, PUBLISHED = "open", "published"


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
    notes = catalog.notes(_KIND)
    try:
        content = notes.read(branch)
        if content is None:
            return None
        # What a later version keeps besides says nothing to this one.
        known = {**_known(RecoveryRecord, content), "tables": {}}
        record = RecoveryRecord(**known)
        for name, each in content["tables"].items():
            record = record.with_table(name, TableRecord(**_known(TableRecord, each)))
        return _with_identities(catalog, record)
    except (CorruptData, TypeError, LookupError, AttributeError) as error:
        reason = str(error) if isinstance(error, CorruptData) else f"File {notes.path(branch)} describes no recovery."
        raise CorruptData(
            f"{reason.rstrip('.')}. Give recovery {branch!r} up by `snapline recovery drop {branch} --discard-damaged`, which "
            "keeps the file aside."
        ) from None


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


def replace_record(catalog: Catalog, record: RecoveryRecord) -> None:
    """Write a record over the one of the same branch."""
    # First: those of numbers that the record does not have yet count for nothing.
    _keep_identities(catalog, record)
    catalog.notes(_KIND).replace(record.branch, _document(record))


def delete_record(catalog: Catalog, branch: str) -> None:
    """Delete what is stored of the recovery on a branch."""
    catalog.notes(_KIND).delete(branch)
    catalog.notes(_MAINS_KIND).delete(branch)


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
        if table["replayed_at"] is None:
            del table["replayed_at"]
    return document


def _keep_identities(catalog: Catalog, record: RecoveryRecord) -> None:
    mains = {
        name: [table.main, table.main_identity]
        for name, table in record.tables.items()
        if table.main_identity is not None
    }
    if mains:
        catalog.notes(_MAINS_KIND).replace(record.branch, {"created_ms": record.created_ms, "mains": mains})


def _with_identities(catalog: Catalog, record: RecoveryRecord) -> RecoveryRecord:
    """With the identities that were kept of that very recovery, of the numbers that it has now: a version before moves those
    without them. A document that cannot be read, which `snapline check` names, is as none.
    """
    kept: dict[str, Any] | None = None
    with suppress(CorruptData):
        kept = catalog.notes(_MAINS_KIND).read(record.branch)
    mains = kept.get("mains") if kept is not None and kept.get("created_ms") == record.created_ms else None
    for name, point in mains.items() if isinstance(mains, dict) else ():
        table = record.tables.get(name)
        is_point = isinstance(point, list) and len(point) == 2 and isinstance(point[1], str)
        if table is not None and is_point and point[0] == table.main:
            record = record.with_table(name, replace(table, main_identity=point[1]))
    return record


def names(catalog: Catalog) -> list[str]:
    """The recoveries that there are."""
    return catalog.notes(_KIND).names()
