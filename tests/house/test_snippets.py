"""The Python and SQL of the documentation is carried out, page by page, over tables as the page supposes them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from platform_assets.partitions import months
from resources import Session, Settings, TableDefinition, TablesResource, sql_check, table_asset
from resources.spark_session import start_spark
from storage import Catalog, CommitId
from tests.house.generate_docs import DOCS

README = DOCS.parent / "README.md"

# Which blocks are not carried out here, by page and a piece of their text, and why.
ELSEWHERE = {
    ("extending.md", "# my_platform/"): "tests/house/test_extending.py runs them as a package",
    (
        "readers.md",
        "from pyiceberg.table import",
    ): "pyiceberg is in an environment of its own: tests/interop reads with it",
    ("readers.md", "'metadata.iceberg.storage' = 'hadoop-catalog'"): "tests/interop sets it and reads what follows",
    ("log.md", "'log.system' = 'kafka'"): "it needs a broker: tests/kafka does the same",
    ("log.md", "table.follow()"): "it needs a broker: tests/kafka does the same",
    ("kafka.md", "'connector' = 'kafka'"): "it needs a broker: tests/kafka/test_kafka_tables.py does the same",
    ("kafka.md", "'events-into-the-store'"): "it needs a broker: tests/kafka/test_topic_streams.py does the same",
    ("readers.md", "-- DuckDB"): "of DuckDB's extension: tests/interop reads with it",
    ("readers.md", "from pypaimon import"): "pypaimon is in an environment of its own: tests/interop reads with it",
    ("readers.md", "CREATE CATALOG snapline WITH ('type' = 'paimon'"): "of Flink",
}


@dataclass(frozen=True)
class Snippet:
    """A block of a page: its language, and its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def is_elsewhere(self) -> bool:
        return any(self.page.name == page and part in self.text for page, part in ELSEWHERE)


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(page, text.count("\n", 0, match.start()) + 2, match[1], match[2])
        for match in re.finditer(r"^```(python|sql)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


def of_page(name: str, language: str) -> list[Snippet]:
    page = README if name == "README.md" else DOCS / name
    return [each for each in snippets(page) if each.language == language and not each.is_elsewhere]


def carry_out(blocks: list[Snippet], names: dict[str, Any]) -> None:
    """Run blocks one after the other, with the lines of the page in tracebacks."""
    for block in blocks:
        exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), names)


FLIGHTS = pa.schema(
    [("month", pa.string()), ("carrier", pa.string()), ("flight", pa.int32()), ("dep_delay", pa.float64())]
)


def a_flight(month: str, number: int, delay: float) -> pa.Table:
    return pa.table([[month], ["UA"], [number], [delay]], schema=FLIGHTS)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """The flights of two months in the warehouse of the current directory, a tag for each month, and a table made of them."""
    monkeypatch.chdir(tmp_path)
    catalog = Catalog(str(tmp_path / ".snapline" / "warehouse"))
    flights = catalog.create_table(
        "core.flights",
        FLIGHTS,
        primary_key=["month", "carrier", "flight"],
        partition_by=["month"],
        options={"changelog-producer": "input"},
    )
    for month in ("2013-03", "2013-07"):
        flights.write(a_flight(month, 1, -90.0))
        flights.tags.create(month)
    delays = catalog.create_table("marts.daily_delays", pa.schema([("day", pa.string()), ("delay", pa.float64())]))
    delays.write(pa.table({"day": ["2013-03-01"], "delay": [3.5]}))
    yield catalog


def test_every_block_is_carried_out_somewhere() -> None:
    """A page with new blocks is added to one of the tests below, or its blocks to those that are not carried out."""
    here = {"README.md", "assets.md", "isolation.md", "sql.md"}
    pages = [README, *DOCS.rglob("*.md")]
    blocks = [block for page in pages for block in snippets(page)]
    assert len(blocks) > 15
    assert [str(block) for block in blocks if not block.is_elsewhere and block.page.name not in here] == []
    for name, part in ELSEWHERE:
        assert any(block.page.name == name and part in block.text for block in blocks), (
            f"{name} has no {part!r} any more"
        )


