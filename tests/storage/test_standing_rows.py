"""Files of which keys tell which rows stand, read as they are without the others, against the table read as ever."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import AddColumn, Catalog, NotFound, Scan, Table
from storage.data_types import parse_type
from storage.read import standing_rows as by_keys
from tests.scale import seeds, try_seeds
from tests.storage.row_histories import History, made, settle

DEDUPLICATED: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "write-only": {"write-only": "true"},
    "sequence field": {"sequence.field": "ts"},
    "descending": {"sequence.field": "ts", "sequence.field.sort-order": "descending"},
    "ignored deletes": {"ignore-delete": "true"},
    "cut": {"source.split.target-size": "1 b", "target-file-size": "1 b"},
}


def _rows(scan: Scan) -> list[dict[str, Any]]:
    """The rows of a scan: of the splits whose rows keys tell, by pyarrow; of the others as ever."""
    splits = by_keys.splits_told_by_keys(scan.splits)
    parts = [
        pq.ParquetFile(rows.path).read(scan.schema.names).filter(pa.array(rows.stands)).cast(scan.schema)
        for rows in by_keys.standing_rows(splits)
    ]
    known = {id(split) for split in splits}
    parts += [pa.Table.from_batches(split.read(), scan.schema) for split in scan.splits if id(split) not in known]
    return _sorted(pa.concat_tables(parts)) if parts else []


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=str)


def _compare(table: Table, version: int | None = None) -> int:
    scan = table.scan(version=version)
    assert _rows(scan) == _sorted(scan.to_arrow()), f"at {version or 'the newest'}"
    return len(by_keys.splits_told_by_keys(scan.splits))


@pytest.mark.parametrize("name", DEDUPLICATED)
@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_that_stand_are_the_rows_of_the_table(name: str, partitioned: bool, tmp_path: Path) -> None:
    count = 0

    def run(seed: int, place: Path) -> None:
        nonlocal count
        dice = random.Random(seed)
        history = History(made(place, DEDUPLICATED[name], key=True, partitioned=partitioned), dice, key=True)
        history.retracts = history.retracts and name != "ignored deletes"
        for _ in range(8):
            history.step()
            if dice.random() < 0.3:
                rows, data = history.data()
                deletes = data.append_column("op", pa.array(["-D"] * len(rows)))
                history.table.write(deletes, row_kind_column="op")
        settle(history.table)
        for version in dice.sample(sorted(history.states), min(4, len(history.states))):
            try:
                count += _compare(history.table, version)
            except NotFound:
                continue
        count += _compare(history.table)
        if history.of_branch:
            count += _compare(history.table.on_branch("b"))

    try_seeds(run, seeds(2, 400, full=40), tmp_path)
    assert count, "no split was of the kind that is tried here"


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "partial-update"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        {"merge-engine": "first-row"},
        {"file.format": "orc"},
    ],
)
def test_rows_that_no_key_tells_are_left_to_others(options: dict[str, str], tmp_path: Path) -> None:
    history = History(
        made(tmp_path, {"write-only": "true"} | options, key=True, partitioned=False), random.Random(1), key=True
    )
    for _ in range(3):
        history.write()
    assert by_keys.splits_told_by_keys(history.table.scan().splits) == []


@pytest.mark.parametrize("seed", seeds(2, 200, full=20))
def test_marked_rows_do_not_stand(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    options = {"deletion-vectors.enabled": "true", "bucket": "1"}
    table = made(tmp_path, options, key=True, partitioned=False)
    table.write(pa.table({"k": range(1000), "p": ["a"] * 1000, "v": range(1000), "ts": [0] * 1000}))
    count = 0
    for v in range(4):
        keys = dice.sample(range(1100), 5)
        table.write(pa.table({"k": keys, "p": ["a"] * 5, "v": [v] * 5, "ts": [0] * 5}))
        table.delete(f"k = {dice.randrange(1000)}")
        count += _compare(table)
    assert count


def test_files_of_an_earlier_schema_are_left_to_others(tmp_path: Path) -> None:
    table = made(tmp_path, {"write-only": "true", "bucket": "1"}, key=True, partitioned=True)
    for partition in "ab":
        for v in (1, 2):
            table.write(pa.table({"k": [1, 2], "p": [partition] * 2, "v": [v] * 2, "ts": [0, 0]}))
    assert _compare(table) == 2
    table = table.alter(AddColumn("more", parse_type("INT")))
    assert _compare(table) == 0
    for v in (3, 4):
        more = pa.array([v, v], pa.int32())
        rows = pa.table({"k": [1, v], "p": ["b", "b"], "v": [v, v], "ts": [0, 0], "more": more})
        table.overwrite(rows, dynamic=True) if v == 3 else table.write(rows)
    assert _compare(table) == 1


def test_no_more_is_kept_than_the_limits_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(
        made(tmp_path, {"write-only": "true", "bucket": "4"}, key=True, partitioned=False), random.Random(1), key=True
    )
    for _ in range(6):
        history.write()
    whole = by_keys.splits_told_by_keys(history.table.scan().splits)
    monkeypatch.setattr(by_keys, "MOST_ROWS", sum(split.row_count_unmerged for split in whole) - 1)
    assert 0 < len(by_keys.splits_told_by_keys(history.table.scan().splits)) < len(whole)
    _compare(history.table)
    monkeypatch.setattr(by_keys, "MOST_FILES", 1)
    assert by_keys.splits_told_by_keys(history.table.scan().splits) == []


def test_a_condition_on_the_key_reads_and_marks_its_keys_alone(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = catalog.create_table("a.b", schema, primary_key=["id"], options={"bucket": 1, "write-only": True})
    for v in (1, 2):
        table.write(pa.table({"id": range(100), "v": [v] * 100}))
    (old, new) = ({}, {})  # type: ignore[var-annotated]
    for where, into in ((None, old), ("id < 3 AND v = 1", new)):
        for rows in by_keys.standing_rows(by_keys.splits_told_by_keys(table.scan(where=where).splits)):
            into[rows.path] = np.flatnonzero(rows.stands).tolist()
    assert list(old.values()) == [list(range(100))]
    # What the value says is for the reader to look at, after the merge.
    assert list(new.values()) == [[0, 1, 2]]
    assert old.keys() == new.keys()
