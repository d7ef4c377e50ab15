"""Aggregate functions of collections: the same commits, whoever writes and compacts, become what Java makes of them, in its
order.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from storage import Catalog, InvalidRequest, Unsupported
from storage.data_types import DataType, parse_type, type_from_arrow
from tests import scale
from tests.interop.java_paimon import VERSION, JavaPaimon

pytestmark = [
    pytest.mark.pypaimon_differs("It knows few of these functions."),
    pytest.mark.skipif(VERSION != "1.4.2", reason="older versions know fewer functions"),
]

SEEDS = scale.seeds(6, 2000, full=200)
ITEM = pa.struct([("k", pa.int32()), ("s", pa.string()), ("v", pa.int64())])
STAMPED = pa.struct([("v", pa.int32()), ("at", pa.string())])
ARROW = {
    "id": pa.int32(),
    "u": pa.list_(ITEM),
    "q": pa.list_(ITEM),
    "w": pa.list_(ITEM),
    "m": pa.map_(pa.string(), pa.int32()),
    "t": pa.map_(pa.int32(), STAMPED),
    "b": pa.binary(),
    "op": pa.string(),
    "g": pa.int32(),
}
OPTIONS = {
    "bucket": "1",
    "rowkind.field": "op",
    "merge-engine": "aggregation",
    "fields.op.aggregate-function": "last_value",
    "fields.g.aggregate-function": "last_value",
    "fields.u.aggregate-function": "nested_update",
    "fields.u.nested-key": "k,s",
    "fields.q.aggregate-function": "nested_update",
    "fields.w.aggregate-function": "nested_partial_update",
    "fields.w.nested-key": "k",
    "fields.m.aggregate-function": "merge_map",
    "fields.t.aggregate-function": "merge_map_with_keytime",
    "fields.b.aggregate-function": "rbm32",
}
# Those that take nothing back.
ONE_WAY = ("w", "t", "b")


def _types() -> dict[str, DataType]:
    numbers = iter(range(100, 1000))
    types = {name: type_from_arrow(kind, True, lambda: next(numbers)) for name, kind in ARROW.items()}
    return types | {"id": parse_type("INT NOT NULL")}


class Collections:
    def __init__(self, seed: int, directory: Path, java: JavaPaimon) -> None:
        self.random, self.java, self.warehouse = random.Random(seed), java, str(directory)
        chance = self.random
        options = dict(OPTIONS)
        if chance.random() < 0.3:
            options["fields.u.count-limit"] = options["fields.q.count-limit"] = str(chance.randint(3, 20))
        if chance.random() < 0.4:
            options["changelog-producer"] = chance.choice(["lookup", "full-compaction"])
        options["file.format"] = chance.choice(["parquet", "orc", "avro"])
        self.takes_back = chance.random() < 0.5
        if self.takes_back:
            options |= {f"fields.{name}.ignore-retract": "true" for name in ONE_WAY}
        if chance.random() < 0.3:
            options["merge-engine"] = "partial-update"
            options["fields.g.sequence-group"] = "u,q,w,m,t,b"
            del options["fields.op.aggregate-function"], options["fields.g.aggregate-function"]
            self.takes_back = False
        self.options = options
        java.create(self.warehouse, "m.t", _types(), primary_key=["id"], options=options)

    def run(self) -> None:
        chance = self.random
        for step in range(6):
            table = Catalog(self.warehouse).table("m.t")
            rows = pa.Table.from_pylist(
                [self._row(number) for number in chance.sample(range(4), 3)], pa.schema(list(ARROW.items()))
            )
            if chance.random() < 0.5:
                self.java.write(self.warehouse, "m.t", rows, table.schema.fields)
            else:
                table.write(rows)
            if chance.random() < 0.3:
                if chance.random() < 0.5:
                    table.compact()
                else:
                    self.java.ask(self.warehouse, "m.t", "compact", full=True)
            ours = table.to_arrow()
            theirs = self.java.read(self.warehouse, "m.t").cast(ours.schema)
            for name in ARROW:
                pair = [_listed(side.select(dict.fromkeys(("id", name)))) for side in (ours, theirs)]
                assert pair[0] == pair[1], f"step {step}, {name}: {self.options}"

    def _row(self, number: int) -> dict[str, Any]:
        chance = self.random
        op = chance.choice(["+I", "+I", "-U", "-D"]) if self.takes_back else "+I"
        return {
            "id": number,
            "u": self._maybe(self._items()),
            "q": self._maybe(self._items()),
            "w": self._maybe(self._items()),
            "m": self._maybe([(chance.choice("abcdef"), self._maybe(chance.randrange(9))) for _ in range(1)]),
            "t": self._maybe([(chance.randrange(4), self._maybe(self._stamped()))]),
            "b": self._maybe(bytes(BitMap(chance.sample(range(200), chance.randint(1, 99))).serialize())),
            "op": op,
            "g": chance.randrange(5),
        }

    def _items(self) -> list[Any]:
        chance = self.random
        return [
            self._maybe(
                {
                    "k": self._maybe(chance.randrange(12)),
                    "s": self._maybe(chance.choice(["x", "long enough to lie apart"])),
                    "v": self._maybe(chance.randrange(5)),
                }
            )
            for _ in range(chance.randint(0, 12))
        ]

    def _stamped(self) -> dict[str, Any]:
        return {"v": self.random.randrange(99), "at": self._maybe(f"{self.random.randrange(20)}")}

    def _maybe(self, value: Any) -> Any:
        return None if self.random.random() < 0.15 else value


def _listed(rows: pa.Table) -> list[str]:
    """The rows, whose maps have no order."""
    texts = []
    for row in sorted(rows.to_pylist(), key=lambda listed_row: listed_row["id"]):
        for name in {"m", "t"} & row.keys():
            row[name] = row[name] and sorted(row[name], key=repr)
        texts.append(repr(row))
    return texts


@pytest.mark.parametrize("chosen", scale.blocks(SEEDS, 6), ids=str)
def test_collections_are_java_s_whoever_writes(chosen: list[int], java: JavaPaimon, tmp_path: Path) -> None:
    scale.try_seeds(lambda seed, directory: Collections(seed, directory, java).run(), chosen, tmp_path)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (pa.list_(pa.int32()), {"aggregate-function": "nested_update"}, "takes nested tables: ARRAY of ROW"),
        (
            pa.list_(ITEM),
            {"aggregate-function": "nested_update", "nested-key": "x"},
            "names 'x', which is no field. Fields: k, s, v",
        ),
        (pa.list_(ITEM), {"aggregate-function": "nested_update", "count-limit": "few"}, "'few' is no whole number"),
        (pa.list_(ITEM), {"aggregate-function": "nested_partial_update"}, "needs 'fields.c.nested-key'"),
        (pa.int32(), {"aggregate-function": "merge_map"}, "takes maps"),
        (
            pa.map_(pa.string(), pa.int32()),
            {"aggregate-function": "merge_map_with_keytime"},
            "takes maps to ROW with two fields",
        ),
        (
            pa.map_(pa.string(), ITEM),
            {"aggregate-function": "merge_map_with_keytime"},
            "Field 'v' of column 'c'.* must be a text",
        ),
        (pa.string(), {"aggregate-function": "rbm32"}, "takes Roaring bitmaps"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(
    catalog: Catalog, kind: pa.DataType, options: dict[str, str], message: str
) -> None:
    given = {"bucket": "1", "merge-engine": "aggregation"} | {
        f"fields.c.{key}": value for key, value in options.items()
    }
    with pytest.raises(InvalidRequest, match=message):
        catalog.create_table("m.t", pa.schema([("id", pa.int32()), ("c", kind)]), primary_key=["id"], options=given)


@pytest.mark.parametrize("function", ["rbm64", "hll_sketch", "theta_sketch"])
def test_what_no_library_writes_alike_is_refused_with_the_reason(catalog: Catalog, function: str) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.c.aggregate-function": function}
    with pytest.raises(Unsupported, match=rf"{function}' is not supported \(.+\)"):
        catalog.create_table(
            "m.t", pa.schema([("id", pa.int32()), ("c", pa.binary())]), primary_key=["id"], options=options
        )


@pytest.mark.parametrize("ignoring", [False, True])
def test_late_values_of_collect_lie_where_java_puts_them(java: JavaPaimon, catalog: Catalog, ignoring: bool) -> None:
    options = {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "c",
        "fields.c.aggregate-function": "collect",
        "write-only": "true",
    }
    if ignoring:
        options["fields.c.ignore-retract"] = "true"
    fields = {"id": "INT NOT NULL", "g": "INT", "c": DataType("ARRAY", element=parse_type("INT"))}
    java.create(catalog.warehouse, "d.t", fields, primary_key=["id"], options=options)
    table = catalog.table("d.t")
    schema = table.schema.to_arrow()
    for order, values in ((5, [1]), (3, [2, 3]), (7, [4]), (6, [5]), (None, [6])):
        java.write(
            catalog.warehouse, "d.t", pa.table({"id": [0], "g": [order], "c": [values]}, schema), table.schema.fields
        )
        seen = table.to_arrow().column("c").to_pylist()
        assert seen == java.read(catalog.warehouse, "d.t").column("c").to_pylist()
    assert seen == [[5, 2, 3, 1, 4]] if ignoring else [[1, 2, 3, 4, 5]]
    table.compact()
    assert java.read(catalog.warehouse, "d.t").column("c").to_pylist() == seen