def test_the_readme_declares_assets_and_uses_the_store(shop: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in of_page("README.md", "python") if "readStream" not in block.text]
    names: dict[str, Any] = {
        "table_asset": table_asset,
        "sql_check": sql_check,
        "DataFrame": DataFrame,
        "dg": dg,
        "months": months,
        "corrections": a_flight("2013-07", 2, 4.0),
    }
    carry_out(blocks, names)
    assert isinstance(names["carrier_performance"], dg.AssetsDefinition)
    assert capsys.readouterr().out.startswith("disjoint: main has moved")
    rows = {
        (row["month"], row["flight"]): row["dep_delay"] for row in shop.table("core.flights").to_arrow().to_pylist()
    }
    assert rows == {("2013-03", 1): None, ("2013-07", 1): -90.0, ("2013-07", 2): 4.0}


def test_the_assets_of_the_page_can_be_declared() -> None:
    names: dict[str, Any] = {
        "table_asset": table_asset,
        "DataFrame": DataFrame,
        "dg": dg,
        "TablesResource": TablesResource,
        "TableDefinition": TableDefinition,
    }
    carry_out(of_page("assets.md", "python"), names)
    assert names["daily_delays"].key == dg.AssetKey(["marts", "daily_delays"])
    assert names["events"].key == dg.AssetKey(["core", "events"])


def test_a_change_of_ones_own_is_repeated(shop: Catalog) -> None:
    table = shop.create_table(
        "bank.accounts", pa.schema([("id", pa.int32()), ("amount", pa.int64())]), primary_key=["id"]
    )
    table.write(pa.table({"id": pa.array([1], pa.int32()), "amount": [100]}))
    changed = pa.table({"id": pa.array([1], pa.int32()), "amount": [101], "kind": ["+U"]})
    carry_out(of_page("isolation.md", "python"), {"table": table, "changed": changed})
    assert table.to_arrow().to_pylist() == [{"id": 1, "amount": 101}]


@pytest.fixture
def run_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WRITABLE_DIRECTORIES", f'["{tmp_path / "out"}"]')
    return lambda text: Session().sql(text, "duckdb")


def test_the_statements_of_the_page_on_sql(run_sql: Callable[[str], Any], tmp_path: Path) -> None:
    words, prices, exports = of_page("sql.md", "sql")
    counted = run_sql(words.text).to_arrow().to_pylist()
    assert {row["word"]: row["cnt"] for row in counted} == {"to": 2, "be": 2, "or": 1, "not": 1}
    schema = pa.schema([("id", pa.int64()), ("price", pa.float64())])
    table = Session().catalog.create_table("default.prices", schema, primary_key=["id"], options={"bucket": "1"})
    table.write(pa.table([[1, 2], [9.5, 3.0]], schema=schema), commit_id=CommitId("import", 1))
    table.write(pa.table([[2, 3], [3.5, 7.0]], schema=schema), commit_id=CommitId("correction", 1))
    answer = [tuple(row.values()) for row in run_sql(prices.text).to_arrow().to_pylist()]
    assert answer == [(1, 9.5, "import", 1), (2, 3.5, "correction", 2), (3, 7.0, "correction", 2)]
    run_sql("CREATE TABLE orders AS SELECT 1 AS id, DATE '2024-05-01' AS day")
    run_sql(exports.text.replace("/data/out", str(tmp_path / "out")))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["orders", "orders.csv.gz", "orders.parquet"]


@pytest.mark.spark
def test_the_readme_streams_into_a_mirror(shop: Catalog, spark_home: Path, tmp_path: Path) -> None:
    spark = start_spark(Settings.from_environment())
    mirror = shop.create_table_like("core.mirror", "core.flights")
    (block,) = [block for block in of_page("README.md", "python") if "readStream" in block.text]
    text = block.text.replace("/data/mirror", str(tmp_path / "mirror"))
    names = {"spark": spark, "uri": str(tmp_path / ".snapline" / "warehouse"), "mirror": mirror}
    streams = len(spark.streams.active)
    carry_out([Snippet(block.page, block.line, block.language, text)], names)
    started = spark.streams.active[streams:]
    try:
        for stream in started:
            stream.processAllAvailable()
    finally:
        for stream in started:
            stream.stop()
    assert mirror.count() == shop.table("core.flights").count() == 2
