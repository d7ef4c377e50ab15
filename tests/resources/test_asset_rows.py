"""What becomes of the rows that an asset makes: the same rows, rows of one key, other columns, frames of other libraries."""

import datetime as dt
import importlib.util
import inspect
import re
import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from resources import Session, function_of, table_asset
from resources.assets.asset_arguments import OWN, PASSED, REFUSED
from resources.assets.frames import as_rows
from storage import InvalidRequest

pytestmark = pytest.mark.dagster
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-05")
KEYS = DAYS.get_partition_keys()


def rows(session: Session, name: str, **options: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in session.table(name).to_arrow(**options).to_pylist()), key=str)


def materializations(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    events = result.get_asset_materialization_events()
    return [event.step_materialization_data.materialization for event in events]


def version(event: dg.AssetMaterialization) -> str:
    return (event.tags or {})["dagster/data_version"]


def shown(event: dg.AssetMaterialization, *names: str) -> list[Any]:
    return [event.metadata[name].value if name in event.metadata else None for name in names]


def range_tags(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def made_by(engine: str, make: Callable[[], pa.Table]) -> Callable[..., Any]:
    """A function that gives its rows to Spark, or none that starts it."""

    def in_spark(spark: Any) -> Any:
        return spark.createDataFrame(make())

    return in_spark if engine == "spark" else make


# --- the same rows again


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_a_run_whose_rows_are_there_already_commits_nothing(
    materialize: Callable[..., Any], session: Session, keyed: bool, engine: str
) -> None:
    given = {"v": [(1, "a", 0.5), (2, None, float("nan")), (2, None, float("nan")), (3, "c", None)]}

    def make() -> pa.Table:
        columns = zip(*given["v"], strict=True)
        return pa.table(dict(zip(("id", "name", "share"), map(list, columns), strict=True)))

    whole = table_asset("core.whole", primary_key=["id"] if keyed else [], code_version="1")(made_by(engine, make))

    @table_asset("core.next", inputs={"whole": "core.whole"})
    def after(whole: pa.Table) -> pa.Table:
        return whole

    (first, _) = materializations(materialize(whole, after))
    given["v"] = [given["v"][number] for number in (3, 1, 0, 2)]
    (again, below) = materializations(materialize(whole, after))
    assert [version(first), version(again), version(below)] == ["main@1"] * 3
    assert session.table("core.whole").store.snapshots.ids() == [1]
    assert session.table("core.whole").check() == []
    assert shown(again, "snapshot", "dagster/row_count", "rows_added", "rows_removed") == [1, 3 if keyed else 4, 0, 0]
    assert shown(again, "nothing_committed") == ["got no other rows than there are, stays at main@1"]
    # No file of the write that came to nothing is left.
    assert session.table("core.whole").remove_orphan_files(dry_run=True, no_writers=True) == []
    # One value less, and one row less, are not the same.
    for number, changed in enumerate(([*given["v"][:3], (2, "b", 0.5)], given["v"][:2]), start=2):
        given["v"] = changed
        assert version(materializations(materialize(whole))[0]) == f"main@{number}"


def test_partitions_that_are_made_again_as_they_were_commit_nothing_and_have_their_tags(
    materialize: Callable[..., Any], session: Session
) -> None:
    price = {"now": 1}

    @table_asset(
        "core.days", primary_key=["day", "id"], partition_by=["day"], partitions_def=DAYS, partition_column="day"
    )
    def days(context: dg.AssetExecutionContext) -> pa.Table:
        keys = [key for key in context.partition_keys for _ in range(2)]
        return pa.table({"day": keys, "id": [1, 2] * (len(keys) // 2), "price": [price["now"]] * len(keys)})

    materialize(days, tags=range_tags(KEYS[0], KEYS[1]))
    session.table("core.days").tags.delete(KEYS[1])
    events = materializations(materialize(days, tags=range_tags(KEYS[0], KEYS[1])))
    assert [(event.partition, version(event)) for event in events] == [(KEYS[0], "main@1"), (KEYS[1], "main@1")]
    assert [shown(event, "dagster/partition_row_count", "rows_added", "rows_inserted") for event in events] == [
        [2, 0, 0]
    ] * 2
    assert session.table("core.days").store.snapshots.ids() == [1]
    assert [tag.name for tag in session.table("core.days").tags.list()] == KEYS[:2]
    # One that is new, or another price, is a commit.
    assert version(materializations(materialize(days, tags=range_tags(KEYS[1], KEYS[2])))[0]) == "main@2"
    price["now"] = 2
    assert version(materializations(materialize(days, partition_key=KEYS[0]))[0]) == "main@3"


# --- rows that are added to partitions


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_rows_are_appended_to_the_partitions_of_a_run(
    materialize: Callable[..., Any], session: Session, keyed: bool, engine: str
) -> None:
    given: dict[str, list[Any]] = {}

    def make() -> pa.Table:
        return pa.table(given, pa.schema([("k", pa.int64()), ("day", pa.string())]))

    added = table_asset(
        "core.added",
        mode="append",
        primary_key=["k", "day"] if keyed else [],
        partition_by="day",
        partitions_def=DAYS,
        partition_column="day",
        code_version="1",
    )(made_by(engine, make))
    for key, numbers in ((KEYS[0], [1]), (KEYS[1], [1]), (KEYS[0], [2, 3])):
        given.update(k=numbers, day=[key] * len(numbers))
        (event,) = materializations(materialize(added, partition_key=key))
    assert shown(event, "table_rows", "dagster/partition_row_count", "rows_given") == [4, 3, 2 if keyed else None]
    given.update(k=[3], day=[KEYS[0]])
    materialize(added, partition_key=KEYS[0])
    expected = [(1, KEYS[0]), (1, KEYS[1]), (2, KEYS[0]), (3, KEYS[0]), *([] if keyed else [(3, KEYS[0])])]
    assert rows(session, "core.added") == expected
    assert {tag.name: tag.snapshot.id for tag in session.table("core.added").tags.list()} == {KEYS[0]: 4, KEYS[1]: 2}

    # Rows of another day are refused, and none of their files is left.
    given.update(k=[9, 9], day=[KEYS[0], KEYS[2]])
    with pytest.raises(Exception, match=f"some of partition day={KEYS[2]}, which is none of those"):
        materialize(added, partition_key=KEYS[0])
    assert rows(session, "core.added") == expected
    assert session.table("core.added").remove_orphan_files(dry_run=True, no_writers=True) == []

    # A partition to which nothing is to be added is made all the same.
    given.update(k=[], day=[])
    (event,) = materializations(materialize(added, partition_key=KEYS[3]))
    assert shown(event, "nothing_committed", "tags") == ["got no rows, stays at main@4", KEYS[3]]
    assert rows(session, "core.added") == expected


def test_each_partition_of_a_whole_table_gets_its_tag_though_nothing_has_changed(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("core.state", partitions_def=DAYS)
    def state() -> pa.Table:
        return pa.table({"n": [1]})

    for key in KEYS[:2]:
        materialize(state, partition_key=key)
    assert [(tag.name, tag.snapshot.id) for tag in session.table("core.state").tags.list()] == [
        (KEYS[0], 1),
        (KEYS[1], 1),
    ]


def test_an_asset_may_commit_its_rows_whatever_is_there(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("core.always", skip_unchanged=False)
    def always() -> pa.Table:
        return pa.table({"n": [1]})

    for number in (1, 2):
        assert version(materializations(materialize(always))[0]) == f"main@{number}"


# --- numbers


def test_each_partition_shows_its_own_numbers(materialize: Callable[..., Any], session: Session) -> None:
    made: dict[str, Sequence[int]] = {key: range(number + 1) for number, key in enumerate(KEYS)}

    @table_asset(
        "core.days", primary_key=["day", "id"], partition_by=["day"], partitions_def=DAYS, partition_column="day"
    )
    def days(context: dg.AssetExecutionContext) -> pa.Table:
        pairs = [(key, id) for key in context.partition_keys for id in made[key]]
        return pa.table(
            {"day": [key for key, _ in pairs], "id": [id for _, id in pairs], "sum": [sum(made[k]) for k, _ in pairs]}
        )

    names = (
        "dagster/partition_row_count",
        "rows_added",
        "rows_removed",
        "rows_inserted",
        "rows_updated",
        "rows_deleted",
    )
    first = materializations(materialize(days, tags=range_tags(KEYS[0], KEYS[2])))
    assert [shown(event, *names) for event in first] == [[n, n, 0, n, 0, 0] for n in (1, 2, 3)]
    assert [shown(event, "files_added", "dagster/row_count", "table_rows") for event in first] == [[1, None, 6]] * 3
    made |= {KEYS[1]: [1, 5, 6], KEYS[2]: [0, 1]}
    again = materializations(materialize(days, tags=range_tags(KEYS[0], KEYS[2])))
    assert [shown(event, *names) for event in again] == [
        [1, 1, 1, 0, 0, 0],
        [3, 3, 2, 2, 1, 1],
        [2, 2, 3, 0, 2, 1],
    ]


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_rows_of_one_key_are_counted_and_said(
    materialize: Callable[..., Any], session: Session, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    def make() -> pa.Table:
        return pa.table({"id": [1, 2, 1, 1], "v": [1, 2, 3, 4]})

    once = table_asset("core.once", primary_key=["id"])(made_by(engine, make))
    (event,) = materializations(materialize(once))
    assert shown(event, "rows_given", "duplicate_keys", "rows_added", "rows_inserted") == [4, 2, 2, 2]
    said = "4 rows were given to core.once@1, 2 of them under a key that a later row has: 2 are written"
    assert said in capsys.readouterr().err


# --- what has come to a source


def daily(name: str, key: Sequence[str] = (), made: Any = None) -> Any:
    @table_asset(name, primary_key=key, partition_by=["day"], partitions_def=DAYS, partition_column="day")
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        records = [(day, id, price) for day in context.partition_keys for id, price in made[day]]
        return pa.table(dict(zip(("day", "id", "price"), map(list, zip(*records, strict=True)), strict=True)))

    return orders


@pytest.mark.parametrize("keyed", [True, False], ids=["key", "no key"])
def test_an_incremental_asset_over_a_partitioned_source_reads_what_came(
    materialize: Callable[..., Any], session: Session, keyed: bool
) -> None:
    made = {day: [(10 * number + index, 1.0) for index in range(3)] for number, day in enumerate(KEYS)}
    key = ["day", "id"] if keyed else []
    orders = daily("raw.orders", key, made)
    seen: list[list[int]] = []

    @table_asset("core.orders", inputs={"orders": "raw.orders"}, primary_key=key, incremental="orders")
    def cleaned(orders: pa.Table) -> pa.Table:
        seen.append(sorted(orders["id"].to_pylist()))
        return orders

    def run() -> str:
        (event,) = materializations(materialize(cleaned, selection=[cleaned]))
        assert rows(session, "core.orders") == rows(session, "raw.orders")
        return str(event.metadata["incremental"].value)

    materialize(orders, tags=range_tags(KEYS[0], KEYS[2]))
    assert run() == "all of raw.orders@1: core.orders has no rows yet"
    materialize(orders, partition_key=KEYS[3])
    assert run() == "3 rows that came to raw.orders after snapshot 1, up to raw.orders@2"
    assert seen[-1] == [30, 31, 32]
    # Overwritten with the same rows, by somebody who does not look; then with one more.
    table = session.table("raw.orders")
    table.overwrite(table.to_arrow(where=f"day = '{KEYS[1]}'"), partition={"day": KEYS[1]})
    assert run() == "0 rows that came to raw.orders after snapshot 2, up to raw.orders@3"
    made[KEYS[1]] = [*made[KEYS[1]], (13, 1.0)]
    materialize(orders, partition_key=KEYS[1])
    assert run() == "1 rows that came to raw.orders after snapshot 2, up to raw.orders@4"
    assert seen[-1] == [13]
    # A row that changes: of a key it is what came, else another went.
    made[KEYS[0]] = [(0, 5.0), *made[KEYS[0]][1:]]
    materialize(orders, partition_key=KEYS[0])
    message = run()
    if keyed:
        assert (message, seen[-1]) == ("1 rows that came to raw.orders after snapshot 4, up to raw.orders@5", [0])
    else:
        assert message == "all of raw.orders@5: 1 rows that raw.orders@4 had were deleted, or replaced by others"
    # A row that goes.
    made[KEYS[0]] = made[KEYS[0]][:2]
    materialize(orders, partition_key=KEYS[0])
    assert run() == "all of raw.orders@6: 1 rows that raw.orders@5 had were deleted, or replaced by others"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}, "aggregation, makes rows of what was"),
        ({"changelog-producer": "lookup"}, "tells of rows later"),
        ({"sequence.field": "n"}, "need not be what a row is now"),
    ],
)
def test_an_increment_that_would_not_be_right_is_read_whole(
    materialize: Callable[..., Any], session: Session, options: dict[str, str], why: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    source = session.catalog.create_table("raw.sums", schema, primary_key=["id"], options={"bucket": 1, **options})

    @table_asset("core.sums", inputs={"sums": "raw.sums"}, primary_key=["id"], incremental="sums")
    def sums(sums: pa.Table) -> pa.Table:
        return sums

    messages = []
    for n in (5, 3, 4):
        source.write(pa.table({"id": [1], "n": [n]}))
        (event,) = materializations(materialize(sums, selection=[sums]))
        messages.append(str(event.metadata["incremental"].value))
        assert rows(session, "core.sums") == rows(session, "raw.sums")
    assert all(why in message for message in messages[1:])


def test_an_increment_leaves_out_nothing_that_was_written_without_change_tracking(
    materialize: Callable[..., Any], session: Session
) -> None:
    source = session.catalog.create_table("raw.quiet", pa.schema([("id", pa.int64())]))

    @table_asset("core.quiet", inputs={"quiet": "raw.quiet"}, incremental="quiet")
    def quiet(quiet: pa.Table) -> pa.Table:
        return quiet

    for number in (1, 2):
        source.write(pa.table({"id": [number]}), change_tracking=number == 1)
        materialize(quiet, selection=[quiet])
    assert rows(session, "core.quiet") == [(1,), (2,)]


# --- other columns


def made_of(given: dict[str, pa.Table], policy: str = "refuse", **arguments: Any) -> Any:
    return table_asset("core.t", primary_key=["id"], on_schema_change=policy, code_version="1", **arguments)(
        lambda: given["rows"]
    )


def test_new_columns_are_refused_with_advice_unless_they_are_to_be_added(
    materialize: Callable[..., Any], session: Session
) -> None:
    given = {"rows": pa.table({"id": [1], "a": pa.array([1], pa.int32())})}
    materialize(made_of(given))
    given["rows"] = pa.table({"id": [2], "a": pa.array([2], pa.int64()), "b": ["x"]})
    with pytest.raises(dg.Failure) as error:
        materialize(made_of(given))
    assert str(error.value.description) == (
        "The rows for core.t have other columns than the table, new: b (string); wider: a (INT in the table, int64 made). "
        "Nothing is written. Say on_schema_change='add' to add new columns (null in the rows that are there), 'evolve' to "
        "widen types too; or leave them out. Columns of the table: id, a."
    )
    assert session.table("core.t").schema.column_names == ["id", "a"]
    added = made_of(given, "add", mode="append", column_descriptions={"b": "A letter"})
    (event,) = materializations(materialize(added))
    assert shown(event, "schema_change") == ["column b added"]
    assert rows(session, "core.t") == [(1, 1, None), (2, 2, "x")]
    field = session.table("core.t").schema.field("b")
    assert (str(session.table("core.t").schema.field("a").type), field.description) == ("INT", "A letter")
    # Values that do not fit are no rows of this table yet.
    given["rows"] = pa.table({"id": [3], "a": [2**40], "b": ["y"]})
    with pytest.raises(dg.Failure, match=r"Column 'a' has type INT; a value of the rows .int64. does not fit"):
        materialize(added)
    (event,) = materializations(materialize(made_of(given, "evolve", mode="append")))
    assert shown(event, "schema_change") == ["column a became BIGINT"]
    assert rows(session, "core.t") == [(1, 1, None), (2, 2, "x"), (3, 2**40, "y")]
    # Columns that the rows do not have any more stay, as null, and are named.
    given["rows"] = pa.table({"id": [4]})
    (event,) = materializations(materialize(made_of(given, "evolve", mode="append")))
    assert shown(event, "schema_change", "columns_left_null") == [None, "a, b"]
    assert rows(session, "core.t")[-1] == (4, None, None)


def test_evolving_never_loses_a_value_nor_a_length_and_touches_no_key(
    materialize: Callable[..., Any], session: Session
) -> None:
    session.sql(
        "CREATE TABLE core.t (id INT NOT NULL, name VARCHAR(3), n DOUBLE, PRIMARY KEY (id) NOT ENFORCED)", "duckdb"
    )
    given = {"rows": pa.table({"id": pa.array([1], pa.int64()), "name": ["abc"], "n": pa.array([1], pa.int32())})}
    materialize(made_of(given, "evolve"))
    types = [str(field.type) for field in session.table("core.t").schema.fields]
    assert types == ["INT NOT NULL", "VARCHAR(3)", "DOUBLE"]
    given["rows"] = pa.table({"id": [1], "name": [5], "n": [1.0]})
    with pytest.raises(dg.Failure, match=r"Column 'name' has type VARCHAR.3. in the table, the rows have int64"):
        materialize(made_of(given, "evolve"))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="refuse, add, evolve"):
        made_of(given, "merge")


@pytest.mark.parametrize("policy", ["add", "evolve"])
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_a_run_whose_rows_do_not_fit_leaves_the_columns_as_they_are(
    materialize: Callable[..., Any], session: Session, policy: str, engine: str
) -> None:
    session.sql("CREATE TABLE core.t (id INT, a VARCHAR(3), s STRUCT<x INT>, r STRING NOT NULL, n SMALLINT)", "duckdb")
    fitting = {"id": 1, "a": "x", "s": {"x": 1}, "r": "r", "n": 1, "new": "new"}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"a": 5}, "Column 'a' has type .*the rows have int64"),
        ({"s": {"x": 1, "y": 2}}, "no field 's.y'"),
        ({"r": ...}, "Column 'r' is NOT NULL, but the rows do not have it"),
    ]
    if engine == "arrow":
        cases += [({"a": "long"}, "row 0 has 4 characters"), ({"r": None}, "'r' is NOT NULL, but 1 of 1")]
        cases += [({"n": 2**40}, "does not fit")] if policy == "add" else []
    before = session.table("core.t").schema
    made: dict[str, pa.Table] = {}
    declared = table_asset("core.t", on_schema_change=policy, mode="append", code_version="1")
    asset = declared(made_by(engine, lambda: made["rows"]))
    for wrong, message in cases:
        given = {name: value for name, value in {**fitting, **wrong}.items() if value is not ...}
        types = {"r": pa.string()}
        made["rows"] = pa.table({name: pa.array([value], types.get(name)) for name, value in given.items()})
        with pytest.raises(dg.Failure, match=message):
            materialize(asset)
        assert session.table("core.t").schema == before


# --- frames, arguments, configuration


def test_frames_of_pandas_go_in_and_out(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("raw.in", primary_key="id")
    def given() -> pd.DataFrame:
        frame = pd.DataFrame({"id": [3, 1, 2], "name": ["c", None, "b"], "at": pd.to_datetime(["2024-01-01"] * 3)})
        return frame[frame.id > 1]

    @table_asset("core.out", inputs={"given": "raw.in"})
    def out(given: pd.DataFrame) -> pd.DataFrame:
        assert isinstance(given, pd.DataFrame)
        return given.groupby("at").agg(count=("id", "count")).reset_index()

    materialize(given, out)
    assert [row[:2] for row in rows(session, "raw.in")] == [(2, "b"), (3, "c")]
    assert [row[1] for row in rows(session, "core.out")] == [2]
    assert session.table("raw.in").schema.primary_keys == ("id",)


def test_a_sum_of_duckdb_is_a_number_of_the_table(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("core.out")
    def out() -> duckdb.DuckDBPyRelation:
        return duckdb.sql('SELECT sum(i) AS "a ""b", 1::INTEGER AS c FROM range(4) t(i)')

    materialize(out)
    assert rows(session, "core.out") == [(6, 1)]
    # None of two columns of one name is lost before that is refused.
    twice = duckdb.sql("SELECT * FROM (SELECT 1 AS k) a, (SELECT 2 AS k) b, (SELECT sum(1) AS s) c")
    made = as_rows("core.out", twice)
    assert isinstance(made, pa.Table)
    assert (made.column_names, [column[0].as_py() for column in made.columns]) == (["k", "k", "s"], [1, 2, 1])


def test_a_frame_of_pandas_has_the_values_of_its_table(materialize: Callable[..., Any], session: Session) -> None:
    large = 2**53 + 1
    columns = {
        "id": pa.array([1, 2], pa.int32()),
        "big": pa.array([large, None], pa.int64()),
        "small": pa.array([None, 7], pa.int16()),
        "flag": pa.array([True, None]),
        "ratio": pa.array([1.5, None]),
        "parts": pa.array([[{"z": large}, {"z": None}], None]),
        "whole": pa.array([3, 4], pa.int64()),
    }
    session.catalog.create_table("raw.in", pa.table(columns).schema, primary_key=["id"]).write(pa.table(columns))
    kinds = {}

    @table_asset("core.out", inputs={"given": "raw.in"}, primary_key="id")
    def out(given: pd.DataFrame) -> pd.DataFrame:
        kinds.update({name: str(kind) for name, kind in given.dtypes.items()})
        return given

    materialize(out)
    assert kinds | {"parts": ""} == {
        "id": "int32",
        "big": "Int64",
        "small": "Int16",
        "flag": "boolean",
        "ratio": "float64",
        "parts": "",
        "whole": "int64",
    }
    made, given = session.table("core.out"), session.table("raw.in")
    assert made.to_arrow().to_pylist() == given.to_arrow().to_pylist()
    assert [field.type.root for field in made.schema.fields] == [field.type.root for field in given.schema.fields]


@pytest.mark.parametrize("lazy", [False, True], ids=["frame", "lazy"])
def test_frames_of_polars_go_in_and_out(materialize: Callable[..., Any], session: Session, lazy: bool) -> None:
    kind = pl.LazyFrame if lazy else pl.DataFrame

    def given() -> Any:
        frame = pl.DataFrame(
            {
                "id": [3, 1, 2],
                "name": ["c", None, "a text that is longer than twelve bytes"],
                "kind": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
                "at": [dt.datetime(2024, 1, day) for day in (1, 2, 3)],
                "price": [Decimal("1.50"), None, Decimal("2.25")],
                "parts": [["a"], [], None],
                "raw": [b"a", None, b"a value that is longer than twelve"],
            }
        ).filter(pl.col("id") > 1)
        return frame.lazy() if lazy else frame

    def out(given: Any) -> Any:
        assert isinstance(given, kind)
        return given.group_by("kind").agg(pl.len().alias("count"), pl.col("price").sum(), pl.col("name").max())

    out.__annotations__ = {"given": kind, "return": kind}
    made = table_asset("raw.in", primary_key="id")(given)
    materialize(made, table_asset("core.out", inputs={"given": "raw.in"})(out))
    at, text, raw = (
        dt.datetime(2024, 1, 1),
        "a text that is longer than twelve bytes",
        b"a value that is longer than twelve",
    )
    assert rows(session, "raw.in") == [
        (2, text, "x", at.replace(day=3), Decimal("2.25"), None, raw),
        (3, "c", "x", at, Decimal("1.50"), ["a"], b"a"),
    ]
    assert rows(session, "core.out") == [("x", 2, Decimal("3.75"), "c")]


def test_an_asset_of_polars_says_if_it_is_not_installed(
    materialize: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def out(given: Any) -> Any:
        return given

    out.__annotations__ = {"given": pl.DataFrame}
    source = table_asset("raw.in")(lambda: pa.table({"n": [1]}))
    monkeypatch.delitem(sys.modules, "polars")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(dg.Failure, match="polars is not installed"):
        materialize(source, table_asset("core.none", inputs={"given": "raw.in"})(out))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "returned nothing (None)"),
        ([1, 2], "returned a list"),
        ({"a": 1}, "returned a dict"),
        (pd.DataFrame({"a": [1]}, index=pd.Index([1], name="day")), "its index has the name day and would be lost"),
        (pd.DataFrame({"a": [1, "x"]}), "returned a pandas.DataFrame that is no table of typed columns"),
        (pl.DataFrame({"a": [{1}]}), "column 'a' holds objects of Python. Cast it, to pl.String say"),
        (pl.LazyFrame({"a": [1], "u": [uuid.UUID(int=7)]}), "column 'u' holds objects of Python"),
        (pd.DataFrame({"a": [1, 2]}, index=["x", "y"]), "its index holds values, which would be lost"),
        (duckdb.sql("SELECT TIMETZ '01:02:03+02' AS at"), "column 'at' holds times with a zone"),
        (duckdb.sql("SELECT 170141183460469231731687303715884105727::HUGEINT AS h"), "no table of typed columns"),
        (duckdb.sql("SELECT 340282366920938463463374607431768211455::UHUGEINT AS h"), "no table of typed columns"),
        (duckdb.sql("SELECT [1::HUGEINT] AS h"), "column 'h' holds times with a zone, or numbers of 128 bits"),
    ],
)
def test_what_is_no_rows_is_refused_in_a_line_that_names_the_asset(
    materialize: Callable[..., Any], session: Session, made: Any, said: str
) -> None:
    asset = table_asset("core.t", code_version="1")(lambda: made)
    with pytest.raises(dg.Failure) as error:
        materialize(asset)
    text = str(error.value.description)
    assert text.startswith("Asset core.t returned ")
    assert said in text
    assert "\n" not in text
    assert not session.catalog.exists("core.t")


class Cut(dg.Config):
    """How much is kept."""

    at_most: int = 2


def test_an_asset_takes_a_run_configuration(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("core.cut")
    def cut(config: Cut) -> pa.Table:
        return pa.table({"n": list(range(config.at_most))})

    materialize(cut)
    assert rows(session, "core.cut") == [(0,), (1,)]
    materialize(cut, run_config=dg.RunConfig(ops={"core__cut": Cut(at_most=1)}))
    assert rows(session, "core.cut") == [(0,)]
    # As a unit test calls it.
    assert function_of(cut)(Cut(at_most=3)).num_rows == 3


def test_every_argument_of_a_dagster_asset_is_passed_on_or_refused_by_name() -> None:
    known = set(inspect.signature(dg.asset).parameters)
    assert known - {*PASSED, *OWN} == {name for name in REFUSED if name in known}
    assert not set(PASSED) & set(REFUSED)
    for name, instead in REFUSED.items():
        with pytest.raises(
            dg.DagsterInvalidDefinitionError, match=rf"core\.t.*{name}=.* is not taken: {re.escape(instead)}"
        ):
            table_asset("core.t", **{name: object()})(lambda: None)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"'ownerz'\. Did you mean owners"):
        table_asset("core.t", ownerz=["me"])(lambda: None)


@pytest.mark.parametrize(
    "given", [{"kinds": "spark"}, {"kinds": [1]}, {"owners": "team:data"}, {"tags": "sales"}, {"metadata": ["note"]}]
)
def test_a_text_in_the_place_of_several_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=f"{next(iter(given))}="):
        table_asset("core.t", **given)(lambda: None)


