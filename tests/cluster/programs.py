"""Programs that run on hosts which have no checkout: texts for `python -c`."""

# A Spark job of somebody's own, which knows the format alone: appends of 10 rows each, numbered from a number on.
PLAIN_SPARK_JOB = """
import json, os, sys
from pyspark.sql import SparkSession
from storage.engines.spark_reader import register

name, commits, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
builder = SparkSession.builder.appName(name).master(os.environ["SNAPLINE_SPARK_MASTER"])
for key, value in json.loads(os.environ["SNAPLINE_SPARK_CONFIG"]).items():
    builder = builder.config(key, value)
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
register(spark)
options = {f"storage.{key}": value for key, value in json.loads(os.environ["SNAPLINE_STORAGE_OPTIONS"]).items()}
for number in range(commits):
    begin = first + 10 * number
    rows = spark.range(begin, begin + 10).selectExpr("id", f"'{name}' AS writer")
    writer = rows.write.format("snapline").options(**options).option("warehouse", os.environ["SNAPLINE_WAREHOUSE"])
    writer.option("commit-user", name).option("commit-identifier", str(number)).mode("append").save("lake.shared")
    print(number, flush=True)
"""

# TPC-H: the tables from a directory of Parquet files, then its queries on Spark; their rows as JSON.
TPCH = """
import json, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from resources import Session

directory, keys, queries = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
session = Session()
for name, key in keys.items():
    rows = pq.read_table(directory / f"{name}.parquet")
    rows = rows.cast(pa.schema([pa.field(field.name, field.type, field.name not in key) for field in rows.schema]))
    table = session.catalog.create_table(
        f"tpch.{name}", rows.schema, primary_key=key, options={"bucket": 2, "write-only": True}
    )
    table.write(rows)
    table.write(rows.slice(0, rows.num_rows // 3))
session.sql("USE tpch", "duckdb")
print(json.dumps([session.sql(query, "spark").to_arrow().to_pylist() for query in queries], default=str))
"""
