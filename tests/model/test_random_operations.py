"""Random operations on a table and on plain dictionaries: both must always agree, at every version."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, DropColumn, RenameColumn, Table
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from tests.histories import random_of, try_histories
from tests.scale import amount, blocks, seeds

Key = tuple[str | None, int]
Rows = dict[Key, tuple[int | None, str | None]]
UPSERT = [
    MergeClause("matched", "delete", "source.number > 40"),
    MergeClause("matched", "update", "source.number IS NOT NULL"),
    MergeClause("not matched", "insert", values={name: f"source.{name}" for name in ("day", "id", "number", "text")}),
]
DAYS = ["a", "b", "c d/e", "ü"]
STEPS = amount(35, 100, full=50)
# The share of steps after which the table is read.
CHECKED = 0.2


def arrow(rows: list[tuple[Any, ...]], with_kind: bool = False) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * (5 if with_kind else 4)
    types = [pa.string(), pa.int32(), pa.int64(), pa.string(), pa.string()]
    names = ["day", "id", "number", "text", "kind"]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=False)]
    return pa.Table.from_arrays(arrays, names[: len(arrays)])


class Model:
    """A table with a key, and what should be in it."""

    def __init__(self, directory: Path, seed: int, engine: Any) -> None:
        self.random = random.Random(seed)
        self.rows: Rows = {}
        self.versions: dict[int | str, Rows] = {}
        options = {
            "bucket": engine["bucket"],
            "manifest.merge-min-count": 3,
            "parquet.row-group.rows": 16,
            "target-file-size": "2 kb",
            "source.split.target-size": "4 kb",
            "source.split.open-file-cost": "1 kb",
            "file.format": engine["format"],
            "changelog-producer": engine.get("producer", "none"),
            "dynamic-bucket.target-row-num": 9,
            "dynamic-bucket.max-buckets": engine.get("most", -1),
            "deletion-vectors.enabled": engine.get("vectors", False),
        }
        # Whether a row of a key may move from one day to another.
        self.moves: bool = engine.get("moves", False)
        self.is_dynamic = engine["bucket"] == -1
        self.catalog = Catalog(str(directory))
        self.columns = 0
        schema = pa.schema([("day", pa.string()), ("id", pa.int32()), ("number", pa.int64()), ("text", pa.string())])
        self.table: Table = self.catalog.create_table(
            "m.t",
            schema,
            primary_key=["id"] if self.moves else ["day", "id"],
            partition_by=["day"] if engine["partitioned"] else [],
            options=options,
        )

    def row(self, day: str | None = None) -> tuple[Any, ...]:
        chance = self.random
        value = (chance.choice([None, chance.randrange(50)]), chance.choice([None, "t" * chance.randrange(30), "é"]))
        return (day or chance.choice(DAYS), chance.randrange(60), *value)

    def write(self) -> None:
        rows = [self.row() for _ in range(self.random.randrange(1, 80))]
        self.table.write(arrow(rows))
        self._put(rows)

    def _put(self, rows: list[tuple[Any, ...]]) -> None:
        for day, number, first, second in rows:
            self._remove(day, number)
            self.rows[day, number] = (first, second)

    def _remove(self, day: str, number: int) -> None:
        for other in DAYS if self.moves else (day,):
            self.rows.pop((other, number), None)

    def change(self) -> None:
        rows = [
            (*self.row(), self.random.choice(["+I", "+U", "-U", "-D"])) for _ in range(self.random.randrange(1, 60))
        ]
        self.table.write(arrow(rows, with_kind=True), row_kind_column="kind")
        for day, number, first, second, kind in rows:
            if kind[0] == "+":
                self._put([(day, number, first, second)])
            else:
                self._remove(day, number)

    def delete(self) -> None:
        limit = self.random.randrange(50)
        self.table.delete(f"number < {limit} OR number IS NULL")
        self.rows = {key: row for key, row in self.rows.items() if row[0] is not None and row[0] >= limit}

    def overwrite(self) -> None:
        rows = [self.row() for _ in range(self.random.randrange(1, 30))]
        self.table.overwrite(arrow(rows), dynamic=False if self.moves else None)
        if self.table.schema.partition_keys and not self.moves:
            written = {row[0] for row in rows}
            self.rows = {key: row for key, row in self.rows.items() if key[0] not in written}
        else:
            self.rows = {}
        self._put(rows)

    def compact(self) -> None:
        self.table.compact(full=self.random.random() < 0.3)

    def update(self) -> None:
        limit = self.random.randrange(50)
        self.table.update(f"number < {limit}", {"text": f"u{limit}"})
        self.rows = {
            key: (row[0], f"u{limit}") if row[0] is not None and row[0] < limit else row
            for key, row in self.rows.items()
        }

    def merge(self) -> None:
        if self.moves:
            # What it joins by would have to be the key.
            return
        source = {row[:2]: row[2:] for row in (self.row() for _ in range(20))}
        columns = ["day", "id", "number", "text"]
        extra = [name for name in self.table.schema.column_names if name not in columns]
        clauses = [
            UPSERT[0],
            MergeClause(
                "matched", "update", UPSERT[1].condition, {name: f"source.{name}" for name in ("number", "text")}
            ),
            UPSERT[2],
        ]
        assert len(extra) <= 1
        merge_rows(self.table, arrow([(*key, *row) for key, row in source.items()]), ["day", "id"], clauses)
        for key, row in source.items():
            if key not in self.rows:
                self.rows[key] = row
            elif row[0] is not None and row[0] > 40:
                del self.rows[key]
            elif row[0] is not None:
                self.rows[key] = row

    def evolve(self) -> None:
        extra = [name for name in self.table.schema.column_names if name.startswith("extra")]
        self.columns += 1
        if not extra:
            self.table = self.table.alter(AddColumn(f"extra{self.columns}", pa.string()))
        elif self.random.random() < 0.5:
            self.table = self.table.alter(RenameColumn(extra[0], f"extra{self.columns}"))
        else:
            self.table = self.table.alter(DropColumn(extra[0]))

    def restart(self) -> None:
        self.table = Catalog(self.catalog.warehouse).table("m.t")

    def rescale(self) -> None:
        if self.is_dynamic:
            return
        self.table.rescale(self.random.randint(1, 4))
        self.restart()

    def expire(self) -> None:
        removal = self.table.expire(retain_last=self.random.randint(1, 10))
        for snapshot_id in removal.snapshot_ids:
            self.versions.pop(snapshot_id, None)

    def tag(self) -> None:
        if snapshot := self.table.snapshot():
            name = f"t{snapshot.id}"
            self.table.tags.create(name)
            self.versions[name] = dict(self.rows)

    def remember(self) -> None:
        if snapshot := self.table.snapshot():
            self.versions[snapshot.id] = dict(self.rows)

    def check(self) -> None:
        if snapshot := self.table.snapshot():
            for version in [snapshot.id, self.random.choice(list(self.versions))]:
                self.compare(version, self.versions[version])

    def compare(self, version: int | str, expected: Rows) -> None:
        rows = self.table.to_arrow(version=version).to_pylist()
        assert len(rows) == len(expected)
        assert {(row["day"], row["id"]): (row["number"], row["text"]) for row in rows} == expected
        assert self.table.count(version=version) == len(expected)
        day, low = self.random.choice(DAYS), self.random.randrange(60)
        conditions: list[tuple[str, Any]] = [
            (f"day = '{day}' AND id >= {low}", lambda key, row: key[0] == day and key[1] >= low),
            (f"number >= {low}", lambda key, row: row[0] is not None and row[0] >= low),
            (f"id = {low} OR text IS NULL", lambda key, row: key[1] == low or row[1] is None),
            (f"id IN ({low}, 3) AND NOT number = 7", lambda key, row: key[1] in (low, 3) and row[0] not in (None, 7)),
        ]
        where, keeps = self.random.choice(conditions)
        narrow = self.table.to_arrow(columns=["text", "id"], where=where, version=version)
        wanted = sorted(((row[1], key[1]) for key, row in expected.items() if keeps(key, row)), key=str)
        assert sorted(((row["text"], row["id"]) for row in narrow.to_pylist()), key=str) == wanted, where


ENGINES: list[dict[str, Any]] = [
    {"bucket": 1, "partitioned": True, "format": "parquet"},
    {"bucket": 3, "partitioned": False, "format": "parquet"},
    {"bucket": 2, "partitioned": True, "format": "orc"},
    {"bucket": 2, "partitioned": True, "format": "avro", "producer": "input"},
    {"bucket": 2, "partitioned": False, "format": "parquet", "producer": "lookup"},
    {"bucket": -1, "partitioned": True, "format": "parquet"},
    {"bucket": -1, "partitioned": False, "format": "avro", "producer": "lookup", "most": 3},
    {"bucket": -1, "partitioned": True, "format": "parquet", "moves": True},
    {"bucket": -1, "partitioned": True, "format": "orc", "producer": "input", "moves": True},
    {"bucket": 2, "partitioned": True, "format": "parquet", "vectors": True},
    {"bucket": 1, "partitioned": False, "format": "orc", "producer": "lookup", "vectors": True},
]


def run(engine: dict[str, Any], seed: int, steps: Sequence[int], directory: Path) -> None:
    model = Model(directory, seed, engine)
    acts = [
        *[model.write, model.change] * 2,
        model.delete,
        model.overwrite,
        model.compact,
        model.tag,
        model.update,
        model.merge,
        model.evolve,
        model.restart,
        model.rescale,
        model.expire,
    ]
    for step in steps:
        model.random = random_of(seed, step)
        model.random.choice(acts)()
        model.remember()
        if model.random.random() < CHECKED:
            model.check()
    model.check()
    assert model.table.check(deep=model.is_dynamic) == []


@pytest.mark.parametrize("chosen", blocks(seeds(2, 20_000, full=40), 4), ids=lambda chosen: f"{chosen[0]}-{chosen[-1]}")
@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_a_table_agrees_with_a_dictionary_under_random_operations(
    tmp_path: Path, engine: dict[str, Any], chosen: Sequence[int]
) -> None:
    try_histories(partial(run, engine), chosen, STEPS, tmp_path)
