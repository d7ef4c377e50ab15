"""Imports go downwards only, and the front doors offer what the documentation promises."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from resources.cli import cli
from resources.cli.lazy_commands import LazyCommand
from tests.house.measure import Sources, measure

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ["storage", "lineage", "resources", "platform_assets"]
# Rooms and files of each package by floor, from the ground up. Those on one floor do not know each other.
FLOORS: dict[str, list[set[str]]] = {
    "storage": [
        {"redaction", "value_kinds", "version", "metrics", "progress"},
        {"errors"},
        {
            "clock",
            "lazy",
            "date_pattern",
            "drafts",
            "extensions",
            "known_options",
            "client_errors",
            "client_properties",
            "local_file",
            "option_spelling",
            "option_texts",
            "retractable",
            "s3_options",
            "topic_range",
        },
        {"storage_options", "option_declaration", "accepted_values", "file_formats"},
        {"retention_options", "iceberg_options"},
        {
            "secret",
            "options",
            "log_options",
            "identifier",
            "lock",
            "store_errors",
            "document",
            "arguments",
            "extensions",
        },
        {
            "data_types",
            "object_store",
            "file_system",
            "directory_lock",
            "table_names",
            "options_without_effect",
            "option_checks",
        },
        {"values", "local_write", "object_creation"},
        {"paths", "file_io"},
        {"late_requests"},
        {"format", "journal", "catalog_options"},
        {"messages"},
        {"metadata"},
        {"lsm", "iceberg", "kafka"},
        {"read"},
        {"log"},
        {"write"},
        {"maintain"},
        {"sql"},
        {"basis", "condition", "derived", "same_table", "partitions"},
        {"system_tables", "row_changes", "not_null", "tags", "branches", "consumers", "description", "branch_history"},
        {"altering", "snapshots"},
        {"table_log"},
        {"commits"},
        {"matching_rows"},
        {"table_handle"},
        {"table_reading"},
        {"table_maintenance"},
        {"table"},
        {"publications"},
        {"branch_set", "notes", "views"},
        {"warehouse_check"},
        {"warehouse_contents"},
        {"drop_table", "rename_table"},
        {"create_table"},
        {"catalog"},
        {"testing"},
        {"engines"},
    ],
    "lineage": [
        {"entities", "url_parameters"},
        {"jdbc_url"},
        {"store", "schema"},
        {"guarded_store", "graph", "migrations", "database_url", "current_names", "forget", "generations", "testing"},
        {"carried_on", "catalog_records"},
        {"questions", "recorder", "drawing", "window", "sql_store"},
        {"comparison", "reconcile", "rebuild"},
    ],
    "resources": [
        {"spark_values"},
        {
            "setting_values",
            "metrics",
            "logs",
            "private_files",
            "ports",
            "java",
            "java_launch",
            "spark_home",
            "code_location",
            "resource_fields",
        },
        {"settings", "class_archive"},
        {"warehouse"},
        {"actions", "exports", "links", "spark_session"},
        {"spark_resource"},
        {"sql"},
        {"session"},
        {"openlineage_export", "rehearsal"},
        {"assets", "archive_classes"},
        {"recovery"},
        {"browser"},
        {"ui"},
        {"cli"},
    ],
    "platform_assets": [
        {"partitions"},
        {"flights", "marts", "raw", "word_count"},
        {"checks"},
        {"jobs"},
        {"definitions"},
    ],
}
ONLY_IN = {
    "pyspark": {"storage/engines", "resources", "platform_assets"},
    "duckdb": {"storage/engines", "resources"},
    "sqlalchemy": {"lineage/schema.py", "lineage/migrations.py", "lineage/database_url.py", "lineage/sql_store.py"},
    "dagster": {"resources", "platform_assets"},
    "fastavro": {"storage/format/avro.py"},
    "confluent_kafka": {"storage/log/kafka_log.py", "storage/log/kafka_publisher.py", "storage/kafka/client.py"},
    "openlineage": {"resources/openlineage_export.py"},
    "opentelemetry": {"resources/metrics.py"},
    "sqlglot": {"storage/sql", "resources/sql"},
}


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@functools.cache
def imports(path: Path, *, at_run_time: bool = False) -> list[tuple[list[str], str, int]]:
    """What a module imports: the absolute dotted parts, the written text, the line."""
    return [*_imports(path, at_run_time=at_run_time)]


def _imports(path: Path, *, at_run_time: bool) -> Iterator[tuple[list[str], str, int]]:
    package = list(path.relative_to(ROOT).parts[:-1])
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner) for node in (ast.walk(tree) if at_run_time else ()) if _is_for_types(node) for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split("."), alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = base + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield [*parts, alias.name], ast.unparse(node), node.lineno


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def floor_of(package: str, room: str) -> int:
    return next(index for index, floor in enumerate(FLOORS[package]) if room in floor)


def test_every_room_has_a_floor() -> None:
    for package, floors in FLOORS.items():
        parts = [path.relative_to(ROOT).parts for path in modules()]
        rooms = {rest[0].removesuffix(".py") for own, *rest in parts if own == package}
        assert rooms - {"__init__"} == set().union(*floors), package


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_below_and_through_front_doors(path: Path) -> None:
    package, *rest = path.relative_to(ROOT).parts
    own = rest[0].removesuffix(".py")
    for parts, text, line in imports(path):
        if parts[0] not in PACKAGES:
            continue
        where = f"{path.relative_to(ROOT)}:{line}: {text}"
        assert PACKAGES.index(parts[0]) <= PACKAGES.index(package), f"{where} goes upwards"
        if parts[0] != package:
            # Across packages: the front door, or one of the other doors of the store.
            through = len(parts) == 2 or parts[:2] in (["storage", "engines"], ["storage", "sql"])
            assert through, f"{where} goes around the front door"
        elif own not in ("__init__", parts[1]):
            assert floor_of(package, parts[1]) < floor_of(package, own), f"{where} goes upwards"


def test_no_modules_import_each_other_in_a_circle() -> None:
    """What is imported for annotations alone is left out: it is not there when the code runs."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in modules()}
    graph = {
        name: {_module(parts, names) for parts, _, _ in imports(path, at_run_time=True)} - {"", name}
        for name, path in names.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def _module(parts: list[str], names: Collection[str]) -> str:
    """The module that an import leads to; empty for those of elsewhere, and for packages, whose front doors import all rooms."""
    return next((name for end in (len(parts), len(parts) - 1) if (name := ".".join(parts[:end])) in names), "")


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if not path.is_relative_to(ROOT / "storage")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_nobody_outside_the_store_reaches_through_a_table_for_what_it_works_on(path: Path) -> None:
    """`table.store` is for the rooms of the store; others have `table.snapshots` and its like. Lineage has its own stores."""
    reached = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr == "store"
        and ast.unparse(node.value) not in ("self", "recorder")
    ]
    assert not reached, f"{path.relative_to(ROOT)}: lines {reached}"


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_in_its_rooms_alone(library: str) -> None:
    for path in modules():
        place = str(path.relative_to(ROOT))
        if not any(place == room or place.startswith(f"{room}/") for room in ONLY_IN[library]):
            assert not [text for parts, text, _ in imports(path) if parts[0] == library], place


