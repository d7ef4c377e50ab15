"""Imports go downwards only, and the front doors offer what the documentation promises."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ["storage", "lineage", "resources", "platform_assets"]
# Rooms and files of the store by floor, from the ground up. Rooms on one floor do not know each other.
FLOORS = [
    {"redaction", "version"},
    {"errors"},
    {"clock", "lazy", "date_pattern", "known_options", "local_file"},
    {"secret", "options", "identifier", "lock", "store_errors", "document", "arguments"},
    {"data_types", "object_store", "options_without_effect"},
    {"values"},
    {"paths", "file_io"},
    {"format", "journal"},
    {"metadata"},
    {"lsm"},
    {"read", "write"},
    {"maintain"},
    {"sql"},
    {"basis", "derived", "same_table"},
    {"system_tables", "row_changes", "not_null", "tags", "branches", "consumers", "description", "branch_history"},
    {"table"},
    {"publications"},
    {"branch_set", "notes", "views"},
    {"warehouse_check"},
    {"catalog"},
    {"engines"},
]
ONLY_IN = {
    "pyspark": {"storage/engines", "resources", "platform_assets"},
    "duckdb": {"storage/engines", "resources"},
    "sqlalchemy": {"lineage/schema.py", "lineage/migrations.py", "lineage/database_url.py", "lineage/sql_store.py"},
    "dagster": {"resources", "platform_assets"},
    "fastavro": {"storage/format/avro.py"},
    "openlineage": {"resources/openlineage.py"},
    "sqlglot": {"storage/sql", "resources/sql"},
}


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imports(path: Path) -> Iterator[tuple[list[str], str, int]]:
    """What a module imports: the absolute dotted parts, the written text, the line."""
    package = list(path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.name.split("."), one.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = base + (node.module.split(".") if node.module else [])
            for one in node.names:
                yield [*parts, one.name], ast.unparse(node), node.lineno


def floor_of(room: str) -> int:
    return next(index for index, floor in enumerate(FLOORS) if room in floor)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_below_and_through_front_doors(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for parts, text, line in imports(path):
        if parts[0] not in PACKAGES:
            continue
        where = f"{path.relative_to(ROOT)}:{line}: {text}"
        assert PACKAGES.index(parts[0]) <= PACKAGES.index(package), f"{where} goes upwards"
        if parts[0] != package:
            # Across packages: the front door, or one of the other doors of the store.
            through = len(parts) == 2 or parts[:2] in (["storage", "engines"], ["storage", "sql"])
            assert through, f"{where} goes around the front door"
        elif package == "storage" and path.parent != ROOT / "storage":
            own, other = path.relative_to(ROOT).parts[1], parts[1]
            if own != other:
                assert floor_of(other) < floor_of(own), f"{where} goes upwards"
        elif package == "storage" and path.stem != "__init__":
            assert floor_of(parts[1]) < floor_of(path.stem), f"{where} goes upwards"


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_in_its_rooms_alone(library: str) -> None:
    for path in modules():
        place = str(path.relative_to(ROOT))
        if not any(place == room or place.startswith(f"{room}/") for room in ONLY_IN[library]):
            assert not [text for parts, text, _ in imports(path) if parts[0] == library], place


def test_duckdb_is_opened_in_one_place() -> None:
    """Where the doors of a connection are closed; `from_arrow` gives an asset's own function, which is Python, its rows."""
    opens = re.compile(r"\bduckdb\.(connect|sql|query|execute|read_\w+|from_(?!arrow)\w+|default_connection)\(")
    found = [str(path.relative_to(ROOT)) for path in modules() if opens.search(path.read_text())]
    assert found == ["storage/engines/duckdb_connection.py"]


def test_importing_the_store_loads_no_engine() -> None:
    engines = ("dagster", "pyspark", "duckdb", "sqlalchemy", "sqlglot", "pandas")
    script = f"import sys, storage; print([one for one in {engines} if one in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["storage", "lineage", "resources"])
def test_a_front_door_offers_what_the_architecture_page_lists(package: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.search(rf"^`{package}`: (.+)$", page, re.MULTILINE)
    assert listed is not None, f"docs/architecture.md lists no names of {package}"
    module = __import__(package)
    assert sorted(re.findall(r"`(\w+)`", listed[1])) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_there_is_no_drawer_for_everything() -> None:
    names = {path.stem for path in modules()}
    assert not names & {"util", "utils", "common", "helpers", "misc"}
