"""Snapshots made again from what they were made from."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lineage import offsets_property
from resources import Session, table_asset
from resources.assets.reproduce import Reproducer, Reproduction
from resources.assets.table_asset import table_assets
from storage import DEFAULT_CATALOG, InvalidRequest, NotFound, TopicRange
from tests.resources.test_table_asset import DAYS, counts, days, range_tags, words

pytestmark = pytest.mark.dagster
Sql = Callable[[str], Any]


@pytest.fixture
def reproduce(session: Session) -> Callable[..., Reproduction]:
    def run(target: str, *assets: Any, **arguments: Any) -> Reproduction:
        from resources.spark_session import start_spark

        reproduction = Reproducer(
            session, lambda: table_assets(assets), lambda: start_spark(session.settings)
        ).reproduce(session.ref(target), **arguments)
        table = session.table(target.partition("@")[0])
        assert table.branches.names() == ([reproduction.branch] if reproduction.branch else [])
        assert not [row for row in session.lineage_store.snapshots("sink") if row.branch.startswith("reproduce")]
        assert not [row for row in session.lineage_store.tables("sink") if row.job.startswith("reproduce")]
        return reproduction

    return run


def test_what_an_asset_made_is_made_again_though_its_source_has_moved_on(
    materialize: Callable[..., Any], session: Session, reproduce: Callable[..., Reproduction]
) -> None:
    materialize(words, counts)
    materialize(words)
    reproduction = reproduce("core.counts@1", counts)
    assert (reproduction.comparison.identical, reproduction.warnings) == (True, ())
    assert reproduction.comparison.rows_after == 2


def test_rows_that_were_tampered_with_and_code_that_changed_are_shown(
    materialize: Callable[..., Any], session: Session, reproduce: Callable[..., Reproduction]
) -> None:
    @table_asset("core.counts", inputs={"words": "raw.words"}, primary_key=["word"])
    def other(words: DataFrame) -> DataFrame:
        counted = words.where("word <> 'b'").union(words.limit(1)).groupBy("word").agg(F.count("*").alias("n"))
        return counted.union(words.sparkSession.createDataFrame([("new", 7)], "word string, n bigint"))

    materialize(words, counts)
    reproduction = reproduce("core.counts@1", other, keep=True)
    assert "code of core.counts has changed" in reproduction.warnings[0]
    comparison = reproduction.comparison
    assert (comparison.added, comparison.removed, comparison.changed, dict(comparison.changed_columns)) == (
        1,
        1,
        1,
        {"n": 1},
    )
    assert comparison.describe() == "1 rows added, 1 rows removed, 1 rows changed (n: 1)"
    assert comparison.examples is not None
    assert comparison.examples.to_pylist()[0] == {"difference": "changed", "word": "a", "n before": 2, "n after": 3}
    assert reproduction.branch is not None
    assert session.table("core.counts").on_branch(reproduction.branch).count() == 2


def test_partitions_and_appended_rows(
    materialize: Callable[..., Any], session: Session, reproduce: Callable[..., Reproduction]
) -> None:
    materialize(words)
    materialize(days, selection=[days], tags=range_tags("2024-01-01", "2024-01-02"))
    materialize(words)
    materialize(days, selection=[days], tags=range_tags("2024-01-02", "2024-01-03"))
    for number in (1, 2):
        assert reproduce(f"core.days@{number}", days).comparison.identical
        # An append is made again as what it added.
        assert reproduce(f"raw.words@{number}", words).comparison.rows_after == 3 * number
    assert DAYS is days.partitions_def


def test_statements_of_every_kind_are_made_again(
    sql: Sql, session: Session, engine: str, reproduce: Callable[..., Reproduction]
) -> None:
    sql(
        """
        CREATE TABLE shop.orders (id BIGINT, day STRING, item STRING, PRIMARY KEY (day, id) NOT ENFORCED)
            PARTITIONED BY (day);
        INSERT INTO shop.orders VALUES (1, '2024-01-01', 'tea'), (2, '2024-01-02', 'cup');
        CREATE TABLE shop.copies (id BIGINT, day STRING, item STRING, PRIMARY KEY (day, id) NOT ENFORCED)
            PARTITIONED BY (day);
        INSERT INTO shop.copies SELECT * FROM shop.orders;
        INSERT OVERWRITE shop.copies PARTITION (day = '2024-01-02') SELECT id + 10, upper(item) FROM shop.orders;
        UPDATE shop.copies SET item = 'pot' WHERE id = 11;
        DELETE FROM shop.copies WHERE day = '2024-01-01';
        MERGE INTO shop.copies AS t USING shop.orders AS s ON t.id = s.id AND t.day = s.day
            WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *;
        CREATE TABLE shop.items AS SELECT item, count(*) AS n FROM shop.orders VERSION AS OF 1 GROUP BY item;
        """
    )
    sql("INSERT INTO shop.orders VALUES (3, '2024-01-01', 'jug')")
    for target in [*(f"shop.copies@{number}" for number in range(1, 6)), "shop.items@1", "shop.orders@1"]:
        reproduction = reproduce(target, engine=engine)
        assert reproduction.comparison.identical, f"{target}: {reproduction.comparison.describe()}"
    upstream = session.lineage(session.ref("shop.copies@4"), "up").snapshots
    assert [str(ref) for ref in upstream] == ["shop.copies@2", "shop.copies@3", "shop.orders@1"]


@pytest.mark.parametrize("name", ["m@1", "m@2", "k@1", "k@2"])
def test_a_snapshot_beside_a_change_of_columns_is_made_again_under_its_own(
    session: Session, reproduce: Callable[..., Reproduction], name: str
) -> None:
    session.sql(
        "CREATE TABLE raw.s (id INT, v INT); INSERT INTO raw.s VALUES (1, 5); "
        "CREATE TABLE raw.m AS SELECT id, v FROM raw.s; ALTER TABLE raw.m ADD COLUMN w INT; "
        "INSERT INTO raw.m SELECT id, v, 7 FROM raw.s; ALTER TABLE raw.m ADD COLUMN later INT; "
        "CREATE TABLE raw.k (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1'); "
        "INSERT INTO raw.k SELECT id, v FROM raw.s; ALTER TABLE raw.k RENAME COLUMN v TO x; "
        "UPDATE raw.k SET x = 6 WHERE id = 1",
        "duckdb",
    )
    assert reproduce(f"raw.{name}").comparison.identical


def test_a_table_that_was_made_anew_with_its_rows_is_no_change_of_them(
    session: Session, reproduce: Callable[..., Reproduction]
) -> None:
    session.sql(
        "CREATE TABLE raw.s (id INT); INSERT INTO raw.s VALUES (1); CREATE TABLE raw.m AS SELECT id FROM raw.s; "
        "CREATE OR REPLACE TABLE raw.m AS SELECT id + 1 AS id FROM raw.s",
        "duckdb",
    )
    with pytest.raises(InvalidRequest, match=r"Snapshot 2 of raw\.m was made by CREATE OR REPLACE TABLE … AS"):
        reproduce("raw.m@2")


def test_what_cannot_be_made_again_is_explained(
    session: Session, reproduce: Callable[..., Reproduction], materialize: Callable[..., Any]
) -> None:
    session.catalog.create_table("raw.plain", pa.schema([("n", pa.int64())])).write(pa.table({"n": [1]}))
    with pytest.raises(InvalidRequest, match="neither SQL nor a table asset"):
        reproduce("raw.plain@1")
    materialize(words, counts)
    materialize(words)
    session.table("raw.words").expire(retain_last=1)
    with pytest.raises(NotFound, match=r"raw.words@1, which can no longer be read"):
        reproduce("core.counts@1", counts)


def test_records_of_topics_are_not_read_again(session: Session, reproduce: Callable[..., Reproduction]) -> None:
    read = TopicRange(DEFAULT_CATALOG, "raw", "events", "t", 0, 3, 5, "id")
    session.sql("CREATE DATABASE core; CREATE TABLE core.t (id BIGINT)", "duckdb")
    properties = {**offsets_property([read]), "snapline.statement": "INSERT INTO core.t VALUES (1)"}
    session.table("core.t").write(pa.table({"id": [1]}), properties=properties)
    with pytest.raises(
        InvalidRequest, match=r"core\.t@1 was made from records of a topic \(raw\.events: topic t, .*\[3, 5\)\)"
    ):
        reproduce("core.t@1")
