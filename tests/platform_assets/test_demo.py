"""The demo as its users see it: all flights, their snapshots, tags and lineage; and as pypaimon reads it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog

if TYPE_CHECKING:
    from .conftest import Demo

pytestmark = pytest.mark.dagster
FLIGHTS = 336_776
TABLES = {
    "core.flights": FLIGHTS,
    "example.word_counts": 16,
    "example.words": 22,
    "marts.carrier_performance": 16,
    "marts.daily_delays": 1095,
    "marts.delay_by_weather": 27,
    "raw.airlines": 16,
    "raw.airports": 1458,
    "raw.flights": FLIGHTS,
    "raw.planes": 3322,
    "raw.weather": 26115,
}
MONTHS = [f"2013-{month:02d}" for month in range(1, 13)]


def snapline(demo: "Demo", *arguments: str) -> str:
    program = Path(sys.executable).with_name("snapline")
    env = os.environ | {"SNAPLINE_HOME": str(demo.home)}
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True, env=env).stdout


def test_every_table_is_there_and_a_second_run_over_the_same_files_commits_nothing(demo: "Demo") -> None:
    catalog = Catalog(demo.warehouse)
    assert {name: catalog.table(name).count() for name in catalog.tables()} == TABLES
    for name, count in TABLES.items():
        assert catalog.table(name).store.snapshots.ids() == [1]
        assert catalog.table(name).count(version=1) == count
    assert all("6 of 6 asset checks passed" in printed for printed in demo.printed)


def test_dagster_loads_the_code_location(tmp_path: Path) -> None:
    """As the webserver does, which is stricter than an import."""
    env = os.environ | {"DAGSTER_HOME": str(tmp_path)}
    (tmp_path / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("dagster")), "definitions", "validate", "-w", "workspace.yaml"],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_query_of_the_readme_counts_all_flights(demo: "Demo") -> None:
    shown = snapline(demo, "query", "--format", "json", "SELECT count(*) AS n FROM core.flights")
    assert json.loads(shown) == [{"n": FLIGHTS}]


def test_every_month_is_a_partition_and_a_tag(demo: "Demo") -> None:
    table = Catalog(demo.warehouse).table("core.flights")
    assert table.system_table("partitions")["partition"].to_pylist() == [f"month={month}" for month in MONTHS]
    assert [(tag.name, tag.snapshot.id) for tag in table.tags.list()] == [(month, 1) for month in MONTHS]


def test_lineage_leads_from_a_mart_down_to_the_raw_tables(demo: "Demo") -> None:
    shown = snapline(demo, "lineage", "marts.carrier_performance")
    assert shown.splitlines() == [
        "marts.carrier_performance@1",
        "├── core.flights@1",
        "│   └── raw.flights@1",
        "├── raw.airlines@1",
        "└── raw.planes@1",
    ]
    down = snapline(demo, "lineage", "raw.flights@1", "--down")
    assert "marts.daily_delays@1" in down
    assert "@2" not in down


def test_the_marts_say_what_duckdb_computes_from_the_raw_files(demo: "Demo") -> None:
    sql = """
        SELECT count(*) AS wrong FROM marts.daily_delays d
        JOIN (SELECT make_date(year, month, day) AS day, origin, count(*) AS flights, avg(dep_delay) AS mean,
                     count(*) FILTER (WHERE dep_time IS NULL) AS cancelled
              FROM raw.flights GROUP BY ALL) r USING (day, origin)
        WHERE d.flights <> r.flights OR d.cancelled <> r.cancelled OR abs(d.mean_dep_delay - r.mean) > 1e-9
    """
    assert json.loads(snapline(demo, "query", "--format", "json", sql)) == [{"wrong": 0}]


READ_ALL = """
import sys
import pyarrow.parquet as pq
from pypaimon import CatalogFactory
warehouse, target, names = sys.argv[1], sys.argv[2], sys.argv[3:]
catalog = CatalogFactory.create({"warehouse": warehouse})
for name in names:
    builder = catalog.get_table(name).new_read_builder()
    pq.write_table(builder.new_read().to_arrow(builder.new_scan().plan().splits()), f"{target}/{name}.parquet")
"""


def sorted_rows(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


@pytest.mark.pypaimon
def test_pypaimon_reads_every_table_with_the_same_rows(
    demo: "Demo", run_pypaimon: Callable[..., str], tmp_path: Path
) -> None:
    catalog = Catalog(demo.warehouse)
    run_pypaimon(READ_ALL, demo.warehouse, str(tmp_path), *catalog.tables())
    for name in catalog.tables():
        ours = catalog.table(name).to_arrow()
        theirs = pq.read_table(tmp_path / f"{name}.parquet").select(ours.column_names).cast(ours.schema)
        assert sorted_rows(theirs).equals(sorted_rows(ours)), name


def test_a_definition_location_loads_without_a_warning() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::DeprecationWarning:platform_assets",
            "-c",
            "from platform_assets.definitions import defs; defs.resolve_all_job_defs(); print(len(list(defs.assets)))",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Each has a twin in the recovery graph.
    assert int(done.stdout) == 2 * len(TABLES)
    assert "Warning" not in done.stderr
