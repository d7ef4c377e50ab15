"""The page on extensions tells the truth: its examples, as a package of somebody else's, pass their contract tests."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.own_pytest import run_pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """A directory with the package of the page, as it lies where packages are installed."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "tests" / "fixtures" / "extension", site)
    snippets = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    names = ("actions", "checks", "feather", "highest")
    tested = ("actions", "statements", "checks", "lineage_in_memory", "highest", "feather")
    assert {name for name, _ in snippets} == {
        "my_platform/conftest.py",
        *(f"my_platform/{name}.py" for name in names),
        *(f"my_platform/test_{name}.py" for name in tested),
    }
    for name, code in snippets:
        (site / name).write_text(code)
    points = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert points is not None
    installed = site / "my_platform-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-platform\nVersion: 1.0\n")
    text = re.sub(r'\[project\.entry-points\."(\S+)"\]', r"[\1]", points[1])
    (installed / "entry_points.txt").write_text(text.replace('"', ""))
    return site


def environment_of(extension: Path, home: Path) -> dict[str, str]:
    """One in which the package is installed."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(extension), str(ROOT)]), "SNAPLINE_HOME": str(home)}


def run(extension: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env=environment_of(extension, home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def snapline(extension: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(extension, home, "-c", "from resources.cli import main; main()", *words)


def test_what_a_package_adds_passes_its_contracts(extension: Path, tmp_path: Path) -> None:
    done = run_pytest(
        str(extension / "my_platform"), cwd=tmp_path, env=environment_of(extension, tmp_path), timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 12


def test_an_action_of_a_package_is_a_command_and_a_procedure(extension: Path, tmp_path: Path) -> None:
    made = snapline(
        extension,
        tmp_path,
        "sql",
        "--engine",
        "duckdb",
        "CREATE TABLE shop.orders AS SELECT 1 AS id, CAST(NULL AS INT) AS amount; CALL sys.peek('shop.orders'); "
        "PEEK TABLE shop.orders ROWS 1",
    )
    assert made.returncode == 0, made.stderr
    shown = snapline(extension, tmp_path, "table", "peek", "shop.orders", "--format", "json")
    assert json.loads(shown.stdout) == [{"column": "id", "values": "1"}, {"column": "amount", "values": "0"}]
    assert "How many rows." in snapline(extension, tmp_path, "table", "peek", "--help").stdout


def test_a_catalog_keeps_its_lineage_in_the_store_of_a_package(extension: Path, tmp_path: Path) -> None:
    statement = f"CREATE CATALOG mine WITH ('warehouse' = '{tmp_path}/mine', 'lineage-meta' = 'memory', 'data-lineage' = 'true')"
    made = snapline(
        extension,
        tmp_path,
        "sql",
        "--engine",
        "duckdb",
        f"{statement}; CREATE TABLE mine.a.t AS SELECT 1 AS x; CREATE TABLE mine.a.u AS SELECT * FROM mine.a.t; "
        'SELECT "table" AS made_of FROM mine.paimon.source_snapshot_lineage'.replace('"table"', "`table`"),
    )
    assert made.returncode == 0, made.stderr
    assert "made_of" in made.stdout and " t " in made.stdout


TABLE = (
    "CREATE TABLE shop.best (id BIGINT, points INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', "
    "'merge-engine' = 'highest', 'file.format' = 'feather'); INSERT INTO shop.best VALUES (1, 5), (2, 7); "
    "INSERT INTO shop.best VALUES (1, 3), (2, 9); SELECT * FROM shop.best ORDER BY id"
)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_tables_with_an_engine_and_a_format_of_a_package_are_used_in_sql(
    extension: Path, tmp_path: Path, engine: str
) -> None:
    done = snapline(extension, tmp_path, "sql", "--engine", engine, "--format", "json", TABLE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.rindex("\n[") :]) == [{"id": 1, "points": 5}, {"id": 2, "points": 9}], (
        done.stdout
    )
    assert list(tmp_path.rglob("data-*.feather"))
    # Where the package is not installed.
    shutil.rmtree(extension)
    missing = snapline(extension, tmp_path, "sql", "--engine", engine, "SELECT * FROM shop.best")
    assert missing.returncode == 2 and "'merge-engine' = 'highest'" in missing.stderr, missing.stderr
    assert "Traceback" not in missing.stderr


def test_the_check_of_the_page_can_be_declared(extension: Path, tmp_path: Path) -> None:
    done = run(
        extension, tmp_path, "-c", "from my_platform.checks import enough_orders as it; print(sorted(it.check_keys))"
    )
    assert "enough_orders" in done.stdout, done.stderr


def test_actions_that_cannot_be_loaded_name_their_package(extension: Path, tmp_path: Path) -> None:
    (extension / "my_platform" / "actions.py").write_text("import nothing_of_this_name\n")
    done = snapline(extension, tmp_path, "tables")
    assert done.returncode == 0, "what does not need them goes on"
    assert "package my-platform cannot be loaded: ModuleNotFoundError: No module named 'nothing_of" in done.stderr
    assert "Traceback" not in done.stderr
    assert "No such command" in snapline(extension, tmp_path, "table", "peek", "shop.orders").stderr


@pytest.mark.parametrize(
    ("command", "function", "taken"),
    [("table compact", "compacted", "'table compact'"), ("table shrink", "compact", "compact")],
)
def test_actions_take_the_place_of_no_others(
    extension: Path, tmp_path: Path, command: str, function: str, taken: str
) -> None:
    own = extension / "my_platform" / "actions.py"
    text = own.read_text()
    # The first is taken back as well: a package's actions are there, or not.
    own.write_text(text + text.replace('"table peek"', f'"{command}"').replace("def peek", f"def {function}"))
    done = snapline(extension, tmp_path, "table", "compact", "--help")
    assert f"there is one of the name {taken}" in done.stderr
    assert "How many rows." not in done.stdout
    assert "No such command" in snapline(extension, tmp_path, "table", "peek", "shop.orders").stderr
