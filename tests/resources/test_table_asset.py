"""Assets over tables, through Dagster: what is read, written, recorded and shown."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lineage import sources_of
from resources import Session, TableDefinition, TablesResource, sql_check, table_asset
from storage import SnapshotRef, StoreUnavailable

pytestmark = pytest.mark.dagster
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-05")


@table_asset("raw.words", mode="append")
def words() -> pa.Table:
    """Three words more each time."""
    return pa.table({"word": ["a", "b", "a"]})


@table_asset("core.counts", inputs={"words": "raw.words"}, primary_key=["word"])
def counts(words: DataFrame) -> DataFrame:
    return words.groupBy("word").agg(F.count("*").alias("n"))


@table_asset("mart.total", inputs={"counts": "core.counts"})
def total(counts: pa.Table) -> pa.Table:
    return pa.table({"total": [sum(counts["n"].to_pylist())]})


def rows(session: Session, name: str, **options: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in session.table(name).to_arrow(**options).to_pylist()), key=str)


def materialization(result: dg.ExecuteInProcessResult, *key: str) -> dg.AssetMaterialization:
    (event,) = [
        candidate
        for candidate in result.get_asset_materialization_events()
        if candidate.asset_key == dg.AssetKey([*key])
    ]
    return event.step_materialization_data.materialization


def test_a_chain_of_assets_commits_snapshots_that_know_their_sources(
    materialize: Callable[..., Any], session: Session
) -> None:
    for number in (1, 2):
        assert materialize(words, counts, total).success
        assert rows(session, "core.counts") == [("a", 2 * number), ("b", number)]
        assert rows(session, "mart.total") == [(3 * number,)]
        upstream = session.lineage(session.ref("mart.total"), "up").snapshots
        assert [str(ref) for ref in upstream] == [f"core.counts@{number}", f"raw.words@{number}"]
    snapshot = session.table("mart.total").snapshot()
    assert snapshot is not None
    assert snapshot.commit_user == "mart/total"
    assert [str(ref) for ref in sources_of(snapshot)] == ["core.counts@2"]


def test_a_materialization_shows_what_was_made_and_from_what(materialize: Callable[..., Any], session: Session) -> None:
    event = materialization(materialize(words, counts), "core", "counts")
    shown = event.metadata
    assert shown["dagster/row_count"].value == 2
    assert shown["dagster/table_name"].value == "snapline.core.counts"
    assert shown["dagster/uri"].value == session.table("core.counts").location
    assert [column.name for column in shown["dagster/column_schema"].value.columns] == ["word", "n"]
    assert (shown["snapshot"].value, shown["branch"].value, shown["rows_added"].value) == (1, "main", 2)
    assert [record.data["table"] for record in shown["sources"].records] == ["raw.words"]
    assert shown["made_from_raw.words"].value == dg.AssetKey(["raw", "words"])
    assert shown["compaction"].value == "1 files; none of 1 buckets needs a merge"
    assert shown["lineage"].value.startswith("![lineage](data:image/svg+xml,")
    # Longer text is folded away by the UI.
    assert len(shown["lineage"].value) < 1000
    assert event.tags is not None
    assert event.tags["dagster/data_version"] == "main@1"


def test_a_materialization_says_what_has_failed_after_commits(
    materialize: Callable[..., Any], session: Session
) -> None:
    assert "warning" not in materialization(materialize(words), "raw", "words").metadata
    session.table("raw.words").store.troubles.record("expiry", StoreUnavailable("The disk is full."), 0, 1)
    shown = materialization(materialize(words), "raw", "words").metadata
    assert str(shown["warning"].value).startswith("expiry has failed since ")
    assert str(shown["warning"].value).endswith("last after snapshot 1: The disk is full.")


def interloper(session: Session, name: str, row: dict[str, Any]) -> None:
    """Another writer commits to a table."""
    session.catalog.table(name).write(pa.Table.from_pylist([row]))


def test_what_is_recorded_is_what_was_read_though_others_write_meanwhile(
    materialize: Callable[..., Any], session: Session
) -> None:
    seen: list[list[tuple[Any, ...]]] = []

    @table_asset("core.copy", inputs={"words": "raw.words"})
    def copy(words: DataFrame) -> DataFrame:
        interloper(session, "raw.words", {"word": "hostile"})
        seen.append(sorted(tuple(row) for row in words.collect()))
        interloper(session, "raw.words", {"word": "hostile too"})
        return words

    materialize(words)
    event = materialization(materialize(copy, selection=[copy]), "core", "copy")
    assert session.table("raw.words").ref() == SnapshotRef("snapline", "raw", "words", "main", 3)
    assert seen == [[("a",), ("a",), ("b",)]]
    assert rows(session, "core.copy") == [("a",), ("a",), ("b",)]
    assert event.tags is not None
    assert event.tags["dagster/input_data_version/raw/words"] == "main@1"
    assert [str(ref) for ref in session.lineage(session.ref("core.copy"), "up").snapshots] == ["raw.words@1"]
    (sources,) = [session.lineage_store.snapshots("source", job="core/copy")]
    assert [row.snapshot_id for row in sources] == [1]


def test_dagsters_own_provenance_is_overridden_by_what_was_read(
    materialize: Callable[..., Any], session: Session, instance: dg.DagsterInstance
) -> None:
    """Dagster takes its provenance when a step starts. If its result tags stopped winning, this fails."""
    materialize(words)
    first = instance.fetch_materializations(dg.AssetKey(["raw", "words"]), limit=1).records[0]

    @dg.asset(key=["core", "late"], deps=[words], code_version="1")
    def late(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
        frame = tables.read_arrow(context, "raw.words")
        # A newer materialization is there by the time that this step ends, and was not read.
        context.instance.report_runless_asset_event(
            dg.AssetMaterialization(
                ["raw", "words"], metadata={"snapshot": 9, "branch": "main"}, tags={"dagster/data_version": "main@9"}
            )
        )
        return tables.write(context, frame, TableDefinition("core.late"))

    tags = materialization(materialize(late, selection=[late]), "core", "late").tags
    assert tags is not None
    assert tags["dagster/input_data_version/raw/words"] == "main@1"
    assert tags["dagster/input_event_pointer/raw/words"] == str(first.storage_id)
    assert tags["dagster/data_version"] == "main@1"


def test_all_assets_of_a_run_read_a_table_at_the_same_snapshot(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("core.first", inputs={"words": "raw.words"})
    def first(words: pa.Table) -> pa.Table:
        interloper(session, "raw.words", {"word": "between"})
        return words

    @table_asset("core.second", inputs={"words": "raw.words", "first": "core.first"})
    def second(words: pa.Table, first: pa.Table) -> pa.Table:
        assert first.num_rows == words.num_rows
        return words

    materialize(words)
    assert materialize(first, second, selection=[first, second]).success
    assert rows(session, "core.first") == rows(session, "core.second")
    refs = session.lineage(session.ref("core.second"), "up").snapshots
    assert [str(ref) for ref in refs] == ["core.first@1", "raw.words@1"]


def test_a_step_that_is_tried_again_commits_once(materialize: Callable[..., Any], session: Session) -> None:
    tries = []

    @dg.asset(key=["core", "flaky"], retry_policy=dg.RetryPolicy(max_retries=2), code_version="1")
    def flaky(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
        tries.append(1)
        result = tables.write(context, pa.table({"n": [1]}), TableDefinition("core.flaky"), mode="append")
        if len(tries) < 3:
            raise RuntimeError("after the commit")
        return result

    assert materialize(flaky).success
    assert len(tries) == 3
    assert rows(session, "core.flaky") == [(1,)]
    assert session.ref("core.flaky").snapshot_id == 1


def test_an_asset_that_fails_commits_nothing_and_leaves_no_lineage(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("core.broken", inputs={"words": "raw.words"}, primary_key=["word"])
    def broken(words: DataFrame) -> DataFrame:
        return words.select(F.lit(None).cast("string").alias("word"))

    materialize(words)
    result = materialize(broken, selection=[broken], raise_on_error=False)
    assert not result.success
    assert session.catalog.tables("core") == []
    assert session.lineage_store.tables("sink", job="core/broken") == []
    assert session.lineage_store.tables("source", job="core/broken") == []


def test_nothing_to_write_commits_nothing_and_keeps_the_version(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("raw.maybe", mode="append")
    def maybe() -> pa.Table:
        return pa.table({"n": pa.array([] if session.catalog.exists("raw.maybe") else [1], pa.int64())})

    for _ in range(2):
        tags = materialization(materialize(maybe), "raw", "maybe").tags
        assert tags is not None
        assert tags["dagster/data_version"] == "main@1"
    assert session.table("raw.maybe").store.snapshots.ids() == [1]


def test_a_missing_input_says_what_to_materialize(materialize: Callable[..., Any], session: Session) -> None:
    with pytest.raises(Exception, match=r"Materialize the asset raw/words first"):
        materialize(counts, selection=[counts])


# --- partitions


@table_asset(
    "core.days",
    inputs={"words": "raw.words"},
    primary_key=["day", "word"],
    partition_by=["day"],
    partitions_def=DAYS,
    partition_column="day",
)
def days(context: dg.AssetExecutionContext, words: DataFrame) -> DataFrame:
    keys = F.array(*[F.lit(key) for key in context.partition_keys])
    return words.distinct().select(F.explode(keys).alias("day"), "word").where("day <> '2024-01-02' OR word = 'a'")


def range_tags(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def test_a_partition_is_overwritten_and_tagged(materialize: Callable[..., Any], session: Session) -> None:
    materialize(words)
    assert materialize(days, selection=[days], partition_key="2024-01-01").success
    assert materialize(days, selection=[days], partition_key="2024-01-03").success
    session.table("core.days").delete("day = '2024-01-01' AND word = 'b'")
    assert materialize(days, selection=[days], partition_key="2024-01-01").success
    table = session.table("core.days")
    assert rows(session, "core.days") == [(f"2024-01-0{day}", word) for day in (1, 3) for word in "ab"]
    assert [(tag.name, tag.snapshot.id) for tag in table.tags.list()] == [("2024-01-03", 2), ("2024-01-01", 4)]
    assert rows(session, "core.days", version="2024-01-03") == rows(session, "core.days")


def test_a_range_is_one_commit_with_the_true_numbers_of_each_partition(
    materialize: Callable[..., Any], session: Session
) -> None:
    materialize(words)
    result = materialize(days, selection=[days], tags=range_tags("2024-01-01", "2024-01-03"))
    assert session.ref("core.days").snapshot_id == 1
    row_counts = {
        event.partition: event.step_materialization_data.materialization.metadata["dagster/partition_row_count"].value
        for event in result.get_asset_materialization_events()
    }
    assert row_counts == {"2024-01-01": 2, "2024-01-02": 1, "2024-01-03": 2}
    assert [tag.name for tag in session.table("core.days").tags.list()] == ["2024-01-01", "2024-01-02", "2024-01-03"]


def test_rows_of_a_partition_that_was_not_asked_for_are_refused(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("core.sloppy", partition_by=["day"], partitions_def=DAYS, partition_column="day")
    def sloppy() -> pa.Table:
        return pa.table({"day": ["2024-01-01", "2024-01-02"], "n": [1, 2]})

    with pytest.raises(Exception, match="does not replace"):
        materialize(sloppy, partition_key="2024-01-01")
    assert session.table("core.sloppy").snapshot() is None


# --- checks


def test_a_sql_check_reads_the_snapshot_of_the_run_and_shows_what_is_wrong(
    materialize: Callable[..., Any], session: Session
) -> None:
    good = sql_check("core.counts", "positive", "SELECT * FROM core.counts WHERE n <= 0")
    bad = sql_check("core.counts", "no_b", "SELECT word FROM core.counts WHERE word = 'b'")
    result = materialize(words, counts, good, bad)
    evaluations = {evaluation.check_name: evaluation for evaluation in result.get_asset_check_evaluations()}
    assert evaluations["positive"].passed
    assert not evaluations["no_b"].passed
    assert evaluations["no_b"].metadata["violations"].value == 1
    assert evaluations["no_b"].metadata["first_rows"].records[0].data == {"word": "b"}


# --- declarations that cannot work


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": {"missing": "raw.words"}}, "'words' is no input"),
        ({"inputs": {"words": "raw.words", "more": "raw.more"}}, "input 'more' is no parameter"),
        ({"primary_key": ["a"], "partition_by": ["b"]}, "add b"),
        ({"options": {"merge-engine": "magic"}}, "merge-engine"),
        ({"options": {"file.compresion": "zstd"}}, "Did you mean 'file.compression'"),
        ({"mode": "upsert"}, "append, overwrite, overwrite-partitions"),
        ({"partition_column": "day"}, "needs a partitions_def"),
        ({"partitions_def": DAYS, "partition_by": ["day"]}, "needs a partition_column"),
        ({"partitions_def": DAYS, "partition_column": "day"}, "must be one of partition_by"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_when_it_is_loaded(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message) as error:
        table_asset("core.wrong", **({"inputs": {"words": "raw.words"}} | arguments))(lambda words: words)
    assert "core.wrong" in str(error.value)


def test_a_table_that_exists_with_another_key_is_not_written(materialize: Callable[..., Any], session: Session) -> None:
    materialize(words)

    @table_asset("raw.words", primary_key=["word"])
    def keyed() -> pa.Table:
        return pa.table({"word": ["x"]})

    with pytest.raises(Exception, match="Keep the declaration, or drop the table"):
        materialize(keyed)


# --- partitions of other kinds


@pytest.mark.parametrize(
    ("definition", "key"),
    [
        (dg.HourlyPartitionsDefinition("2024-01-01-00:00"), "2024-01-01-05:00"),
        (dg.MonthlyPartitionsDefinition("2024-01-01"), "2024-02-01"),
        (dg.StaticPartitionsDefinition(["north", "7"]), "7"),
        (dg.DynamicPartitionsDefinition(name="customers"), "ada"),
    ],
)
def test_partitions_of_every_kind_become_partitions_and_tags(
    materialize: Callable[..., Any], session: Session, instance: dg.DagsterInstance, definition: Any, key: str
) -> None:
    instance.add_dynamic_partitions("customers", ["ada"])

    @table_asset("core.parts", partition_by=["part"], partitions_def=definition, partition_column="part")
    def parts(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"part": [context.partition_key], "n": [next(numbers)]})

    numbers = iter((1, 2))
    for _ in range(2):
        assert materialize(parts, partition_key=key).success
    assert rows(session, "core.parts") == [(key, 2)]
    tag = f"p-{key}" if key.isdigit() else key
    assert [(table_tag.name, table_tag.snapshot.id) for table_tag in session.table("core.parts").tags.list()] == [
        (tag, 2)
    ]


@pytest.mark.parametrize("column", [None, "part"])
def test_a_key_that_is_the_tag_of_another_is_refused_on_the_run(
    materialize: Callable[..., Any], session: Session, instance: dg.DagsterInstance, column: str | None
) -> None:
    instance.add_dynamic_partitions("numbers", ["1", "p-1", "p-x"])

    @table_asset(
        "core.numbers",
        partition_by=column or (),
        partitions_def=dg.DynamicPartitionsDefinition(name="numbers"),
        partition_column=column,
    )
    def numbers(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"part": [context.partition_key]})

    for key in ("1", "p-x"):
        assert materialize(numbers, partition_key=key).success
    with pytest.raises(Exception, match=r"Partition 'p-1' cannot become a tag .* of a partition '1'"):
        materialize(numbers, partition_key="p-1")
    assert [tag.name for tag in session.table("core.numbers").tags.list()] == ["p-1", "p-x"]
    assert ("1",) in rows(session, "core.numbers", version="p-1")


def test_partitions_of_two_dimensions_are_two_columns(materialize: Callable[..., Any], session: Session) -> None:
    both = dg.MultiPartitionsDefinition({"region": dg.StaticPartitionsDefinition(["n", "s"]), "day": DAYS})

    @table_asset(
        "core.both",
        partition_by=["day", "area"],
        partitions_def=both,
        partition_column={"region": "area", "day": "day"},
    )
    def parts(context: dg.AssetExecutionContext) -> pa.Table:
        keys = [key.keys_by_dimension for key in context.partition_keys]
        return pa.table(
            {
                "day": [key["day"] for key in keys],
                "area": [key["region"] for key in keys],
                "n": [next(numbers)] * len(keys),
            }
        )

    numbers = iter((1, 2, 3))

    for day, region in (("2024-01-01", "n"), ("2024-01-01", "s"), ("2024-01-01", "n")):
        assert materialize(parts, partition_key=dg.MultiPartitionKey({"region": region, "day": day})).success
    assert rows(session, "core.both") == [("2024-01-01", "n", 3), ("2024-01-01", "s", 2)]
    assert [tag.name for tag in session.table("core.both").tags.list()] == ["2024-01-01|s", "2024-01-01|n"]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="a column for each of the dimensions day, region"):
        table_asset("core.wrong", partition_by=["day"], partitions_def=both, partition_column="day")(lambda: None)


def test_each_partition_of_a_table_without_partitions_is_the_whole_table_and_a_tag(
    materialize: Callable[..., Any], session: Session
) -> None:
    @table_asset("core.whole", primary_key=["n"], partitions_def=DAYS)
    def whole(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"n": list(range(int(context.partition_key[-1])))})

    @dg.asset(key=["core", "diff"], deps=[whole], code_version="1")
    def diff(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
        before = tables.as_of(context, "core.whole", "2024-01-01")
        return tables.write(context, tables.read(context, "core.whole").exceptAll(before), TableDefinition("core.diff"))

    for day in ("2024-01-01", "2024-01-03"):
        assert materialize(whole, partition_key=day).success
    table = session.table("core.whole")
    assert [(tag.name, table.count(version=tag.name)) for tag in table.tags.list()] == [
        ("2024-01-01", 1),
        ("2024-01-03", 3),
    ]
    assert materialize(diff, selection=[diff]).success
    assert rows(session, "core.diff") == [(1,), (2,)]
    assert [str(ref) for ref in session.lineage(session.ref("core.diff"), "up").snapshots] == [
        "core.whole@1",
        "core.whole@2",
    ]


def test_what_a_commit_did_to_rows_is_shown(materialize: Callable[..., Any], session: Session) -> None:
    given = [[(1, "a"), (2, "b"), (3, "c")], [(1, "a"), (2, "x"), (4, "d"), (5, "e")]]

    @table_asset("core.kept", primary_key=["id"])
    def kept() -> pa.Table:
        made = given[session.catalog.exists("core.kept") and session.table("core.kept").snapshot() is not None]
        return pa.table({"id": [row[0] for row in made], "v": [row[1] for row in made]})

    changes = []
    for _ in range(2):
        shown = materialization(materialize(kept), "core", "kept").metadata
        changes.append([shown[f"rows_{what}"].value for what in ("inserted", "updated", "deleted")])
    assert changes == [[3, 0, 0], [2, 1, 1]]


def test_a_function_may_work_on_relations_of_duckdb(materialize: Callable[..., Any], session: Session) -> None:
    @table_asset("core.related", inputs={"words": "raw.words"}, primary_key=["word"])
    def related(words: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
        return words.aggregate("word, count(*) AS n", "word").order("word")

    materialize(words, related)
    assert rows(session, "core.related") == [("a", 2), ("b", 1)]


# --- incremental assets


def test_an_incremental_asset_reads_what_has_come_and_everything_when_it_must(
    materialize: Callable[..., Any], session: Session
) -> None:
    seen: list[list[int]] = []
    schema = pa.schema([("id", pa.int64()), ("price", pa.int64())])
    source = session.catalog.create_table("raw.sales", schema, primary_key=["id"], options={"bucket": 1})

    def asset(version: str) -> Any:
        def body(sales: DataFrame, words: pa.Table) -> DataFrame:
            seen.append(sorted(row.id for row in sales.collect()))
            return sales.withColumn("double", sales.price * 2).select("id", "double")

        return table_asset(
            "core.doubled",
            inputs={"sales": "raw.sales", "words": "raw.words"},
            primary_key=["id"],
            incremental="sales",
            code_version=version,
            description="Doubled.",
        )(body)

    def sell(*rows: tuple[int, int]) -> None:
        session.catalog.table("raw.sales").write(
            pa.table({"id": [row[0] for row in rows], "price": [row[1] for row in rows]})
        )

    def run(version: str = "1") -> list[tuple[Any, ...]]:
        doubled = asset(version)
        assert materialize(doubled, selection=[doubled]).success
        return rows(session, "core.doubled")

    materialize(words)
    sell((1, 1), (2, 2))
    assert run() == [(1, 2), (2, 4)]
    sell((3, 3))
    sell((2, 20))
    assert run() == [(1, 2), (2, 40), (3, 6)]
    assert run() == [(1, 2), (2, 40), (3, 6)]
    assert seen == [[1, 2], [2, 3], []]
    upstream = session.lineage(session.ref("core.doubled"), "up", hops=1).snapshots
    assert [str(ref) for ref in upstream] == ["raw.sales@3", "raw.words@1"]
    # The source is compacted, and written to by name of nobody: still an increment.
    source.compact(full=True)
    sell((4, 4))
    assert run()[-1] == (4, 8)
    assert seen[-1] == [4]
    # New code, a deleted row, a rewritten source and a foreign hand in the sink: everything.
    for change in (
        lambda: None,
        lambda: source.delete("id = 1"),
        lambda: source.rollback_to(3),
        lambda: session.catalog.table("core.doubled").write(pa.table({"id": [9], "double": [9]})),
    ):
        sell((5, 5))
        change()
        expected = sorted((row["id"], row["price"] * 2) for row in source.to_arrow().to_pylist())
        assert run("2") == expected
        assert seen[-1] == [row[0] for row in expected]
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="names one of the inputs"):
        table_asset("core.wrong", inputs={"words": "raw.words"}, incremental="other")(lambda words: words)


# --- streaming assets


def test_a_streaming_asset_commits_each_snapshot_of_its_source_once(
    materialize: Callable[..., Any], session: Session
) -> None:
    schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
    source = session.catalog.create_table("raw.events", schema, primary_key=["id"], options={"bucket": 1})

    @dg.asset(key=["core", "loud"], deps=[["raw", "events"]], code_version="1")
    def loud(context: dg.AssetExecutionContext, tables: TablesResource) -> dg.MaterializeResult[Any]:
        known = tables.read(context, "raw.words").distinct()
        changes = (
            tables.read_stream(context, "raw.events").join(known, "word").select("id", F.upper("word").alias("word"))
        )
        return tables.write_stream(context, changes, TableDefinition("core.loud", primary_key=["id"]))

    materialize(words)
    source.write(pa.table({"id": [1], "word": ["a"]}))
    source.write(pa.table({"id": [2], "word": ["b"]}))
    assert materialize(loud, selection=[loud]).success
    assert rows(session, "core.loud") == [(1, "A"), (2, "B")]
    for number, word in ((3, "a"), (1, "b")):
        source.write(pa.table({"id": [number], "word": [word]}))
    event = materialization(materialize(loud, selection=[loud]), "core", "loud")
    assert rows(session, "core.loud") == [(1, "B"), (2, "B"), (3, "A")]
    # One commit for each snapshot, each knows the one that it has come to; what is joined is one version.
    upstream = {
        number: [str(ref) for ref in session.lineage(session.ref(f"core.loud@{number}"), "up", hops=1).snapshots]
        for number in (1, 2, 3)
    }
    assert upstream == {number: [f"raw.events@{number + 1}", "raw.words@1"] for number in (1, 2, 3)}
    assert event.tags is not None
    assert (event.tags["dagster/data_version"], event.tags["dagster/input_data_version/raw/events"]) == (
        "main@3",
        "main@4",
    )
    again = materialization(materialize(loud, selection=[loud]), "core", "loud")
    assert again.tags is not None
    assert again.tags["dagster/data_version"] == "main@3"
    assert session.ref("core.loud").snapshot_id == 3