def test_arguments_of_a_dagster_asset_arrive() -> None:
    @dg.asset
    def before() -> None: ...

    @table_asset(
        "core.t",
        inputs={"words": "raw.words"},
        deps=[before, "raw.words", "raw.more", dg.AssetDep("late")],
        owners=["team:data"],
        tags={"domain": "sales"},
        kinds={"python"},
        metadata={"note": "x"},
        group_name="sales",
        retry_policy=dg.RetryPolicy(max_retries=3),
        op_tags={"size": "small"},
        pool="spark",
        code_version="7",
        automation_condition=dg.AutomationCondition.eager(),
        description="What it is.",
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=timedelta(days=1)),
    )
    def made(words: pa.Table) -> pa.Table:
        return words

    (spec,) = made.specs
    assert {dep.asset_key.to_user_string() for dep in spec.deps} == {"raw/words", "before", "raw/more", "late"}
    assert (spec.owners, spec.group_name, spec.code_version, spec.description) == (
        ["team:data"],
        "sales",
        "7",
        "What it is.",
    )
    assert (spec.kinds, spec.tags["domain"], spec.metadata["note"]) == ({"python"}, "sales", "x")
    assert spec.automation_condition is not None
    assert spec.freshness_policy is not None
    assert made.op.retry_policy == dg.RetryPolicy(max_retries=3)
    assert (made.op.tags["size"], made.op.pool) == ("small", "spark")


