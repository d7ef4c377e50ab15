"""A table of somebody else's names files of this machine: none of them is opened or deleted, and every error says so."""

import contextlib
import datetime as dt
import io
import json
import os
import pickle
import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, InvalidRequest, NotFound, StorageError, Table, Unsupported
from storage.document import CHECKSUM
from storage.engines.duckdb_views import add_scan
from storage.file_io import FileIO
from storage.format import avro
from storage.metadata import manifest
from storage.metadata.cleaning import Cleaning
from storage.system_tables import SYSTEM_TABLES

pytestmark = pytest.mark.pypaimon_differs("metadata is forged on purpose")

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.string())])
FIXTURES = Path(__file__).parent.parent / "fixtures/paimon/tables"
WITH_VECTORS = "golden.jv_dv"
# Beside the table's own directory: the warehouse's journal, what is being deleted, and the listings of the catalog.
_OF_THE_WAREHOUSE = (".journal", ".discarded")
_LISTINGS = ("list_files", "list_directories", "exists", "make_directory")


class Witness(FileIO):
    """Notes every path that is touched."""

    def __init__(self, warehouse: Path, tables: tuple[Path, ...]) -> None:
        super().__init__(str(warehouse))
        self.warehouse = warehouse
        self.allowed = (*tables, *(warehouse / name for name in _OF_THE_WAREHOUSE))
        self.calls = 0
        self.outside: list[tuple[str, str]] = []

    def note(self, call: str, path: str) -> None:
        self.calls += 1
        whole = Path(os.path.normpath(path))
        is_own = (
            any(whole.is_relative_to(allowed) for allowed in self.allowed)
            or whole == self.warehouse / "catalog-options.json"
        )
        # Which databases and tables there are is asked for by names that the caller gave.
        is_listed = call in _LISTINGS and whole.is_relative_to(self.warehouse) and ".." not in path
        if not is_own and not is_listed:
            self.outside.append((call, path))


def _noting(call: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def noting(self: Witness, path: str, *arguments: Any, **named: Any) -> Any:
        self.note(call, path)
        if call in ("rename_if", "move_directory", "move_directory_if", "move_directory_if_absent"):
            self.note(call, arguments[0])
        return method(self, path, *arguments, **named)

    return noting


for _call, _method in vars(FileIO).items():
    if (
        callable(_method)
        and "path" in _method.__code__.co_varnames[1:2]
        and not _call.startswith("_")
        and _call != "url"
    ):
        setattr(Witness, _call, _noting(_call, _method))


def rows(first: int) -> pa.Table:
    ids = list(range(first, first + 10))
    return pa.table(
        {"day": [f"d{number % 2}" for number in ids], "id": ids, "v": [str(number) for number in ids]}, SCHEMA
    )


def build(warehouse: Path) -> None:
    """A warehouse with all kinds of files of metadata, another writer's table with index files, and a neighbour."""
    catalog = Catalog(str(warehouse))
    table = catalog.create_table(
        "a.old",
        SCHEMA,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 1, "changelog-producer": "input", "changelog.num-retained.max": 100, "write-only": True},
    )
    for first in (0, 5, 10, 15):
        table.write(rows(first))
        if first == 5:
            table.tags.create("kept")
            table.consumers.reset("reader", 2)
    catalog.branch_set("b", ["a.old"]).create()
    table.on_branch("b").write(rows(30))
    table.consumers.delete("reader")
    table.expire(retain_last=2)
    # Of a cleaning that died, which takes nothing.
    table.store.cleanings.begin("cleaning-left", Cleaning(0, {"main": (1, "x")}))
    catalog.rename_table("a.old", "a.t")
    catalog.create_table("a.neighbour", SCHEMA).write(rows(0))
    snapshots = warehouse / "a.db/t/snapshot"
    latest = max(int(file.name.split("-")[1]) for file in snapshots.glob("snapshot-*"))
    (warehouse / "a.db/t/statistics").mkdir()
    (warehouse / "a.db/t/statistics/stat-1").write_text("{}")
    change_document(snapshots / f"snapshot-{latest}", statistics="stat-1")
    (warehouse / ".journal").mkdir()
    opened = {"branch": "b", "before": {"a.t": latest}, "discardMain": False, "replaces": False, "adopted": {}}
    (warehouse / ".journal/open-00000001").write_text(json.dumps({**opened, "properties": {}}))
    (warehouse / ".journal/outcome-00000001").write_text("undone")
    shutil.copytree(FIXTURES / "jv_dv/golden.db", warehouse / "golden.db")


