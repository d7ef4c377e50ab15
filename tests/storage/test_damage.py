"""Bit rot and garbage are noticed, by whatever way a file is read; long, deep and huge input ends in an error."""

import json
import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog, CorruptData, InvalidRequest, SetOptions, StorageError, Table
from storage.document import CHECKSUM, read_document
from storage.engines.duckdb_views import add_scan
from storage.format.seal import KEY
from storage.journal import Publication
from storage.metadata import manifest
from storage.read.predicate import Comparison

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int8()), ("text", pa.string())])


def rows(first: int = 0, count: int = 200) -> pa.Table:
    ids = range(first, first + count)
    text = [f"text {number * 7919 % 1000}" for number in ids]
    return pa.table({"id": ids, "v": [number % 100 for number in ids], "text": text}, schema=SCHEMA)


def make(catalog: Catalog, *, key: bool, file_format: str = "parquet", **options: Any) -> Table:
    made = catalog.create_table(
        "a.t",
        SCHEMA,
        primary_key=["id"] if key else [],
        options={"file.format": file_format, "write-only": True, **({"bucket": 1} if key else {}), **options},
    )
    made.write(rows())
    return made


def root(table: Table) -> Path:
    return Path(table.store.paths.root)


def again(table: Table, name: str = "a.t") -> Table:
    manifest.forget()
    return Catalog(str(root(table).parent.parent)).table(name)


def data_file(table: Table, pattern: str = "bucket-0/data-*") -> Path:
    return sorted(root(table).glob(pattern))[0]


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


READERS: dict[str, Callable[[Table], object]] = {
    "to_arrow": lambda t: t.to_arrow(),
    "scan": lambda t: [batch for split in t.scan().splits for batch in split.read()],
    "changes": lambda t: t.changes(after=1),
    "compaction": lambda t: t.compact(full=True),
    "update": lambda t: t.update("id >= 0", {"v": 1}),
    "DuckDB": lambda t: add_scan(duckdb.connect(), "a", "t", t.scan()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_flipped_bit_of_a_data_file_is_noticed_by_every_reader(
    catalog: Catalog, reader: str, file_format: str
) -> None:
    plain = "null" if file_format == "avro" else "none"
    table = make(catalog, key=True, file_format=file_format, **{"file.compression": plain})
    before = set(root(table).glob("bucket-0/data-*"))
    table.write(rows(100))
    (path,) = set(root(table).glob("bucket-0/data-*")) - before
    # Among the texts of the rows, where any other byte makes sense as well.
    flip(path, path.read_bytes().index(b"text 8") + 5)
    with pytest.raises(CorruptData, match=path.name):
        READERS[reader](again(table))


def test_every_flipped_bit_of_a_small_file_is_noticed_or_harmless(catalog: Catalog) -> None:
    table = make(catalog, key=False, **{"file.compression": "zstd"})
    path = data_file(table)
    sound, whole = table.to_arrow(), path.read_bytes()
    chosen = random.Random(3)
    for _ in range(400):
        flip(path, chosen.randrange(len(whole)), chosen.randrange(8))
        try:
            assert again(table).to_arrow() == sound
        except CorruptData as error:
            assert path.name in str(error)
        path.write_bytes(whole)


def test_what_the_manifest_says_of_size_and_rows_is_compared(catalog: Catalog) -> None:
    table = make(catalog, key=False)
    path = data_file(table)
    # As another writer would have written it: without a checksum.
    pq.write_table(rows(count=199), path, store_schema=False)
    with pytest.raises(CorruptData, match=f"{path.name} is damaged: it has"):
        again(table).to_arrow()
    (entry,) = table.scan().entries
    from storage.format.data_file import ExpectedFile
    from storage.format.open_data_file import open_reader

    with pytest.raises(CorruptData, match="holds 199 rows, its manifest says 200"):
        open_reader(table.store.file_io, str(path), {}, ExpectedFile(entry.file.row_count))


def test_files_of_parquet_have_checksums_of_pages_and_of_their_footer(catalog: Catalog) -> None:
    path = data_file(make(catalog, key=True))
    assert len(pq.read_metadata(path).metadata[KEY.encode()]) == 16
    assert pq.ParquetFile(path, page_checksum_verification=True).read().num_rows == 200


def test_two_files_that_were_swapped_are_noticed(catalog: Catalog) -> None:
    table = make(catalog, key=False)
    table.write(rows(200))
    first, second = sorted(root(table).glob("bucket-0/data-*"))
    content, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(content)
    with pytest.raises(CorruptData, match="is damaged"):
        again(table).to_arrow()


def document(path: Path, **values: object) -> None:
    """Change a document as another writer would: without a checksum."""
    path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != CHECKSUM} | values))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "one"),
        ("id", True),
        ("id", 1.0),
        ("id", 2**70),
        ("schemaId", "0"),
        ("timeMillis", "now"),
        ("baseManifestList", 7),
        ("totalRecordCount", None),
        ("properties", {"a": 1}),
        ("watermark", [1]),
    ],
)
@pytest.mark.parametrize("kind", ["snapshot/snapshot-1", "tag/tag-kept"])
def test_a_value_of_the_wrong_type_is_refused(catalog: Catalog, kind: str, key: str, value: object) -> None:
    table = make(catalog, key=True)
    table.tags.create("kept")
    document(root(table) / kind, **{key: value})
    with pytest.raises(CorruptData, match=kind.rsplit("/", maxsplit=1)[-1]):
        again(table).to_arrow(version="kept" if "tag" in kind else None)
    assert any(kind in problem.what for problem in again(table).check())


