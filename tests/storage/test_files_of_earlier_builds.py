"""Tables whose compactions look up, and that a build has compacted which stored what level 0 added: their rows stay what they
are, whoever compacts them, until the files have gone.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.lsm.merge_engines import MergeEngine, merge_engine_of
from storage.maintain import compaction
from storage.metadata.live_files import live_files
from storage.metadata.manifest import LOOKUP_MARK, DataFile
from storage.metadata.schema import TableSchema
from storage.read import split_read
from tests.interop.java_paimon import JavaPaimon

pytestmark = [
    pytest.mark.pypaimon_differs("It merges all levels where compactions look up."),
    pytest.mark.java_differs("It takes files of earlier builds for its own."),
]
SCHEMA = pa.schema([pa.field("id", pa.int32(), False), ("s", pa.int32()), ("n", pa.int64()), ("m", pa.int64())])
ENGINES = {
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.m.aggregate-function": "max",
    },
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update by a sequence": {"merge-engine": "partial-update", "sequence.field": "s"},
    "groups": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "n,m",
        "fields.n.aggregate-function": "sum",
    },
    "sequence": {"sequence.field": "s"},
}
LOOKUPS = [{"changelog-producer": "lookup"}, {"force-lookup": "true"}]
# So many that compactions of a few rows leave them on their level.
MANY = 1500


@contextmanager
def earlier_build(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compactions store what level 0 adds, and readers merge all levels."""

    def without_lookups(schema: TableSchema) -> MergeEngine:
        engine = merge_engine_of(schema)
        engine.looks_up = False
        return engine

    with monkeypatch.context() as patch:
        for module in (compaction, split_read):
            patch.setattr(module, "merge_engine_of", without_lookups)
        yield


def make(catalog: Catalog, engine: str, options: dict[str, str]) -> Table:
    return catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1} | ENGINES[engine] | options)


def rows(chosen: random.Random, ids: list[int]) -> pa.Table:
    def number() -> int | None:
        return chosen.choice([None, *range(9)])

    return pa.Table.from_pylist([{"id": key, "s": number(), "n": number(), "m": number()} for key in ids], SCHEMA)


def held(table: Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_arrow().to_pylist()}


def files(table: Table) -> list[DataFile]:
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    return [entry.file for entry in live_files(table.store.manifests_of(snapshot), table.store.manifests)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("options", LOOKUPS, ids=["lookup", "force-lookup"])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_stay_what_they_are(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, engine: str, options: dict[str, str], file_format: str
) -> None:
    """A plain twin, of which all levels count for everybody, holds the same after each commit."""
    chosen = random.Random(f"{engine} {options} {file_format}")
    table = make(catalog, engine, options | {"file.format": file_format})
    times: list[int] = []
    twin = catalog.create_table("a.twin", SCHEMA, primary_key=["id"], options={"bucket": 1} | ENGINES[engine])

    def write(ids: list[int]) -> None:
        added = rows(chosen, ids)
        if engine == "partial-update by a sequence":
            # What becomes of rows that come late depends on what they are merged with first.
            added = added.set_column(1, SCHEMA.field("s"), pa.array([len(times)] * len(ids), pa.int32()))
        times.append(len(ids))
        table.write(added)
        twin.write(added)
        assert held(table) == held(twin)

    with earlier_build(monkeypatch):
        write(list(range(MANY)))
        for _ in range(3):
            write(chosen.sample(range(20), 6))
    old = {file.name for file in files(table)}
    assert len({file.level for file in files(table)}) > 1
    assert held(table) == held(twin)
    assert any("an earlier build has compacted it" in str(problem) for problem in table.check())
    for _ in range(6):
        write(chosen.sample(range(20), 6))
    # Rows of both sorts of files were met.
    assert old & {file.name for file in files(table)}
    assert any(LOOKUP_MARK in file.name for file in files(table))
    table.compact()
    assert held(table) == held(twin)
    assert table.check(deep=True) == []
    for _ in range(3):
        write(chosen.sample(range(20), 6))
    assert table.check(deep=True) == []
    if "force-lookup" not in options:
        replayed: dict[int, dict[str, Any]] = {}
        for change in table.changes().to_pylist():
            kind, row = change["rowkind"], {name: change[name] for name in SCHEMA.names}
            if kind in ("-U", "-D"):
                assert replayed.pop(row["id"]) == row
            else:
                assert replayed.setdefault(row["id"], row) == row
        assert replayed == held(table)


@pytest.mark.parametrize("engine", ENGINES)
def test_java_reads_them_rightly_once_they_are_compacted(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, java: JavaPaimon, engine: str
) -> None:
    chosen = random.Random(engine)
    table = make(catalog, engine, {"changelog-producer": "lookup"})
    with earlier_build(monkeypatch):
        table.write(rows(chosen, list(range(MANY))))
        for _ in range(3):
            table.write(rows(chosen, chosen.sample(range(20), 15)))

    def read_by_java() -> dict[int, dict[str, Any]]:
        java_rows = java.read(catalog.warehouse, "a.t").select(SCHEMA.names).cast(SCHEMA)
        return {row["id"]: row for row in java_rows.to_pylist()}

    before = held(table)
    assert read_by_java() != before
    table.compact()
    assert held(table) == before == read_by_java()
    table.write(rows(chosen, chosen.sample(range(20), 15)))
    java.write(catalog.warehouse, "a.t", rows(chosen, chosen.sample(range(20), 15)), table.schema.fields)
    assert held(catalog.table("a.t")) == read_by_java()
