"""Manifests as columns say the same as manifests read entry by entry, whatever they hold and however they are damaged."""

import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, StorageError, Unsupported
from storage.data_types import DataType
from storage.file_io import FileIO
from storage.format import avro, avro_columns
from storage.format.binary_row import encode
from storage.format.column_stats import SerializedStats
from storage.metadata import manifest
from storage.metadata.live_files import highest_numbers, live_files
from storage.metadata.manifest import ADD, DELETE, DataFile, DecodedManifest, ManifestEntry, entry_of, entry_record
from storage.metadata.manifest_columns import FilePlace, KeepPlace, read_manifests
from storage.metadata.manifest_files import ManifestFiles
from storage.metadata.manifest_schemas import MANIFEST_SCHEMA, MANIFEST_TYPES
from tests.scale import seeds, try_seeds

FIXTURES = Path(__file__).parent.parent / "fixtures" / "paimon"
INT = DataType("INT")
PARTITIONS = [encode([INT], [number]) for number in range(3)]
Outcome = tuple[ManifestEntry, ...] | type[Exception]


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are read of small files as well."""
    monkeypatch.setattr(avro_columns, "_LEAST_BLOCKS", 0)
    monkeypatch.setattr(avro_columns, "_READS_AT_LEAST", 1 << 40)


def allowing(directory: Path) -> FileIO:
    """Files of one directory may lie outside of the table."""
    return FileIO(str(directory), external_roots=[f"{directory}/outside"])


def some(chosen: random.Random, *values: Any) -> Any:
    return chosen.choice(values)


def random_bytes(chosen: random.Random) -> bytes:
    return chosen.randbytes(some(chosen, 0, 1, 8, 20, 20, 63, 64, 200, 9000))


def random_stats(chosen: random.Random) -> SerializedStats:
    counts = tuple(some(chosen, None, 0, 1, 64, 1 << 40) for _ in range(some(chosen, 0, 0, 1, 3, 70)))
    return SerializedStats(random_bytes(chosen), random_bytes(chosen), counts)


def random_number(chosen: random.Random, *, large: bool) -> int:
    numbers = (0, 1, -1, 63, 64, -64, -65, 8191, 8192, 1 << 31, 1 << 50, (1 << 61) - 1)
    return int(some(chosen, *numbers, *(((1 << 62) + 5, -(1 << 63)) if large else ())))


def random_names(chosen: random.Random) -> tuple[str, ...]:
    return tuple(some(chosen, "a", "b-ä", "c" * 200) for _ in range(chosen.randrange(3)))


def random_entry(chosen: random.Random, external: str | None, *, large: bool) -> ManifestEntry:
    """`large`: with numbers that columns are not read of."""
    file = DataFile(
        f"data-{chosen.randrange(1 << 32):08x}{some(chosen, '', '', '-ü')}.parquet",
        random_number(chosen, large=large),
        random_number(chosen, large=large),
        random_bytes(chosen),
        random_bytes(chosen),
        random_stats(chosen),
        random_stats(chosen),
        random_number(chosen, large=large),
        random_number(chosen, large=large),
        some(chosen, 0, 1, 200),
        chosen.randrange(6),
        some(chosen, None, 0, 1_700_000_000_000, -5, -62135596800000, 253402300799999),
        some(chosen, None, 0, 300),
        some(chosen, None, 0, 1),
        some(chosen, None, random_names(chosen)),
        random_names(chosen),
        some(chosen, None, None, external),
        some(chosen, None, b"", b"index" * 100),
        some(chosen, None, 0, 1 << 33),
        some(chosen, None, random_names(chosen)),
    )
    return ManifestEntry(
        some(chosen, ADD, ADD, DELETE),
        some(chosen, b"", b"p" * 20, b"q" * 20),
        chosen.randrange(-2, 3),
        some(chosen, -1, 2, 300),
        file,
    )


def container(records: Sequence[dict[str, Any]], codec: str, block_bytes: int, schema: Any = MANIFEST_SCHEMA) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, schema, records, codec=codec, sync_interval=block_bytes, sync_marker=b"-" * 16)
    return buffer.getvalue()


def by_entry(data: bytes, file_io: FileIO) -> Outcome:
    """As manifests are read of which columns cannot be read."""
    try:
        return tuple(entry_of(record, file_io, "m") for record in avro.read_records(data, "m", MANIFEST_TYPES))
    except Exception as error:
        return type(error)


def by_columns(contents: Sequence[bytes], file_io: FileIO) -> list[tuple[ManifestEntry, ...] | None]:
    read = read_manifests([(data, "m") for data in contents], file_io)
    return [None if each is None else DecodedManifest(None, each).entries for each in read]


def manifests_of(chosen: random.Random, external: str | None) -> Iterator[tuple[bytes, tuple[ManifestEntry, ...]]]:
    """Some manifests of any blocks and codecs, and what they hold."""
    for _ in range(chosen.randrange(1, 5)):
        large = not chosen.randrange(4)
        entries = [random_entry(chosen, external, large=large) for _ in range(chosen.randrange(1, 60))]
        codec, size = some(chosen, "null", "zstandard", "deflate", "snappy"), some(chosen, 1, 2000, 16000)
        yield container([entry_record(entry) for entry in entries], codec, size), tuple(entries)


def test_random_manifests(tmp_path: Path) -> None:
    count = {False: 0, True: 0}

    def compare(seed: int, directory: Path) -> None:
        chosen = random.Random(seed)
        file_io = allowing(directory)
        given = list(manifests_of(chosen, f"{directory}/outside/f.parquet" if seed % 2 else None))
        for (data, entries), read in zip(given, by_columns([data for data, _ in given], file_io), strict=True):
            assert by_entry(data, file_io) == entries
            count[read is not None] += 1
            assert read is None or (read == entries and repr(read) == repr(entries))

    try_seeds(compare, seeds(60, 20_000, full=1000), tmp_path)
    assert count[True] > count[False]


def test_damaged_manifests(tmp_path: Path) -> None:
    """Bytes changed, cut off or put in, without a checksum that would say so."""
    count = {False: 0, True: 0}

    def compare(seed: int, directory: Path) -> None:
        chosen = random.Random(seed)
        file_io = allowing(directory)
        given = [data for data, _ in manifests_of(chosen, f"{directory}/outside/f.parquet" if seed % 2 else None)]
        for _ in range(20):
            contents = list(given)
            place = chosen.randrange(len(contents))
            contents[place] = harmed(chosen, contents[place])
            for data, read in zip(contents, by_columns(contents, file_io), strict=True):
                count[read is not None] += 1
                assert read is None or read == by_entry(data, file_io)

    try_seeds(compare, seeds(8, 5000, full=200), tmp_path)
    assert count[True] and count[False]


def harmed(chosen: random.Random, data: bytes) -> bytes:
    # The schema is at the beginning, and long: most harm is to come behind it.
    at = chosen.randrange(data.index(b"avro.codec") if chosen.randrange(4) else 0, len(data))
    harm = chosen.randrange(4)
    if harm == 0:
        return data[:at]
    if harm == 1:
        return data[:at] + chosen.randbytes(chosen.randrange(4)) + data[at:]
    byte = data[at] ^ (1 << chosen.randrange(8)) if harm == 2 else chosen.randrange(256)
    return data[:at] + bytes([byte]) + data[at + 1 :]


def test_manifests_of_java_and_pypaimon(tmp_path: Path) -> None:
    paths = [path for path in sorted(FIXTURES.rglob("manifest-*")) if "list" not in path.name]
    contents = [path.read_bytes() for path in paths]
    file_io = allowing(tmp_path)
    read = by_columns(contents, file_io)
    assert len(read) > 50
    assert read == [by_entry(data, file_io) for data in contents]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/etc/passwd", "x\0", "n" * 256])
@pytest.mark.parametrize("field", ["_FILE_NAME", "_EXTRA_FILES"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, field: str, name: str) -> None:
    records = [entry_record(random_entry(random.Random(seed), None, large=False)) for seed in range(9)]
    records[5]["_FILE"][field] = name if field == "_FILE_NAME" else [name]
    data = container(records, "null", 2000)
    assert by_columns([data], allowing(tmp_path)) == [None]
    assert by_entry(data, allowing(tmp_path)) is CorruptData


def test_paths_outside_of_the_table_are_refused(tmp_path: Path) -> None:
    records = [entry_record(random_entry(random.Random(seed), None, large=False)) for seed in range(9)]
    records[5]["_FILE"]["_EXTERNAL_PATH"] = f"{tmp_path}/elsewhere/f.parquet"
    data = container(records, "null", 2000)
    assert by_columns([data], allowing(tmp_path)) == [None]
    assert by_entry(data, allowing(tmp_path)) is Unsupported


def test_a_level_that_there_cannot_be_is_refused(tmp_path: Path) -> None:
    records = [entry_record(random_entry(random.Random(seed), None, large=False)) for seed in range(9)]
    records[5]["_FILE"]["_LEVEL"] = -1
    data = container(records, "null", 2000)
    assert by_columns([data], allowing(tmp_path)) == [None]
    assert by_entry(data, allowing(tmp_path)) is ValueError


@pytest.mark.parametrize(
    "field", ["_PARTITION", "_KIND", "_FILE_NAME", "_MIN_KEY", "_FILE_SIZE", "_LEVEL", "_SCHEMA_ID"]
)
def test_nulls_are_left_to_the_reader_of_entries(tmp_path: Path, field: str) -> None:
    schema = json.loads(json.dumps(MANIFEST_SCHEMA))
    fields = schema["fields"] + schema["fields"][-1]["type"]["fields"]
    for each in fields:
        if each["name"] == field and isinstance(each["type"], str):
            each["type"] = ["null", each["type"]]
    records = [entry_record(random_entry(random.Random(seed), None, large=False)) for seed in range(9)]
    whole = container(records, "null", 2000, schema)
    assert by_columns([whole], allowing(tmp_path)) == [by_entry(whole, allowing(tmp_path))]
    record = records[5]
    (record if field in record else record["_FILE"])[field] = None
    data = container(records, "null", 2000, schema)
    assert by_columns([data], allowing(tmp_path)) == [None]


def test_files_that_claim_more_records_than_they_have_bytes_take_no_memory(tmp_path: Path) -> None:
    records = [entry_record(random_entry(random.Random(3), None, large=False))]
    data = container(records, "null", 2000)
    # The number of records of a block stands behind the mark that ends the head.
    at = data.index(b"-" * 16) + 16
    assert data[at] == 2
    forged = data[:at] + b"\xfe\xff\xff\xff\xff\xff\x7f" + data[at + 1 :]
    assert by_columns([forged], allowing(tmp_path)) == [None]
    assert by_entry(forged, allowing(tmp_path)) is CorruptData


def random_history(chosen: random.Random) -> list[list[ManifestEntry]]:
    """The entries of some manifests: files are added, and some of them taken away, lifted or brought back by later ones."""
    commits: list[list[ManifestEntry]] = []
    live: list[ManifestEntry] = []
    for number in range(chosen.randrange(1, 12)):
        commit = []
        for index in range(chosen.randrange(1, 20)):
            entry = random_entry(chosen, None, large=False).added()
            # One number of buckets for each partition, as a rule.
            total = 300 if seldom(chosen) else 2
            file = replace(entry.file, name=f"data-{number}-{index}.parquet", extra_files=())
            commit.append(replace(entry, partition=chosen.choice(PARTITIONS), total_buckets=total, file=file))
        gone = chosen.sample(live, chosen.randrange(min(len(live), 5) + 1))
        lifted = [replace(entry, file=replace(entry.file, level=entry.file.level + 1)) for entry in gone[:1]]
        commit = [*(entry.deleted() for entry in gone), *commit, *lifted]
        live = [entry for entry in live if entry not in gone] + [entry for entry in commit if entry.kind == ADD]
        commits.append(commit)
    if seldom(chosen):
        # A file that nobody added, or one that is added again.
        commits[-1].append(random_entry(chosen, None, large=False).deleted() if seldom(chosen) else commits[-1][-1])
    return commits


def seldom(chosen: random.Random) -> bool:
    return not chosen.randrange(8)


def plain_live(commits: Sequence[Sequence[ManifestEntry]], keep: KeepPlace) -> list[ManifestEntry] | type[Exception]:
    """What the documentation says, without columns."""
    live: dict[tuple[Any, ...], ManifestEntry] = {}
    for entry in (entry for commit in commits for entry in commit if keep(entry.file_place)):
        if (entry.kind == ADD) == (entry.identity in live):
            return CorruptData
        if entry.kind == ADD:
            live[entry.identity] = entry
        else:
            del live[entry.identity]
    return list(live.values())


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except StorageError as error:
        return type(error)


def all_places(_: FilePlace) -> bool:
    return True


def test_live_files_and_highest_numbers_of_random_histories(catalog: Catalog, tmp_path: Path) -> None:
    store = catalog.create_table("a.t", pa.schema([("v", pa.int64())])).store
    Path(store.paths.manifest("x")).parent.mkdir(exist_ok=True)
    keeps: list[KeepPlace] = [
        all_places,
        lambda place: place.partition == PARTITIONS[1],
        lambda place: place.bucket >= 0,
        lambda place: place.total_buckets == 300,
        lambda place: place.schema_id == 1,
        lambda place: False,
    ]

    def compare(seed: int, _: Path) -> None:
        chosen = random.Random(seed)
        commits = random_history(chosen)
        # What is written is known without being read.
        written = ManifestFiles(store.file_io, store.paths, "zstd")
        listed = [written.write(f"manifest-{seed}-{number}", each, [INT], 0) for number, each in enumerate(commits)]
        fresh = ManifestFiles(store.file_io, store.paths, "zstd", from_disk=True)
        for keep in keeps:
            wanted = plain_live(commits, keep)
            for files in (written, fresh):
                assert outcome(lambda f=files, k=keep: live_files(listed, f, k)) == wanted
        assert outcome(lambda: live_files(listed, fresh)) == plain_live(commits, all_places)
        for files in (written, fresh, ManifestFiles(store.file_io, store.paths, "zstd", from_disk=True)):
            assert outcome(lambda f=files: places(highest_numbers(listed, f))) == outcome(lambda: plain_places(commits))

    try_seeds(compare, seeds(20, 5000, full=500), tmp_path)


def places(numbers: Sequence[tuple[FilePlace, int]]) -> tuple[dict[Any, int], dict[bytes, int]]:
    """The highest number of each bucket, and the last number of buckets of each partition."""
    highest: dict[Any, int] = {}
    for place, number in numbers:
        highest[place.place] = max(number, highest.get(place.place, number))
    return highest, {place.partition: place.total_buckets for place, _ in numbers if place.bucket >= 0}


def plain_places(commits: Sequence[Sequence[ManifestEntry]]) -> Any:
    live = plain_live(commits, all_places)
    return live if isinstance(live, type) else places([(e.file_place, e.file.max_sequence_number) for e in live])


def test_entries_are_made_of_wanted_places_alone(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("v", pa.int64())])
    options = {"bucket": 1, "write-only": True}
    table = catalog.create_table("a.t", schema, primary_key=["p", "k"], partition_by=["p"], options=options)
    for number in range(5):
        table.write(pa.table({"p": range(10), "k": [number] * 10, "v": [number] * 10}, schema=schema))
    manifest.forget()
    made: list[int] = []
    entries = manifest._entries

    def counted(columns: Any, rows: Any) -> list[ManifestEntry]:
        made.append(len(entries(columns, rows)))
        return entries(columns, rows)

    monkeypatch.setattr(manifest, "_entries", counted)
    again = catalog.table("a.t")
    assert again.to_arrow(where="p = 3")["k"].to_pylist() == [0, 1, 2, 3, 4]
    assert sum(made) == 5
    made.clear()
    manifest.forget()
    catalog.table("a.t").write(pa.table({"p": [3], "k": [9], "v": [9]}, schema=schema))
    assert sum(made) == 0
    assert sorted(catalog.table("a.t").to_arrow(where="p = 3")["k"].to_pylist()) == [0, 1, 2, 3, 4, 9]