GARBAGE = {
    "no text": b"\xff\xfe\x00\x01",
    "no JSON": b"}{",
    "no object": b"[1, 2]",
    "without end": b'{"a":' * 100_000,
    "a huge number": b'{"id": ' + b"9" * 5000 + b"}",
    "empty": b"",
}
DOCUMENTS: dict[str, Callable[[Table], object]] = {
    "snapshot/snapshot-1": lambda t: t.to_arrow(),
    "schema/schema-0": lambda t: t.to_arrow(),
    "tag/tag-kept": lambda t: t.to_arrow(version="kept"),
    "branch/branch-fix/ORIGIN": lambda t: t.system_table("branches"),
    "consumer/consumer-reader": lambda t: t.consumers.list(),
    "FORMER-NAMES": lambda t: Catalog(str(root(t).parent.parent)).former_names("a.t"),
    "../../catalog-options.json": lambda t: None,
    "../../.journal/open-00000001": lambda t: Catalog(str(root(t).parent.parent)).recover(),
}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_is_garbage_is_named(tmp_path: Path, name: str, what: str) -> None:
    catalog = Catalog(str(tmp_path / "warehouse"), options={"table-default.bucket": "1"})
    table = make(catalog, key=True)
    catalog.create_table("a.other", SCHEMA)
    catalog.rename_table("a.t", "a.u")
    table = catalog.rename_table("a.u", "a.t")
    table.tags.create("kept")
    table.branches.create("fix", tag="kept")
    table.consumers.reset("reader", 1)
    catalog._journal.open(Publication("", "fix", {"a.other": None}, False))
    path = (root(table) / name).resolve()
    assert path.exists()
    path.write_bytes(GARBAGE[what])
    with pytest.raises(CorruptData, match=path.name):
        DOCUMENTS[name](again(table))
    if not name.startswith("../"):
        assert any(path.name in problem.what for problem in table.check())
    elif "journal" in name:
        assert [problem.where for problem in catalog.check()] == [str(path)]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x", "²".encode(), b"9" * 5000, b"", b"17", b"0"])
@pytest.mark.parametrize("hint", ["LATEST", "EARLIEST"])
@pytest.mark.java_differs("it believes a number in LATEST, whatever is there: decision 0020")
def test_a_hint_that_is_damaged_is_not_believed(catalog: Catalog, hint: str, content: bytes) -> None:
    table = make(catalog, key=True)
    table.write(rows(200))
    sound = table.to_arrow()
    (root(table) / "snapshot" / hint).write_bytes(content)
    assert again(table).to_arrow() == sound
    assert again(table).changes(after=1).num_rows == 200


@pytest.mark.parametrize("codec", ["zstd", "deflate", "null"])
def test_a_flipped_bit_of_a_manifest_is_noticed(catalog: Catalog, codec: str) -> None:
    table = make(catalog, key=True, **{"manifest.compression": codec})
    sound = table.to_arrow()
    for path in sorted(root(table).glob("manifest/*")):
        whole = path.read_bytes()
        for position in range(0, len(whole), 37):
            flip(path, position, position % 8)
            try:
                assert again(table).to_arrow() == sound
            except CorruptData as error:
                assert path.name in str(error)
            path.write_bytes(whole)


