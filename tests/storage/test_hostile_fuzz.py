"""Tables of which every byte of metadata is somebody else's: whatever they say, nothing outside of them is read or deleted,
nothing is run, and no secret is shown. `make test-long` tries 10,000 of them.
"""

import contextlib
import importlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from resources import Session, Settings
from resources.assets.reproduce import Reproducer
from resources.sql.duckdb_select import run_query
from storage import Catalog, StorageError, Table
from storage.document import CHECKSUM
from storage.metadata import manifest
from tests.scale import blocks, seeds, try_seeds
from tests.storage.test_hostile_metadata import (
    OPERATIONS,
    Witness,
    build,
    change_avro,
    files_but,
    hostile_values,
    settle,
)

pytestmark = pytest.mark.pypaimon_differs("metadata is forged on purpose")
SECRET = "m4rk3r-Zq7-of-the-environment"
_VARIABLE = "SNAPLINE_TEST_HOSTILE"
_CANARY = "the rows of somebody else"
# What Python itself does when it runs something, or calls somebody.
_RUNS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "pickle.find_class",
    "socket.connect",
    "ctypes.dlopen",
)
_TOUCHES = (
    "open",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
)
# Sizes of one million in a forged number cost time; of more, whoever reads refuses them or not, at the price of memory.
_MOST = 1_000


