"""Keys that may have changed between two snapshots: none whose row, as it was told, is another is left out."""

import random
from itertools import combinations
from pathlib import Path

import pytest
from pyarrow import Table as Rows
from pyarrow import int64, schema

from storage import Catalog, Table
from storage.read.split_read import ReadRequest
from storage.read.touched import plan_touched
from tests.scale import seeds
from tests.storage.told_rows import by_key

_SCHEMA = schema([("k", int64()), ("v", int64())])
_LATE = {"write-only": "true"}
_LOOKUP = {"changelog-producer": "lookup"}
_ADDED_UP = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
_TABLES = {
    "no producer": {},
    "first row": {"merge-engine": "first-row"} | _LATE,
    "deletion vectors": {"deletion-vectors.enabled": "true"} | _LATE,
    "lookup": _LOOKUP,
    "lookup, compacted by others": _LOOKUP | _LATE,
    "lookup, added up": _LOOKUP | _LATE | _ADDED_UP,
    "full compaction": {"changelog-producer": "full-compaction"},
    "full compaction of many levels": {"changelog-producer": "full-compaction", "num-levels": "6"},
}


@pytest.mark.parametrize("kind", _TABLES)
@pytest.mark.parametrize("seed", seeds(usual=2, full=40, long=400))
def test_keys_are_told_that_read_otherwise(tmp_path: Path, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    options = {"bucket": "2", **_TABLES[kind]}
    table = Catalog(str(tmp_path)).create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    for _ in range(8):
        _change(table, chance)
    states = {each.id: by_key(table.as_told(each.id).to_arrow()) for each in table.snapshots.all()}
    request = ReadRequest(table.store, ("k",), None, None)
    for after, until in combinations(states, 2):
        old, new = states[after], states[until]
        differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        touched_keys = {
            key
            for split in plan_touched(request, after, until)
            for batch in split.read()
            for key in batch.column("k").to_pylist()
        }
        assert differing <= touched_keys, (kind, seed, after, until)


def _change(table: Table, chance: random.Random) -> None:
    keys = chance.sample(range(12), 3)
    if chance.random() < 0.3 and "merge-engine" not in table.schema.options:
        table.delete(f"k in ({keys[0]}, {keys[1]})")
    else:
        table.write(Rows.from_pydict({"k": keys, "v": [chance.randrange(100) for _ in keys]}, _SCHEMA))
    if chance.random() < 0.3:
        table.compact(full=chance.random() < 0.5)
