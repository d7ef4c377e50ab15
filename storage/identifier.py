"""Names of tables as users type them: `db.t`, `db.t$snapshots`, `db.t$branch_b`, `db.t$branch_b$snapshots`."""

import re
from dataclasses import dataclass, field
from unicodedata import category

from .errors import InvalidRequest

MAIN_BRANCH = "main"
# The catalog that names without one mean.
DEFAULT_CATALOG = "snapline"
# Tags that keep files while something is made of them, or until a publication is done: users create none of that name.
RESERVED_TAGS = "snapline-"
HOLD_PREFIX = f"{RESERVED_TAGS}hold-"
PUBLICATION_PREFIX = f"{RESERVED_TAGS}publication-"
BRANCH_PREFIX = f"{RESERVED_TAGS}branch-"
BACK_PREFIX = f"{RESERVED_TAGS}back-"
# File systems take 255; what stands around a name, and the names of temporary files, needs some of them.
MOST_NAME_BYTES = 200
_NOT_IN_NAMES = ". / \\ $ % : * ? \" < > | ' `"
_NAME = re.compile(r"[^\s./\\$%:*?\"<>|'`\x00-\x1f]+(?: +[^\s./\\$%:*?\"<>|'`\x00-\x1f]+)*")


@dataclass(frozen=True, slots=True)
class Identifier:
    """A table of a database, one of its branches, and optionally a system table of it."""

    database: str
    table: str
    branch: str = MAIN_BRANCH
    system_table: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Identifier":
        """Read `db.t[$branch_b][$system]`. Raises InvalidRequest for anything else."""
        if not isinstance(text, str):
            raise InvalidRequest(f"{text!r} is not a table name: write it as text, as in 'core.orders'.")
        database, dot, rest = text.partition(".")
        if not dot:
            raise InvalidRequest(f"{text!r} is not a table name: write database.table, as in `core.{text}`.")
        table, *suffixes = rest.split("$")
        branch, system_table = MAIN_BRANCH, None
        if suffixes and suffixes[0].startswith("branch_"):
            branch = check_branch_name(suffixes.pop(0).removeprefix("branch_"), may_be_main=True)
        if suffixes:
            system_table = suffixes.pop(0)
        if suffixes or system_table == "":
            raise InvalidRequest(f"{text!r} is not a table name: expected db.table[$branch_<name>][$<system table>].")
        return cls(check_name(database, "database"), check_name(table, "table"), branch, system_table)

    @property
    def full_name(self) -> str:
        """`db.t`, without branch and system table."""
        return f"{self.database}.{self.table}"

    def __str__(self) -> str:
        branch = "" if self.branch == MAIN_BRANCH else f"$branch_{self.branch}"
        return f"{self.full_name}{branch}" + (f"${self.system_table}" if self.system_table else "")


def name_and_version(text: str) -> tuple[str, str]:
    """The parts of `table` or `table@version`; the version is empty where there is no @. Raises InvalidRequest for nothing behind
    it.
    """
    name, at, version = text.partition("@")
    if at and not version.strip():
        raise InvalidRequest(
            f"{text!r} names no version: write a snapshot or a tag behind the @, or leave the @ out for the latest."
        )
    return name, version


@dataclass(frozen=True, slots=True, order=True)
class SnapshotRef:
    """One snapshot of one branch of one table: what storage and lineage both point at."""

    catalog: str
    database: str
    table: str
    branch: str
    snapshot_id: int
    # When it was committed, where that is known: numbers of snapshots that were taken back are given again.
    time_ms: int | None = field(default=None, compare=False)

    @property
    def table_name(self) -> str:
        """`db.t`, or `db.t$branch_b` off the main branch."""
        return str(Identifier(self.database, self.table, self.branch))

    @property
    def data_version(self) -> str:
        """`branch@snapshot`, the version that Dagster shows."""
        return f"{self.branch}@{self.snapshot_id}"

    def __str__(self) -> str:
        """As commands take it, `[catalog.]db.t[$branch_b]@5`: the default catalog is left out."""
        catalog = "" if self.catalog == DEFAULT_CATALOG else f"{self.catalog}."
        return f"{catalog}{self.table_name}@{self.snapshot_id}"


