"""DELETE, UPDATE and MERGE on DuckDB and on Spark, against a plain join of dictionaries."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table, Unsupported
from storage.engines.duckdb_merge import merge_rows as merge_in_memory
from storage.engines.merge_clauses import MergeClause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int64()), ("text", pa.string())])
SOURCE = pa.schema(
    [("day", pa.string()), ("id", pa.int64()), ("v", pa.int64()), ("text", pa.string()), ("gone", pa.bool_())]
)
UPSERT = [
    MergeClause("matched", "delete", "source.gone"),
    MergeClause("matched", "update", "source.v > target.v", {"v": "target.v + source.v", "text": "upper(source.text)"}),
    MergeClause("not matched", "insert", "NOT source.gone"),
    MergeClause("not matched by source", "update", "target.v = 0", {"text": "'zero'"}),
    MergeClause("not matched by source", "delete", "target.v = 1"),
]


@pytest.fixture(params=["keyed", "plain", "keyed and marked", "plain and marked"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    options: dict[str, Any] = {"deletion-vectors.enabled": True} if request.param.endswith("marked") else {}
    if request.param.startswith("plain"):
        return catalog.create_table("a.t", SCHEMA, partition_by=["day"], options=options)
    options["bucket"] = 2
    return catalog.create_table("a.t", SCHEMA, partition_by=["day"], primary_key=["day", "id"], options=options)


@pytest.fixture(params=["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def merge(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    if request.param == "duckdb":
        return lambda source, table, on, clauses: merge_in_memory(table, source, on, clauses)
    spark: SparkSession = request.getfixturevalue("spark")
    from storage.engines.spark_rows import merge_rows

    return lambda source, table, on, clauses: merge_rows(
        spark.createDataFrame(source), table, str(tmp_path / "warehouse"), on, clauses
    )


def fill(table: Table, chosen: random.Random) -> None:
    for _ in range(3):
        ids = chosen.sample(range(40), 12)
        rows = [(chosen.choice("xy"), row_id, chosen.randrange(4), chosen.choice(["a", None])) for row_id in ids]
        if not table.schema.primary_keys:
            held = {(row["day"], row["id"]) for row in table.to_arrow().to_pylist()}
            rows = [row for row in rows if row[:2] not in held]
        table.write(pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)), schema=SCHEMA))


def sources(chosen: random.Random) -> pa.Table:
    places = chosen.sample([(day, number) for day in "xy" for number in range(40)], 30)
    rows = [(*place, chosen.randrange(5), chosen.choice("pq"), chosen.random() < 0.3) for place in places]
    return pa.table(dict(zip(SOURCE.names, map(list, zip(*rows, strict=True)), strict=True)), schema=SOURCE)


def held(table: Table, **options: Any) -> dict[tuple[str, int], tuple[Any, ...]]:
    rows = table.to_arrow(**options).to_pylist()
    rows_by_key = {(row["day"], row["id"]): (row["v"], row["text"]) for row in rows}
    assert len(rows_by_key) == len(rows)
    return rows_by_key


def merged(target: dict[Any, Any], source: pa.Table) -> dict[Any, Any]:
    result = dict(target)
    rows = {(row["day"], row["id"]): row for row in source.to_pylist()}
    for key, (v, _) in target.items():
        row = rows.get(key)
        if row is None:
            if v == 0:
                result[key] = (v, "zero")
            elif v == 1:
                del result[key]
        elif row["gone"]:
            del result[key]
        elif row["v"] > v:
            result[key] = (v + row["v"], row["text"].upper())
    result |= {key: (row["v"], row["text"]) for key, row in rows.items() if key not in target and not row["gone"]}
    return result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
def test_a_merge_does_what_its_clauses_say(table: Table, merge: Callable[..., Any], seed: int) -> None:
    chosen = random.Random(seed)
    fill(table, chosen)
    before, source, last = held(table), sources(chosen), table.snapshot()
    snapshot = merge(source, table, ["day", "id"], UPSERT)
    assert held(table) == merged(before, source), f"seed {seed}"
    assert snapshot.operation == "MERGE"
    assert held(table, version=last.id) == before


def test_clauses_without_values_take_the_source_column_by_column(table: Table, merge: Callable[..., Any]) -> None:
    fill(table, random.Random(1))
    before, source = held(table), sources(random.Random(2)).drop(["gone"])
    merge(source, table, ["day", "id"], [MergeClause("matched", "update"), MergeClause("not matched", "insert")])
    rows = {(row["day"], row["id"]): (row["v"], row["text"]) for row in source.to_pylist()}
    assert held(table) == before | rows


def test_a_merge_into_an_empty_table_inserts(table: Table, merge: Callable[..., Any]) -> None:
    source = sources(random.Random(2)).drop(["gone"])
    merge(source, table, "target.id = source.id", [MergeClause("not matched", "insert")])
    assert table.count() == source.num_rows


def test_a_merge_that_changes_nothing_commits_nothing(table: Table, merge: Callable[..., Any]) -> None:
    fill(table, random.Random(1))
    last = table.store.snapshots.latest_id()
    assert merge(sources(random.Random(2)), table, ["id"], [MergeClause("matched", "delete", "source.v > 100")]) is None
    assert table.store.snapshots.latest_id() == last


def test_several_matches_for_one_row_are_refused(table: Table, merge: Callable[..., Any]) -> None:
    table.write(pa.table({"day": ["x"], "id": [1], "v": [1], "text": ["a"]}))
    last = table.store.snapshots.latest_id()
    source = pa.table({"day": ["x", "x"], "id": [1, 1], "v": [2, 3], "text": ["b", "c"], "gone": [False, False]})
    with pytest.raises(InvalidRequest, match="match more than one row of the source"):
        merge(source, table, ["id"], [MergeClause("matched", "update")])
    assert table.store.snapshots.latest_id() == last


def after_the_next_merge_is_computed(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody act before what a merge has computed is committed, once."""
    from storage.engines import duckdb_merge, spark_rows

    for module, name in ((duckdb_merge, "_check_unique"), (spark_rows, "write_frame")):
        real = getattr(module, name)

        def overtaken(*arguments: Any, real: Callable[..., Any] = real, **named: Any) -> Any:
            monkeypatch.undo()
            act()
            return real(*arguments, **named)

        monkeypatch.setattr(module, name, overtaken)


