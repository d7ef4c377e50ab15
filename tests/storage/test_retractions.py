"""Rows of kind -U and -D that a merge engine cannot take: refused when they are written, named where others wrote them."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, Table
from storage.lsm.merge_engines import Aggregation, FirstRow, PartialUpdate

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.string()), ("g", pa.int32())])
MAX = {"merge-engine": "aggregation", "fields.s.aggregate-function": "max"}
PARTIAL = {"merge-engine": "partial-update"}
GROUP = PARTIAL | {"fields.g.sequence-group": "s", "fields.s.aggregate-function": "max"}
FIRST = {"merge-engine": "first-row"}


def rows(*given: tuple[int, str | None, int | None, str]) -> pa.Table:
    keys, texts, orders, kinds = zip(*given, strict=True)
    columns = [pa.array(column, field.type) for column, field in zip((keys, texts, orders), SCHEMA, strict=True)]
    return pa.Table.from_arrays([*columns, pa.array(kinds)], names=["k", "s", "g", "op"])


def make(catalog: Catalog, options: dict[str, Any], name: str = "a.b") -> Table:
    table = catalog.create_table(name, SCHEMA, primary_key=["k"], options={"bucket": 1, **options})
    table.write(rows((1, "a", 1, "+I"), (2, "b", 1, "+I")).drop_columns("op"))
    return table


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["s"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", ["-U", "-D"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MAX, "a.b: Column 's' is aggregated by 'max'.*fields.s.ignore-retract"),
        (MAX | {"fields.s.aggregate-function": "first_value"}, "'first_value'"),
        ({"merge-engine": "aggregation", "fields.default-aggregate-function": "listagg"}, "Column .* 'listagg'"),
        (PARTIAL, "partial-update takes no rows.*ignore-delete"),
        (GROUP, "Column 's' is aggregated by 'max'"),
        (FIRST, "first-row takes no rows.*ignore-delete"),
        (FIRST | {"changelog-producer": "lookup"}, "first-row"),
    ],
)
def test_what_cannot_be_merged_is_refused_when_it_is_written(
    catalog: Catalog, options: dict[str, Any], message: str, kind: str
) -> None:
    if "fields.default-aggregate-function" in options:
        options = options | {"fields.g.aggregate-function": "sum"}
    table = make(catalog, options)
    newest = table.snapshot()
    for key in (1, 9):
        # Also of a key that is not there: the next row of it could not be read.
        with pytest.raises(InvalidRequest, match=message):
            table.write(rows((3, "c", 2, "+I"), (key, "a", 2, kind)), row_kind_column="op")
    assert table.snapshot() == newest
    table.write(rows((3, "c", 2, "+I")), row_kind_column="op")
    assert rows_of(table) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_delete_that_removes_the_row_is_taken_and_an_update_before_is_not(catalog: Catalog) -> None:
    table = make(catalog, MAX | {"aggregation.remove-record-on-delete": True})
    with pytest.raises(InvalidRequest, match="ignore-update-before"):
        table.write(rows((1, "a", 1, "-U")), row_kind_column="op")
    table.write(rows((1, "a", 1, "-D")), row_kind_column="op")
    assert rows_of(table) == [(2, "b")]


def test_a_retraction_that_takes_no_part_in_a_sequence_group_is_taken(catalog: Catalog) -> None:
    table = make(catalog, GROUP)
    table.write(rows((1, None, None, "-D")), row_kind_column="op")
    assert rows_of(table) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("options", "advised"),
    [
        (MAX, {"fields.s.ignore-retract": True}),
        (MAX, {"ignore-delete": True}),
        (PARTIAL, {"ignore-delete": True}),
        (FIRST, {"ignore-delete": True}),
    ],
)
def test_what_others_have_written_is_named_and_the_advice_makes_it_readable(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], advised: dict[str, Any]
) -> None:
    table = make(catalog, options)
    with monkeypatch.context() as patched:
        for engine in (Aggregation, FirstRow, PartialUpdate):
            # As other writers of the format do.
            patched.setattr(engine, "refusal", lambda *_: None)
        table.write(rows((1, "a", 1, "-D")), row_kind_column="op")
    if options != FIRST:
        with pytest.raises(InvalidRequest, match=next(iter(advised))):
            table.to_arrow()
    for deep in (False, True):
        (line,) = (
            str(problem)
            for problem in table.check(deep=deep)
            if "-U or -D" in str(problem) and "data file" in str(problem)
        )
        assert "1 rows of kind -U or -D" in line
        assert next(iter(advised)) in line
    table = table.alter(SetOptions(advised))
    table.write(rows((3, "c", 2, "+I")), row_kind_column="op")
    assert rows_of(table) == [(1, "a"), (2, "b"), (3, "c")]
    table.troubles()
    assert not [problem for problem in table.check(deep=True) if "-U or -D" in str(problem)]


def test_a_function_that_takes_values_back_does_not_begin_to_ignore_them(catalog: Catalog) -> None:
    table = make(catalog, {"merge-engine": "aggregation", "fields.g.aggregate-function": "sum"} | MAX)
    with pytest.raises(InvalidRequest, match="cannot change any more"):
        table.alter(SetOptions({"fields.g.ignore-retract": True}))
    table = table.alter(SetOptions({"fields.s.ignore-retract": True}))
    with pytest.raises(InvalidRequest, match="cannot change any more"):
        table.alter(SetOptions({}, removed=["fields.s.ignore-retract"]))
