"""Statements of Spark's SQL at random, from a grammar with types: awkward literals and names, and what engines disagree on."""

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

COLUMNS: dict[str, list[str]] = {
    "int": ["i", "id", "`a b`"],
    "bigint": ["l"],
    "decimal": ["d", "m"],
    "double": ["x"],
    "string": ["s", "`it's;`", "`Größe`"],
    "boolean": ["b"],
    "date": ["dt"],
    "timestamp": ["ts"],
}
_LITERALS: dict[str, list[str]] = {
    "int": ["0", "1", "-1", "2", "7", "-7", "2147483647", "100", "3S", "5Y", "NULL"],
    "bigint": ["0L", "3L", "-5L", "2147483648", "9223372036854775807L"],
    "decimal": ["0.5", "1.25", "-2.50", "0.005", "1.0", "3BD", "12345678.90", "0.1", "-1.15"],
    "double": ["0D", "1.5D", "-2.5D", "1e3", "1e-3", "0.1D", "2.5D", "CAST('NaN' AS DOUBLE)"],
    "string": [
        "''",
        "'a'",
        "'b'",
        "'it''s'",
        r"'it\'s'",
        '"d""q"',
        "'a;b'",
        "'--x'",
        "'/*x*/'",
        "'%'",
        "'_'",
        r"'a\\b'",
        "'é😀'",
        "' a '",
        "'12'",
        "' 7'",
        "'1.5'",
        "'x' 'y'",
        r"r'a\nb'",
        r"'\n'",
        "'A'",
        "'ß'",
        "'2024-02-29'",
    ],
    "boolean": ["TRUE", "FALSE", "NULL"],
    "date": ["DATE '2024-02-29'", "DATE '1970-01-01'", "DATE '2023-12-31'", "CAST('2024-01-31' AS DATE)"],
    "timestamp": ["TIMESTAMP_NTZ '2024-02-29 12:30:45'", "CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)"],
}
_NUMBERS = ("int", "bigint", "decimal", "double")
_ANY = tuple(COLUMNS)
_SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("d", pa.decimal128(10, 2)),
        ("m", pa.decimal128(18, 6)),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("it's;", pa.string()),
        ("Größe", pa.string()),
        ("a b", pa.int32()),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us")),
    ]
)


def tables(seed: int) -> dict[str, pa.Table]:
    """Two tables of some rows, `t` and `u`."""
    chance = random.Random(seed)
    return {name: _table(chance, rows) for name, rows in (("t", 12), ("u", 7))}