def test_an_asset_says_where_its_table_and_its_code_are(session: Session, materialize: Callable[..., Any]) -> None:
    @table_asset("core.t")
    def made() -> pa.Table:
        return pa.table({"n": [1]})

    materialize(made)
    (spec,) = made.specs
    assert spec.tags["dagster/storage_kind"] == "paimon"
    assert spec.metadata["dagster/table_name"] == "snapline.core.t"
    assert spec.metadata["dagster/uri"] == session.table("core.t").location
    (reference,) = spec.metadata["dagster/code_references"].code_references
    assert (reference.file_path, reference.label) == (__file__, "made")
    assert (
        inspect.getsource(function_of(made)).splitlines()[0]
        == Path(__file__).read_text().splitlines()[reference.line_number - 1]
    )


@pytest.mark.parametrize(
    ("arguments", "function", "message"),
    [
        ({"primary_key": [1]}, lambda: None, "primary_key=.1.: give names of columns"),
        ({"primary_key": ["a", "a"]}, lambda: None, "each once"),
        ({"backfill_policy": dg.BackfillPolicy.single_run(), "partitions_def": DAYS}, lambda: None, "a run of its own"),
        ({}, lambda config: None, "annotated with the class of the configuration"),
    ],
)
def test_declarations_are_checked_when_they_are_loaded(arguments: Any, function: Any, message: str) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message) as error:
        table_asset("core.wrong", code_version="1", **arguments)(function)
    assert "core.wrong" in str(error.value)


