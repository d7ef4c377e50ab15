"""Statements that change rows, at random, and what plain Spark makes of them.

Plain Spark inserts into a table of its own, which applies its rules of what may be stored in a column; UPDATE, DELETE and MERGE
are the SELECTs that they stand for. Nothing of the platform's is used but the list of Spark's types.
"""

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.resources.sql_corpus import Grammar

_STRUCT = pa.struct([("p", pa.int32()), ("q", pa.string())])
# Column: its type, the same in Spark's words, the kind of the grammar that it takes, and values.
_DAY, _MOMENT = dt.date(2024, 1, 31), dt.datetime(2024, 2, 29, 12, 30, 45, 123456)
COLUMNS: dict[str, tuple[pa.DataType, str, str, list[Any]]] = {
    "id": (pa.int32(), "INT", "int", []),
    "i": (pa.int32(), "INT", "int", [0, 1, -1, 2, 7, 2147483647]),
    "l": (pa.int64(), "BIGINT", "bigint", [0, 3, -5, 2**40]),
    "si": (pa.int16(), "SMALLINT", "int", [0, 1, -7, 32767]),
    "d": (pa.decimal128(10, 2), "DECIMAL(10, 2)", "decimal", [Decimal("1.25"), Decimal("-2.50"), Decimal("0.05")]),
    "m": (pa.decimal128(18, 6), "DECIMAL(18, 6)", "decimal", [Decimal("0.000001"), Decimal("-1.500000")]),
    "x": (pa.float64(), "DOUBLE", "double", [0.0, 1.5, -2.5, 1e10, 0.1]),
    "f": (pa.float32(), "FLOAT", "double", [0.5, -1.25]),
    "s": (pa.string(), "STRING", "string", ["", "a", "b", "it's", 'd"q', "a;b", "12", "é😀", " a ", "%", "A"]),
    "it's;": (pa.string(), "STRING", "string", ["x", "12", "7", "it's"]),
    "Größe": (pa.string(), "STRING", "string", ["ß", "z"]),
    "a b": (pa.int32(), "INT", "int", [1, 2, 3]),
    "b": (pa.bool_(), "BOOLEAN", "boolean", [True, False]),
    "dt": (pa.date32(), "DATE", "date", [_DAY, dt.date(1970, 1, 1), dt.date(2023, 12, 31)]),
    "ts": (pa.timestamp("us"), "TIMESTAMP_NTZ", "timestamp", [_MOMENT, dt.datetime(1969, 12, 31, 23, 59, 59)]),
    "z": (pa.timestamp("us", "UTC"), "TIMESTAMP_LTZ", "moment", [_MOMENT.replace(tzinfo=dt.UTC)]),
    "y": (pa.binary(), "BINARY", "bytes", [b"", b"\x00\xff", b"a"]),
    "arr": (pa.list_(pa.int32()), "ARRAY<INT>", "array", [[], [1, None, 3]]),
    "st": (_STRUCT, "STRUCT<p: INT, q: STRING>", "struct", [{"p": 1, "q": "it's"}, {"p": None, "q": None}]),
    "mp": (pa.map_(pa.string(), pa.int32()), "MAP<STRING, INT>", "map", [[], [("k", 1), ("é", None)]]),
    "part": (pa.string(), "STRING", "part", []),
}
SCHEMA = pa.schema([(name, column[0]) for name, column in COLUMNS.items()])
_NESTED: dict[str, list[str]] = {
    "bytes": ["X'00FF'", "X''", "CAST('a' AS BINARY)"],
    "array": ["array(1, 2)", "array()", "array(i, id)", "arr", "CAST(NULL AS ARRAY<INT>)"],
    "struct": [
        "named_struct('p', 1, 'q', 'it''s')",
        "struct(i AS p, s AS q)",
        "st",
        "named_struct('p', id, 'q', NULL)",
    ],
    "map": ["map('k', 1)", "map('é', i, 'b', 2)", "mp", "map()"],
    "moment": ["TIMESTAMP '2024-02-29 12:30:45Z'", "TIMESTAMP_LTZ '2024-01-01 00:00:00'", "z", "CAST(ts AS TIMESTAMP)"],
    "part": ["'a'", "'b'", "'é =%/x'", "'A'"],
}
_OTHERS = {
    "int": ["bigint", "decimal", "double", "string", "boolean"],
    "bigint": ["int", "double", "string"],
    "decimal": ["int", "double", "bigint", "string"],
    "double": ["int", "decimal", "bigint"],
    "string": ["int", "decimal", "date", "boolean", "bytes"],
    "boolean": ["int", "string"],
    "date": ["timestamp", "string"],
    "timestamp": ["date", "string", "moment"],
    "moment": ["date", "timestamp"],
}
PARTITIONS = ("a", "b", "é =%/x")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rows(seed: int, name: str, count: int) -> pa.Table:
    """Rows of a table: `id` is a key."""
    chance = random.Random(f"{seed} {name}")
    held = {}
    for column, (kind, _, _, values) in COLUMNS.items():
        drawn: list[Any] = [chance.choice([None, *values]) for _ in range(count)]
        if column == "id":
            drawn = [2 * number if name == "u" else number for number in range(count)]
        if column == "part":
            drawn = [chance.choice(PARTITIONS) for _ in range(count)]
        held[column] = pa.array(drawn, kind)
    return pa.table(held, SCHEMA)