def whole_number(text: str) -> int | None:
    """The number that text of digits stands for; None for other text, and for more digits than any number has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 100 else None


def check_file_name(name: str, what: str) -> str:
    """Return `name` if it can be part of a file's name on every store; raise InvalidRequest otherwise."""
    if "\0" in name:
        raise InvalidRequest(f"{name!r} cannot name a {what}: it holds a NUL character.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{name!r} cannot name a {what}: it holds half of a character (a lone surrogate), which no file name can."
        ) from None
    if size > MOST_NAME_BYTES:
        raise InvalidRequest(
            f"{name[:40]!r}… cannot name a {what}: it has {size} bytes, at most {MOST_NAME_BYTES} fit into a file's name."
        )
    return name


def check_name(name: str, what: str) -> str:
    """Return `name` if it can be a directory name on every store; raise InvalidRequest otherwise."""
    if not isinstance(name, str):
        raise InvalidRequest(f"{name!r} cannot name a {what}: it is not text.")
    check_file_name(name, what)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} cannot name a {what}: it must not be empty, begin or end with a blank, or hold tabs, line breaks or one "
            f"of {_NOT_IN_NAMES}. Letters, digits, underscores and hyphens can always be used."
        )
    return name


def check_branch_name(name: str, *, may_be_main: bool = False) -> str:
    """Return `name` if it can name a branch: no dot, not only digits, not `main`."""
    check_name(name, "branch")
    if name.isdigit() or (name == MAIN_BRANCH and not may_be_main):
        raise InvalidRequest(f"{name!r} cannot name a branch: it must not be `main` or consist of digits only.")
    return name


def check_new_branch_name(name: str) -> str:
    """Return `name` if a new branch may have it: as `check_branch_name`, and without blanks and characters that cannot be seen,
    which those of earlier versions may have.
    """
    if isinstance(name, str) and _has_unseen(name):
        raise InvalidRequest(
            f"{name!r} cannot name a branch: use letters, digits, underscores and hyphens; no blanks, and no characters that "
            "cannot be seen."
        )
    return check_branch_name(name)


def check_new_tag_name(name: str) -> str:
    """Return `name` if a new tag may have it: as `check_tag_name`, and without characters that cannot be seen, which those of
    earlier versions, and of others, may have. A blank can be seen.
    """
    check_tag_name(name)
    if _has_unseen(name.replace(" ", "")):
        raise InvalidRequest(
            f"{name!r} cannot name a tag: it holds line breaks, or characters that cannot be seen. Leave them out."
        )
    return name


def _has_unseen(name: str) -> bool:
    """Whether a name holds blanks, or characters that cannot be seen."""
    return any(each.isspace() or category(each) in ("Cc", "Cf", "Co", "Cn") for each in name)


def check_tag_name(name: str) -> str:
    """Return `name` if it can name a tag: not blank, not only digits (those are snapshot ids), no slash."""
    if not isinstance(name, str):
        raise InvalidRequest(f"{name!r} cannot name a tag: it is not text.")
    check_file_name(name, "tag")
    if not name.strip() or "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidRequest(f"{name!r} cannot name a tag: it must not be blank or contain a slash.")
    if name.isdigit():
        raise InvalidRequest(
            f"{name!r} cannot name a tag: a purely numeric name would hide the snapshot of that number. "
            f"Call it `v{name}`, for example."
        )
    return name


def refuse_reserved_tag(name: str) -> str:
    """Return `name` unless it is kept for tags that the store itself creates; raise InvalidRequest then."""
    if isinstance(name, str) and name.startswith(RESERVED_TAGS):
        raise InvalidRequest(
            f"Tag names that begin with {RESERVED_TAGS!r} are the store's own: choose another than {name!r}."
        )
    return name
