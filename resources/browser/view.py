"""What a page shows, as its URL says it: a link that is sent to a colleague shows the same picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request

from storage import DEFAULT_CATALOG, Identifier, InvalidRequest, SnapshotRef, whole_number

from ..links.shown_text import contains
from .history import Dot, Lane

DIRECTIONS = ("up", "down", "both")
ARCS = ("selected", "all", "none")
SORTS = ("table", "change", "committed", "rows", "records", "behind", "branches", "tags", "recoveries")
MOST_COMMITS = 20_000
MOST_HOPS = 1_000


@dataclass(frozen=True, slots=True)
class View:
    """Where one is, and what is selected, loaded and shown.

    `select`: a snapshot, as `text_of` writes it. `hops` None: as far as there is. `at`: the platform as it was at this moment
    (UTC). `until`, `limit`: the newest commits that are loaded. `tables`, `job`, `run`, `partition`, `kind`: texts that what
    is shown contains; of `tables` any of several, with commas between. `gaps`: tables and branches that are left out keep
    their place. Of the graph of tables `focus` is the table in the middle, `fold` are the databases that are one box, with commas
    between, and `find` is what names are searched for; `sort` is the column that the tables are listed by, from the greatest on
    with a hyphen before it.
    """

    select: str = ""
    direction: str = "both"
    hops: int | None = None
    at: datetime | None = None
    until: datetime | None = None
    limit: int = 1_000
    tables: str = ""
    branches: bool = True
    gaps: bool = True
    job: str = ""
    run: str = ""
    partition: str = ""
    kind: str = ""
    unchanged: bool = True
    compactions: bool = False
    arcs: str = "selected"
    focus: str = ""
    fold: str = ""
    find: str = ""
    sort: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "View":
        """From a URL's query. Raises InvalidRequest that names the parameter, and what it may be."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(parameters.keys() - known):
            raise InvalidRequest(
                f"The address has the parameter {unknown[0]!r}, which no page knows. There are: {', '.join(sorted(known))}."
            )
        values: dict[str, Any] = {}
        for name, text in parameters.items():
            if text == "" and name not in ("branches", "gaps", "unchanged", "compactions"):
                continue
            values[name] = _READERS.get(name, _text)(name, text)
        view = cls(**values)
        if view.select:
            ref_of(view.select)
        return view

    def query(self, **changes: Any) -> str:
        """The query of a URL, with some things changed; what is as it would be anyhow is left out."""
        view, default = replace(self, **changes), View()
        shown: dict[str, str] = {}
        for field in fields(View):
            value = getattr(view, field.name)
            if value != getattr(default, field.name):
                shown[field.name] = _written(value)
        return f"?{urlencode(shown)}" if shown else ""

    @property
    def selected(self) -> SnapshotRef | None:
        """The snapshot that is selected."""
        return ref_of(self.select) if self.select else None

    @property
    def has_filters(self) -> bool:
        """Whether some snapshots may be left out, besides compactions."""
        texts = (self.tables, self.job, self.run, self.partition, self.kind)
        return any(texts) or not (self.branches and self.unchanged)

    @property
    def has_more(self) -> bool:
        """Whether something is set that a page shows when asked for more filters."""
        names = (
            "job",
            "run",
            "partition",
            "kind",
            "branches",
            "gaps",
            "unchanged",
            "compactions",
            "arcs",
            "direction",
            "hops",
        )
        return any(getattr(self, name) != getattr(_PLAIN, name) for name in names)

    def shows_lane(self, lane: Lane) -> bool:
        """Whether the filters leave a branch of a table."""
        texts = [text.strip() for text in self.tables.split(",") if text.strip()]
        return (self.branches or lane.is_main) and (not texts or any(is_named(lane.place[:3], text) for text in texts))

    def shows(self, dot: Dot) -> bool:
        """Whether the filters leave a snapshot, if they leave its lane. A compaction that something was made from is not
        folded.
        """
        if not self.compactions and not dot.is_read and dot.kind.startswith("COMPACT"):
            return False
        if not self.unchanged and dot.is_unchanged:
            return False
        pairs = ((self.job, dot.job), (self.run, dot.run), (self.partition, dot.partitions), (self.kind, dot.kind))
        return all(contains(value, wanted) for wanted, value in pairs)


