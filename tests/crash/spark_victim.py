"""Write to a table by Spark until somebody kills this process: commit n sets `v` of every row to n.

    python spark_victim.py DIRECTORY

Prints `begun n` before and `done n` after each commit, which is tried until it lands.
"""

import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F

from resources import Settings
from resources.spark_session import start_spark
from storage import Catalog, CommitId, NotFound, Table
from storage.engines.spark_writer import write_frame

ROWS = 20_000
USER = "spark"


def table_in(directory: Path) -> Table:
    catalog = Catalog(str(directory / "warehouse"))
    try:
        return catalog.table("shop.orders")
    except NotFound:
        schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
        return catalog.create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 4})


def main(directory: Path) -> None:
    warehouse = str(directory / "warehouse")
    session = start_spark(Settings(directory, warehouse, f"jdbc:sqlite:{directory}/lineage.db"))
    table = table_in(directory)
    newest = next((snapshot for snapshot in table.store.snapshots.backwards() if snapshot.commit_user == USER), None)
    # The last commit is made again: a scheduler would not know that it landed.
    number = newest.commit_identifier if newest else 1
    while True:
        print(f"begun {number}", flush=True)
        rows = session.range(ROWS).select("id", F.lit(number).cast("long").alias("v"))
        while True:
            try:
                write_frame(rows, table, warehouse, commit_id=CommitId(USER, number))
                break
            except Exception as error:
                print(f"failed {number} {type(error).__name__}", flush=True)
        print(f"done {number}", flush=True)
        number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