def test_annotations_that_are_no_rows_are_refused_when_they_are_loaded() -> None:
    def takes(rows: list) -> pa.Table: ...  # type: ignore[type-arg,empty-body]
    def gives(rows: pa.Table) -> list: ...  # type: ignore[type-arg,empty-body]
    def unknown(rows: "nothing.Known") -> pa.Table: ...  # type: ignore[name-defined,empty-body]  # noqa: F821

    for function, message in ((takes, "'rows' is annotated list"), (gives, "return list"), (unknown, "be resolved")):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
            table_asset("core.wrong", inputs={"rows": "raw.rows"}, code_version="1")(function)


def test_the_plain_function_can_be_called_with_rows() -> None:
    @table_asset("core.t", inputs={"words": "raw.words"})
    def counted(words: pa.Table) -> pa.Table:
        return words.group_by("word").aggregate([([], "count_all")])

    assert function_of(counted)(pa.table({"word": ["a", "a"]})).to_pylist() == [{"word": "a", "count_all": 2}]

    @dg.asset
    def other() -> None: ...

    with pytest.raises(InvalidRequest, match="is no @table_asset"):
        function_of(other)


def test_a_partition_that_cannot_become_a_tag_writes_nothing(
    materialize: Callable[..., Any], session: Session, instance: dg.DagsterInstance
) -> None:
    kinds = dg.DynamicPartitionsDefinition(name="kinds")

    @table_asset("core.kinds", partitions_def=kinds, partition_column="p", partition_by=["p"])
    def made(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"p": [context.partition_key]})

    instance.add_dynamic_partitions("kinds", ["x/y"])
    result = materialize(made, partition_key="x/y", raise_on_error=False)
    assert not result.success
    assert not session.catalog.exists("core.kinds")