def _table(chance: random.Random, rows: int) -> pa.Table:
    day, moment = dt.date(2024, 1, 31), dt.datetime(2024, 2, 29, 12, 30, 45, 123456)

    def some(*values: object) -> object:
        return chance.choice([None, *values])

    held = [
        (
            number,
            some(0, 1, -1, 2, 7, 2147483647),
            some(0, 3, -5, 2**40),
            some(Decimal("1.25"), Decimal("-2.50"), Decimal("0.05")),
            some(Decimal("0.000001"), Decimal("123456.789000"), Decimal("-1.500000")),
            some(0.0, 1.5, -2.5, 1e10, 0.1),
            some("", "a", "b", "it's", 'd"q', "a;b", "12", "é😀", " a ", "%", "A"),
            some("x", "12", "7", "it's"),
            some("ß", "z"),
            some(1, 2, 3),
            some(True, False),
            some(day, dt.date(1970, 1, 1), dt.date(2023, 12, 31)),
            some(moment, dt.datetime(1969, 12, 31, 23, 59, 59)),
        )
        for number in range(rows)
    ]
    arrays = [pa.array([row[place] for row in held], field.type) for place, field in enumerate(_SCHEMA)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


class Grammar:
    """Makes statements over `t` and `u`; equal seeds make equal statements."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._aggregates = False

    def _one(self, *ways: str) -> str:
        return self._chance.choice(ways)

    def query(self) -> str:
        return self._chance.choice(
            [
                self._rows,
                self._rows,
                self._rows,
                self._grouped,
                self._grouped,
                self._joined,
                self._windows,
                self._set,
                self._with,
                self._values,
            ]
        )()

    # --- expressions

    def of(self, kind: str, depth: int = 2, table: str = "") -> str:
        if depth <= 0 or self._chance.random() < 0.15:
            return self._leaf(kind, table)
        ways = getattr(self, f"_{kind}")(depth - 1, table)
        return str(self._chance.choice(ways)())

    def _leaf(self, kind: str, table: str) -> str:
        if self._chance.random() < 0.7:
            return table + self._chance.choice(COLUMNS[kind])
        return self._chance.choice(_LITERALS[kind])

    def _any(self, kind: str, depth: int, table: str) -> list:  # type: ignore[type-arg]
        """What there is for every type."""

        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            lambda: f"CASE WHEN {of('boolean')} THEN {of(kind)} ELSE {of(kind)} END",
            lambda: f"coalesce({of(kind)}, {of(kind)})",
            lambda: f"nullif({of(kind)}, {of(kind)})",
            lambda: f"if({of('boolean')}, {of(kind)}, {of(kind)})",
        ]

    def _int(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("int", depth, table),
            lambda: f"({of('int')} {self._one('+', '-', '*', '%')} {of('int')})",
            lambda: f"CAST({of(self._one('string', 'double', 'decimal', 'bigint', 'boolean'))} AS INT)",
            lambda: f"length({of('string')})",
            lambda: f"instr({of('string')}, {of('string')})",
            lambda: (
                f"{self._one('year', 'month', 'day', 'quarter', 'dayofyear')}({of(self._one('date', 'timestamp'))})"
            ),
            lambda: f"datediff({of('date')}, {of('date')})",
            lambda: f"- {of('int')}",
            lambda: f"abs({of('int')})",
            lambda: f"extract({self._one('YEAR', 'MONTH', 'DAY')} FROM {of('date')})",
            lambda: f"{self._one('greatest', 'least')}({of('int')}, {of('int')})",
            lambda: f"pmod({of('int')}, {of('int')})",
            lambda: f"sign({of('int')})",
            lambda: f"hash({of('string')})",
            lambda: f"(SELECT max(i) FROM u WHERE u.id < {of('int')})",
        ]

    def _bigint(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("bigint", depth, table),
            lambda: f"({of('bigint')} {self._one('+', '-', '*', 'DIV')} {of(self._one('int', 'bigint'))})",
            lambda: f"CAST({of(self._one('string', 'double', 'decimal', 'int'))} AS BIGINT)",
            lambda: f"{self._one('floor', 'ceil')}({of(self._one('double', 'int'))})",
        ]

    def _decimal(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("decimal", depth, table),
            lambda: f"({of('decimal')} {self._one('+', '-', '*', '/')} {of(self._one('decimal', 'int', 'decimal'))})",
            lambda: (
                f"CAST({of(self._one('string', 'int', 'decimal', 'double'))} "
                f"AS DECIMAL({self._one('10, 2', '20, 5', '38, 10')}))"
            ),
            lambda: f"round({of('decimal')}, {self._one('0', '1', '2', '8')})",
            lambda: f"abs({of('decimal')})",
            lambda: f"{self._one('floor', 'ceil')}({of('decimal')})",
            lambda: f"- {of('decimal')}",
        ]

    def _double(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("double", depth, table),
            lambda: f"({of('double')} {self._one('+', '-', '*', '/')} {of(self._one(*_NUMBERS))})",
            lambda: f"({of('int')} / {of(self._one('int', 'bigint'))})",
            lambda: f"CAST({of(self._one('string', 'int', 'decimal'))} AS DOUBLE)",
            lambda: f"sqrt({of('double')})",
            lambda: f"round({of('double')}, {self._one('0', '1', '2')})",
            lambda: f"abs({of('double')})",
            lambda: f"ln({of('double')})",
            lambda: f"pow({of('double')}, 2)",
        ]

    def _string(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("string", depth, table),
            lambda: f"({of('string')} || {of(self._one('string', 'int', 'decimal'))})",
            lambda: f"concat({of('string')}, {of('string')}, {of('int')})",
            lambda: f"CAST({of(self._one(*_ANY))} AS STRING)",
            lambda: f"{self._one('upper', 'lower', 'trim', 'ltrim', 'rtrim', 'reverse', 'initcap')}({of('string')})",
            lambda: (
                f"substring({of('string')}, {self._one('0', '1', '2', '-2', '5')}, {self._one('0', '1', '3', '-1')})"
            ),
            lambda: f"replace({of('string')}, {of('string')}, {of('string')})",
            lambda: f"{self._one('left', 'right')}({of('string')}, {self._one('0', '1', '2')})",
            lambda: f"lpad({of('string')}, 3, 'x')",
            lambda: f"concat_ws('-', {of('string')}, {of('string')})",
            lambda: f"get_json_object({of('string')}, '$.a')",
            lambda: f"date_format({of('date')}, 'yyyy')",
            lambda: f"regexp_replace({of('string')}, 'a', 'b')",
            lambda: f"repeat({of('string')}, 2)",
        ]

    def _boolean(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        def compared() -> str:
            kind = self._one(*_ANY)
            sign = self._one("=", "<>", "<", "<=", ">", ">=", "<=>", "!=")
            return f"({of(kind)} {sign} {of(kind)})"

        def mixed() -> str:
            first, second = self._one(*_NUMBERS, "string"), self._one(*_NUMBERS)
            return f"({of(first)} {self._one('=', '<', '>=')} {of(second)})"

        def listed() -> str:
            kind = self._one("int", "string", "decimal", "date")
            return f"({of(kind)} {self._one('IN', 'NOT IN')} ({of(kind)}, {of(kind)}))"

        return [
            compared,
            compared,
            mixed,
            listed,
            lambda: f"({of('boolean')} {self._one('AND', 'OR')} {of('boolean')})",
            lambda: f"(NOT {of('boolean')})",
            lambda: f"({of(self._one(*_ANY))} IS {self._one('', 'NOT ')}NULL)",
            lambda: f"({of('int')} BETWEEN {of('int')} AND {of('int')})",
            lambda: f"({of('string')} {self._one('LIKE', 'NOT LIKE', 'ILIKE')} '{self._one('a%', '%', '_', '%b%')}')",
            lambda: f"{self._one('startswith', 'endswith', 'contains')}({of('string')}, {of('string')})",
            lambda: f"({of('int')} IN (SELECT i FROM u))",
            lambda: f"EXISTS (SELECT 1 FROM u WHERE u.id = {of('int')})",
            lambda: f"({of('boolean')} IS {self._one('TRUE', 'NOT TRUE', 'FALSE')})",
            lambda: f"({of('string')} RLIKE 'a')",
        ]

    def _date(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("date", depth, table),
            lambda: f"{self._one('date_add', 'date_sub')}({of('date')}, {self._one('1', '30', '-1', 'i')})",
            lambda: f"({of('date')} {self._one('+', '-')} INTERVAL {self._one('1 DAY', '1 MONTH', '2 YEARS')})",
            lambda: f"last_day({of('date')})",
            lambda: f"CAST({of(self._one('timestamp', 'string'))} AS DATE)",
            lambda: f"to_date({of('timestamp')})",
            lambda: f"add_months({of('date')}, 1)",
            lambda: f"trunc({of('date')}, 'MM')",
        ]

    def _timestamp(self, depth: int, table: str) -> list:  # type: ignore[type-arg]
        def of(type_name: str) -> str:
            return self.of(type_name, depth, table)

        return [
            *self._any("timestamp", depth, table),
            lambda: (
                f"({of('timestamp')} {self._one('+', '-')} INTERVAL {self._one('1 HOUR', '1 MONTH', '90 SECONDS')})"
            ),
            lambda: f"CAST({of('date')} AS TIMESTAMP_NTZ)",
        ]

    # --- queries

    def _chosen(self, count: int, table: str = "", depth: int = 2) -> str:
        return ", ".join(f"{self.of(self._one(*_ANY), depth, table)} AS c{number}" for number in range(count))

    def _where(self, table: str = "") -> str:
        return f" WHERE {self.of('boolean', 2, table)}" if self._chance.random() < 0.5 else ""

    def _rows(self) -> str:
        stars = self._one("", "", "", "* EXCEPT (x, `it's;`), ")
        order = self._one("", " ORDER BY id", " ORDER BY c0, id LIMIT 5", " ORDER BY id DESC LIMIT 3 OFFSET 1")
        return f"SELECT {stars}{self._chosen(self._chance.randint(1, 3))}, id AS k FROM t{self._where()}{order}"

    def _aggregate(self, table: str = "") -> str:
        number = self.of(self._one(*_NUMBERS), 1, table)
        return self._one(
            "count(*)",
            f"count({self.of(self._one(*_ANY), 1, table)})",
            f"sum({number})",
            f"avg({number})",
            f"min({number})",
            f"max({self.of(self._one('string', 'date', 'timestamp', 'decimal'), 1, table)})",
            f"count(DISTINCT {number})",
            f"sum(DISTINCT {self.of('int', 0, table)})",
            f"count(DISTINCT {table}i, {table}s)",
            f"sum({number}) FILTER (WHERE {self.of('boolean', 1, table)})",
            f"bool_and({self.of('boolean', 1, table)})",
            f"count_if({self.of('boolean', 1, table)})",
            f"stddev({number})",
            f"collect_list({table}id)",
            f"max_by({table}i, {table}id)",
        )

    def _grouped(self) -> str:
        kind = self._one("int", "string", "boolean", "date", "decimal")
        key = self.of(kind, 1)
        chosen = ", ".join(f"{self._aggregate()} AS a{number}" for number in range(self._chance.randint(1, 3)))
        having = self._one("", "", " HAVING count(*) > 1", " HAVING g IS NOT NULL")
        group = self._one("g", "1", key, "ROLLUP (g)", "ALL") if self._chance.random() < 0.8 else ""
        if not group:
            return f"SELECT {chosen} FROM t{self._where()}"
        order = self._one("", " ORDER BY g", " ORDER BY 1 DESC")
        return f"SELECT {key} AS g, {chosen} FROM t{self._where()} GROUP BY {group}{having}{order}"

    def _joined(self) -> str:
        kind = self._one(
            "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"
        )
        if kind == "CROSS JOIN":
            condition = ""
        elif self._chance.random() < 0.3:
            return f"SELECT {self._one('*', 'id')} FROM (SELECT id, i FROM t) {kind} (SELECT id, s FROM u) USING (id)"
        else:
            condition = f" ON {self._one('t.id = u.id', 't.i = u.i', 't.s = u.s AND t.id > u.id', 't.id = u.id + 1')}"
        left = self.of(self._one(*_ANY), 1, "t.")
        right = "1" if kind.endswith(("SEMI JOIN", "ANTI JOIN")) else self.of(self._one(*_ANY), 1, "u.")
        return f"SELECT {left} AS c0, {right} AS c1 FROM t {kind} u{condition}"

    def _windows(self) -> str:
        kind = self._one("int", "string", "date", "decimal", "boolean")
        over = f"(PARTITION BY {self.of('boolean', 1)} ORDER BY {self.of(kind, 1)} {self._one('', 'DESC')}, id)"
        framed = over[:-1] + f" ROWS BETWEEN {self._one('1 PRECEDING', 'UNBOUNDED PRECEDING')} AND CURRENT ROW)"
        call = self._one(
            "row_number()",
            "rank()",
            "dense_rank()",
            "ntile(3)",
            f"lag({self.of(kind, 1)})",
            f"lead({self.of(kind, 1)}, 2)",
            f"first_value({self.of(kind, 1)})",
            f"sum({self.of(self._one(*_NUMBERS), 1)})",
            "count(*)",
            "percent_rank()",
            f"avg({self.of('decimal', 1)})",
            f"max({self.of(kind, 1)})",
        )
        window = (
            framed if call.startswith(("sum", "count", "avg", "max", "first")) and self._chance.random() < 0.5 else over
        )
        qualify = self._one("", "", " QUALIFY w IS NOT NULL")
        return f"SELECT id, {call} OVER {window} AS w FROM t{self._where()}{qualify}"

    def _set(self) -> str:
        kinds = [self._one(*_ANY) for _ in range(2)]
        sides = [
            f"SELECT {', '.join(f'{self.of(kind, 1)} AS c{n}' for n, kind in enumerate(kinds))} FROM {name}"
            for name in "tu"
        ]
        word = self._one("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        return f"{sides[0]} {word} {sides[1]}{self._one('', ' ORDER BY c0, c1')}"

    def _with(self) -> str:
        inner = f"SELECT {self._chosen(2, depth=1)}, id FROM t"
        return self._one(
            f"WITH w AS ({inner}) SELECT c0, count(*) AS n FROM w GROUP BY c0",
            f"WITH w (p, q, r) AS ({inner}) SELECT p, r FROM w WHERE q IS NOT NULL",
            f"SELECT * FROM ({inner}) v WHERE v.c0 IS NOT NULL",
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < "
            f"{self._chance.randint(2, 6)}) SELECT n FROM r",
            f"SELECT id, c0 AS z, z AS y FROM ({inner})",
        )

    def _values(self) -> str:
        kinds = [self._one(*_ANY) for _ in range(2)]
        rows = ", ".join(f"({', '.join(self._chance.choice(_LITERALS[kind]) for kind in kinds)})" for _ in range(2))
        return self._one(
            f"VALUES {rows}", f"SELECT * FROM VALUES {rows} AS v(a, b)", f"SELECT col1 FROM (VALUES {rows})", "TABLE u"
        )