def change_document(path: Path, **values: object) -> None:
    """As another writer would: without a checksum."""
    value = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: field for key, field in value.items() if key != CHECKSUM}))


def change_avro(path: Path, change: Callable[[dict[str, Any]], object], types: dict[str, Any] | None = None) -> None:
    """Change every record; `types`: fields that have another type from now on. The checksum is right."""
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    schema, records = json.loads(reader.metadata["avro.schema"]), [dict(entry) for entry in reader]  # type: ignore[call-overload]
    for fields in (schema["fields"], *(f["type"]["fields"] for f in schema["fields"] if f["name"] == "_FILE")):
        for field in fields:
            field["type"] = (types or {}).get(field["name"], field["type"])
    for record in records:
        change(record)
    path.write_bytes(avro.write_records(fastavro.parse_schema(schema), records, "zstd", path.name))


def settle(table: Path) -> None:
    """Make all sizes right again: lists say those of manifests, snapshots need not say those of lists."""
    for path in table.glob("manifest/manifest-list-*"):

        def resize(record: dict[str, Any]) -> None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                record["_FILE_SIZE"] = (table / "manifest" / record["_FILE_NAME"]).stat().st_size

        change_avro(path, resize)
    for pattern in ("snapshot/snapshot-*", "tag/tag-*", "changelog/changelog-*"):
        for path in (*table.glob(pattern), *table.glob(f"branch/branch-*/{pattern}")):
            change_document(
                path, **dict.fromkeys([f"{kind}ManifestListSize" for kind in ("base", "delta", "changelog")])
            )


def in_manifest(**values: Any) -> Callable[[Path], None]:
    types = {
        name: "string" if isinstance(value, str) else None
        for name, value in values.items()
        if name in ("_BUCKET", "_SCHEMA_ID", "_LEVEL", "_PARTITION", "_KIND", "_TOTAL_BUCKETS")
    }

    def change(record: dict[str, Any]) -> None:
        for name, value in values.items():
            (record["_FILE"] if name in record["_FILE"] else record)[name] = value

    return lambda path: change_avro(path, change, {name: avro_type for name, avro_type in types.items() if avro_type})


def in_list(value: Any) -> Callable[[Path], None]:
    return lambda path: change_avro(path, lambda record: record.update(_FILE_NAME=value))


def in_index(name: str, value: Any) -> Callable[[Path], None]:
    types = {"_EXTERNAL_PATH": ["null", "string"]}
    return lambda path: change_avro(path, lambda record: record.update({name: value}), types)