def test_duckdb_is_opened_in_one_place() -> None:
    """Where the doors of a connection are closed; `from_arrow` gives an asset's own function, which is Python, its rows."""
    opens = re.compile(r"\bduckdb\.(connect|sql|query|execute|read_\w+|from_(?!arrow)\w+|default_connection)\(")
    openers = [str(path.relative_to(ROOT)) for path in modules() if opens.search(path.read_text())]
    assert openers == ["storage/engines/duckdb_connection.py"]


def test_importing_the_store_loads_no_engine() -> None:
    engines = ("dagster", "pyspark", "duckdb", "sqlalchemy", "sqlglot", "pandas", "confluent_kafka")
    script = f"import sys, storage; print([one for one in {engines} if one in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"


def test_a_table_without_a_log_loads_no_client_of_one(tmp_path: Path) -> None:
    """Neither the client nor the room's own doors to it, whatever is done to the table."""
    script = """
import sys
import pyarrow as pa
from storage import Catalog
table = Catalog(sys.argv[1]).create_table("a.t", pa.schema([("k", pa.int64())]), primary_key=["k"])
table.write(pa.table({"k": [1]}))
table.rollback_to(1), table.compact(), table.expire(retain_last=1), table.describe(), table.check()
definitions = ("storage.kafka", "storage.kafka.definition", "storage.kafka.tables")
print([name for name in sys.modules if "kafka" in name and name not in definitions])
"""
    shown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "w")], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert shown.stdout.strip() == "[]"


def test_a_worker_of_spark_loads_no_parser_of_sql() -> None:
    """Each kind of worker imports what it needs anew, and a stream for itself."""
    script = "import sys, storage.engines.spark_reader; print([name for name in sys.modules if 'sqlglot' in name])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert shown.stdout.strip() == "[]"


def test_the_command_line_loads_no_engine_until_a_command_needs_one() -> None:
    """Neither for its commands on tables, nor to list them, nor for what a shell completes."""
    engines = ("dagster", "pyspark", "sqlalchemy", "sqlglot", "pandas", "starlette")
    script = f"""
import os, sys
from resources.cli import answer
sys.argv = ["snapline", *sys.argv[1:]]
try:
    answer()
except SystemExit:
    pass
print("loaded", [one for one in {engines} if one in sys.modules])
"""
    completing = {"_SNAPLINE_COMPLETE": "bash_complete", "COMP_WORDS": "snapline re", "COMP_CWORD": "1"}
    for arguments, more in ((["--help"], {}), (["compact", "--help"], {}), ([], completing)):
        shown = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, **more},
        )
        assert "recovery" in shown.stdout or "compact" in shown.stdout, shown.stderr
        assert shown.stdout.splitlines()[-1] == "loaded []", arguments


def test_a_command_that_waits_says_the_same_before_and_after_it_is_loaded() -> None:
    for name, command in cli.commands.items():
        if isinstance(command, LazyCommand):
            assert command.load().name == name
            assert command.get_short_help_str(1000) == command.load().get_short_help_str(1000)


def test_own_imports_in_functions_are_few_and_say_what_waits_behind_them() -> None:
    own_imports = [each for package in PACKAGES for each in measure(Sources(), package).own_imports]
    assert len(own_imports) < 10
    for each in own_imports:
        above = (ROOT / each.path).read_text().splitlines()[each.line - 2]
        assert above.lstrip().startswith("# "), f"{each} says no reason"


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
