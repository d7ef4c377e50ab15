"""Files of every kind are damaged, one at a time: whoever reads gets the same rows as before, or CorruptData that names
the file; `check` goes on and tells of it. What no checksum covers is counted (`docs/damage.md`).

A seed stands for a mutation. `python -m tests.model.test_mutations` tries all of them and prints the table of the docs.
"""

import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from storage import (
    Catalog,
    CommitId,
    CorruptData,
    FailedWork,
    FixedClock,
    SetOptions,
    StorageError,
    Table,
    View,
    ViewColumn,
)
from storage.document import CHECKSUM
from storage.engines.duckdb_statistics import analyze
from storage.engines.duckdb_views import add_scan
from storage.journal import Publication
from storage.metadata import manifest
from storage.metadata.trouble import COMPACTION, EXPIRY
from tests.scale import amount

FIXTURE = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables" / "jv_dv"
MUTATIONS = 2_000
OURS, FOREIGN = "ours", "foreign"


@dataclass(frozen=True)
class Place:
    """A file, what kind of file it is, and the table that is asked for its rows."""

    path: Path
    kind: str
    table: str
    writer: str = OURS


Answer = Callable[[], Any]


def build(directory: Path) -> tuple[list[Place], dict[str, list[tuple[str, Answer]]]]:
    """A warehouse with files of every kind, and the questions that are asked of each table."""
    warehouse = str(directory / "warehouse")
    clock = FixedClock()
    catalog = Catalog(warehouse, clock=clock, options={"table-default.manifest.compression": "zstd"})
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.float64()), ("text", pa.string())])

    def rows(first: int, count: int = 24) -> pa.Table:
        ids = range(first, first + count)
        return pa.table(
            {
                "day": [f"d{row_id % 2}" for row_id in ids],
                "id": list(ids),
                "v": [row_id / 7 for row_id in ids],
                "text": [None if row_id % 9 == 0 else f"text {row_id * 7919 % 1000}" for row_id in ids],
            },
            schema=schema,
        )

    for name, file_format in (("parquet", "parquet"), ("orc", "orc"), ("avro", "avro")):
        keyed = catalog.create_table(
            f"a.keyed_{name}",
            schema,
            primary_key=["id"],
            options={
                "bucket": 1,
                "write-only": True,
                "changelog-producer": "input",
                "file.format": file_format,
                "changelog.num-retained.max": 10,
                "snapshot.num-retained.min": 1,
            },
        )
        for number in range(2):
            clock.advance_ms(1000)
            keyed.write(rows(number * 10), commit_id=CommitId(f"job {number}", 1))
        keyed.tags.create("first", snapshot_id=1)
        keyed.tags.create("second", snapshot_id=2)
        keyed.delete("id = 5")
        keyed.branches.create("fix", tag="second")
        keyed.branches.create("fox", tag="first")
        keyed.on_branch("fix").write(rows(500, 10))
        keyed.alter(SetOptions({"write-buffer-size": "64 mb"}))
        keyed.write(rows(7, 8))
        keyed.compact(full=True)
        keyed.expire(retain_last=3)
        keyed.consumers.reset("reader", 3)
        keyed.consumers.reset("other", 4)
        for kind in (COMPACTION, EXPIRY):
            keyed.store.troubles.record(kind, CorruptData("File x is damaged."), clock.now_ms(), 4)
        plain = catalog.create_table(
            f"a.plain_{name}", schema, options={"file.format": file_format, "write-only": True}
        )
        plain.write(rows(0))
        plain.write(rows(100))
    large = catalog.create_table("a.large", schema, options={"parquet.row-group.rows": 300, "write-only": True})
    large.write(rows(0, 1200))
    # Files beside the rows: hash indexes of dynamic buckets, file indexes, and deletion vectors of both kinds of tables.
    indexed = catalog.create_table(
        "a.indexed",
        schema,
        primary_key=["id"],
        options={
            "bucket": -1,
            "dynamic-bucket.target-row-num": 15,
            "file-index.bloom-filter.columns": "text",
            "file-index.bitmap.columns": "day",
            "file-index.in-manifest-threshold": "1 b",
        },
    )
    indexed.write(rows(0))
    indexed.write(rows(20))
    for name, key in (("marked_lsm", ["id"]), ("marked_append", [])):
        marked = catalog.create_table(
            f"a.{name}", schema, primary_key=key, options={"bucket": 1 if key else -1, "deletion-vectors.enabled": True}
        )
        marked.write(rows(0))
        marked.write(rows(30))
        marked.delete("id IN (0, 5, 31, 44)")
    analyzed = catalog.create_table("a.analyzed", schema)
    analyzed.write(rows(0))
    analyze(analyzed, None)
    catalog.views.create("a.seen", View("SELECT id FROM a.analyzed", (ViewColumn("id", "BIGINT"),)))
    replaced = catalog.create_table("a.replaced", schema, primary_key=["day", "id"], options={"bucket": 1})
    replaced.write(rows(0))
    for branch in ("main1", "main3"):
        replaced.branches.create(branch)
        replaced.on_branch(branch).write(rows(ord(branch[-1])))
    replaced.branches.replace_main("main1")
    catalog.create_table("a.old_name", schema).write(rows(0))
    catalog.rename_table("a.old_name", "a.renamed")
    journal = catalog._journal
    for branch, name in zip(("one", "two"), _OF_PUBLICATION.values(), strict=True):
        publication = journal.open(Publication("", branch, {name: 1}, False))
        # Its mark on the table: what is damaged in the journal concerns only tables that bear one.
        store = catalog.table(name).store
        store.tags.create(publication.tag, store.snapshots.get(1))
    shutil.copytree(FIXTURE / "golden.db", Path(warehouse) / "golden.db")

    def fresh(name: str) -> Table:
        return Catalog(warehouse, clock=clock).table(name)

    def pages(name: str, version: Any = None, where: str | None = None) -> Answer:
        return lambda: counted(fresh(name).to_arrow(version=version, where=where))

    def natively(name: str) -> Any:
        connection = duckdb.connect()
        try:
            add_scan(connection, "a", "t", fresh(name).scan())
            return counted(connection.sql("SELECT * FROM a.t").to_arrow_table())
        finally:
            connection.close()

    questions: dict[str, list[tuple[str, Answer]]] = {}
    for name in catalog.tables():
        asked: list[tuple[str, Answer]] = [("rows", pages(name)), ("some rows", pages(name, where="id >= 15"))]
        if "keyed" in name:
            asked += [("a tag", pages(name, "second")), ("another tag", pages(name, "first"))]
            asked += [("a branch", pages(f"{name}$branch_fix")), ("another branch", pages(f"{name}$branch_fox"))]
            asked.append(("changes", lambda name=name: counted(fresh(name).changes(after=1))))
            asked.append(("commit ids", lambda name=name: [_made(fresh(name), number) for number in range(2)]))
            asked.append(("troubles", lambda name=name: fresh(name).troubles()))
            asked.append(("consumers", lambda name=name: fresh(name).store.consumers.all()))
        if "plain" in name:
            asked.append(("a consistent view", lambda name=name: counted(_view(warehouse, name).to_arrow())))
        if name == "a.indexed":
            asked.append(("rows by a file index", pages(name, where="text = 'text 838' and day = 'd0'")))
            asked.append(("buckets of keys", lambda name=name: _placed(fresh(name), rows(0))))
        if "parquet" in name or "marked" in name or name == "a.large":
            asked.append(("rows by DuckDB", lambda name=name: natively(name)))
        if name == "a.analyzed":
            asked.append(("statistics", lambda name=name: counted(fresh(name).system_table("statistics"))))
            asked.append(("a view", lambda: Catalog(warehouse, clock=clock).views.get("a.seen")))
        if name == "a.replaced":
            asked.append(("a branch", pages(f"{name}$branch_main3")))
        if name == "a.renamed":
            asked.append(("former names", lambda: Catalog(warehouse, clock=clock).former_names("a.renamed")))
        questions[name] = asked
    return sorted(_places(directory, catalog), key=lambda place: str(place.path)), questions


