"""Types of Spark's SQL, and the rules by which it finds one type for several values. Pure."""

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from storage import VARIANT as VARIANT_ARROW
from storage import InvalidRequest, is_variant

_MOST_DIGITS = 38
_LEAST_SCALE = 6
_Type = exp.DataType.Type


@dataclass(frozen=True)
class SparkType:
    """A type by its word; a decimal has digits and a scale, a nested type the types inside, a struct their names as well."""

    word: str
    digits: int = 0
    scale: int = 0
    inner: tuple["SparkType", ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.word == "decimal":
            return f"decimal({self.digits},{self.scale})"
        return f"{self.word}<{', '.join(map(str, self.inner))}>" if self.inner else self.word

    @property
    def is_integer(self) -> bool:
        """Whether it is one of the whole-number types, tinyint to bigint."""
        return self.word in _INTEGERS

    @property
    def is_decimal(self) -> bool:
        """Whether it is a decimal, of whatever digits."""
        return self.word == "decimal"

    @property
    def is_float(self) -> bool:
        """Whether it is float or double."""
        return self.word in ("float", "double")

    @property
    def is_number(self) -> bool:
        """Whether arithmetic takes it."""
        return self.is_integer or self.is_decimal or self.is_float

    @property
    def has_order(self) -> bool:
        """Whether values can be compared: those that are no maps and no variants, and hold none."""
        return self.word not in ("map", "variant") and all(kind.has_order for kind in self.inner)

    @property
    def holds_floats(self) -> bool:
        """Whether a float or a double is inside of it."""
        return any(kind.is_float or kind.holds_floats for kind in self.inner)

    @property
    def is_time(self) -> bool:
        """Whether it is a date or a timestamp, with time zone or without."""
        return self.word in ("date", "timestamp", "timestamp_ntz")

    @property
    def duckdb(self) -> str:
        """The same type in DuckDB's words."""
        if self.is_decimal:
            return f"DECIMAL({self.digits}, {self.scale})"
        if self.word == "array":
            return f"{self.inner[0].duckdb}[]"
        if self.word == "map":
            return f"MAP({self.inner[0].duckdb}, {self.inner[1].duckdb})"
        if self.word == "struct":
            fields = ", ".join(
                f"{_quoted(name)} {each.duckdb}" for name, each in zip(self.names, self.inner, strict=True)
            )
            return f"STRUCT({fields})"
        if self.word not in _DUCKDB:
            raise InvalidRequest(f"Spark has no values of type {self.word}. Leave the column out.")
        return _DUCKDB[self.word]

    @property
    def arrow(self) -> pa.DataType:
        """The same type in Arrow, as results have it."""
        if self.is_decimal:
            return pa.decimal128(self.digits, self.scale)
        if self.word == "array":
            return pa.list_(self.inner[0].arrow)
        if self.word == "map":
            return pa.map_(self.inner[0].arrow, self.inner[1].arrow)
        if self.word == "struct":
            return pa.struct([(name, each.arrow) for name, each in zip(self.names, self.inner, strict=True)])
        return _ARROW[self.word]

    @property
    def is_known(self) -> bool:
        """Whether Spark has this type; other columns are passed on as they are."""
        return (
            self.word in _ARROW or self.is_decimal or (bool(self.inner) and all(kind.is_known for kind in self.inner))
        )


NO_TIMES = (
    "SQL has no values of type TIME, on either engine: write them in Python (Table.write), or by the DEFAULT of a column. The "
    "engine duckdb reads them."
)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DUCKDB = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BLOB",
    "null": "INTEGER",
    "variant": 'STRUCT("value" BLOB, "metadata" BLOB)',
}
_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
    "null": pa.null(),
    "variant": VARIANT_ARROW,
}
TINYINT, SMALLINT, INT, BIGINT = (SparkType(word) for word in _INTEGERS)
FLOAT, DOUBLE, STRING, BOOLEAN = (SparkType(word) for word in ("float", "double", "string", "boolean"))
DATE, TIMESTAMP, TIMESTAMP_NTZ = (SparkType(word) for word in ("date", "timestamp", "timestamp_ntz"))
BINARY, NULL = SparkType("binary"), SparkType("null")
_OF_TREE = {
    _Type.TINYINT: TINYINT,
    _Type.SMALLINT: SMALLINT,
    _Type.INT: INT,
    _Type.BIGINT: BIGINT,
    _Type.FLOAT: FLOAT,
    _Type.DOUBLE: DOUBLE,
    _Type.TEXT: STRING,
    _Type.BOOLEAN: BOOLEAN,
    _Type.DATE: DATE,
    _Type.TIMESTAMPTZ: TIMESTAMP,
    _Type.TIMESTAMPLTZ: TIMESTAMP,
    _Type.TIMESTAMPNTZ: TIMESTAMP_NTZ,
    _Type.BINARY: BINARY,
}


