"""What is remembered of a recovery, in the warehouse: from when, on which tables, and how far it has come."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from storage import AlreadyExists, Catalog, CorruptData, NotFound

_KIND = "recovery"
OPEN, PUBLISHED = "open", "published"


@dataclass(frozen=True)
class TableRecord:
    """A table of a recovery: `main` is its main branch's newest change that the branch stands for. `partitions`: those to
    compute anew, None for the whole table, and for a table that nothing is to be computed for if `corrected`.
    """

    main: int | None
    branch_at: int | None
    partitions: list[dict[str, Any]] | None = None
    corrected: bool = False


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
        return replace(self, tables={**self.tables, name: table})


def read_record(catalog: Catalog, branch: str) -> RecoveryRecord | None:
    """None if there is no recovery of that name. Raises CorruptData that says what to do if it cannot be read."""
    notes = catalog.notes(_KIND)
    try:
        found = notes.read(branch)
        if found is None:
            return None
        return RecoveryRecord(
            **{**found, "tables": {name: TableRecord(**one) for name, one in found["tables"].items()}}
        )
    except (CorruptData, TypeError, LookupError, AttributeError) as error:
        said = str(error) if isinstance(error, CorruptData) else f"File {notes.path(branch)} describes no recovery."
        raise CorruptData(
            f"{said.rstrip('.')}. Give recovery {branch!r} up by `snapline recovery drop {branch} --discard-damaged`, which "
            "keeps the file aside."
        ) from None


def get_record(catalog: Catalog, branch: str) -> RecoveryRecord:
    """Raises NotFound that lists the recoveries."""
    found = read_record(catalog, branch)
    if found is None:
        known = names(catalog)
        listed = f"There are: {', '.join(known)}." if known else "There is none: start one from a bad snapshot."
        raise NotFound(f"There is no recovery {branch!r}. {listed}")
    return found


def create_record(catalog: Catalog, record: RecoveryRecord) -> None:
    """Raises AlreadyExists."""
    if not catalog.notes(_KIND).create(record.branch, asdict(record)):
        raise AlreadyExists(f"Recovery {record.branch!r} exists. Go on with it, drop it, or choose another name.")


def replace_record(catalog: Catalog, record: RecoveryRecord) -> None:
    catalog.notes(_KIND).replace(record.branch, asdict(record))


def delete_record(catalog: Catalog, branch: str) -> None:
    catalog.notes(_KIND).delete(branch)


def set_record_aside(catalog: Catalog, branch: str) -> str:
    """Put what is remembered of a recovery where nobody reads it; returns the path."""
    return catalog.notes(_KIND).set_aside(branch)


def names(catalog: Catalog) -> list[str]:
    """The recoveries that there are."""
    return catalog.notes(_KIND).names()