@dataclass(frozen=True)
class Insert:
    """`INSERT … <rest>` into `t`; what it replaces, for the oracle: nothing, everything, partitions that occur, or one."""

    head: str
    rest: str
    replaces: str | None = None
    before: str = ""

    @property
    def text(self) -> str:
        return f"{self.before}{self.head} t {self.rest}"


@dataclass(frozen=True)
class Delete:
    where: str

    @property
    def text(self) -> str:
        return f"DELETE FROM t WHERE {self.where}"


@dataclass(frozen=True)
class Update:
    values: dict[str, str]
    where: str | None

    @property
    def text(self) -> str:
        pairs = ", ".join(f"{quoted(name)} = {value}" for name, value in self.values.items())
        return f"UPDATE t SET {pairs}" + (f" WHERE {self.where}" if self.where else "")


@dataclass(frozen=True)
class When:
    """A clause of a MERGE: for rows that match, that do not, or that the source does not match."""

    kind: str
    then: str
    condition: str | None = None
    values: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        words = {"matched": "MATCHED", "new": "NOT MATCHED", "old": "NOT MATCHED BY SOURCE"}[self.kind]
        clause = f"WHEN {words}" + (f" AND {self.condition}" if self.condition else "") + " THEN "
        if self.then == "delete":
            return clause + "DELETE"
        if self.then == "update":
            return (
                clause + "UPDATE SET " + ", ".join(f"{quoted(name)} = {value}" for name, value in self.values.items())
            )
        names = ", ".join(map(quoted, self.values))
        return clause + f"INSERT ({names}) VALUES ({', '.join(self.values.values())})"


@dataclass(frozen=True)
class Merge:
    source: str
    on: str
    whens: tuple[When, ...]

    @property
    def text(self) -> str:
        return f"MERGE INTO t USING {self.source} AS v ON {self.on} {' '.join(when.text for when in self.whens)}"


Change = Insert | Delete | Update | Merge


