"""Three tables with a branch of one name, and a publication of it that dies on the way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.branches import Branches

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.string())])
NAMES = ["a.one", "a.two", "b.three"]
FIXED = [("x", 1, "fixed"), ("x", 2, "fixed"), ("x", 3, "fixed")]
OLD = [("x", 1, "main"), ("x", 2, "main")]


class Died(BaseException):
    """The process is gone: nothing that it would still have done is done."""


def rows(*ids: int, day: str = "x", v: str = "main") -> pa.Table:
    return pa.table({"day": [day] * len(ids), "id": list(ids), "v": [v] * len(ids)})


def held(table: Table) -> list[tuple[Any, ...]]:
    return sorted((row["day"], row["id"], row["v"]) for row in table.to_arrow().to_pylist())


def all_held(catalog: Catalog) -> list[list[tuple[Any, ...]]]:
    """The rows of the three tables as they are."""
    return [held(catalog.table(name)) for name in NAMES]


def all_seen(catalog: Catalog) -> list[list[tuple[Any, ...]]]:
    """The rows of the three tables in a consistent view."""
    return [held(table) for table in catalog.consistent(NAMES).values()]


def make_tables(catalog: Catalog) -> list[Table]:
    """Each has two snapshots; the third has no key."""
    made = []
    for name in NAMES:
        keyed = {"primary_key": ["day", "id"], "options": {"bucket": 1}} if name != "b.three" else {}
        table = catalog.create_table(name, SCHEMA, partition_by=["day"], **keyed)
        table.write(rows(2))
        table.write(rows(1))
        made.append(table)
    return made


def fork_tables(catalog: Catalog, tables: list[Table]) -> list[Table]:
    """All get a branch `fix`, on which day x is corrected."""
    catalog.branch_set("fix", NAMES).create()
    for table in tables:
        table.on_branch("fix").overwrite(rows(1, 2, 3, v="fixed"), partition={"day": "x"})
    return tables


@contextmanager
def dying_before(name: str) -> Iterator[None]:
    """Whoever is about to merge a branch into the main of that table, or to replace it, dies."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("merge", "replace_closed_main", "adopt"):
            patch.setattr(Branches, method, _dying(getattr(Branches, method), name))
        with suppress(Died):
            yield


def _dying(original: Any, name: str) -> Any:
    def act(self: Branches, branch: str, **named: Any) -> Any:
        if self._store.identifier.full_name == name and named.get("publication") is not None:
            raise Died
        return original(self, branch, **named)

    return act


def half_publish(
    catalog: Catalog,
    *,
    before: str = "a.two",
    replacing: bool = False,
    branch: str = "fix",
    tables: Sequence[str] = NAMES,
    discard_main: bool = False,
) -> None:
    """Publish the branch, and die before one of the tables has it."""
    branches = catalog.branch_set(branch, tables)
    with dying_before(before):
        if replacing:
            branches.replace_main(discard_main=discard_main)
        else:
            branches.publish(discard_main=discard_main)
