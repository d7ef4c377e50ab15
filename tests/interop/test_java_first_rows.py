"""The first row of a key, and those after it, where compactions look up: rows and changelogs as Java's."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.data_types import parse_type
from tests.interop.java_paimon import JavaPaimon

FIELDS = {"k": parse_type("INT NOT NULL"), "n": parse_type("INT"), "t": parse_type("STRING")}
SCHEMA = pa.schema([pa.field(name, kind.to_arrow(), kind.nullable) for name, kind in FIELDS.items()])
AGGREGATION = {
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.t.aggregate-function": "last_non_null_value",
}
# pypaimon merges all levels of such tables.
pytestmark = pytest.mark.pypaimon_differs("It merges all levels where compactions look up.")
Row = tuple[str, int, int | None, str | None]
Told = list[tuple[Any, ...]]


class Both:
    """A table that is written here, and one of the same options that Java writes."""

    def __init__(self, java: JavaPaimon, catalog: Catalog, options: dict[str, str]) -> None:
        self.java, self.catalog = java, catalog
        for name in ("d.ours", "d.java"):
            java.create(catalog.warehouse, name, FIELDS, primary_key=["k"], options={"bucket": "1"} | options)

    @property
    def ours(self) -> Table:
        return self.catalog.table("d.ours")

    def write(self, *rows: Row) -> None:
        table = pa.Table.from_pylist([dict(zip(FIELDS, row[1:], strict=True)) for row in rows], schema=SCHEMA)
        kinds = [row[0] for row in rows]
        self.ours.write(table.append_column("kind", pa.array(kinds)), row_kind_column="kind")
        self.java.write(self.catalog.warehouse, "d.java", table, self.ours.schema.fields, kinds=kinds)

    def compact(self) -> None:
        self.ours.compact()
        self.java.ask(self.catalog.warehouse, "d.java", "compact", full=True)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, which all readers see in both."""
        warehouse = self.catalog.warehouse
        seen = [_rows(self.catalog.table(name).to_arrow()) for name in ("d.ours", "d.java")]
        seen += [_rows(self.java.read(warehouse, name)) for name in ("d.ours", "d.java")]
        assert seen == [seen[0]] * 4
        return seen[0]

    def changes(self) -> Told:
        """What the changelogs of both tell all readers."""
        warehouse = self.catalog.warehouse
        read = [self.catalog.table(name).changes().drop_columns("snapshot_id") for name in ("d.ours", "d.java")]
        seen = [[tuple(row.values()) for row in rows.to_pylist()] for rows in read]
        seen += [[(kind, *row) for kind, row in self.java.changes(warehouse, name, 1)] for name in ("d.ours", "d.java")]
        assert seen == [seen[0]] * 4
        return seen[0]


def _rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


@pytest.mark.parametrize("trigger", ["2", "5"])
def test_first_row_tells_nothing_of_later_rows(java: JavaPaimon, catalog: Catalog, trigger: str) -> None:
    both = Both(
        java,
        catalog,
        {"merge-engine": "first-row", "changelog-producer": "lookup", "num-sorted-run.compaction-trigger": trigger},
    )
    both.write(("+I", 0, 1, "a"))
    both.write(("+I", 0, 2, "b"))
    both.write(("+U", 0, 3, "c"), ("+I", 1, 1, "x"))
    both.compact()
    both.write(("+I", 1, 2, "y"))
    assert both.rows() == [(0, 1, "a"), (1, 1, "x")]
    assert both.changes() == [("+I", 0, 1, "a"), ("+I", 1, 1, "x")]


def test_first_row_tells_new_keys_as_added(java: JavaPaimon, catalog: Catalog) -> None:
    both = Both(java, catalog, {"merge-engine": "first-row", "changelog-producer": "lookup"})
    both.write(("+U", 0, 1, "a"))
    assert both.ours.changes().column("rowkind").to_pylist() == ["+I"]


@pytest.mark.parametrize(
    "option", [{"changelog-producer": "lookup"}, {"force-lookup": "true"}], ids=["lookup", "force"]
)
@pytest.mark.parametrize(
    "first", [(("-D", 1, 5, "y"),), (("+I", 2, 1, "x"), ("-U", 1, 5, "y"))], ids=["alone", "beside"]
)
def test_a_retraction_that_comes_first_is_kept(
    java: JavaPaimon, catalog: Catalog, option: dict[str, str], first: Sequence[Row]
) -> None:
    both = Both(java, catalog, AGGREGATION | option)
    both.write(*first)
    assert (1, -5, None) in both.rows()
    both.write(("+I", 1, 7, None))
    assert (1, 2, None) in both.rows()
    both.compact()
    both.write(("-D", 3, 4, "z"))
    assert (3, -4, None) in both.rows()
    both.changes()


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_ignored_deletes_hide_no_update_of_a_changelog(java: JavaPaimon, catalog: Catalog, producer: str) -> None:
    both = Both(java, catalog, {"changelog-producer": producer, "ignore-delete": "true"})
    both.write(("+I", 0, 1, "a"))
    both.compact()
    both.write(("+I", 0, 2, "b"))
    both.compact()
    both.write(("-D", 0, 2, "b"))
    assert both.rows() == [(0, 2, "b")]
    assert both.changes()[:3] == [("+I", 0, 1, "a"), ("-U", 0, 1, "a"), ("+U", 0, 2, "b")]
