"""Tables in and out of Spark, against the same tables read in Arrow."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from storage import METADATA_COLUMNS, Catalog, CommitId, FixedClock, InvalidRequest, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return str(tmp_path / "warehouse")


@pytest.fixture
def write(warehouse: str) -> "Callable[..., object]":
    from storage.engines.spark_writer import write_frame

    def write(frame: "DataFrame", table: Table, **options: object) -> object:
        return write_frame(frame, table, warehouse, **options)  # type: ignore[arg-type]

    return write


@pytest.fixture
def load(spark: "SparkSession", warehouse: str) -> "Callable[..., DataFrame]":
    def load(name: str, **options: str) -> "DataFrame":
        return spark.read.format("snapline").option("warehouse", warehouse).options(**options).load(name)

    return load


def rows(frame: "DataFrame") -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def arrow_rows(table: Table, **options: object) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(**options).to_pylist()), key=str)  # type: ignore[arg-type]


def test_rows_written_by_spark_are_what_spark_and_arrow_read(
    spark: "SparkSession", catalog: Catalog, write: Callable[..., object], load: "Callable[..., DataFrame]"
) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("text", pa.string()), ("number", pa.float64())])
    table = catalog.create_table("a.b", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 3})
    frame = spark.range(5000).selectExpr(
        "concat('d', id % 4) AS day", "id", "if(id % 7 = 0, NULL, concat('text ', id)) AS text", "id / 8 AS number"
    )
    write(frame, table)
    write(frame.where("id % 10 = 3").selectExpr("day", "id", "'new' AS text", "number"), table)
    expected = {
        row_id: ("new" if row_id % 10 == 3 else None if row_id % 7 == 0 else f"text {row_id}") for row_id in range(5000)
    }
    stored = table.to_arrow().to_pylist()
    assert {row["id"]: row["text"] for row in stored} == expected
    assert len(stored) == 5000
    assert rows(load("a.b")) == arrow_rows(table)
    assert table.snapshot().id == 2  # type: ignore[union-attr]


def test_every_bucket_is_written_by_one_task_as_one_sorted_file(
    spark: "SparkSession", catalog: Catalog, write: Callable[..., object]
) -> None:
    table = catalog.create_table("a.b", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": 4})
    write(spark.range(20_000).repartition(7), table)
    assert table.system_table("files")["bucket"].to_pylist() == [0, 1, 2, 3]


def test_filters_and_columns_give_what_they_give_in_spark(
    spark: "SparkSession", catalog: Catalog, write: Callable[..., object], load: "Callable[..., DataFrame]"
) -> None:
    from pyspark.sql import functions as F

    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("real", pa.float64()), ("at", pa.timestamp("us"))])
    table = catalog.create_table("a.b", schema, primary_key=["id"], options={"bucket": 2})
    frame = spark.range(1000).selectExpr(
        "id",
        "if(id % 5 = 0, NULL, concat('t', id % 10)) AS text",
        "if(id % 9 = 0, double('NaN'), id / 3) AS real",
        "timestamp_ntz'2024-01-01 00:00:00' + make_interval(0, 0, 0, id) AS at",
    )
    write(frame, table)
    write(frame.where("id < 100").withColumn("text", F.lit("newer")), table)
    plain = spark.createDataFrame(load("a.b").collect(), load("a.b").schema)
    for condition in (
        "id = 17",
        "id IN (1, 500, 5000)",
        "id >= 990 OR id < 5",
        "text IS NULL",
        "text LIKE 't1%'",
        "NOT text = 't1'",
        "text <> 't1' AND id BETWEEN 95 AND 120",
        "real > 100",
        "real <=> double('NaN')",
        "real != 5",
        "at < timestamp_ntz'2024-01-20 00:00:00'",
        "id % 2 = 0 AND text = 'newer'",
        "text = 'newer' AND id > 98",
    ):
        # As text, since NaN is not equal to itself.
        assert str(rows(load("a.b").where(condition))) == str(rows(plain.where(condition))), condition
    assert load("a.b", columns="text,id").columns == ["text", "id"]


def test_an_old_version_a_tag_and_a_branch_option_are_read(
    spark: "SparkSession", orders: Table, write: Callable[..., object], load: "Callable[..., DataFrame]"
) -> None:
    write(spark.createDataFrame([(1, "old")], "id bigint, item string"), orders)
    orders.tags.create("before")
    write(spark.createDataFrame([(1, "new")], "id bigint, item string"), orders)
    assert rows(load("shop.orders")) == [(1, "new")]
    assert rows(load("shop.orders", version="1")) == rows(load("shop.orders", version="before")) == [(1, "old")]


def test_a_version_is_asked_for_by_any_of_the_formats_options(
    orders: Table, clock: FixedClock, load: "Callable[..., DataFrame]"
) -> None:
    for number in range(3):
        orders.write(pa.table({"id": [number], "item": ["x"]}))
        clock.advance_ms(1000)
    orders.tags.create("two", snapshot_id=2)
    orders.branches.create("fix", snapshot_id=1)
    orders.on_branch("fix").write(pa.table({"id": [9], "item": ["fixed"]}))
    second = orders.snapshot(2)
    assert second is not None
    for key, value in {
        "scan.snapshot-id": "2",
        "scan.tag-name": "two",
        "scan.version": "two",
        "scan.timestamp-millis": str(second.time_ms + 10),
        "scan.timestamp": dt.datetime.fromtimestamp(second.time_ms / 1000 + 0.01).isoformat(),
    }.items():
        assert rows(load("shop.orders", **{key: value})) == [(0, "x"), (1, "x")], key
    assert rows(load("shop.orders", **{"scan.branch": "fix"})) == [(0, "x"), (9, "fixed")]
    assert rows(load("shop.orders", **{"scan.branch": "fix", "scan.version": "1"})) == [(0, "x")]


def test_splits_that_need_no_merge_are_read_by_spark_itself(
    spark: "SparkSession", catalog: Catalog, write: Callable[..., object], warehouse: str
) -> None:
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    options = {"bucket": 1, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": True}
    table = catalog.create_table("a.b", schema, primary_key=["day", "id"], partition_by=["day"], options=options)
    table.write(pa.table({"day": ["x", "x", "y"], "id": [1, 2, 3]}))
    table.write(pa.table({"day": ["y", "y"], "id": [3, 4], "op": ["-D", "+I"]}), row_kind_column="op")
    mixed = read_scan(spark, table, table.scan(), warehouse)
    assert rows(mixed) == rows(read_scan(spark, table, table.scan(), warehouse, native=False)) == arrow_rows(table)
    plan = mixed._jdf.queryExecution().toString()
    assert "FileScan parquet" in plan or "Scan parquet" in plan
    assert "snapline" in plan


@pytest.mark.parametrize(
    "where", ["id = 2", "id > 1 AND id < 40", "v = 'new'", "day = 'a'", "day = 'b' AND id = 3", "id = 77"]
)
def test_a_filter_over_buckets_of_which_some_are_merged_loses_no_row(
    spark: "SparkSession", catalog: Catalog, warehouse: str, where: str
) -> None:
    """With the filter told to the source, files may look as if they needed no merge."""
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.string())])
    table = catalog.create_table(
        "a.b", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1, "write-only": True}
    )
    table.write(pa.table({"day": ["a", "a", "b", "b"], "id": [1, 2, 3, 77], "v": ["old"] * 4}))
    table.write(pa.table({"day": ["a"], "id": [1], "v": ["new"]}))
    table.write(pa.table({"day": ["a"] * 60, "id": list(range(100, 160)), "v": ["old"] * 60}))
    expected = arrow_rows(table, where=where)
    whole = read_scan(spark, table, table.scan(), warehouse)
    assert rows(whole.where(where)) == expected
    narrowed = read_scan(spark, table, table.scan(), warehouse, narrow=table.scan(where=where), where=where)
    assert rows(narrowed.where(where)) == expected
    # Nor is a row given that another use of the frame did not ask for.
    assert rows(narrowed.where("false").union(narrowed.where(where))) == expected


def test_a_frame_may_be_used_often_with_other_conditions(
    spark: "SparkSession", orders: Table, warehouse: str, load: "Callable[..., DataFrame]"
) -> None:
    """Spark gives the filters of one use of a source to every other one, if a source takes them."""
    from storage.engines.spark_reader import read_scan

    for item in ("old", "new"):
        orders.write(pa.table({"id": list(range(10)), "item": [item] * 10}))
    for frame in (load("shop.orders"), read_scan(spark, orders, orders.scan(), warehouse)):
        assert rows(frame.where("id = 1")) == [(1, "new")]
        assert frame.count() == 10
        assert rows(frame.where("id = 1").union(frame.where("id = 2"))) == [(1, "new"), (2, "new")]
        assert frame.where("id < 3").join(frame.where("id > 1"), "id").count() == 1
    assert rows(load("shop.orders", where="id IN (1, 2)")) == [(1, "new"), (2, "new")]


@pytest.mark.parametrize(("mode", "expected"), [("overwrite", ["n"]), ("overwrite-partitions", ["n", "o"])])
def test_an_overwrite_replaces_the_table_or_the_partitions_written(
    spark: "SparkSession", events: Table, write: Callable[..., object], mode: str, expected: list[str]
) -> None:
    write(spark.createDataFrame([("d1", "o"), ("d2", "o")], "day string, what string"), events)
    write(spark.createDataFrame([("d2", "n")], "day string, what string"), events, mode=mode)
    assert sorted(events.to_arrow()["what"].to_pylist()) == expected


def test_listed_partitions_are_replaced_and_no_other_may_be_touched(
    spark: "SparkSession", events: Table, write: Callable[..., object], tmp_path: Path
) -> None:
    columns = "day string, what string"
    write(spark.createDataFrame([("d1", "o"), ("d2", "o"), ("d3", "o")], columns), events)
    listed = [{"day": "d1"}, {"day": "d2"}]
    write(spark.createDataFrame([("d1", "n")], columns), events, mode="overwrite-partitions", partitions=listed)
    assert arrow_rows(events) == [("d1", "n"), ("d3", "o")]
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(InvalidRequest, match="partition day=d9, which"):
        write(spark.createDataFrame([("d9", "n")], columns), events, mode="overwrite-partitions", partitions=listed)
    assert arrow_rows(events) == [("d1", "n"), ("d3", "o")]
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_a_repeated_commit_id_writes_once(spark: "SparkSession", orders: Table, write: Callable[..., object]) -> None:
    frame = spark.createDataFrame([(1, "a")], "id bigint, item string")
    first = write(frame, orders, commit_id=CommitId("job", 1, exact=True))
    assert write(frame, orders, commit_id=CommitId("job", 1, exact=True)) == first
    assert orders.snapshot().id == 1  # type: ignore[union-attr]


def test_a_failing_task_leaves_neither_snapshot_nor_file(
    spark: "SparkSession", orders: Table, write: Callable[..., object], tmp_path: Path
) -> None:
    frame = spark.range(1000).selectExpr("if(id = 999, assert_true(false), NULL) AS broken", "id", "'x' AS item")
    with pytest.raises(Exception, match="is not true"):
        write(frame.selectExpr("id", "concat(item, ifnull(broken, '')) AS item"), orders)
    assert orders.snapshot() is None
    assert list(tmp_path.rglob("*.parquet")) == []


def test_an_error_of_the_store_in_a_task_comes_back_as_itself(
    spark: "SparkSession", orders: Table, write: Callable[..., object]
) -> None:
    with pytest.raises(InvalidRequest, match="NOT NULL"):
        write(spark.createDataFrame([(None, "x")], "id bigint, item string"), orders)
    with pytest.raises(InvalidRequest, match="lacks id"):
        write(spark.createDataFrame([("x",)], "item string"), orders)
    assert orders.snapshot() is None


def test_the_plain_writer_of_spark_works_too(
    spark: "SparkSession", orders: Table, warehouse: str, load: "Callable[..., DataFrame]"
) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, item string")
    writer = frame.write.format("snapline").option("warehouse", warehouse)
    writer.mode("append").save("shop.orders")
    writer.mode("overwrite").save("shop.orders")
    assert rows(load("shop.orders")) == [(1, "a"), (2, "b")]
    assert orders.snapshot().commit_kind == "OVERWRITE"  # type: ignore[union-attr]


def test_types_survive_the_way_through_spark(
    spark: "SparkSession", catalog: Catalog, write: Callable[..., object], load: "Callable[..., DataFrame]"
) -> None:
    frame = (
        spark.sql(
            """SELECT 1L AS id, true AS b, 1Y AS ti, 2S AS si, 3 AS i, float(1.5) AS f, 2.5D AS d, 1.25BD AS c,
           'text' AS s, X'00FF' AS bin, date'2024-02-29' AS day, timestamp_ntz'2024-01-01 01:02:03.456789' AS t,
           timestamp_ltz'2024-01-01 01:02:03.456789' AS l, array(1, NULL) AS a, map('k', 1) AS m,
           named_struct('x', 1, 'y', NULL) AS st"""
        )
        .selectExpr("*")
        .drop("st")
    )
    from storage.engines.spark_types import arrow_schema_of

    table = catalog.create_table("a.t", arrow_schema_of(frame.schema), primary_key=["id"], options={"bucket": 1})
    write(frame, table)
    write(frame, table)
    assert rows(load("a.t")) == rows(frame)


def test_what_is_missing_is_said_in_one_sentence(spark: "SparkSession", warehouse: str, orders: Table) -> None:
    reader = spark.read.format("snapline")
    with pytest.raises(Exception, match="needs a warehouse"):
        reader.load("shop.orders")
    with pytest.raises(Exception, match=r"Tables of shop: shop\.orders"):
        reader.option("warehouse", warehouse).load("shop.nothing")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"versoin": "1"}, r"no option 'versoin' for a read\. Did you mean 'version'"),
        ({"consumer-id": "c"}, r"'consumer-id' for a read\. It is for a streaming read"),
        ({"row-kind-column": "k"}, "It is for a write and a streaming write"),
        ({"inferSchema": "true"}, "no option 'inferschema'"),
        ({"version": "1", "scan.tag-name": "t"}, "ask for a version both"),
        ({"branch": "a", "scan.branch": "b"}, "name different branches"),
        ({"scan.snapshot-id": "one"}, "not a whole number"),
        ({"splits": "native"}, "'splits' is 'merged' or 'unreadable'"),
        ({"columns": '["id'}, "JSON list"),
        ({"columns": "id,job"}, "'job' is metadata of the rows.*Name it in the option 'metadata-columns'"),
        ({"metadata-columns": "job,jobs"}, "'jobs' is no metadata of rows. Those are snapshot_id, "),
        ({"metadata-columns": "id"}, "'id' is no metadata of rows"),
        ({"metadata-columns": "job,job"}, "asked for twice"),
        ({"metadata-columns": '["job'}, "JSON list"),
    ],
)
def test_an_option_that_a_read_does_not_take_is_refused(
    load: "Callable[..., DataFrame]", orders: Table, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        load("shop.orders", **options).collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"where": "id = 1"}, r"'where' for a write\. It is for a read"),
        ({"mergeSchema": "true"}, "no option 'mergeschema'"),
        ({"change-tracking": "flase"}, "'change-tracking' is true or false, not 'flase'"),
        ({"unless-same": "yes"}, "'unless-same' is true or false"),
        ({"commit-user": "u", "commit-identifier": "x"}, "not a whole number"),
        ({"overwrite": "everything"}, "'overwrite' is table, partitions or a JSON list"),
        ({"overwrite": "[1]"}, "JSON list of partitions"),
    ],
)
def test_an_option_that_a_write_does_not_take_is_refused(
    spark: "SparkSession", orders: Table, warehouse: str, options: dict[str, str], said: str
) -> None:
    frame = spark.createDataFrame([(1, "a")], "id bigint, item string")
    writer = frame.write.format("snapline").option("warehouse", warehouse).options(**options)
    with pytest.raises(Exception, match=said):
        writer.mode("overwrite").save("shop.orders")
    assert orders.snapshot() is None


def test_columns_may_have_commas_in_their_names(spark: "SparkSession", catalog: Catalog, warehouse: str) -> None:
    from storage.engines.spark_reader import read_scan

    schema = pa.schema([("id", pa.int64()), ("a,b", pa.string()), ("[c", pa.string())])
    table = catalog.create_table("a.b", schema, primary_key=["id"], options={"bucket": 1})
    for text in ("old", "new"):
        table.write(pa.table({"id": [1], "a,b": [text], "[c": ["c"]}, schema))
    assert rows(read_scan(spark, table, table.scan(columns=["[c", "a,b"]), warehouse)) == [("c", "new")]


def test_metadata_of_rows_are_told_where_they_are_asked_for(load: "Callable[..., DataFrame]", catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("bucket", pa.string())])
    table = catalog.create_table("a.b", schema, primary_key=["id"], options={"bucket": 2})
    for number, keys in enumerate(([1, 2], [2, 3]), start=1):
        data = pa.table({"id": keys, "bucket": ["own"] * 2}, schema)
        table.write(data, commit_id=CommitId(f"job {number}", number))
    asked = [name for name in METADATA_COLUMNS if name != "bucket"] + ["__paimon_bucket"]
    for _ in range(2):
        whole = load("a.b", **{"metadata-columns": ",".join(asked)})
        assert whole.columns == ["id", "bucket", *asked]
        assert rows(whole) == arrow_rows(table, columns=["id", "bucket", *asked])
        table.compact(full=True)
    few = load("a.b", columns="id", where="id > 1", **{"metadata-columns": '["job", "snapshot_id"]'})
    assert rows(few) == [(2, "job 2", 2), (3, "job 2", 2)]
    assert rows(load("a.b", version="1", columns="[]", **{"metadata-columns": "job"})) == [("job 1",)] * 2
    assert rows(whole.where("job = 'job 1'").groupBy("job").count()) == [("job 1", 1)]
    assert load("a.b").columns == ["id", "bucket"]


@pytest.mark.pypaimon_differs("a file is damaged on purpose")
def test_a_damaged_file_is_noticed_where_spark_reads_it_itself(
    spark: "SparkSession", catalog: Catalog, warehouse: str
) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from storage import CorruptData
    from storage.engines.spark_errors import own_error
    from storage.engines.spark_reader import read_scan

    table = catalog.create_table(
        "a.b", pa.schema([("id", pa.int64()), ("text", pa.string())]), options={"file.compression": "none"}
    )
    table.write(pa.table({"id": range(500), "text": [f"text {number * 7919 % 1000}" for number in range(500)]}))
    (path,) = Path(table.store.paths.root).glob("bucket-0/data-*")
    assert read_scan(spark, table, table.scan(), warehouse).count() == 500
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"text 919", b"text 918", 1))
    # Spark has an error of its own for it, or lets that of the JVM through.
    with pytest.raises((PySparkException, Py4JJavaError), match="CRC checksum verification failed") as raised:
        read_scan(spark, table, table.scan(), warehouse).collect()
    assert isinstance(own_error(raised.value), CorruptData), str(raised.value)[:3000]
    assert path.name in str(own_error(raised.value)), str(raised.value)[:3000]
    # Spark itself does not look at the footer's checksum.
    position = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little") + 12
    path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    with pytest.raises(CorruptData, match=path.name):
        read_scan(spark, table, table.scan(), warehouse)
