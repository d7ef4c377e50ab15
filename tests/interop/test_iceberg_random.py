"""Random histories of tables of every kind: after each step readers of Iceberg see the rows that this store sees."""

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, ChangeType, DropColumn, RenameColumn, Table
from storage.data_types import DataType, parse_type
from tests import scale
from tests.interop.iceberg_reader import IcebergReader, assert_seen_alike

SEEDS = scale.seeds(2, 400, full=40)
STEPS = scale.amount(10, 40)
WORDS = ["", "a", "ab", "b\u00fc", "z" * 40, "\U0001f600"]
PARTITIONS = {
    "p1": ("STRING", lambda r: r.choice(["x", "y/z", None])),
    "p2": ("DATE", lambda r: r.choice([dt.date(2024, 2, 29), dt.date(1965, 1, 1), None])),
    "p3": ("TIMESTAMP(6)", lambda r: r.choice([dt.datetime(2024, 2, 29, 1), None])),
    "p4": ("INT", lambda r: r.choice([-1, 2])),
}
# Kinds of columns: the type, the wider one that it may get, a value, and how a condition spells it.
KINDS: list[tuple[str, str | None, Callable[[random.Random], Any], Callable[[Any], str] | None]] = [
    ("INT", "BIGINT", lambda r: r.randint(-3, 3), str),
    ("SMALLINT", "INT", lambda r: r.randint(-300, 300), str),
    ("FLOAT", "DOUBLE", lambda r: r.choice([0.5, -1.25, 1e30, float("nan")]), None),
    ("DECIMAL(6, 2)", "DECIMAL(20, 2)", lambda r: Decimal(r.randint(-500, 500)) / 100, str),
    ("VARCHAR(50)", "STRING", lambda r: r.choice(WORDS), lambda value: f"'{value}'"),
    ("BOOLEAN", None, lambda r: r.random() < 0.5, lambda value: str(value).lower()),
    ("BYTES", None, lambda r: bytes([r.randint(0, 255)]), None),
    ("DATE", None, lambda r: dt.date(1969, 12, 1) + dt.timedelta(r.randint(0, 60)), lambda value: f"'{value}'"),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", lambda r: dt.datetime(1969, 12, 31, 23, 59, 59, 1000 * r.randint(0, 999)), None),
    ("ARRAY<INT>", None, lambda r: [r.randint(0, 9)] * r.randint(0, 2), None),
]