def test_the_branch_that_is_main_is_not_taken_for_another(catalog: Catalog) -> None:
    table = make(catalog, key=True)
    for name in ("main1", "main3"):
        table.branches.create(name)
    table.branches.replace_main("main1")
    path = root(table) / "MAIN-BRANCH"
    path.write_text(path.read_text().replace("main1", "main3"))
    with pytest.raises(CorruptData, match="MAIN-BRANCH"):
        again(table)
    # As earlier versions wrote it.
    path.write_text("main3")
    assert again(table).to_arrow().num_rows == 200


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_check_reads_every_data_file_and_goes_on_after_each(catalog: Catalog, key: bool, file_format: str) -> None:
    table = make(catalog, key=key, file_format=file_format, **({"changelog-producer": "input"} if key else {}))
    for number in (1, 2, 3):
        table.write(rows(200 * number))
    table.tags.create("kept", snapshot_id=1)
    assert table.check(deep=True) == []
    names = sorted(root(table).glob("bucket-0/*"))[:: 2 if key else 1]
    for path in names:
        flip(path, path.stat().st_size // 3)
    (root(table) / "tag" / "tag-kept").write_bytes(b"\xff")
    problems = [str(problem) for problem in table.check(deep=True)]
    for path in [*names, root(table) / "tag" / "tag-kept"]:
        assert any(path.name in problem for problem in problems), (path.name, problems)
    assert not any(path.name in problem for problem in map(str, table.check()) for path in names)


def test_check_looks_at_the_disk_and_not_into_memory(catalog: Catalog) -> None:
    table = make(catalog, key=True)
    table.to_arrow()
    path = sorted(root(table).glob("manifest/manifest-[0-9a-f]*"))[0]
    flip(path, 40)
    assert any(path.name in str(problem) for problem in table.check())


# --- conditions


@pytest.fixture
def numbers(catalog: Catalog) -> Table:
    made = catalog.create_table("a.n", SCHEMA)
    made.write(pa.table({"id": [1, 2, None], "v": [1, -128, 127], "text": ["a", "b", "c"]}, schema=SCHEMA))
    return made


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (" OR ".join(f"id = {number}" for number in range(2, 5000)), [2]),
        (" AND ".join(f"id != {number}" for number in range(2, 2000)), [1]),
        ("(" * 14 + "id = 1" + ")" * 14, [1]),
        ("NOT NOT NOT id = 1", [2]),
        ("id = 99999999999999999999999", []),
        ("NOT id = 99999999999999999999999", [1, 2]),
        ("id < 99999999999999999999999", [1, 2]),
        ("id > -99999999999999999999999", [1, 2]),
        ("id >= 1e400", []),
        ("id < 1e999999999", [1, 2]),
        ("id IN (1, 1e400)", [1]),
        ("id NOT IN (1, 1e400)", [2]),
        ("id BETWEEN -1e30 AND 1e30", [1, 2]),
        ("v < 128", [1, 2, None]),
        ("v >= -129", [1, 2, None]),
        ("v = 128", []),
    ],
)
def test_long_conditions_and_large_numbers_are_judged(numbers: Table, condition: str, expected: list[object]) -> None:
    assert numbers.to_arrow(where=condition)["id"].to_pylist() == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("NOT " * 3000 + "id = 1", "16 deep"),
        ("(" * 200 + "id = 1" + ")" * 200, "16 deep"),
        ("id = 1 OR " * 100_000 + "id = 1", "at most 1000000"),
        ("text = '\ud800'", "surrogates"),
        ("text LIKE '\ud800%'", "surrogates"),
        ("id = 'NaN'", "BIGINT"),
    ],
)
def test_what_is_too_deep_or_too_long_is_refused_in_one_line(numbers: Table, condition: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        numbers.to_arrow(where=condition)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


def test_conditions_that_are_put_together_in_python_may_be_long(numbers: Table) -> None:
    condition = Comparison("id", "=", 2)
    whole = condition
    for _ in range(3000):
        whole = whole | condition
    assert numbers.to_arrow(where=whole)["id"].to_pylist() == [2]


# --- names


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "half \ud800"], ids=["nul", "long", "surrogate"])
@pytest.mark.parametrize(
    "use",
    [
        lambda t, name: t.tags.create(name),
        lambda t, name: t.to_arrow(version=name),
        lambda t, name: t.consumers.reset(name, 1),
        lambda t, name: t.consumers.get(name),
        lambda t, name: t.branches.create(name),
        lambda t, name: t.on_branch(name),
        lambda t, name: Catalog(str(root(t).parent.parent)).create_table(f"a.{name}", SCHEMA),
        lambda t, name: Catalog(str(root(t).parent.parent)).create_database(name),
    ],
    ids=["tag", "version", "consumer", "consumer to find", "branch", "branch to find", "table", "database"],
)
def test_names_that_no_file_can_have_are_refused(catalog: Catalog, use: Callable[..., object], name: str) -> None:
    table = make(catalog, key=True)
    before = sorted(os.walk(root(table)))
    with pytest.raises(StorageError, match=r"cannot name a|does not exist") as raised:
        use(table, name)
    assert "\n" not in str(raised.value)
    assert sorted(os.walk(root(table))) == before