# The table that each publication has come to.
_OF_PUBLICATION = {"open-00000001": "a.plain_orc", "open-00000002": "a.plain_avro"}


def _made(table: Table, number: int) -> Any:
    """The snapshot that is found for a commit whose own has expired."""
    return table.new_commit(CommitId(f"job {number}", 1)).find_committed()


def _placed(table: Table, rows: pa.Table) -> Any:
    """How many rows come to each bucket, if these were written: writers look keys up where readers do not."""
    writer = table.new_write()
    try:
        writer.write(rows)
        return sorted((entry.bucket, entry.file.row_count) for entry in writer.prepare_commit().added)
    finally:
        writer.abort()


def _view(warehouse: str, name: str) -> Table:
    return Catalog(warehouse).consistent([name])[name]


def counted(rows: pa.Table) -> Counter[Any]:
    """The rows of a table, whatever their order; NaN is itself."""
    return Counter(map(repr, rows.to_pylist()))


def _places(directory: Path, catalog: Catalog) -> Iterator[Place]:
    warehouse = directory / "warehouse"
    for path in sorted(warehouse.rglob("*")):
        if not path.is_file():
            continue
        parts = path.relative_to(warehouse).parts
        if len(parts) < 3:
            kind = (
                "catalog options"
                if parts[0] == "catalog-options.json"
                else "view"
                if path.suffix == ".view"
                else "journal"
            )
            table = "a.analyzed" if kind == "view" else _OF_PUBLICATION.get(path.name, "a.plain_orc")
            yield Place(path, kind, table)
            continue
        writer = FOREIGN if parts[0].startswith("golden") else OURS
        yield Place(path, _kind(path), f"{parts[0].removesuffix('.db')}.{parts[1]}", writer)


