"""The same operations on tables with different options: whatever the buckets, files, formats and triggers, all read the same."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, Table
from tests.scale import amount, blocks, seeds, try_seeds

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int64()), ("text", pa.string())])


def random_options(chosen: random.Random) -> dict[str, Any]:
    """Options that change how a table is laid out, and must not change what it says."""
    producer = chosen.choice(["none", "input", "lookup", "full-compaction"])
    write_only = chosen.choice([True, False])
    return {
        "bucket": chosen.choice([1, 2, 3]),
        "file.format": chosen.choice(["parquet", "parquet", "orc", "avro"]),
        "file.format.per.level": chosen.choice(["", "0:avro", "2:orc", "0:orc,2:parquet"]),
        "file.compression": chosen.choice(["zstd", "snappy"]),
        "target-file-size": chosen.choice(["1 kb", "16 kb", "128 mb"]),
        "write-buffer-size": chosen.choice(["1 kb", "256 mb"]),
        "parquet.row-group.rows": chosen.choice([4, 64, 100_000]),
        "source.split.target-size": chosen.choice(["1 kb", "128 mb"]),
        "source.split.open-file-cost": chosen.choice(["1 b", "4 mb"]),
        "num-sorted-run.compaction-trigger": chosen.choice([2, 3, 5]),
        "compaction.size-ratio": chosen.choice([1, 50]),
        "write-only": write_only,
        "manifest.merge-min-count": chosen.choice([2, 30]),
        "manifest.full-compaction-threshold-size": chosen.choice(["1 kb", "16 mb"]),
        "manifest.compression": chosen.choice(["zstd", "deflate", "null"]),
        "metadata.stats-mode": chosen.choice(["none", "counts", "truncate(2)", "full"]),
        "changelog-producer": producer,
        # Where nobody compacts, rows would not be seen.
        "deletion-vectors.enabled": not write_only and producer != "full-compaction" and chosen.choice([True, False]),
        "deletion-vectors.bitmap64": chosen.choice([True, False]),
        "partition.legacy-name": chosen.choice([True, False]),
    }


def random_operation(chosen: random.Random) -> tuple[str, Any]:
    def rows(most: int) -> list[tuple[Any, ...]]:
        return [
            (
                chosen.choice("xy"),
                chosen.randrange(80),
                chosen.choice([None, chosen.randrange(50)]),
                chosen.choice(["a", "ü", None]),
            )
            for _ in range(chosen.randint(1, most))
        ]

    kind = chosen.choices(
        ["write", "change", "overwrite", "delete", "update", "compact", "alter", "restart", "expire"],
        [8, 5, 1, 2, 2, 2, 0.3, 1, 0.5],
    )[0]
    if kind in ("write", "overwrite"):
        return kind, rows(25)
    if kind == "change":
        return kind, [(*row, chosen.choice(["+I", "-U", "+U", "-D"])) for row in rows(25)]
    return kind, chosen.randrange(50)


def _spread(number: int) -> int:
    """A whole number of 64 bits, another one for each small number."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
    return mixed - 2**64 if mixed >= 2**63 else mixed


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = [*SCHEMA.names, "op"]
    types = [*SCHEMA.types, pa.string()]
    # Keys that lie as far apart as keys can.
    rows = [(day, _spread(number), *rest) for day, number, *rest in rows]
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {name: pa.array(list(values), kind) for name, values, kind in zip(names, columns, types, strict=False)}
    )


def perform(catalog: Catalog, name: str, table: Table, operation: tuple[str, Any]) -> Table:
    kind, what = operation
    match kind:
        case "write":
            table.write(arrow(what))
        case "change":
            table.write(arrow(what), row_kind_column="op")
        case "overwrite":
            table.overwrite(arrow(what))
        case "delete":
            table.delete(f"v = {what} OR (day = 'x' AND id < {what // 4})")
        case "update":
            table.update(f"v > {what}", {"text": f"t{what}"})
        case "compact":
            table.compact(full=what % 2 == 0)
        case "alter":
            if f"c{what}" not in table.schema.column_names:
                return table.alter(AddColumn(f"c{what}", pa.int64()))
        case "expire":
            table.expire(retain_last=what + 1)
        case "restart":
            return catalog.table(name)
    return table


def run(seed: int, directory: Path) -> None:
    chosen = random.Random(seed)
    catalog = Catalog(str(directory))
    tables = {
        name: catalog.create_table(name, SCHEMA, primary_key=["day", "id"], partition_by=["day"], options=options)
        for name, options in {"m.plain": {"bucket": 1}, "m.random": random_options(chosen)}.items()
    }
    for step in range(amount(150, 5000, full=1000)):
        operation = random_operation(chosen)
        tables = {name: perform(catalog, name, table, operation) for name, table in tables.items()}
        if step % 25 == 24:
            where = chosen.choice(
                [None, f"v < {chosen.randrange(50)}", "day = 'y' AND text IS NOT NULL", "id IN (3, 70)"]
            )
            plain, two = (
                sorted((tuple(row.values()) for row in table.to_arrow(where=where).to_pylist()), key=str)
                for table in tables.values()
            )
            assert plain == two, f"seed {seed}, step {step}, {operation[0]}, {where}"
    for table in tables.values():
        assert table.check(deep=True) == []


@pytest.mark.parametrize("chosen", blocks(seeds(6, 1000, full=20), 1), ids=str)
def test_options_of_layout_do_not_change_what_a_table_says(tmp_path: Path, chosen: Sequence[int]) -> None:
    try_seeds(run, chosen, tmp_path)