class Watch:
    """What this process opens, removes, renames and starts, as Python's own audit tells: below or beside the store."""

    def __init__(self) -> None:
        self.home = ""
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] = []
        self.calls = 0
        # Whoever reproduces loads it; it asks the machine for its architecture then.
        importlib.import_module("dagster")
        sys.addaudithook(self._notice)

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        # A hook cannot be taken away: out of a test it looks at nothing.
        if not self.home:
            return
        if event in _RUNS:
            self.seen.append(f"{event} {arguments[:1]}")
        elif event in _TOUCHES:
            for argument in arguments[:2]:
                if isinstance(argument, str | bytes | os.PathLike):
                    path = os.path.normpath(os.fsdecode(argument))
                    self.calls += 1
                    # What leads to an allowed place is made if it is not there.
                    leads = event == "os.mkdir" and any(allowed.startswith(path) for allowed in self.allowed)
                    if path.startswith(self.home) and not path.startswith(self.allowed) and not leads:
                        self.seen.append(f"{event} {path}")

    @contextlib.contextmanager
    def over(self, home: Path, *allowed: Path) -> Iterator[None]:
        self.allowed = tuple(str(path) for path in allowed)
        self.seen.clear()
        self.home = str(home)
        try:
            yield
        finally:
            self.home = ""


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with all kinds of files of metadata, and beside it what is nobody's business."""
    home = tmp_path_factory.mktemp("model") / "home"
    home.mkdir()
    build(home / "warehouse")
    for name in ("canary", "secrets/canary", "warehouse/canary", "warehouse/a.db/canary"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(_CANARY)
    # What libraries do when they are first used is no answer to an attack.
    honest = shutil.copytree(home, home.parent / "honest")
    settings = Settings(honest / "platform", str(honest / "warehouse"), f"jdbc:sqlite:{honest}/lineage.db")
    for act in acts(Catalog(settings.warehouse), settings, "a.t").values():
        with contextlib.suppress(StorageError):
            act()
    return home


def payloads(home: Path, table: Path) -> list[Any]:
    """Values that would do something if anybody believed them: paths, code, references, and what fits nowhere."""
    canary = home / "canary"
    return [
        *hostile_values(home, table)[:-3],
        f"${{env:{_VARIABLE}}}",
        f"(SELECT max(content) FROM read_text('{canary}'))",
        f"java_method('java.lang.Runtime', 'exec', 'touch {home}/ran')",
        "reflect('java.lang.System', 'exit', '1')",
        f"cos\nsystem\n(S'touch {home}/ran'\ntR.",
        f"__import__('os').system('touch {home}/ran')",
        f"read_text('{canary}')",
        f"'); COPY (SELECT 1) TO '{home}/ran'; --",
        f"getenv('{_VARIABLE}')",
        f"file://{canary}",
        f"$({home}/ran)",
        "{0}",
        "%(x)s",
        -1,
        0,
        1,
        _MOST,
        True,
        None,
        [],
        {},
        1.5,
        "NaN",
        "9" * 30,
        [str(canary)],
        {"x": str(canary)},
        "\u202e",
        "'\"`",
    ]


def metadata_of(table: Path) -> list[Path]:
    """All files of a table but its data; its share of the warehouse's journal."""
    files = [path for path in table.rglob("*") if path.is_file() and "bucket-" not in str(path)]
    return sorted([*files, *(table.parents[1] / ".journal").glob("*")])


def forge_bytes(chosen: random.Random, content: bytes, values: list[Any]) -> bytes:
    at = chosen.randrange(len(content) + 1)
    end = min(len(content), at + chosen.choice((0, 1, 4, 40)))
    evil = str(chosen.choice(values)).encode(errors="replace")
    put = chosen.choice(
        (b"", chosen.randbytes(chosen.choice((1, 8, 64))), evil, content[: chosen.randrange(len(content) + 1)])
    )
    return content[:at] + put + content[end:]


def forge_value(chosen: random.Random, value: Any, values: list[Any]) -> Any:
    """The same with one of its parts, however deep, made evil."""
    if isinstance(value, dict) and value and chosen.random() < 0.9:
        key = chosen.choice(list(value))
        return {**value, key: forge_value(chosen, value[key], values)}
    if isinstance(value, list) and value and chosen.random() < 0.9:
        at = chosen.randrange(len(value))
        return [*value[:at], forge_value(chosen, value[at], values), *value[at + 1 :]]
    return chosen.choice(values)


def forge_options(chosen: random.Random, value: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    """A schema with computed columns, watermarks and options of an attacker's choice."""
    texts = [text for text in values if isinstance(text, str)]
    evil = {
        "schema.9.name": "x",
        "schema.9.expr": chosen.choice(texts),
        "schema.watermark.0.rowtime": "v",
        "schema.watermark.0.strategy.expr": chosen.choice(texts),
        "data-file.external-paths": chosen.choice(texts),
        "partition.default-name": chosen.choice(texts),
        "path": chosen.choice(texts),
        "branch": chosen.choice(texts),
        "sequence.field": chosen.choice(texts),
        "file.format": chosen.choice(["orc", "avro", *texts]),
        "jdbc.password": SECRET[:0] + chosen.choice(texts),
        chosen.choice(texts): chosen.choice(texts),
    }
    keys = chosen.sample(sorted(evil), chosen.randrange(1, 4))
    if "schema.9.expr" in keys:
        keys.append("schema.9.name")
    return {**value, "options": {**value.get("options", {}), **{key: evil[key] for key in keys}}}


def forge(chosen: random.Random, path: Path, values: list[Any]) -> str:
    """Change a file of metadata in one of the ways; returns which."""
    content = path.read_bytes()
    way = chosen.choice(("bytes", "value", "value", "options" if "schema" in path.name else "value"))
    if path.name.startswith("manifest") or path.name.startswith("index-manifest"):
        way = chosen.choice(("bytes", "avro", "avro"))
    try:
        if way == "avro":
            change_avro(path, lambda record: record.update(forge_value(chosen, record, values)))
        elif way != "bytes":
            value = json.loads(content)
            changed = (forge_options if way == "options" else forge_value)(chosen, value, values)
            if isinstance(changed, dict):
                changed = {key: forged for key, forged in changed.items() if key != CHECKSUM}
            path.write_text(json.dumps(changed))
    except Exception:
        # What cannot be written so is damaged in its bytes.
        way = "bytes"
    if way == "bytes":
        path.write_bytes(forge_bytes(chosen, content, values))
    return f"{way} of {path.name}"


def acts(catalog: Catalog, settings: Settings, name: str) -> dict[str, Callable[[], Any]]:
    """All that can be done with a table."""
    session = cache(lambda: Session(settings))
    of_table: dict[str, Callable[[Table], object]] = OPERATIONS
    operations: dict[str, Callable[[], Any]] = {
        what: (lambda act=act: act(catalog.table(name))) for what, act in of_table.items()
    }
    for statement in (
        f"SELECT * FROM {name}",
        f"SELECT count(*) FROM {name}",
        f"DESCRIBE EXTENDED {name}",
        f"SHOW CREATE TABLE {name}",
        f"EXPLAIN SELECT * FROM {name}",
        f"SELECT * FROM `{name}$options`",
        f"DELETE FROM {name} WHERE id = 3",
        f"INSERT INTO {name} SELECT * FROM a.neighbour",
        f"CREATE TABLE a.copied LIKE {name}",
    ):
        operations[statement] = lambda statement=statement: session().sql(statement, "duckdb").to_arrow()  # type: ignore[misc]
    database, _, plain = name.partition(".")
    operations |= {
        "query": lambda: run_query(session(), f'SELECT * FROM {database}."{plain}"'),
        "reproduce": lambda: Reproducer(session(), dict, pytest.fail).reproduce(session().ref(name)),
        "describe": lambda: catalog.table(name).describe(),
        "computed": lambda: catalog.table(name).computed_columns,
        "check the catalog": catalog.check,
        "recover": catalog.recover,
        "former names": lambda: catalog.former_names(name),
        "tables": catalog.tables,
        "drop": lambda: catalog.drop_table(name),
    }
    return operations


def attack(seed: int, directory: Path, model: Path, watch: Watch) -> None:
    chosen = random.Random(seed)
    home = directory / "home"
    shutil.copytree(model, home)
    table = home / "warehouse/a.db/t"
    values = payloads(home, table)
    forged = [forge(chosen, path, values) for path in chosen.sample(metadata_of(table), chosen.choice((1, 1, 2, 3)))]
    with contextlib.suppress(Exception):
        settle(table)
    manifest.forget()
    own = (table, home / "warehouse/.journal", home / "warehouse/.discarded", home / "warehouse/a.db/copied")
    platform = home / "platform"
    before = files_but(home, *own, platform)
    witness = Witness(home / "warehouse", own)
    settings = Settings(platform, str(home / "warehouse"), f"jdbc:sqlite:{platform}/lineage.db")
    case = f"{', '.join(forged)}"
    catalog = Catalog(str(home / "warehouse"), file_io=witness)
    with watch.over(
        home,
        *own,
        platform,
        home / "warehouse/catalog-options.json",
        home / "warehouse/.catalog-options.json",
        home / "warehouse/a.db/neighbour",
        # Lineage asks every table of the warehouse for the names that it had.
        home / "warehouse/golden.db/jv_dv/FORMER-NAMES",
    ):
        todo = acts(catalog, settings, "a.t")
        for what in chosen.sample(sorted(todo), 6):
            said = ""
            try:
                said = str(todo[what]())
            except StorageError as error:
                said = str(error)
                assert "\n" not in said, f"{what} after {case}: {said}"
            assert SECRET not in said, f"{what} after {case} shows a secret: {said}"
            assert _CANARY not in said, f"{what} after {case} shows what is somebody else's: {said}"
    assert watch.seen == [], f"{case}: {watch.seen}"
    assert witness.outside == [], f"{case}: {witness.outside}"
    left = files_but(home, *own, platform)
    left.pop(str(home / "warehouse/catalog-options.json"), None)
    before.pop(str(home / "warehouse/catalog-options.json"), None)
    assert left == before, case
    shutil.rmtree(directory)


@pytest.mark.parametrize(
    "chosen", blocks(seeds(200, 10_000, full=1500), 100), ids=lambda chosen: f"{chosen[0]}-{chosen[-1]}"
)
def test_nothing_outside_of_a_hostile_table_is_touched(
    chosen: list[int], tmp_path: Path, model: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_VARIABLE, SECRET)
    try_seeds(lambda seed, directory: attack(seed, directory, model, watch), chosen, tmp_path)
    assert watch.calls > 10


def test_the_watch_sees_what_is_done_outside(tmp_path: Path, watch: Watch) -> None:
    """Otherwise the test above would prove nothing."""
    (tmp_path / "table").mkdir()
    (tmp_path / "canary").write_text("mine")
    with watch.over(tmp_path, tmp_path / "table"):
        (tmp_path / "table/x").write_text("x")
        assert watch.seen == []
        (tmp_path / "canary").read_text()
        (tmp_path / "canary").unlink()
        os.system("true")
    assert [event.split()[0] for event in watch.seen] == ["open", "os.remove", "os.system"]