def test_two_merges_that_add_to_the_same_row_both_count(
    table: Table, merge: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(pa.table({"day": ["x", "x"], "id": [1, 2], "v": [1, 5], "text": ["a", "b"]}))
    source = pa.table({"day": ["x"], "id": [1]})
    clauses = [MergeClause("matched", "update", values={"v": "target.v + 10"})]
    after_the_next_merge_is_computed(monkeypatch, lambda: merge(source, table, ["day", "id"], clauses))
    snapshot = merge(source, table, ["day", "id"], clauses)
    assert held(table) == {("x", 1): (21, "a"), ("x", 2): (5, "b")}
    assert snapshot.operation == "MERGE"
    assert [listed.operation for listed in table.store.snapshots.all()].count("MERGE") == 2


def test_two_merges_do_not_both_insert_a_row(
    table: Table, merge: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(pa.table({"day": ["x"], "id": [2], "v": [5], "text": ["b"]}))
    source = pa.table({"day": ["x"], "id": [1], "v": [1], "text": ["new"]})
    clauses = [MergeClause("matched", "update", values={"v": "target.v + 10"}), MergeClause("not matched", "insert")]
    after_the_next_merge_is_computed(monkeypatch, lambda: merge(source, table, ["day", "id"], clauses))
    merge(source, table, ["day", "id"], clauses)
    assert held(table) == {("x", 1): (11, "new"), ("x", 2): (5, "b")}


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        (MergeClause("matched", "insert"), "cannot 'insert' rows that are 'matched'"),
        (MergeClause("matched", "update", values={"nothing": "1"}), "no column 'nothing'"),
        (MergeClause("matched", "update", values={"day": "'z'"}), "cannot be updated"),
        (MergeClause("not matched by source", "update"), "set `values`"),
        (MergeClause("matched", "delete", values={"v": "1"}), "sets no values"),
        (MergeClause("matched", "update", "source.unknown = 1"), "cannot"),
        (MergeClause("matched", "update", "((", {"v": "1"}), "cannot"),
    ],
)
def test_clauses_that_cannot_be_are_refused(
    table: Table, merge: Callable[..., Any], clause: MergeClause, message: str
) -> None:
    table.write(pa.table({"day": ["x"], "id": [1], "v": [1], "text": ["a"]}))
    with pytest.raises(InvalidRequest, match=message):
        merge(sources(random.Random(1)), table, ["id"], [clause])