def test_a_number_that_becomes_a_text_is_told_like_other_changes(
    materialize: Callable[..., Any], session: Session
) -> None:
    made = [pa.table({"id": [1, 2], "a": pa.array([1, 2], pa.int32())}), pa.table({"id": [1, 2], "a": ["1", "r"]})]

    @table_asset("core.texts", primary_key=["id"], on_schema_change="evolve", code_version="1")
    def texts() -> pa.Table:
        return made.pop(0)

    materialize(texts)
    (event,) = materializations(materialize(texts))
    assert shown(event, "rows_inserted", "rows_updated", "rows_deleted") == [0, 1, 0]
    assert rows(session, "core.texts") == [(1, "1"), (2, "r")]


def test_a_field_of_a_struct_that_the_table_lacks_is_not_lost(
    materialize: Callable[..., Any], session: Session
) -> None:
    made = [pa.table({"id": [1], "st": [{"x": 1}]}), pa.table({"id": [1], "st": [{"x": 1, "y": "q"}]})]

    @table_asset("core.structs", primary_key=["id"], on_schema_change="evolve", code_version="1")
    def structs() -> pa.Table:
        return made.pop(0)

    materialize(structs)
    result = materialize(structs, raise_on_error=False)
    assert not result.success
    assert rows(session, "core.structs") == [(1, {"x": 1})]