class Changes(Grammar):
    """Makes changes of `t`, which may read `u`, and `t` itself."""

    def __init__(self, seed: int, *, keyed: bool, partitioned: bool) -> None:
        super().__init__(seed)
        self._keyed = keyed
        self._partitioned = partitioned

    def change(self) -> Change:
        change: Change = self._chance.choice(
            [
                self._insert_rows,
                self._insert_values,
                self._insert_into_partition,
                self._update,
                self._update,
                self._delete,
                self._merge,
                self._merge,
                self._wrong,
            ]
        )()
        return change

    def _value(self, column: str, table: str = "", *, literal: bool = False) -> str:
        """A value for a column, now and then of another type."""
        kind = COLUMNS[column][2]
        if self._chance.random() < 0.06:
            return "NULL" if self._chance.random() < 0.7 else "DEFAULT" if literal else "NULL"
        if kind in _OTHERS and self._chance.random() < 0.15:
            kind = self._one(*_OTHERS[kind])
        if kind in _NESTED:
            ways = _NESTED[kind]
            if literal or table:
                ways = [way for way in ways if way.startswith(("X'", "'", "array(1", "named_struct('p', 1", "map('k'"))]
                ways = ways or ["TIMESTAMP '2024-02-29 12:30:45Z'"]
            return self._one(*ways)
        if literal:
            return self._leaf_literal(kind)
        return self.of(kind, self._chance.choice([0, 1, 1, 2]), table)

    def _leaf_literal(self, kind: str) -> str:
        from tests.resources.sql_corpus import _LITERALS

        return self._one(*_LITERALS[kind])

    def _listed(self) -> list[str]:
        """Some of the columns, in an order of their own; with those that say where a row lies."""
        rest = [name for name in COLUMNS if name not in ("id", "part")]
        columns = ["id", "part", *self._chance.sample(rest, self._chance.randint(1, 5))]
        self._chance.shuffle(columns)
        return columns

    def _new(self, columns: Sequence[str], table: str = "") -> dict[str, str]:
        key = self._one("id", "id + 100", "id * 10")
        places = {"id": table + key, "part": self._one(*_NESTED["part"])}
        return {name: places.get(name) or self._value(name, table) for name in columns}

    def _insert_rows(self) -> Insert:
        columns = self._listed()
        values = self._new(columns)
        source = self._one("u", "u", "t")
        ending = f"FROM {source}{self._where()}"
        listed = ", ".join(map(quoted, columns))
        head, replaces = self._one("INSERT INTO", "INSERT INTO", "INSERT INTO", "INSERT OVERWRITE"), None
        if head == "INSERT OVERWRITE":
            replaces = "occurring"
        plain = ", ".join(values.values())
        named = ", ".join(f"{value} AS {quoted(name)}" for name, value in values.items())
        match self._chance.randint(0, 4):
            case 0:
                return Insert(head, f"BY NAME SELECT {named} {ending}", replaces)
            case 1:
                every = self._new(list(COLUMNS))
                return Insert(head, f"SELECT {', '.join(every.values())} {ending}", replaces)
            case 2 if replaces is None:
                inner = f"WITH w AS (SELECT {named} {ending}) "
                return Insert(head, f"({listed}) SELECT {listed} FROM w", replaces, inner)
            case 3:
                return Insert(head, f"({listed}) WITH w AS (SELECT {named} {ending}) SELECT * FROM w", replaces)
        return Insert(head, f"({listed}) SELECT {plain} {ending}", replaces)

    def _insert_values(self) -> Insert:
        columns = self._listed()
        lines = []
        for number in range(self._chance.randint(1, 3)):
            places = {"id": str(self._chance.randint(0, 3) * 10 + number), "part": self._one(*_NESTED["part"])}
            lines.append([places.get(name) or self._value(name, literal=True) for name in columns])
        listed = ", ".join(map(quoted, columns))
        return Insert("INSERT INTO", f"({listed}) VALUES {', '.join('(' + ', '.join(line) + ')' for line in lines)}")

    def _insert_into_partition(self) -> Insert:
        if not self._partitioned:
            return self._insert_rows()
        columns = [name for name in self._listed() if name != "part"]
        values = self._new(columns)
        value = self._one("'a'", '"b"', "'é =%/x'")
        listed = ", ".join(map(quoted, columns))
        head = self._one("INSERT INTO", "INSERT OVERWRITE")
        replaces = value[1:-1] if head == "INSERT OVERWRITE" else None
        rest = f"PARTITION (part = {value}) ({listed}) SELECT {', '.join(values.values())} FROM u{self._where()}"
        return Insert(head, rest, f"={replaces}" if replaces else None)

    def _condition(self, table: str = "") -> str:
        inner = [
            "id IN (SELECT id FROM u)",
            "i > (SELECT min(i) FROM u)",
            "EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
            "id NOT IN (SELECT id FROM u WHERE i IS NOT NULL)",
            "(SELECT count(*) FROM u WHERE u.id = t.id) > 0",
            "id IN (SELECT t.id FROM t WHERE t.b)",
            "st.p = 1",
            "arr[0] = 1",
            "mp['k'] = 1",
            "size(arr) > 0",
        ]
        if not table and self._chance.random() < 0.35:
            return self._one(*inner)
        return self.of("boolean", self._chance.choice([1, 2, 2]), table)

    def _delete(self) -> Delete:
        return Delete(self._condition())

    def _wrong(self) -> Change:
        """A change that Spark refuses: its condition is no boolean, or names a side of a MERGE of which there is no row."""
        condition = self._one("i", "s", "d", "NULL", "(SELECT max(i) FROM u)", "size(arr)", "b AND i", "NOT x")
        match self._chance.randint(0, 4):
            case 0:
                return Delete(condition)
            case 1:
                return Update({"i": "1"}, condition)
            case 2:
                kind = self._one("matched", "old")
                return Merge("u", "t.id = v.id", (When(kind, "delete", self._one("t.i", "t.s", "t.x")),))
            case 3:
                return Merge("u", self._one("t.id", "v.s", "t.d"), (When("matched", "delete"),))
        when = self._one("old", "new")
        other = "v." if when == "old" else "t."
        if self._chance.random() < 0.5:
            condition, values = f"{other}i > 0", {"i": "1"}
        else:
            condition, values = "TRUE", {"i": f"{other}i"}
        if when == "new":
            values |= {"id": "v.id", "part": "'a'"}
        return Merge("u", "t.id = v.id", (When(when, "update" if when == "old" else "insert", condition, values),))

    def _settable(self) -> list[str]:
        names = [name for name in COLUMNS if name not in ("id", "part")]
        return self._chance.sample(names, self._chance.randint(1, 3))

    def _update(self) -> Update:
        inner = ["(SELECT max(i) FROM u)", "(SELECT max(u.l) FROM u WHERE u.id = t.id)", "(SELECT count(*) FROM t)"]
        values = {
            name: self._one(*inner) if name in ("i", "l") and self._chance.random() < 0.3 else self._value(name)
            for name in self._settable()
        }
        return Update(values, self._condition() if self._chance.random() < 0.8 else None)

    def _merge(self) -> Merge:
        source = self._one(
            "u", "u", f"(SELECT * FROM u{self._where()})", "(SELECT u.* FROM u WHERE id IN (SELECT id FROM t))"
        )
        on = "t.id = v.id"
        if not self._keyed:
            on = self._one(
                on, on, "t.id = v.id AND t.b", "t.s = v.s", "t.id + 1 = v.id", "t.`a b` <=> v.i AND t.id = v.id"
            )
        whens: list[When] = []
        for kind in self._chance.sample(["matched", "new", "old"], self._chance.randint(1, 3)):
            last = False
            for _ in range(self._chance.choice([1, 1, 2])):
                if last:
                    break
                whens.append(self._when(kind))
                last = whens[-1].condition is None
        whens.sort(key=lambda when: ("matched", "new", "old").index(when.kind))
        return Merge(source, on, tuple(whens))

    def _when(self, kind: str) -> When:
        sides = {"matched": ("t.", "v."), "new": ("v.",), "old": ("t.",)}[kind]
        condition = None if self._chance.random() < 0.5 else self.of("boolean", 1, self._one(*sides))
        if kind != "new" and self._chance.random() < 0.35:
            return When(kind, "delete", condition)
        if kind == "new":
            columns = self._listed()
            made = self._new(columns, "v.")
            if self._keyed:
                made["id"] = "v.id"
            return When(kind, "insert", condition, made)
        values = {name: self._value(name, self._one(*sides)) for name in self._settable()}
        return When(kind, "update", condition, values)


