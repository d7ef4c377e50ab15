"""What runs do with Spark, once, so that the classes that this takes are known; prints the class path of the JVM."""

import tempfile

from .session import Session
from .settings import Settings
from .spark_session import start_spark

_STATEMENTS = (
    "CREATE DATABASE rehearsal",
    "CREATE TABLE rehearsal.sums (k BIGINT, day DATE, total DECIMAL(12, 2), PRIMARY KEY (k) NOT ENFORCED)",
    "CREATE TABLE rehearsal.days (day DATE, name STRING) PARTITIONED BY (day)",
    "INSERT INTO rehearsal.days SELECT date_add(DATE '2026-01-01', CAST(id AS INT)), concat('day ', id) FROM range(3)",
    "INSERT INTO rehearsal.sums "
    "SELECT id, date_add(DATE '2026-01-01', CAST(id % 3 AS INT)), sum(id * 1.5) FROM range(9) GROUP BY 1, 2",
    "UPDATE rehearsal.sums SET total = total + 1 WHERE k IN (SELECT id FROM range(2))",
    "DELETE FROM rehearsal.sums WHERE k = 8",
    "MERGE INTO rehearsal.sums t USING (SELECT 1 AS k, 2.5 AS total) s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET total = s.total",
    "SELECT name, sum(total) OVER (PARTITION BY name ORDER BY k), row_number() OVER (ORDER BY k) FROM rehearsal.sums "
    "JOIN rehearsal.days USING (day) WHERE k > 1 ORDER BY k LIMIT 5",
    "SELECT day, count(DISTINCT k), max(named_struct('k', k, 'a', array(k))) FROM rehearsal.sums GROUP BY day ORDER BY day",
)


def rehearse() -> str:
    """Read, join, write and stream tables with Spark. Returns the class path of its JVM."""
    settings = Settings.from_environment()
    session = Session(settings)
    for statement in _STATEMENTS:
        result = session.sql(statement)
        if result.rows is not None or result.frame is not None:
            result.to_arrow()
    spark = start_spark(settings)
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "k BIGINT, v STRING")
    frame.mapInArrow(lambda batches: batches, frame.schema).repartition(2, "k").cache().count()
    with tempfile.TemporaryDirectory() as scratch:
        frame.write.parquet(f"{scratch}/rows")
        spark.read.parquet(f"{scratch}/rows").filter("v = 'a'").collect()
    java = spark._jvm
    assert java is not None, "a local session has a JVM of its own"
    return str(java.java.lang.System.getProperty("java.class.path"))


if __name__ == "__main__":
    print(rehearse())
