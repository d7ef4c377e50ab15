"""Merge engines whose order matters: a table that Java and this store write in turn, and a twin that Java writes alone, hold
the same rows and tell the same changes after each commit.
"""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, Table
from storage.data_types import DataType, parse_type
from tests import scale
from tests.interop.java_paimon import VERSION, JavaPaimon, since_1_3

# pypaimon merges all levels of such tables.
pytestmark = pytest.mark.pypaimon_differs("It merges all levels where compactions look up.")

SEEDS = scale.seeds(4, 2000, full=200)
STEPS = 8
MANY = 1000
COLUMNS: dict[str, str | DataType] = {
    "id": "INT NOT NULL",
    "s": "INT",
    "g": "INT",
    "n": "BIGINT",
    "a": "STRING",
    "b": "STRING",
    "c": parse_type({"type": "ARRAY", "element": "INT"}),
    "op": "STRING",
}
_TEXTS = ["x", "y", "z", "x,y", "y,x", "xx", "x,,z"]
AGGREGATES = {
    "n": ["sum", "product", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value"],
    "a": ["listagg", "max", "last_value", "last_non_null_value", "first_value", "first_non_null_value"],
    "b": ["listagg", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value"],
    "c": ["collect", "last_value", "last_non_null_value"],
}
# Functions that take values back.
_RETRACTABLE = {"sum", "product", "last_value", "last_non_null_value", "collect"}


class Merges:
    """A table of random options, its twin, and rows for both."""

    def __init__(self, seed: int, directory: Path, java: JavaPaimon) -> None:
        self.random = random.Random(seed)
        self.java = java
        self.warehouse = str(directory)
        self.takes_deletes = False
        self.options = self._options()
        self.steps = [str(self.options)]
        for name in ("m.both", "m.twin"):
            java.create(self.warehouse, name, COLUMNS, primary_key=["id"], options=self.options)

    @property
    def ours(self) -> Table:
        return Catalog(self.warehouse).table("m.both")

    def _options(self) -> dict[str, str]:
        chance = self.random
        producer = chance.choice(["lookup", "lookup", "full-compaction", "none"])
        options = {"bucket": "1", "rowkind.field": "op", "changelog-producer": producer}
        if producer == "none":
            options["force-lookup"] = "true"
        elif chance.random() < 0.3:
            options["changelog-producer.row-deduplicate"] = "true"
        options["file.format"] = chance.choice(["parquet", "orc", "avro"])
        engine = self.engine = chance.choice(["deduplicate", "aggregation", "partial-update", "partial-update groups"])
        options["merge-engine"] = engine.split()[0]
        if engine == "deduplicate" or (engine != "partial-update groups" and chance.random() < 0.6):
            options["sequence.field"] = "s"
        if engine == "aggregation" or engine.endswith("groups"):
            chosen = self._aggregates()
            if engine.endswith("groups"):
                columns = chance.sample(["n", "a", "b", "c"], chance.randint(1, 4))
                options["fields.g.sequence-group"] = ",".join(columns)
                chosen = {
                    name: function for name, function in chosen.items() if name in columns and chance.random() < 0.8
                }
            for name, function in chosen.items():
                options[f"fields.{name}.aggregate-function"] = function
                # Older versions list a text that they hold already twice.
                known = ("listagg", "collect") if VERSION == "1.4.2" else ("collect",)
                if function in known and chance.random() < 0.5:
                    options[f"fields.{name}.distinct"] = "true"
            ignoring = {name for name in chosen if chance.random() < 0.4}
            options |= {f"fields.{name}.ignore-retract": "true" for name in ignoring}
            self.takes_deletes = {function for name, function in chosen.items() if name not in ignoring} <= _RETRACTABLE
        # What deletes hide depends on which of them compactions have dropped, and so do orders on what they have merged.
        self.takes_deletes &= options["changelog-producer"] != "full-compaction"
        self.is_the_twin_s = options["changelog-producer"] != "full-compaction" or engine == "deduplicate"
        return options

    def _aggregates(self) -> dict[str, str]:
        kinds = _RETRACTABLE if self.random.random() < 0.4 else None
        functions = {
            name: [function for function in known if kinds is None or function in kinds]
            for name, known in AGGREGATES.items()
        }
        return {name: self.random.choice(known) for name, known in functions.items()}

    def rows(self, ids: Iterable[int], *, first: bool = False) -> pa.Table:
        chance = self.random
        kinds = ["+I", "+I", "+U", "-D", "-U"] if self.takes_deletes and not first else ["+I", "+U"]
        maybe = self._maybe
        # What a product is divided by is not 0, and its digits stay few.
        is_product = self.options.get("fields.n.aggregate-function") == "product"
        numbers = [-2, -1, 1, 2, 3] if is_product else [*range(-5, 6)]
        values = [
            {
                "id": number,
                "s": maybe(chance.randrange(5)),
                # Java merges rows that are the only ones of their keys, or not, by what else is in the bucket.
                "g": chance.randrange(5) if first else maybe(chance.randrange(5)),
                "n": maybe(chance.choice(numbers)),
                "a": maybe(chance.choice(_TEXTS)),
                "b": maybe(chance.choice(_TEXTS)),
                "c": maybe([chance.randrange(4) for _ in range(chance.randint(1, 2))]),
                "op": chance.choice(kinds),
            }
            for number in ids
        ]
        return pa.Table.from_pylist(values, self.ours.schema.to_arrow())

    def _maybe(self, value: Any) -> Any:
        return None if self.random.random() < 0.25 else value

    def write(self, rows: pa.Table, by_java: bool) -> None:
        fields = self.ours.schema.fields
        self.steps.append(f"{'Java' if by_java else 'ours'} writes {rows[:10].to_pylist()}")
        self.java.write(self.warehouse, "m.twin", rows, fields)
        if by_java:
            self.java.write(self.warehouse, "m.both", rows, fields)
        else:
            self.ours.write(rows)

    def compact(self, by_java: bool) -> None:
        self.steps.append(f"{'Java' if by_java else 'ours'} compacts")
        self.java.ask(self.warehouse, "m.twin", "compact", full=True)
        if by_java:
            self.java.ask(self.warehouse, "m.both", "compact", full=True)
        else:
            self.ours.compact()

    def compare(self) -> int:
        rows = self.ours.to_arrow()
        names = ["m.both", *(["m.twin"] if self.is_the_twin_s else [])]
        for name in names:
            theirs = self.java.read(self.warehouse, name).select(rows.column_names).cast(rows.schema)
            there, here = _held(theirs, self.options), _held(rows, self.options)
            assert there == here, f"{name}: Java {there - here}, ours {here - there}"
        assert not self.ours.check(deep=True)
        return len(names)

    def compare_changes(self) -> int:
        if self.options["changelog-producer"] == "none":
            return 0
        changes = [self.java.changes(self.warehouse, name, 1) for name in ("m.both", "m.twin")]
        both, twin = ([(kind, _plain(row, self.options)) for kind, row in table_changes] for table_changes in changes)
        if self.is_the_twin_s:
            assert both == twin
        assert _applied(both) == _held(self.ours.to_arrow(), self.options)
        return 2

    def run(self) -> int:
        """Take steps; returns the number of comparisons."""
        compared = 0
        try:
            # Many rows first, which compactions of a few leave on their level.
            self.write(self.rows(range(MANY), first=True), self.random.random() < 0.5)
            for number in range(STEPS):
                ids = [self.random.randrange(6) for _ in range(self.random.randint(1, 8))]
                if self.takes_deletes and "groups" in self.engine:
                    # Where a retraction is the first row that Java merges of a key, its columns stay (decision 0020).
                    ids = list(set(ids))
                self.write(self.rows(ids), self.random.random() < 0.5)
                compared += self.compare()
                if self.random.random() < 0.3 or number == STEPS - 1:
                    self.compact(self.random.random() < 0.5)
                    compared += self.compare() + self.compare_changes()
        except BaseException as error:
            error.add_note("\n".join(self.steps))
            raise
        return compared


def _plain(row: tuple[Any, ...], options: dict[str, str]) -> tuple[Any, ...]:
    """A row whose arrays are sorted where Java collects them in sets, which have no order."""
    unordered = options.get("fields.c.distinct") == "true"
    return tuple(sorted(value, key=repr) if unordered and isinstance(value, list) else value for value in row)


def _held(rows: pa.Table, options: dict[str, str]) -> Counter[str]:
    return Counter(repr(_plain(tuple(row.values()), options)) for row in rows.to_pylist())


@since_1_3
@pytest.mark.parametrize("chosen", scale.blocks(SEEDS, 6), ids=str)
def test_merges_are_java_s_whoever_writes(chosen: list[int], java: JavaPaimon, tmp_path: Path) -> None:
    scale.try_seeds(lambda seed, directory: Merges(seed, directory, java).run(), chosen, tmp_path)


def _applied(changes: list[tuple[str, tuple[Any, ...]]]) -> Counter[str]:
    """The rows that a reader of all changes has, who believes each of them."""
    held: Counter[str] = Counter()
    for kind, row in changes:
        taken = kind in ("-U", "-D")
        assert not taken or held[repr(row)] > 0, f"{kind} {row} takes away what is not there"
        held[repr(row)] += -1 if taken else 1
    return +held


def test_lookups_do_not_come_or_go_where_levels_hold_what_they_stored(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int64())])
    options = {"bucket": 1, "merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    for name, given in (("m.none", {}), ("m.lookup", {"changelog-producer": "lookup"})):
        table = catalog.create_table(name, schema, primary_key=["id"], options=options | given)
        table.write(pa.table({"id": [1], "n": [1]}))
        changed = {"changelog-producer": "none"} if given else {"force-lookup": "true"}
        with pytest.raises(InvalidRequest, match="cannot come or go any more"):
            table.alter(SetOptions(changed))


def test_a_function_for_all_columns_leaves_out_those_that_order_others(java: JavaPaimon, catalog: Catalog) -> None:
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.default-aggregate-function": "last_value",
        "fields.s,u.sequence-group": "v,x",
    }
    columns = {"k": "INT NOT NULL", "v": "INT", "x": "STRING", "s": "INT", "u": "INT"}
    java.create(catalog.warehouse, "d.t", columns, primary_key=["k"], options=options)
    table = catalog.table("d.t")
    schema = table.schema.to_arrow()
    steps = [(1, "a", 1, 1), (None, "b", 2, 1), (9, "c", 1, 0), (8, None, 2, None), (7, "d", None, 5)]
    for place, (v, x, s, u) in enumerate(steps):
        rows = pa.Table.from_pylist([{"k": 1, "v": v, "x": x, "s": s, "u": u}], schema=schema)
        if place % 2:
            java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
        else:
            catalog.table("d.t").write(rows)
        assert catalog.table("d.t").to_arrow().to_pylist() == java.read(catalog.warehouse, "d.t").to_pylist(), place
    # Java ignores a function of such a column, and this store reads its table.
    given = {**options, "fields.u.aggregate-function": "last_non_null_value", "partition.default-name": ""}
    java.create(catalog.warehouse, "d.given", columns, primary_key=["k"], options=given)
    of_java = catalog.table("d.given")
    java.write(catalog.warehouse, "d.given", rows, of_java.schema.fields)
    assert of_java.to_arrow().to_pylist() == java.read(catalog.warehouse, "d.given").to_pylist() == rows.to_pylist()
    with pytest.raises(InvalidRequest, match="orders a sequence group"):
        catalog.create_table(
            "d.u", schema, primary_key=["k"], options={**options, "fields.u.aggregate-function": "last_value"}
        )


@since_1_3
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_branch_of_java_s_is_sound_without_the_changelog_that_java_expired(
    java: JavaPaimon, catalog: Catalog, producer: str
) -> None:
    options = {"bucket": "1", "changelog-producer": producer}
    java.create(catalog.warehouse, "d.t", {"k": "INT NOT NULL", "v": "INT"}, primary_key=["k"], options=options)
    table = catalog.table("d.t")
    rows = pa.Table.from_pylist([{"k": 1, "v": 1}], schema=table.schema.to_arrow())
    for _ in range(3):
        java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
    java.ask(catalog.warehouse, "d.t", "create tag", tag="begun")
    java.ask(catalog.warehouse, "d.t", "create branch", branch="b", tag="begun")
    for _ in range(3):
        java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
    java.ask(catalog.warehouse, "d.t", "expire", retain=1)
    assert catalog.table("d.t").check() == []
    assert table.on_branch("b").to_arrow().to_pylist() == [{"k": 1, "v": 1}]