class History:
    """A table, and random changes of it."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.random = random.Random(seed)
        self.catalog = Catalog(str(directory / "warehouse"))
        self.name = "shop.t"
        self.keyed = self.random.random() < 0.5
        self.partitions = self.random.sample(sorted(PARTITIONS), self.random.choice([0, 0, 1, 2]))
        self.kinds = {f"c{number}": self.random.choice(KINDS) for number in range(4)}
        self.widened: set[str] = set()
        self.count = 4
        self.steps: list[str] = []
        self._create()

    def _create(self) -> None:
        options = {
            "metadata.iceberg.storage": self.random.choice(["table-location", "hadoop-catalog"]),
            "metadata.iceberg.compaction.max.file-num": self.random.choice(["2", "50"]),
            "metadata.iceberg.compaction.min.file-num": "2",
            "metadata.iceberg.manifest-legacy-version": self.random.choice(["true", "false"]),
            "metadata.iceberg.manifest-compression": self.random.choice(["snappy", "deflate", "null"]),
        }
        if self.keyed:
            options |= {"bucket": "2", "merge-engine": self.random.choice(["deduplicate", "partial-update"])}
        fields = [
            pa.field("id", pa.int64()),
            *(pa.field(column, parse_type(PARTITIONS[column][0]).to_arrow()) for column in self.partitions),
        ]
        fields += [pa.field(name, _type(kind).to_arrow()) for name, (kind, *_) in self.kinds.items()]
        self.catalog.create_table(
            self.name,
            pa.schema(fields),
            primary_key=["id", *self.partitions] if self.keyed else [],
            partition_by=self.partitions,
            options=options,
        )

    @property
    def table(self) -> Table:
        return self.catalog.table(self.name)

    def step(self) -> None:
        """One change, after which the table is fully compacted if readers see that alone."""
        weights = {
            self._write: 5,
            self._delete: 2,
            self._overwrite: 1,
            self._alter: 2,
            self._expire: 1,
            self._tag: 1,
            self._roll_back: 1,
            self._compact: 1,
            self._rename: 0.5,
        }
        chosen = self.random.choices(list(weights), list(weights.values()))[0]
        self.steps.append(chosen.__name__)
        chosen()
        if self.keyed:
            self.table.compact(full=True)

    def _rows(self) -> pa.Table:
        schema = self.table.schema.to_arrow()
        rows = []
        for number in self.random.sample(range(30), self.random.randint(1, 8)):
            row: dict[str, Any] = {"id": number}
            for column in self.partitions:
                value = PARTITIONS[column][1](self.random)
                row[column] = self._never_null(column) if value is None and self.keyed else value
            for name, (_, _, make, _) in self.kinds.items():
                row[name] = None if self.random.random() < 0.2 else make(self.random)
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=schema)

    def _never_null(self, name: str) -> Any:
        while (value := PARTITIONS[name][1](self.random)) is None:
            pass
        return value

    def _write(self) -> None:
        self.table.write(self._rows())

    def _delete(self) -> None:
        # In the other engine a row of kind -D takes none away.
        if self.table.store.options.merge_engine == "deduplicate":
            self.table.delete(f"id > {self.random.randint(5, 35)}")

    def _overwrite(self) -> None:
        self.table.overwrite(self._rows())

    def _compact(self) -> None:
        self.table.compact(full=True)

    def _alter(self) -> None:
        name = self.random.choice(list(self.kinds))
        kind = self.kinds[name]
        choice = self.random.choice(["add", "rename", "widen", "drop"])
        self.count += 1
        if choice == "add" or len(self.kinds) < 2:
            self.kinds[f"c{self.count}"] = self.random.choice(KINDS)
            self.table.alter(AddColumn(f"c{self.count}", _type(self.kinds[f"c{self.count}"][0])))
        elif choice == "rename":
            self.table.alter(RenameColumn(name, f"c{self.count}"))
            self.kinds = {f"c{self.count}" if column == name else column: kind for column, kind in self.kinds.items()}
        elif choice == "widen" and kind[1] is not None:
            self.table.alter(ChangeType(name, _type(kind[1])))
            self.kinds[name] = (kind[1], None, *kind[2:])
        elif choice == "drop":
            self.table.alter(DropColumn(name))
            del self.kinds[name]

    def _expire(self) -> None:
        self.table.expire(retain_last=self.random.randint(1, 3))

    def _tag(self) -> None:
        if self.table.store.snapshots.latest_id() is not None:
            self.table.tags.create(f"t{self.count}-{len(self.steps)}")

    def _roll_back(self) -> None:
        ids = self.table.store.snapshots.ids()
        if ids:
            self.table.rollback_to(self.random.choice(ids))

    def _rename(self) -> None:
        new = "shop.u" if self.name == "shop.t" else "shop.t"
        self.catalog.rename_table(self.name, new)
        self.name = new

    def compare(self, iceberg: IcebergReader) -> None:
        """Fail unless both see the same, by some conditions too."""
        table = self.table
        assert table.troubles() == []
        assert table.check() == []
        if table.store.snapshots.latest_id() is None:
            return
        assert_seen_alike(iceberg, table)
        conditions = [f"id >= {self.random.randint(0, 30)}"]
        for name, (_, _, make, spelled) in self.kinds.items():
            if spelled is not None:
                conditions.append(f"{name} {self.random.choice(['=', '<', '>='])} {spelled(make(self.random))}")
        assert_seen_alike(iceberg, table, self.random.choice(conditions))


def _type(text: str) -> DataType:
    return parse_type({"type": "ARRAY", "element": "INT"} if text == "ARRAY<INT>" else text)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories_are_seen_alike(seed: int, tmp_path: Path, iceberg: IcebergReader) -> None:
    history = History(seed, tmp_path)
    for _ in range(STEPS):
        history.step()
        try:
            history.compare(iceberg)
        except Exception as error:
            raise AssertionError(f"SNAPLINE_TEST_SEED={seed}: after {history.steps}: {error}") from error
