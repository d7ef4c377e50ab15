"""What is installed without extras is enough for the store, and brings neither Spark nor Dagster nor a database."""

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Imports of modules that the base install does not bring fail, as they would there.
_ALONE = """
import sys
from importlib.abc import MetaPathFinder

absent = set(sys.argv[2].split(","))

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())

import pyarrow as pa
from storage import AddColumn, Catalog

catalog = Catalog(sys.argv[1])
schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("price", pa.decimal128(9, 2)), ("note", pa.string())])
options = {"changelog-producer": "lookup", "file.format": sys.argv[3], "file-index.bloom-filter.columns": "note"}
table = catalog.create_table("shop.orders", schema, primary_key=["day", "id"], partition_by=["day"], options=options)
rows = [{"day": "2024-05-01", "id": id, "price": None, "note": f"n{id}"} for id in range(100)]
for _ in range(6):
    table.write(pa.Table.from_pylist(rows, schema))
table.delete("note = 'n7' OR id BETWEEN 90 AND 95")
table.update("id = 3", {"note": "changed"})
table.alter(AddColumn("extra", "INT"))
table.tags.create("before")
table.branches.create("fix", tag="before")
table.on_branch("fix").delete("id > 50")
table.branches.merge("fix")
table.compact(full=True)
table.rollback_to("before")
table.expire(retain_last=1)
kept = table.to_arrow(where="day = '2024-05-01' AND (id < 10 OR note LIKE 'n8%')")
print(kept.num_rows, len(table.check(deep=True)))
"""


def installed_with(requirement: str, seen: set[str]) -> set[str]:
    """The distributions that a requirement brings, those of others included."""
    wanted = Requirement(requirement)
    name = canonicalize_name(wanted.name)
    if name in seen or (wanted.marker is not None and not wanted.marker.evaluate({"extra": ""})):
        return seen
    seen.add(name)
    try:
        needed = distribution(name).requires or []
    except PackageNotFoundError:
        return seen
    for each in needed:
        marker = Requirement(each).marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
            installed_with(each.partition(";")[0], seen)
    return seen


def base_install() -> set[str]:
    seen: set[str] = set()
    for requirement in PROJECT["dependencies"]:
        installed_with(requirement, seen)
    return seen


def test_the_store_alone_brings_no_engine() -> None:
    heavy = {
        "pyspark",
        "dagster",
        "dagster-pyspark",
        "dagster-webserver",
        "duckdb",
        "pandas",
        "sqlalchemy",
        "click",
        "rich",
    }
    assert not base_install() & heavy
    assert len(base_install()) < 15


def test_what_the_customer_asks_for_is_part_of_the_platform() -> None:
    extras = PROJECT["optional-dependencies"]
    named = {Requirement(each).name for extra in ("platform", "duckdb", "lineage", "spark") for each in extras[extra]}
    assert {"dagster", "dagster-pyspark", "duckdb", "pyspark", "sqlalchemy"} <= named


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_store_works_with_what_is_installed_without_extras(file_format: str, tmp_path: Path) -> None:
    base = base_install() | {"snapline"}
    absent = [top for top, names in packages_distributions().items() if not {*map(canonicalize_name, names)} & base]
    assert {"duckdb", "pyspark", "pandas"} <= {*absent}
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, str(tmp_path / "warehouse"), ",".join(absent), file_format],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["19", "0"]