def as_main(value: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        content = value.encode(errors="surrogatepass")
        path.write_bytes(f"{zlib.crc32(content):08x}\n".encode() + content + b"\n")

    return write


_SNAPSHOTS = ("snapshot/snapshot-*", "tag/tag-*", "changelog/changelog-*", "branch/branch-b/snapshot/snapshot-*")
_OF_SNAPSHOTS = (
    "baseManifestList",
    "deltaManifestList",
    "changelogManifestList",
    "indexManifest",
    "statistics",
    "uuid",
    "commitUser",
    "schemaId",
    "id",
)


def cases(table: Path, value: str) -> Iterator[tuple[str, list[str], Callable[[Path], None]]]:
    """Every field that a name is read from: what it is called, where such files lie, and what writes the value there."""
    for key in _OF_SNAPSHOTS:
        yield key, [*_SNAPSHOTS], lambda path, key=key: change_document(path, **{key: value})
    yield "a list's manifest", ["manifest/manifest-list-*"], in_list(value)
    manifests = ["manifest/manifest-[!l]*"]
    yield "a data file", manifests, in_manifest(_FILE_NAME=value)
    yield "an extra file", manifests, in_manifest(_EXTRA_FILES=[value])
    yield "an external file", manifests, in_manifest(_EXTERNAL_PATH=value)
    yield "a file's URL", manifests, in_manifest(_EXTERNAL_PATH=f"file://{value}")
    for name in ("_BUCKET", "_SCHEMA_ID", "_LEVEL", "_KIND", "_TOTAL_BUCKETS"):
        yield f"{name} as text", manifests, in_manifest(**{name: value})
    yield "a partition", manifests, in_manifest(_PARTITION=value)
    yield "main", ["MAIN-BRANCH"], as_main(value)
    for key in ("branch", "tag"):
        yield f"origin {key}", ["branch/branch-b/ORIGIN"], lambda path, key=key: change_document(path, **{key: value})
    for points in ([[1, value], [2, value]], value, {value: 1}):
        yield "points", ["branch/branch-b/ORIGIN"], lambda path, points=points: change_document(path, points=points)
    for newest in ({value: [1, value], "b": [2, value]}, {"main": value}, value):
        yield "cleaning", ["cleaning/*"], lambda path, newest=newest: change_document(path, newest=newest)
    yield "cleaning until", ["cleaning/*"], lambda path: change_document(path, untilMillis=value)
    yield "former name", ["FORMER-NAMES"], lambda path: change_document(path, names=[[value, 1], [f"a.{value}", 1]])
    for directory in ("snapshot", "changelog", "branch/branch-b/snapshot"):
        for hint in ("LATEST", "EARLIEST", "EXPIRING"):
            content = value.encode(errors="surrogatepass")
            yield hint, [f"{directory}/{hint}"], lambda path, content=content: bool(path.write_bytes(content)) or None
    yield "schema uuid", ["schema/schema-0"], lambda path: change_document(path, uuid=value)
    yield (
        "partition name",
        ["schema/schema-0"],
        lambda path: change_document(
            path, options={**json.loads(path.read_text())["options"], "partition.default-name": value}
        ),
    )
    yield (
        "closed",
        ["branch/branch-b/snapshot/snapshot-*"],
        lambda path: change_document(
            path, properties={"snapline.closed": f"the deletion of branch {value}", "snapline.follows": value}
        ),
    )
    journal = ["../../.journal/open-00000001"]
    for key in ("branch", "token"):
        yield f"journal {key}", journal, lambda path, key=key: change_document(path, **{key: value})
    for key in ("before", "adopted"):
        yield (
            f"journal {key}",
            journal,
            lambda path, key=key: change_document(path, **{key: {value: 1, f"a.{value}": 1}}),
        )
    yield "journal points", journal, lambda path: change_document(path, points={value: [1, value], "a.t": value})


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "read": lambda table: table.to_arrow(),
    "read a tag": lambda table: table.to_arrow(version="kept"),
    "read an old snapshot": lambda table: table.to_arrow(version=3),
    "read a branch": lambda table: table.on_branch("b").to_arrow(),
    "files": lambda table: [split.file_paths for split in table.scan().splits],
    "DuckDB": lambda table: add_scan(duckdb.connect(), "a", "t", table.scan()),
    "changes": lambda table: table.changes(after=3),
    "old changes": lambda table: table.changes(after=2),
    "check": lambda table: table.check(deep=True),
    "why kept": lambda table: table.why_kept("schema-0"),
    "consumers": lambda table: (table.consumers.reset("c", 4), table.consumers.list(), table.consumers.delete("c")),
    "write": lambda table: table.write(rows(50)),
    "repeat": lambda table: table.new_commit(table.new_commit_id()),
    "write to a branch": lambda table: table.on_branch("b").write(rows(60)),
    "merge": lambda table: table.branches.merge("b", discard_main=True),
    "compact": lambda table: table.compact(full=True),
    "overwrite": lambda table: table.overwrite(rows(0)),
    "roll back": lambda table: table.rollback_to(4),
    "roll back to a tag": lambda table: table.rollback_to("kept"),
    "delete a tag": lambda table: table.tags.delete("kept"),
    "delete a branch": lambda table: table.branches.delete("b"),
    "expire": lambda table: table.expire(retain_last=1),
    "clean": lambda table: table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True),
    "replace main": lambda table: (table.branches.create("r"), table.branches.replace_main("r")),
}
OPERATIONS |= {f"${name}": lambda table, name=name: table.system_table(name) for name in SYSTEM_TABLES}


