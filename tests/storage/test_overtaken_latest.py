"""Branches and tags at the latest snapshot: if it expires before it is held, the newer one is taken."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, NotFound, Table
from storage.maintain import create_branch, tagging

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True})
    made.write(pa.table({"id": [1]}, SCHEMA))
    return made


def overtake(monkeypatch: pytest.MonkeyPatch, module: ModuleType, table: Table, times: int) -> list[int]:
    """Let the snapshot that is to be held expire before it is, so many times. Returns what is then counted: the calls."""
    held, calls = module.held, []

    def late(*given: Any, **named: Any) -> Any:
        calls.append(len(calls))
        if len(calls) <= times:
            table.write(pa.table({"id": [len(calls) + 1]}, SCHEMA))
            table.expire(retain_last=1)
        return held(*given, **named)

    monkeypatch.setattr(module, "held", late)
    return calls


CREATE: dict[str, tuple[ModuleType, Callable[[Catalog, Table], Any]]] = {
    "a branch": (create_branch, lambda catalog, table: table.branches.create("b")),
    "branches of a set": (create_branch, lambda catalog, table: catalog.branch_set("b", ["a.t"]).create()),
    "a tag": (tagging, lambda catalog, table: table.tags.create("b")),
}


@pytest.mark.parametrize(("module", "create"), CREATE.values(), ids=CREATE)
def test_the_latest_is_what_is_latest_when_it_is_held(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, module: ModuleType, create: Callable[..., Any]
) -> None:
    calls = overtake(monkeypatch, module, table, 1)
    create(catalog, table)
    assert len(calls) == 2
    name = "a.t" if module is tagging else "a.t$branch_b"
    assert catalog.table(name).to_arrow(version="b" if module is tagging else None)["id"].to_pylist() == [1, 2]
    assert catalog.table("a.t").check(deep=True) == []


@pytest.mark.parametrize(("module", "create"), CREATE.values(), ids=CREATE)
def test_it_is_not_tried_for_ever(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch, module: ModuleType, create: Callable[..., Any]
) -> None:
    overtake(monkeypatch, module, table, 100)
    with pytest.raises(NotFound, match="expired meanwhile"):
        create(catalog, table)
    monkeypatch.undo()
    assert catalog.table("a.t").branches.names() == [] and catalog.table("a.t").tags.list() == []


def test_a_snapshot_that_was_named_is_not_exchanged(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtake(monkeypatch, create_branch, table, 1)
    with pytest.raises(NotFound, match="expired meanwhile"):
        table.branches.create("b", snapshot_id=1)