def test_engines_that_merge_rows_refuse(catalog: Catalog, merge: Callable[..., Any]) -> None:
    table = catalog.create_table(
        "a.p", SCHEMA, primary_key=["id"], options={"bucket": 1, "merge-engine": "partial-update"}
    )
    with pytest.raises(Unsupported, match="partial-update"):
        merge(sources(random.Random(1)), table, ["id"], [MergeClause("matched", "delete")])


def test_rows_that_would_lie_below_those_that_are_there_are_refused(
    catalog: Catalog, merge: Callable[..., Any]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("first", pa.string()), ("second", pa.int64())])
    options = {"bucket": 1, "sequence.field": "first,second"}
    table = catalog.create_table("a.t", schema, primary_key=["id"], options=options)
    table.write(pa.table({"id": [1, 2, 3], "first": ["b", None, "b"], "second": [5, 5, None]}, schema))
    upsert = [MergeClause("matched", "update"), MergeClause("not matched", "insert")]
    rows = table.to_arrow().sort_by("id")
    for row in ((1, "a", 9), (1, None, 9), (1, "b", 4), (1, "b", None), (2, None, 4)):
        source = pa.table({name: [value] for name, value in zip(schema.names, row, strict=True)}, schema)
        with pytest.raises(Unsupported, match=r"sequence\.field"):
            merge(source, table, ["id"], upsert)
    with pytest.raises(Unsupported, match=r"sequence\.field"):
        merge(source, table, ["id"], [MergeClause("not matched by source", "update", None, {"second": "NULL"})])
    assert table.to_arrow().sort_by("id").equals(rows)
    # Rows that are as late or later, and new ones.
    higher = {"id": [1, 2, 3, 4], "first": ["b", "a", "b", None], "second": [5, None, 0, None]}
    merge(pa.table(higher, schema), table, ["id"], upsert)
    assert table.to_arrow().sort_by("id").to_pydict() == higher
    merge(pa.table(higher, schema), table, ["id"], [MergeClause("matched", "delete")])
    assert table.count() == 0


def test_a_merge_that_deletes_is_refused_where_deletes_are_ignored(catalog: Catalog, merge: Callable[..., Any]) -> None:
    options = {"bucket": 1, "ignore-delete": True}
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options=options)
    rows = pa.table({"day": ["x"], "id": [1], "v": [1], "text": ["a"]}, SCHEMA)
    table.write(rows)
    with pytest.raises(Unsupported, match="ignore-delete"):
        merge(rows, table, ["id"], [MergeClause("matched", "delete")])
    merge(rows, table, ["id"], [MergeClause("matched", "update", None, {"v": "target.v + 1"})])
    assert table.to_arrow().column("v").to_pylist() == [2]


@pytest.mark.spark
def test_rows_are_deleted_and_updated_on_spark(spark: "SparkSession", table: Table, tmp_path: Path) -> None:
    from storage.engines.spark_rows import delete_rows, update_rows

    fill(table, random.Random(5))
    before = held(table)
    snapshot = update_rows(spark, table, str(tmp_path / "warehouse"), "v > 1 AND text IS NULL", {"v": "v * 10 + id"})
    assert snapshot is not None
    assert snapshot.operation == "UPDATE"
    after = {key: (v * 10 + key[1], text) if v > 1 and text is None else (v, text) for key, (v, text) in before.items()}
    assert held(table) == after
    deleted = delete_rows(spark, table, str(tmp_path / "warehouse"), "length(text) = 1 AND day = 'x'")
    assert deleted is not None
    assert deleted.operation == "DELETE"
    assert held(table) == {key: row for key, row in after.items() if row[1] is None or key[0] == "y"}
    assert delete_rows(spark, table, str(tmp_path / "warehouse"), "v > 1000000") is None
    with pytest.raises(InvalidRequest, match="unknown_column"):
        delete_rows(spark, table, str(tmp_path / "warehouse"), "unknown_column > 1")


@pytest.mark.spark
def test_a_compaction_runs_as_spark_tasks(spark: "SparkSession", catalog: Catalog) -> None:
    from storage.engines.spark_jobs import compact_on_spark

    table = catalog.create_table("a.c", SCHEMA, primary_key=["id"], options={"bucket": 3, "write-only": True})
    fill(table, random.Random(5))
    before = table.to_arrow().sort_by("id")
    snapshot = compact_on_spark(spark, table)
    assert snapshot is not None
    assert snapshot.commit_kind == "COMPACT"
    assert table.to_arrow().sort_by("id") == before
    assert table.system_table("files").num_rows == 3
    assert compact_on_spark(spark, table) is None
