"""What the SQL front end costs, and TPC-H over tables of the store against the same engine over plain Parquet.

    python -m tests.benchmarks.sql [--scale 1] [--engines duckdb,spark]

Prints one line for each figure; answers of both sides are compared.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow.parquet as pq
from rich.console import Console

from resources import Session
from resources.sql.parsing import parse
from tests.tpch import KEYS, QUERIES, generate

ROUNDS = 3
out = Console()


def timed(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The median of some rounds, in seconds, after one that is not counted."""
    act()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return median(times)


def load(session: Session, directory: Path) -> None:
    for name, key in KEYS.items():
        rows = pq.read_table(directory / f"{name}.parquet")
        table = session.catalog.create_table(f"tpch.{name}", rows.schema, primary_key=key, options={"bucket": 4})
        table.write(rows)
        table.compact()
    session.sql("USE tpch", "duckdb")


def front_end(session: Session) -> None:
    """Parse a simple statement, look its table up, plan the read."""
    statements = session.statements

    def act() -> None:
        [tree] = parse("SELECT o_orderkey, o_totalprice FROM orders WHERE o_orderkey = 7")
        for table in statements.prepare(tree).inputs:
            assert table.scan().splits

    out.print(f"front end of a simple statement: {timed(act, 25) * 1000:.1f} ms")


def tpch_duckdb(session: Session, directory: Path, texts: list[str]) -> tuple[list[float], list[float]]:
    ours, plain = [], []
    with duckdb.connect(config={"threads": 4}) as connection:
        for name in KEYS:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{directory / f'{name}.parquet'}')")
        for text in texts:
            [tree] = parse(text)
            own = tree.sql("duckdb")
            assert session.sql(text, "duckdb").to_arrow().num_rows == connection.sql(own).to_arrow_table().num_rows
            ours.append(timed(lambda text=text: session.sql(text, "duckdb")))  # type: ignore[misc]
            plain.append(timed(lambda own=own: connection.sql(own).to_arrow_table()))  # type: ignore[misc]
    return ours, plain


def tpch_spark(session: Session, directory: Path, texts: list[str]) -> tuple[list[float], list[float]]:
    from resources.spark_session import start_spark

    spark: Any = start_spark(session.settings)
    for name in KEYS:
        spark.read.parquet(str(directory / f"{name}.parquet")).createOrReplaceTempView(name)
    ours, plain = [], []
    for text in texts:
        [tree] = parse(text)
        own = tree.sql("spark")
        ours.append(timed(lambda text=text: session.sql(text, "spark").to_arrow(), 1))  # type: ignore[misc]
        plain.append(timed(lambda own=own: spark.sql(own).toArrow(), 1))  # type: ignore[misc]
    return ours, plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--engines", default="duckdb,spark")
    given = parser.parse_args()
    texts = [statement.sql("databricks") for statement in parse(QUERIES.read_text())]
    with tempfile.TemporaryDirectory() as work:
        directory = Path(work) / "plain"
        generate(given.scale, directory)
        os.environ["SNAPLINE_HOME"] = str(Path(work) / "home")
        session = Session()
        load(session, directory)
        front_end(session)
        for engine, measure in (("duckdb", tpch_duckdb), ("spark", tpch_spark)):
            if engine in given.engines.split(","):
                ours, plain = measure(session, directory, texts)
                ratios = [own_seconds / other for own_seconds, other in zip(ours, plain, strict=True)]
                shown = " ".join(f"Q{number}:{ratio:.2f}" for number, ratio in enumerate(ratios, 1))
                out.print(
                    f"TPC-H scale {given.scale} on {engine}: {sum(ours):.1f} s here, {sum(plain):.1f} s over plain Parquet, "
                    f"{sum(ours) / sum(plain):.2f}x; median query {median(ratios):.2f}x; {shown}",
                    soft_wrap=True,
                )


if __name__ == "__main__":
    main()
