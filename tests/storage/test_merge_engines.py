"""Merge engines: retractions, and options that cannot be."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table, Unsupported

COLUMNS = {"id": pa.int64(), "n": pa.int64(), "d": pa.decimal128(10, 2), "t": pa.string(), "g": pa.int64()}


def make(catalog: Catalog, **options: Any) -> Table:
    given = {"bucket": 1, "write-only": True} | {
        key.replace("__", ".").replace("_", "-"): value for key, value in options.items()
    }
    return catalog.create_table("a.b", pa.schema(list(COLUMNS.items())), primary_key=["id"], options=given)


def write(table: Table, *rows: tuple[Any, ...]) -> None:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, kind) for column, kind in zip(columns, COLUMNS.values(), strict=False)]
    batch = pa.Table.from_arrays(arrays, list(COLUMNS)).append_column("op", pa.array(columns[5]))
    table.write(batch, row_kind_column="op")


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


SUM = {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum", "fields__d__aggregate_function": "sum"}


def test_a_sum_takes_values_back_within_a_write_between_writes_and_after_compaction(catalog: Catalog) -> None:
    table = make(catalog, **SUM)
    write(table, (1, 10, Decimal("1.50"), "x", 1, "+I"), (1, 5, Decimal("0.25"), "y", 1, "+I"))
    write(table, (1, 4, Decimal("0.50"), None, None, "-U"), (1, 1, None, None, None, "-D"))
    assert rows_of(table)[0][:3] == (1, 10, Decimal("1.25"))
    table.compact()
    assert rows_of(table)[0][:3] == (1, 10, Decimal("1.25"))
    write(table, (1, 3, Decimal("1.00"), None, None, "-D"))
    assert rows_of(table)[0][:3] == (1, 7, Decimal("0.25"))


def test_a_sum_that_does_not_fit_is_an_error(catalog: Catalog) -> None:
    table = make(catalog, **SUM)
    with pytest.raises(InvalidRequest, match=r"'n' is aggregated by 'sum'.* does not fit"):
        write(table, (1, 2**63 - 1, None, None, None, "+I"), (1, 2**63 - 1, None, None, None, "+I"))


def test_a_function_that_cannot_take_back_says_so_or_ignores_it(catalog: Catalog) -> None:
    table = make(catalog, merge_engine="aggregation", fields__n__aggregate_function="max")
    with pytest.raises(InvalidRequest, match=r"'n' is aggregated by 'max'.*ignore-retract"):
        write(table, (1, 1, None, None, None, "+I"), (1, 1, None, None, None, "-D"))
    catalog.drop_table("a.b")
    options = {"fields__n__aggregate_function": "max", "fields__n__ignore_retract": True}
    table = make(catalog, merge_engine="aggregation", **options)
    write(table, (1, 1, None, None, None, "+I"), (1, 9, None, None, None, "-D"))
    assert rows_of(table)[0][1] == 1


def test_a_delete_removes_the_row_where_the_option_says_so(catalog: Catalog) -> None:
    for engine in ("aggregation", "partial-update"):
        options = {f"{engine}.remove-record-on-delete": True, "fields.n.aggregate-function": "sum"}
        if engine == "partial-update":
            options.pop("fields.n.aggregate-function")
        table = make(catalog, merge_engine=engine, **options)
        write(table, (1, 1, None, "a", 1, "+I"), (2, 2, None, "b", 2, "+I"))
        write(table, (1, 1, None, "a", 1, "-D"))
        assert [row[0] for row in rows_of(table)] == [2]
        write(table, (1, 5, None, None, None, "+I"))
        assert rows_of(table)[0] == (1, 5, None, None, None)
        table.compact()
        assert rows_of(table)[0] == (1, 5, None, None, None)
        assert table.delete("id = 2") is not None
        assert [row[0] for row in rows_of(table)] == [1]
        catalog.drop_table("a.b")


def test_a_retraction_in_a_sequence_group_leaves_nulls_and_takes_sums_back(catalog: Catalog) -> None:
    options = {"fields.g.sequence-group": "t,n", "fields.n.aggregate-function": "sum"}
    table = make(catalog, merge_engine="partial-update", **options)
    write(table, (1, 10, None, "one", 1, "+I"), (1, 5, None, "two", 2, "+I"))
    write(table, (1, 10, None, "gone", 3, "-D"))
    assert rows_of(table) == [(1, 5, None, None, 3)]
    write(table, (1, 1, None, "late", 2, "+I"))
    assert rows_of(table) == [(1, 6, None, None, 3)]


def test_an_engine_that_cannot_take_retractions_refuses_them(catalog: Catalog) -> None:
    for engine, message in (("partial-update", "remove-record-on-delete"), ("first-row", "ignore-delete")):
        table = make(catalog, merge_engine=engine)
        with pytest.raises(InvalidRequest, match=message):
            write(table, (1, 1, None, None, None, "+I"), (1, 1, None, None, None, "-D"))
        with pytest.raises(Unsupported, match="does not remove"):
            table.delete("id = 1")
        catalog.drop_table("a.b")
    table = make(catalog, merge_engine="partial-update", ignore_delete=True)
    write(table, (1, 1, None, None, None, "+I"), (1, None, None, "x", None, "-D"))
    assert rows_of(table) == [(1, 1, None, None, None)]


def test_rows_of_a_first_row_table_appear_when_they_are_compacted(catalog: Catalog) -> None:
    table = make(catalog, merge_engine="first-row")
    write(table, (1, 1, None, None, None, "+I"))
    assert rows_of(table) == []
    table.compact()
    assert len(rows_of(table)) == 1
    catalog.drop_table("a.b")
    table = make(catalog, merge_engine="first-row", write_only=False)
    write(table, (1, 1, None, None, None, "+I"))
    write(table, (1, 2, None, None, None, "+I"))
    assert rows_of(table) == [(1, 1, None, None, None)]


def test_update_befores_are_dropped_on_request(catalog: Catalog) -> None:
    table = make(catalog, ignore_update_before=True)
    write(table, (1, 1, None, None, None, "+I"))
    write(table, (1, 1, None, None, None, "-U"))
    assert len(rows_of(table)) == 1
    write(table, (1, 1, None, None, None, "-D"))
    assert rows_of(table) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "median"}, "'median' is not supported.*sum"),
        ({"merge-engine": "partial-update", "fields.n.aggregate-function": "sum"}, "in a sequence group only"),
        ({"merge-engine": "partial-update", "fields.nope.sequence-group": "n"}, "no column 'nope'"),
        ({"merge-engine": "first-row", "sequence.field": "n"}, "leave it out"),
        ({"sequence.field": "nope"}, "no column 'nope'"),
    ],
)
def test_options_that_cannot_be_are_refused_when_the_table_is_created(
    catalog: Catalog, options: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidRequest, Unsupported), match=message):
        catalog.create_table(
            "a.c", pa.schema(list(COLUMNS.items())), primary_key=["id"], options={"bucket": 1, **options}
        )
    assert not catalog.exists("a.c")