def decimal(digits: int, scale: int) -> SparkType:
    """A decimal, cut to 38 digits as Spark does: at the cost of the scale, of which 6 are kept."""
    if digits > _MOST_DIGITS:
        whole = digits - scale
        scale = max(_MOST_DIGITS - whole, min(scale, _LEAST_SCALE))
        digits = _MOST_DIGITS
    return SparkType("decimal", digits, scale)


def as_decimal(kind: SparkType) -> SparkType:
    """The decimal that holds every value of a whole number's type."""
    return kind if kind.is_decimal else SparkType("decimal", _DIGITS[kind.word], 0)


def of_arrow(kind: pa.DataType) -> SparkType:
    """The type as which Spark reads a column; one that it does not have by the name that Arrow has for it."""
    types = pa.types
    if types.is_struct(kind) and kind == VARIANT_ARROW and not is_variant(kind):
        return SparkType("struct", inner=(BINARY, BINARY), names=("value", "metadata"))
    for word, arrow in _ARROW.items():
        if kind == arrow:
            return SparkType(word)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return STRING
    if types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or types.is_binary_view(kind):
        return BINARY
    if types.is_decimal(kind):
        return SparkType("decimal", kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return TIMESTAMP if kind.tz else TIMESTAMP_NTZ
    if types.is_list(kind) or types.is_large_list(kind):
        return SparkType("array", inner=(of_arrow(kind.value_type),))
    if types.is_map(kind):
        return SparkType("map", inner=(of_arrow(kind.key_type), of_arrow(kind.item_type)))
    if types.is_struct(kind):
        fields = list(kind)
        return SparkType(
            "struct", inner=tuple(of_arrow(field.type) for field in fields), names=tuple(field.name for field in fields)
        )
    return SparkType(str(kind))


def of_tree(node: exp.Expr) -> SparkType:
    """The type that a cast names. Raises InvalidRequest."""
    inner = [
        expression.this if isinstance(expression, exp.DataTypeParam) else expression for expression in node.expressions
    ]
    match node.this:
        case _Type.DECIMAL:
            digits = int(inner[0].name) if inner else 10
            scale = int(inner[1].name) if len(inner) > 1 else 0
            if not 0 < digits <= _MOST_DIGITS or scale > digits:
                raise InvalidRequest(f"DECIMAL({digits}, {scale}): at most 38 digits, the scale among them.")
            return SparkType("decimal", digits, scale)
        case _Type.ARRAY if len(inner) == 1:
            return SparkType("array", inner=(of_tree(inner[0]),))
    kind = _OF_TREE.get(node.this)
    if node.this == _Type.TIME:
        raise InvalidRequest(NO_TIMES)
    if kind is None or inner:
        raise InvalidRequest(f"A cast to {node.sql()} is not known on DuckDB. Use the engine spark.")
    return kind


def common(types: list[SparkType]) -> SparkType | None:
    """The type that CASE, COALESCE, UNION and their like give; None if Spark has to decide by rules that are not known here."""
    kind: SparkType | None = types[0]
    for other in types[1:]:
        kind = None if kind is None else _common(kind, other)
    return kind


def _common(left: SparkType, right: SparkType) -> SparkType | None:
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda integer_type: _INTEGERS.index(integer_type.word))
    if left.is_float or right.is_float:
        if not (left.is_number and right.is_number):
            return None
        return FLOAT if {left.word, right.word} == {"float"} else DOUBLE
    if left.is_number and right.is_number:
        first, second = as_decimal(left), as_decimal(right)
        scale = max(first.scale, second.scale)
        whole = max(first.digits - first.scale, second.digits - second.scale)
        # Digits before the point are kept rather than those after it.
        scale = max(0, min(scale, _MOST_DIGITS - whole))
        return SparkType("decimal", min(_MOST_DIGITS, scale + whole), scale)
    if left.is_time and right.is_time:
        return TIMESTAMP if TIMESTAMP in (left, right) else TIMESTAMP_NTZ
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