def _kind(path: Path) -> str:
    name, directory = path.name, path.parent.name
    if name in ("MAIN-BRANCH", "FORMER-NAMES", "ORIGIN"):
        return name
    if name in ("LATEST", "EARLIEST", "EXPIRING"):
        return "hint"
    if directory == "manifest":
        for start, kind in (("manifest-list", "manifest list"), ("index-manifest", "index manifest")):
            if name.startswith(start):
                return kind
        return "manifest"
    if name.endswith(".index"):
        return "file index"
    if directory == "index" and path.parents[1].name == "indexed":
        return "hash index"
    if name.startswith(("data-", "changelog-")) and "." in name:
        return f"{name.partition('-')[0]} file, {name.rpartition('.')[2]}"
    return {"index": "deletion vectors", "committed": "commit ids", "branch": "closing"}.get(directory, directory)


# --- what is done to a file


def flip(data: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def truncate(data: bytes, chosen: random.Random) -> bytes:
    return data[: chosen.randrange(len(data))]


def garbage(data: bytes, chosen: random.Random) -> bytes:
    """Random bytes over a part of the file, or over all of it."""
    start, end = sorted((chosen.randrange(len(data)), chosen.randrange(1, len(data) + 1)))
    if chosen.random() < 0.3:
        start, end = 0, len(data)
    return data[:start] + chosen.randbytes(end - start) + data[end:]


def zeros(data: bytes, chosen: random.Random) -> bytes:
    """A sector that was never written."""
    start = chosen.randrange(len(data))
    return data[:start] + bytes(min(512, len(data) - start)) + data[start + 512 :]


def huge(data: bytes, chosen: random.Random) -> bytes:
    """A number that is far too large: in digits, or as lengths are written in binary."""
    start = chosen.randrange(len(data))
    if data[:1] in (b"{", b"["):
        digits = [number for number, byte in enumerate(data) if 0x30 <= byte <= 0x39]
        start = chosen.choice(digits) if digits else start
        return data[:start] + b"9" * chosen.choice([19, 30, 5000]) + data[start + 1 :]
    number = chosen.choice([b"\xff\xff\xff\xff\x07", b"\xfe" + b"\xff" * 8 + b"\x01", b"\x7f\xff\xff\xff", b"\xff" * 8])
    return data[:start] + number + data[start + len(number) :]


def deep(data: bytes, chosen: random.Random) -> bytes:
    """JSON without end, as the document or inside of it."""
    nested = chosen.choice([b'{"a":' * 50_000, b"[" * 50_000, b"[" * 50_000 + b"]" * 50_000])
    start = data.find(b": ") + 2 if chosen.random() < 0.5 else 0
    return data[:start] + nested + data[start:]


def empty(data: bytes, chosen: random.Random) -> bytes:
    return b""


HARMS = {harm.__name__: harm for harm in (flip, truncate, garbage, zeros, huge, deep, empty)}
_WEIGHTS = {"flip": 40, "truncate": 12, "garbage": 12, "zeros": 8, "huge": 10, "deep": 3, "empty": 3, "swap": 12}


@dataclass(frozen=True)
class Outcome:
    """What came of a mutation: equal rows, noticed, or a failure that says what."""

    place: Place
    harm: str
    result: str
    in_check: bool
    failure: str = ""


class Bench:
    """The warehouse, what it answers when it is sound, and the mutations, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.places, self.questions = build(directory)
        self.by_kind: dict[tuple[str, str], list[Place]] = {}
        for place in self.places:
            self.by_kind.setdefault((place.kind, place.writer), []).append(place)
        self.sound = {name: [(what, ask()) for what, ask in asked] for name, asked in self.questions.items()}
        self.warehouse = str(directory / "warehouse")
        for name in self.questions:
            problems = Catalog(self.warehouse).table(name).check(deep=True)
            assert all(isinstance(problem, FailedWork) for problem in problems), problems

    def mutate(self, seed: int) -> Outcome:
        chosen = random.Random(seed)
        kind, writer = chosen.choice(sorted(self.by_kind))
        place = chosen.choice(self.by_kind[kind, writer])
        harm = chosen.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        others = [
            candidate
            for candidate in self.by_kind[kind, writer]
            if candidate.path.name != place.path.name and candidate.table == place.table
        ]
        before = {place.path: place.path.read_bytes()}
        if harm == "swap" and others:
            other = chosen.choice(others)
            before[other.path] = other.path.read_bytes()
            after = {place.path: before[other.path], other.path: before[place.path]}
        else:
            harm = "flip" if harm == "swap" else harm
            after = {place.path: HARMS[harm](before[place.path], chosen)}
        for path, data in after.items():
            path.write_bytes(data)
        try:
            return self._ask(place, harm, [path.name for path in after], after == before)
        finally:
            for path, data in before.items():
                path.write_bytes(data)

    def _ask(self, place: Place, harm: str, names: list[str], same: bool) -> Outcome:
        result, failure = "equal", ""
        for what, wanted in self.sound[place.table]:
            manifest.forget()
            try:
                got = dict(self.questions[place.table])[what]()
            except CorruptData as error:
                if any(name.removeprefix("tag-") in str(error) for name in names):
                    result = "noticed" if not result.startswith("other") else result
                elif place.writer == FOREIGN:
                    # Nor does it tell which of two files that do not fit is damaged.
                    result = "noticed" if result == "equal" else result
                else:
                    failure = failure or f"{what}: names no file: {error}"
            except StorageError as error:
                if place.writer == FOREIGN:
                    # Without a checksum a name that is wrong is one of a file that is missing.
                    result = "noticed" if result == "equal" else result
                    continue
                failure = failure or f"{what}: {type(error).__name__}: {error}"
            except BaseException as error:
                failure = failure or f"{what}: {type(error).__name__}: {error}"[:500]
            else:
                if got != wanted:
                    result = "other rows"
        lines = self._check(place)
        in_check = any(name in line for line in lines for name in names)
        if lines and lines[0].startswith("died"):
            failure = failure or lines[0]
        if result == "other rows" and place.writer == OURS:
            failure = failure or "other rows"
        if result == "noticed" and place.writer == OURS and not in_check:
            failure = failure or f"check does not tell: {lines}"
        return Outcome(place, harm, "equal" if same else result, in_check, failure)

    def _check(self, place: Place) -> list[str]:
        """What `check` tells, by a table that was opened when it was sound and, if it can be, by one that is opened now."""
        try:
            catalog = Catalog(self.warehouse)
            table = catalog.table(place.table)
        except StorageError as error:
            return [str(error)]
        except BaseException as error:
            return [f"died: {type(error).__name__}: {error}"]
        try:
            of_the_warehouse = catalog.check() if place.kind in _OF_THE_WAREHOUSE else []
            return [str(problem) for problem in (*table.check(deep=True), *of_the_warehouse)]
        except BaseException as error:
            return [f"died in check: {type(error).__name__}: {error}"]


# What no file of the store holds: each of them, in the place of any, is told by name.
GARBAGE = (
    b"",
    b"\x00" * 40,
    b"\xff\xfe",
    b"{",
    b"{}",
    b"[]",
    b"null",
    b"-1",
    b'"text"',
    b'{"id": 1}',
    b"[" * 50_000,
)
# In the place of each value of a document that says what it is: some of them may make sense.
_VALUES = (None, True, -1, 10**30, 1.5, "", "text", "../x", "\ud800", [], {}, [None], {"a": 1})
# Told when the warehouse is opened, or by its own check, where a table does not need them.
_OF_THE_WAREHOUSE = ("journal", "catalog options", "view")
# What says that there is nothing.
_SOUND = {("FORMER-NAMES", b"[]"), ("catalog options", b"{}"), ("hint", b"")}
_BINARY = ("manifest", "manifest list", "index manifest", "deletion vectors")


def _small(places: list[Place]) -> list[Place]:
    """One file of each kind and name of those that are documents or lines, for each of a table and a branch of it."""
    kept: dict[tuple[str, str, str], Place] = {}
    for place in places:
        if place.kind not in _BINARY and " file, " not in place.kind:
            kept.setdefault((place.kind, place.writer, re.sub(r"[0-9a-f-]{8,}|\d+", "", place.path.name)), place)
    return list(kept.values())


def _is_read_deep(place: Place) -> bool:
    """Whether only `check --deep` reads the file: an index of a data file is as large as its columns are long."""
    return place.kind == "file index"


def _checked(warehouse: str, place: Place) -> list[str]:
    """The lines by which `snapline check` names what is wrong, with those of the warehouse. Raises what ends it."""
    manifest.forget()
    try:
        catalog = Catalog(warehouse)
        table = catalog.table(place.table)
    except CorruptData as error:
        return [str(error)]
    return [str(problem) for problem in (*table.check(deep=_is_read_deep(place)), *catalog.check())]


@pytest.mark.pypaimon_differs("its tables are damaged on purpose")
def test_garbage_in_any_small_file_is_a_line_of_check_and_never_its_end(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    places = _small(build(tmp_path)[0])
    opened = {small_place.table: Catalog(warehouse).table(small_place.table) for small_place in places}
    assert len({small_place.kind for small_place in places}) >= 14
    wrong: list[str] = []
    for place in places:
        sound = place.path.read_bytes()
        for garbage in GARBAGE:
            place.path.write_bytes(garbage)
            # Also for whoever opened the table when it was sound.
            known = [str(problem) for problem in opened[place.table].check(deep=_is_read_deep(place))]
            for lines in (_checked(warehouse, place), *(() if place.kind in _OF_THE_WAREHOUSE else (known,))):
                makes_sense = (place.kind, garbage) in _SOUND
                if not makes_sense and not any(place.path.name in line for line in lines):
                    wrong.append(f"{place.kind} {place.path}: {garbage[:20]!r}: {lines}")
        place.path.write_bytes(sound)
    assert not wrong, "\n".join(wrong)


@pytest.mark.pypaimon_differs("its tables are damaged on purpose")
def test_no_value_in_a_document_ends_check(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    chosen = random.Random(1)
    for place in _small(build(tmp_path)[0]):
        sound = place.path.read_bytes()
        if not sound.startswith(b"{"):
            continue
        for key in json.loads(sound):
            for value in chosen.sample(_VALUES, amount(3, len(_VALUES))):
                # Without a checksum, as another writer writes it: only the value tells.
                document = {name: held for name, held in json.loads(sound).items() if name != CHECKSUM} | {key: value}
                place.path.write_text(json.dumps(document))
                _checked(warehouse, place)
        place.path.write_bytes(sound)


def table_of(outcomes: list[Outcome]) -> str:
    """The counts, as they stand in the docs."""
    lines = [
        "| file | mutations | error by name | equal rows | other rows | a line of `check` |",
        "|---|---|---|---|---|---|",
    ]
    kinds = sorted({(outcome.place.writer != OURS, outcome.place.kind) for outcome in outcomes})
    for foreign, kind in kinds:
        of = [outcome for outcome in outcomes if (outcome.place.writer != OURS, outcome.place.kind) == (foreign, kind)]
        count = Counter(outcome.result for outcome in of)
        name = f"{kind} (Java Paimon's)" if foreign else kind
        lines.append(
            f"| {name} | {len(of)} | {count['noticed']} | {count['equal']} | {count['other rows']} | "
            f"{sum(outcome.in_check for outcome in of)} |"
        )
    total = Counter(outcome.result for outcome in outcomes)
    lines.append(
        f"| all | {len(outcomes)} | {total['noticed']} | {total['equal']} | {total['other rows']} | "
        f"{sum(outcome.in_check for outcome in outcomes)} |"
    )
    return "\n".join(lines)


@pytest.mark.pypaimon_differs("its tables are damaged on purpose")
def test_damaged_files_are_noticed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    given_seed = os.environ.get("SNAPLINE_TEST_SEED")
    step = amount(10, 1)
    seeds = [int(given_seed)] if given_seed else range(0, MUTATIONS, step)
    failed = [(seed, outcome) for seed in seeds if (outcome := bench.mutate(seed)).failure]
    assert not failed, "\n".join(
        f"SNAPLINE_TEST_SEED={seed}: {failed_outcome.place.kind}, {failed_outcome.harm}: "
        f"{failed_outcome.failure} ({failed_outcome.place.path})"
        for seed, failed_outcome in failed
    )


def test_every_kind_of_file_is_damaged(tmp_path: Path) -> None:
    kinds = {place.kind for place in build(tmp_path)[0]}
    assert kinds >= {
        "schema",
        "snapshot",
        "hint",
        "tag",
        "ORIGIN",
        "MAIN-BRANCH",
        "FORMER-NAMES",
        "consumer",
        "changelog",
        "manifest list",
        "manifest",
        "index manifest",
        "deletion vectors",
        "data file, parquet",
        "data file, orc",
        "data file, avro",
        "changelog file, parquet",
        "changelog file, orc",
        "changelog file, avro",
        "catalog options",
        "hash index",
        "file index",
        "journal",
        "commit ids",
        "closing",
        "trouble",
        "statistics",
        "view",
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        bench = Bench(Path(name))
        outcomes = []
        for seed in range(*(int(argument) for argument in sys.argv[1:]) if sys.argv[1:] else (MUTATIONS,)):
            outcome = bench.mutate(seed)
            outcomes.append(outcome)
            if outcome.failure:
                print(seed, outcome.place.kind, outcome.harm, outcome.failure[:300], outcome.place.path, flush=True)
        print(table_of(outcomes))
        print(json.dumps(Counter(f"{outcome.harm} {outcome.result}" for outcome in outcomes), indent=0, sort_keys=True))