def is_named(name: tuple[str, str, str], text: str) -> bool:
    """Whether the name of a table, of catalog, database and table, contains a text: as it is shown, without the default catalog;
    with that if the text begins with it.
    """
    wanted, whole = text.casefold(), ".".join(name)
    shown = whole.partition(".")[2] if name[0] == DEFAULT_CATALOG else whole
    return contains(shown, text) or (
        wanted.startswith(f"{name[0]}.".casefold()) and whole.casefold().startswith(wanted)
    )


_PLAIN = View()
# Everything there is, whatever the address says.
WHOLE = View(arcs="all", compactions=True)


def parameters_of(request: Request) -> dict[str, str]:
    """The query of an address. Raises InvalidRequest for a parameter that stands there twice."""
    pairs = request.query_params.multi_items()
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        twice = next(name for name, _ in pairs if [each for each, _ in pairs].count(name) > 1)
        raise InvalidRequest(f"The address has the parameter {twice[:100]!r} more than once: leave out all but one.")
    return parameters


def own_parameters(request: Request, *names: str, switches: Sequence[str] = ()) -> dict[str, str]:
    """The query of an address of a page that has parameters of its own, each with a value, and `switches`, which say `all`.
    Raises InvalidRequest for what else stands there.
    """
    parameters, known = parameters_of(request), [*names, *switches]
    for name, value in parameters.items():
        if name not in known:
            there = f"There are: {', '.join(sorted(known))}." if known else "It takes none."
            raise InvalidRequest(
                f"The address has the parameter {name[:100]!r}, which this page does not know. {there}"
            )
        if name in switches and value not in ("", "all"):
            raise InvalidRequest(f"The address has {name}={value[:100]!r}: it is 'all', or left out.")
    return parameters


def ref_of(text: str) -> SnapshotRef:
    """The snapshot that `text_of` names; also `db.t@5`, of the default catalog. Raises InvalidRequest."""
    name, _, version = text.rpartition("@")
    catalog, _, rest = name.partition(".")
    if "." not in rest.partition("$")[0]:
        catalog, rest = DEFAULT_CATALOG, name
    number = whole_number(version)
    if not catalog or not rest or number is None or number > 2**63 - 1:
        raise InvalidRequest(
            f"{text[:200]!r} is no snapshot: it is named by table and number, like snapline.db.t@5. What number a tag has "
            "shows the table's history."
        )
    identifier = Identifier.parse(rest)
    if identifier.system_table is not None:
        raise InvalidRequest(
            f"{text[:200]!r} is a system table, which has no snapshots: leave out ${identifier.system_table}."
        )
    return SnapshotRef(catalog, identifier.database, identifier.table, identifier.branch, number)


def _text(name: str, text: str) -> str:
    if len(text) > 1_000:
        raise InvalidRequest(f"{name} has {len(text)} characters, at most 1000 are looked for.")
    return text


def _flag(name: str, text: str) -> bool:
    if text not in ("0", "1"):
        raise InvalidRequest(f"{name} = {text[:50]!r}: it is 1 or 0.")
    return text == "1"


def _number(most: int) -> Any:
    def read(name: str, text: str) -> int:
        number = whole_number(text)
        if number is None or not 0 < number <= most:
            raise InvalidRequest(f"{name} = {text[:50]!r}: it is a number from 1 to {most}.")
        return number

    return read


def _hops(name: str, text: str) -> int | None:
    return None if text == "all" else _number(MOST_HOPS)(name, text)


def _moment(name: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{name} = {text[:50]!r}: it is a time like 2026-11-23T08:30:00 (UTC).") from None


def _of(allowed: tuple[str, ...]) -> Any:
    def read(name: str, text: str) -> str:
        if text not in allowed:
            raise InvalidRequest(f"{name} = {text[:50]!r}: it is one of {', '.join(allowed)}.")
        return text

    return read


_READERS: dict[str, Any] = {
    "direction": _of(DIRECTIONS),
    "hops": _hops,
    "at": _moment,
    "until": _moment,
    "limit": _number(MOST_COMMITS),
    "branches": _flag,
    "gaps": _flag,
    "unchanged": _flag,
    "compactions": _flag,
    "arcs": _of(ARCS),
    "sort": _of((*SORTS, *(f"-{name}" for name in SORTS))),
}


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, datetime):
        return value.isoformat()
    return "all" if value is None else str(value)