def test_texts_of_a_schema_that_no_file_can_hold_are_refused(catalog: Catalog) -> None:
    for arguments in ({"schema": pa.schema([("a", pa.int64())]), "comment": "half \ud800"},):
        with pytest.raises(InvalidRequest, match="surrogate"):
            catalog.create_table("a.t", **arguments)
    table = make(catalog, key=False)
    with pytest.raises(InvalidRequest, match="surrogate"):
        table.alter(SetOptions({"schema.9.expr": "\ud800"}))


@pytest.mark.parametrize("name", [None, "none"])
def test_a_text_that_names_the_partition_of_null_is_refused_first(catalog: Catalog, name: str | None) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    options = {} if name is None else {"partition.default-name": name}
    table = catalog.create_table("a.p", schema, partition_by=["day"], options={"write-buffer-size": "1 kb", **options})
    shown = name or "__DEFAULT_PARTITION__"
    with table.new_write() as writer:
        with pytest.raises(
            InvalidRequest, match=f"'{shown}' is no value of partition column 'day' that can be written"
        ):
            writer.write(pa.table({"day": ["a", shown], "id": [1, 2]}))
        writer.write(pa.table({"day": [None, "", f"{shown}s", shown.swapcase()], "id": [1, 2, 3, 4]}))
        table.commit_messages([writer.prepare_commit()])
    assert not list(root(table).glob("day=a*"))
    assert len(table.partitions()) == 4


def test_a_partition_whose_directory_would_have_too_long_a_name_is_refused_first(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.p",
        pa.schema([("day", pa.string()), ("id", pa.int64())]),
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": 1, "changelog-producer": "input", "write-buffer-size": "1 kb"},
    )
    with table.new_write() as writer:
        with pytest.raises(InvalidRequest, match="'day' is too long"):
            writer.write(pa.table({"day": ["a", "x" * 300], "id": [1, 2]}))
        writer.write(pa.table({"day": ["ö" * 40], "id": [1]}))
        table.commit_messages([writer.prepare_commit()])
    with pytest.raises(InvalidRequest, match="'day' is too long"):
        table.write(pa.table({"day": ["'" * 90], "id": [2]}))
    assert not list(root(table).glob("day=a*"))
    assert table.to_arrow().num_rows == 1


@pytest.mark.parametrize("held", ['{"a": ["\\ud800"]}', '{"a": {"\\uDFFF": 1}}', '{"a": "\ud800"}'], ids=ascii)
def test_text_that_cannot_be_written_is_damage_wherever_it_stands(held: str) -> None:
    for text in (held, held.encode(errors="surrogatepass")):
        with pytest.raises(CorruptData, match="File x/y is damaged"):
            read_document(text, "x/y")
    assert read_document('{"a": "\\ud83d\\ude00 \\\\ud800"}', "x/y") == {"a": "😀 \\ud800"}


@pytest.mark.parametrize(
    "place",
    [
        "tag/tag-kept",
        "snapshot/snapshot-3",
        "consumer/consumer-c",
        "changelog/changelog-1",
        "FORMER-NAMES",
        "branch/branch-b/ORIGIN",
        "branch/branch-b/schema/schema-0",
        "branch/branch-b/snapshot/snapshot-3",
    ],
)
def test_a_directory_in_the_place_of_a_file_is_a_damaged_file(catalog: Catalog, place: str) -> None:
    kept = {"min": 10, "max": 10}
    options = {"bucket": 1, "changelog-producer": "input", "changelog.time-retained": "1 d"}
    options |= {f"changelog.num-retained.{bound}": count for bound, count in kept.items()}
    schema = pa.schema([("k", pa.int64())])
    catalog.create_table("d.first", schema, primary_key=["k"], options=options)
    table = catalog.rename_table("d.first", "d.t")
    for number in range(3):
        table.overwrite(pa.table({"k": [number]}))
        if number == 1:
            table.expire(retain_last=1)
            table.tags.create("kept")
    table.branches.create("b")
    table.on_branch("b").write(pa.table({"k": [7]}))
    table.consumers.reset("c", 3)
    path = Path(table.store.paths.root) / place
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    said = [str(line) for line in Catalog(catalog.warehouse).table("d.t").check(deep=True)]
    assert any(f"{place} is damaged: there is a directory in its place" in line for line in said), said
    table = Catalog(catalog.warehouse).table("d.t")
    with suppress(CorruptData):
        table.expire(retain_last=1)
    with suppress(CorruptData):
        table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
    path.rmdir()
    path.write_bytes(content)
    table = Catalog(catalog.warehouse).table("d.t")
    assert table.to_arrow(version="kept")["k"].to_pylist() == [1]
    assert table.on_branch("b").to_arrow()["k"].to_pylist() == [2, 7]
    table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
    assert table.check(deep=True) == []