def act_on(catalog: Catalog, name: str) -> tuple[list[str], list[str]]:
    """Do everything with a table; returns what the store refused, and the errors that are none of the store's."""
    refused, wrong = [], []
    whole: dict[str, Callable[[], object]] = {
        "check the catalog": catalog.check,
        "publications": catalog.publications,
        "recover": catalog.recover,
        "former names": lambda: catalog.former_names(name),
        "exists": lambda: catalog.exists(name),
    }
    acts = [*whole.items(), *((what, lambda act=act: act(catalog.table(name))) for what, act in OPERATIONS.items())]
    acts.append(("drop", lambda: catalog.drop_table(name)))
    for what, act in acts:
        try:
            act()
        except StorageError as error:
            refused.append(f"{what}: {error}")
        except Exception as error:
            wrong.append(f"{what}: {type(error).__name__}: {error}")
    return refused, wrong


def files_but(directory: Path, *others: Path) -> dict[str, bytes]:
    """What lies in a directory, but for what others hold."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files if not any(path.is_relative_to(other) for other in others)}


def hostile_values(home: Path, table: Path) -> list[str]:
    canary = home / "canary"
    upwards = [f"{'../' * count}canary" for count in range(1, 6)]
    neighbour = next((home / "warehouse/a.db/neighbour").rglob("*.parquet"))
    return [
        *upwards,
        str(canary),
        f"{'../' * 12}{str(canary)[1:]}",
        str(neighbour),
        f"../../neighbour/bucket-0/{neighbour.name}",
        "x/../../../../canary",
        "..",
        ".",
        "",
        "/",
        "a\0b",
        "\ud800",
        "x" * 300,
        f"{table}/../neighbour",
        "..\\canary",
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["a.t", WITH_VECTORS])
def test_no_name_in_metadata_leads_out_of_the_table(tmp_path: Path, name: str) -> None:
    model, home = tmp_path / "model", tmp_path / "home"
    model.mkdir()
    build(model / "warehouse")
    (model / "canary").write_text("mine")
    database, plain = name.split(".")
    table = home / "warehouse" / f"{database}.db" / plain
    chosen, tried = random.Random(5), set[str]()
    shutil.copytree(model, home)
    values = hostile_values(home, table)
    fields = [what for what, *_ in cases(table, "")]
    for number in range(len(fields)):
        # Some values for each field, another choice for each.
        for value in chosen.sample(values, 2):
            shutil.rmtree(home)
            shutil.copytree(model, home)
            what, patterns, write = list(cases(table, value))[number]
            if name == WITH_VECTORS and ".." in patterns[0]:
                continue
            paths = sorted(path for pattern in patterns for path in table.glob(pattern))
            if patterns[0] == "MAIN-BRANCH":
                paths = [table / "MAIN-BRANCH"]
            if not paths:
                continue
            forged = chosen.choice(paths)
            try:
                write(forged)
            except UnicodeEncodeError:
                # What no file can hold.
                continue
            settle(table)
            tried.add(what)
            manifest.forget()
            # What the journal says of other tables is the warehouse's own.
            tables = (table, home / "warehouse/a.db/t")
            others = (*tables, *(home / "warehouse" / directory for directory in _OF_THE_WAREHOUSE))
            before = files_but(home, *others)
            witness = Witness(home / "warehouse", tables)
            _, wrong = act_on(Catalog(str(home / "warehouse"), file_io=witness), name)
            case = f"{what} = {value!r} in {forged}"
            assert witness.calls > 50, case
            assert witness.outside == [], case
            assert wrong == [], case
            assert files_but(home, *others) == before, case
    assert len(tried) > (25 if name == "a.t" else 10)


@pytest.mark.parametrize("field", ["_EXTERNAL_PATH", "_FILE_NAME", "_EXTRA_FILES"])
@pytest.mark.parametrize("end", ["expire", "overwrite and expire", "delete a tag", "drop"])
def test_a_file_that_a_manifest_names_elsewhere_is_never_deleted(tmp_path: Path, field: str, end: str) -> None:
    catalog = Catalog(str(tmp_path / "warehouse"))
    table = catalog.create_table("a.t", SCHEMA, options={"write-only": True})
    table.write(rows(0))
    table.tags.create("kept")
    table.overwrite(rows(10))
    table.write(rows(20))
    if end != "delete a tag":
        table.tags.delete("kept")
    else:
        table.expire(retain_last=1)
    canary, root = tmp_path / "canary", tmp_path / "warehouse/a.db/t"
    canary.write_text("mine")
    upwards = os.path.relpath(canary, root / "bucket-0")
    values = {"_EXTERNAL_PATH": str(canary), "_FILE_NAME": upwards, "_EXTRA_FILES": [upwards]}
    for path in root.glob("manifest/manifest-[!l]*"):
        in_manifest(**{field: values[field]})(path)
    settle(root)
    manifest.forget()
    table = catalog.table("a.t")
    with pytest.raises(StorageError, match="manifest-"):
        table.to_arrow()
    with contextlib.suppress(StorageError):
        if end == "delete a tag":
            table.tags.delete("kept")
        elif end == "drop":
            catalog.drop_table("a.t")
        else:
            if end != "expire":
                table.overwrite(rows(0))
            table.expire(retain_last=1)
    assert canary.read_text() == "mine"


def test_vectors_in_an_index_file_elsewhere_are_not_read(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "jv_dv/golden.db", tmp_path / "golden.db")
    table = tmp_path / "golden.db/jv_dv"
    for field in ("_FILE_NAME", "_EXTERNAL_PATH"):
        for path in table.glob("manifest/index-manifest-*"):
            (index,) = {record["_FILE_NAME"] for record in avro.read_records(path.read_bytes(), str(path))}
            before = path.read_bytes()
            in_index(field, f"../index/{index}" if field == "_FILE_NAME" else str(table / "index" / index))(path)
            with pytest.raises(CorruptData if field == "_FILE_NAME" else Unsupported, match=path.name):
                Catalog(str(tmp_path)).table(WITH_VECTORS).to_arrow()
            path.write_bytes(before)


def test_without_forgery_everything_succeeds(tmp_path: Path) -> None:
    """Otherwise the operations above would prove nothing."""
    build(tmp_path / "warehouse")
    settle(tmp_path / "warehouse/a.db/t")
    manifest.forget()
    witness = Witness(tmp_path / "warehouse", (tmp_path / "warehouse/a.db/t",))
    refused, wrong = act_on(Catalog(str(tmp_path / "warehouse"), file_io=witness), "a.t")
    assert wrong == []
    assert witness.outside == []
    assert refused == []
    assert {"a.neighbour"} == set(Catalog(str(tmp_path / "warehouse")).tables("a"))


def put_elsewhere(warehouse: Path, elsewhere: Path) -> Table:
    """A table whose data files all lie in another directory, as Java writes them with `data-file.external-paths`."""
    made = Catalog(str(warehouse)).create_table("a.t", SCHEMA, options={"write-only": True})
    made.write(rows(0))
    made.write(rows(10))
    elsewhere.mkdir()
    root = warehouse / "a.db/t"
    for path in root.glob("bucket-0/*"):
        path.rename(elsewhere / path.name)

    def move(record: dict[str, Any]) -> None:
        record["_FILE"]["_EXTERNAL_PATH"] = f"file:{elsewhere}/{record['_FILE']['_FILE_NAME']}"

    for path in root.glob("manifest/manifest-[!l]*"):
        change_avro(path, move)
    settle(root)
    manifest.forget()
    return made


def test_files_elsewhere_are_read_where_the_catalog_allows_it_and_never_deleted(tmp_path: Path) -> None:
    elsewhere, warehouse = tmp_path / "elsewhere", str(tmp_path / "warehouse")
    put_elsewhere(Path(warehouse), elsewhere)
    wanted = pa.concat_tables([rows(0), rows(10)])
    before = files_but(elsewhere)
    for root in (str(elsewhere), f"file://{tmp_path}", f"{elsewhere}/"):
        table = Catalog(warehouse, external_roots=[root]).with_listeners().table("a.t")
        assert table.to_arrow().sort_by("id") == wanted
        splits = pickle.loads(pickle.dumps(table.scan().splits))
        assert sum(batch.num_rows for split in splits for batch in split.read()) == 20
        connection = duckdb.connect()
        add_scan(connection, "a", "t", table.scan())
        assert connection.execute("SELECT count(*) FROM a.t").fetchone() == (20,)
        assert table.check(deep=True) == []
    # What one catalog has read, another does not take from memory.
    for roots in ([], [f"{elsewhere}x"], [str(elsewhere / "deeper")], [f"{tmp_path}/else"]):
        with pytest.raises(Unsupported, match="external_roots"):
            Catalog(warehouse, external_roots=roots).table("a.t").to_arrow()
    table.overwrite(rows(0))
    table.expire(retain_last=1)
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.to_arrow() == rows(0)
    Catalog(warehouse).drop_table("a.t")
    assert files_but(elsewhere) == before


@pytest.mark.parametrize(
    "way", ["{0}/../canary", "{0}/./../canary", "file:{0}/../canary", "s3://{0}/x", "file:canary", "x", "{0}"]
)
def test_no_way_leads_out_of_an_external_root(tmp_path: Path, way: str) -> None:
    file_io = FileIO("file://", external_roots=[str(tmp_path / "root")])
    with pytest.raises(Unsupported, match="outside of the table's directory"):
        file_io.external_path(way.format(tmp_path / "root"), "manifest-1")
    assert file_io.external_path(f"file://{tmp_path}/root/x", "manifest-1") == f"{tmp_path}/root/x"


def test_roots_on_another_file_system_are_refused(tmp_path: Path) -> None:
    for root in ("s3://bucket/x", "relative", f"{tmp_path}/../x", ""):
        with pytest.raises(InvalidRequest, match="External root"):
            Catalog(str(tmp_path), external_roots=[root])
    there = Catalog("memory://warehouse", external_roots=["memory://elsewhere"])
    assert there._file_io.external_path("memory://elsewhere/x", "m") == "/elsewhere/x"


def test_no_tag_or_consumer_has_a_name_with_a_slash(tmp_path: Path) -> None:
    witness = Witness(tmp_path, (tmp_path / "a.db/t",))
    catalog = Catalog(str(tmp_path), file_io=witness)
    catalog.create_table("a.t", SCHEMA).write(rows(0))
    table = catalog.table("a.t")
    for act in (
        lambda: table.to_arrow(version="/../../../../canary"),
        lambda: table.tags.get("x/../../../../canary"),
        lambda: table.tags.delete("/../../../../canary"),
        lambda: table.consumers.get("/../../../../canary"),
        lambda: table.consumers.delete("/../../../../canary"),
    ):
        with pytest.raises(NotFound):
            act()
    assert witness.outside == []