class Oracle:
    """Plain Spark: what becomes of the rows of `t`."""

    def __init__(self, spark: Any, tables: dict[str, pa.Table], spark_schema: Any, place: str) -> None:
        self._spark = spark
        self._rows = tables["t"].to_pylist()
        numbered = tables["t"].append_column("__n", pa.array(range(len(self._rows)), pa.int64()))
        frame = spark.createDataFrame(numbered, spark_schema(numbered.schema)).coalesce(1).localCheckpoint()
        frame.createOrReplaceTempView("__t")
        spark.sql(f"SELECT {', '.join(map(quoted, COLUMNS))} FROM __t").createOrReplaceTempView("t")
        spark.createDataFrame(tables["u"], spark_schema(tables["u"].schema)).coalesce(
            1
        ).localCheckpoint().createOrReplaceTempView("u")
        self._place = place
        self._number = 0

    def _empty(self) -> None:
        """Make `o` anew."""
        self._number += 1
        self._spark.sql("DROP TABLE IF EXISTS o")
        columns = ", ".join(f"{quoted(name)} {column[1]}" for name, column in COLUMNS.items())
        self._spark.sql(f"CREATE TABLE o ({columns}) USING parquet LOCATION '{self._place}/{self._number}'")

    def close(self) -> None:
        self._spark.sql("DROP TABLE IF EXISTS o")
        for name in ("__t", "__new", "t", "u"):
            self._spark.catalog.dropTempView(name)

    def answer(self, change: Change, *, keyed: bool, partitioned: bool) -> list[dict[str, Any]] | None:
        """The rows afterwards; None for several source rows that would change one."""
        self._empty()
        match change:
            case Insert():
                return self._inserted(change, keyed, partitioned)
            case Delete():
                gone = self._numbers(f"SELECT __n FROM __t AS t WHERE {change.where}")
            case Update():
                where = f" WHERE {change.where}" if change.where else ""
                gone = self._numbers(f"SELECT __n FROM __t AS t{where}")
                chosen = ", ".join(change.values.get(name, quoted(name)) for name in COLUMNS)
                self._spark.sql(f"INSERT INTO o SELECT {chosen} FROM __t AS t{where}")
            case Merge():
                gone = self._merged(change)
                if len(set(gone)) < len(gone):
                    return None
        return [row for number, row in enumerate(self._rows) if number not in set(gone)] + self._made()

    def _made(self) -> list[dict[str, Any]]:
        return self._spark.table("o").toArrow().to_pylist()  # type: ignore[no-any-return]

    def _numbers(self, text: str) -> list[int]:
        return [row[0] for row in self._spark.sql(text).collect()]

    def _inserted(self, change: Insert, keyed: bool, partitioned: bool) -> list[dict[str, Any]]:
        # Spark takes a value of a partition column only of a table that is partitioned: it is one more column.
        rest = change.rest
        if rest.startswith("PARTITION (part = "):
            value, _, rest = rest.removeprefix("PARTITION (part = ").partition(") (")
            listed, _, query = rest.partition(") SELECT ")
            rest = f"(part, {listed}) SELECT {value}, {query}"
        self._spark.sql(f"{change.before}INSERT INTO o {rest}")
        made = self._made()
        kept = self._rows
        if change.replaces is not None:
            replaced = change.replaces.removeprefix("=") if change.replaces.startswith("=") else None
            gone = {replaced} if replaced is not None else {row["part"] for row in made}
            kept = [row for row in kept if row["part"] not in gone] if partitioned else []
        if keyed:
            keys = {(row["id"], row["part"] if partitioned else None) for row in made}
            kept = [row for row in kept if (row["id"], row["part"] if partitioned else None) not in keys]
        return kept + made

    def _merged(self, change: Merge) -> list[int]:
        """The numbers of the rows that are gone, one for each row of the source that makes them go."""
        gone: list[int] = []
        # Kept apart: Spark would judge conditions on rows that match as well, and fail on them.
        new = self._spark.sql(f"SELECT v.* FROM {change.source} AS v LEFT ANTI JOIN __t AS t ON {change.on}")
        new.localCheckpoint().createOrReplaceTempView("__new")
        places = {
            "matched": f"__t AS t JOIN {change.source} AS v ON {change.on}",
            "new": "__new AS v",
            "old": f"__t AS t LEFT ANTI JOIN {change.source} AS v ON {change.on}",
        }
        for kind, place in places.items():
            before: list[str] = []
            for when in (clause for clause in change.whens if clause.kind == kind):
                if when.condition:
                    # By itself, where Spark casts it to nothing.
                    self._spark.sql(f"SELECT 1 FROM {place} WHERE {when.condition}")
                condition = f"coalesce({when.condition}, FALSE)" if when.condition else "TRUE"
                # The first that holds is taken; what comes after it is not looked at.
                cases = "".join(f" WHEN {earlier} THEN FALSE" for earlier in before)
                where = f" WHERE CASE{cases} WHEN {condition} THEN TRUE ELSE FALSE END"
                before.append(condition)
                if kind != "new":
                    gone += self._numbers(f"SELECT t.__n FROM {place}{where}")
                if when.then == "delete":
                    continue
                kept = "NULL" if kind == "new" else None
                chosen = ", ".join(when.values.get(name, kept or f"t.{quoted(name)}") for name in COLUMNS)
                self._spark.sql(f"INSERT INTO o SELECT {chosen} FROM {place}{where}")
        return gone
