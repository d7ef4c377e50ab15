"""Options that decide what compactions do change in the life of a table: its rows, and its changes, stay what they are."""

import random
from pathlib import Path

import pytest
from pyarrow import Table as Rows
from pyarrow import int64, schema

from storage import Catalog, InvalidRequest, SetOptions, Table
from tests.scale import seeds
from tests.storage.told_rows import applied, by_key

_SCHEMA = schema([("k", int64()), ("v", int64())])
_SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
_ENGINES = {
    "deduplicate": {},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "sums": _SUM,
    "sums, vectors": _SUM | {"deletion-vectors.enabled": "true"},
}
_PRODUCERS = ("none", "lookup", "full-compaction")
_CHANGES = {
    "num-levels": ("3", "5", "9"),
    "num-sorted-run.compaction-trigger": ("2", "3", "8"),
    "compaction.max-size-amplification-percent": ("1", "200", "100000"),
    "compaction.size-ratio": ("0", "1", "100"),
    "full-compaction.delta-commits": ("1", "3"),
    "target-file-size": ("1 kb", "128 mb"),
    "write-only": ("true", "false"),
    "force-lookup": ("true", "false"),
    "changelog-producer": _PRODUCERS,
    "changelog-producer.row-deduplicate": ("true", "false"),
}


@pytest.mark.parametrize("engine", _ENGINES)
@pytest.mark.parametrize("producer", _PRODUCERS)
@pytest.mark.parametrize("seed", seeds(usual=1, full=20, long=400))
def test_rows_and_changes_stay_what_they_are(tmp_path: Path, engine: str, producer: str, seed: int) -> None:
    chance = random.Random(seed)
    options = {"bucket": "2", "changelog-producer": producer} | _ENGINES[engine]
    try:
        table = Catalog(str(tmp_path)).create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    except InvalidRequest:
        pytest.skip("The two exclude each other.")
    rows: dict[int, int] = {}
    copy: dict[int, int] = {}
    read: int | None = None
    # Without a changelog, changes are what was written.
    tells = producer != "none"
    for _ in range(20):
        if chance.random() < 0.3:
            key = chance.choice(list(_CHANGES))
            try:
                table = table.alter(SetOptions({key: chance.choice(_CHANGES[key])}))
            except InvalidRequest:
                continue
            tells = tells and table.schema.options["changelog-producer"] != "none"
        _write(table, chance, rows)
        if chance.random() < 0.3:
            table.compact(full=chance.random() < 0.5)
        if chance.random() < 0.2:
            table.compact(full=True)
            assert by_key(table.to_arrow()) == rows
            latest = table.snapshots.latest_id()
            if not tells or latest is None:
                continue
            copy = applied(copy, table.changes(after=read, until=latest).to_pylist())
            assert copy == rows
            read = latest
    table.compact(full=True)
    assert by_key(table.to_arrow()) == rows


@pytest.mark.parametrize("engine", ["partial-update", "sums"])
@pytest.mark.parametrize(
    "looks_up", ["changelog-producer=lookup", "force-lookup=true", "deletion-vectors.enabled=true"]
)
@pytest.mark.parametrize("lowered", ["num-levels", "num-sorted-run.compaction-trigger"])
def test_no_row_goes_with_the_levels(tmp_path: Path, engine: str, looks_up: str, lowered: str) -> None:
    key, _, value = looks_up.partition("=")
    options = {"bucket": "1", key: value} | _ENGINES[engine]
    table = Catalog(str(tmp_path)).create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    table.write(Rows.from_pydict({"k": [1, 2], "v": [10, 20]}, _SCHEMA))
    table.compact(full=True)
    table = table.alter(SetOptions({lowered: "3"}))
    table.write(Rows.from_pydict({"k": [3], "v": [30]}, _SCHEMA))
    table.compact(full=True)
    assert by_key(table.to_arrow()) == {1: 10, 2: 20, 3: 30}


def test_levels_stay_where_the_highest_tells_what_was_told(tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "full-compaction"}
    table = Catalog(str(tmp_path)).create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    table = table.alter(SetOptions({"num-levels": "4"}))
    table.write(Rows.from_pydict({"k": [1], "v": [1]}, _SCHEMA))
    for change, said in (({"num-levels": "3"}, "4 levels"), ({"changelog-producer": "lookup"}, "cannot change from")):
        with pytest.raises(InvalidRequest, match=said):
            table.alter(SetOptions(change))
    assert table.alter(SetOptions({"num-sorted-run.compaction-trigger": "9"})).schema.table_options.top_level == 3


def _write(table: Table, chance: random.Random, rows: dict[int, int]) -> None:
    """One commit, and what it makes of the rows."""
    engine = table.schema.options.get("merge-engine", "deduplicate")
    keys = chance.sample(range(12), 3)
    if engine == "deduplicate" and chance.random() < 0.3:
        table.delete(f"k in ({keys[0]}, {keys[1]})")
        for key in keys[:2]:
            rows.pop(key, None)
        return
    written = {key: chance.randrange(100) for key in keys}
    table.write(Rows.from_pydict({"k": [*written], "v": [*written.values()]}, _SCHEMA))
    for key, value in written.items():
        if engine == "aggregation":
            rows[key] = rows.get(key, 0) + value
        elif engine != "first-row" or key not in rows:
            rows[key] = value
