"""Expressions that a table carries with it: computed columns and watermarks, which its readers run.

Who writes a table is not who reads it. So an expression is a value computed from the table's own columns by functions of a
list: it reads no other table, no file and no setting, calls nothing outside of the engine, and gives one value for each
row. What is not known to be of that kind is refused by name, when the expression is given and whenever it is read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import CorruptData, InvalidRequest, StorageError, Unsupported
from ..metadata.derived_columns import computed_columns, watermark
from .dialect import HeldSql

_MOST_CHARACTERS = 10_000


def _words(text: str) -> list[str]:
    return text.split()


# What a tree is made of besides functions.
_NODES: tuple[type[exp.Expression], ...] = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Neg,
    exp.Not,
    exp.And,
    exp.Or,
    exp.Xor,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.IntDiv,
    exp.Mod,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.BitwiseNot,
    exp.BitwiseLeftShift,
    exp.BitwiseRightShift,
    exp.DPipe,
    exp.EQ,
    exp.NEQ,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.Tuple,
    exp.Bracket,
    exp.Dot,
    exp.Interval,
    exp.IntervalSpan,
    exp.Var,
    exp.DataType,
    exp.DataTypeParam,
    exp.HexString,
    exp.PropertyEQ,
    exp.JSONPath,
    exp.JSONPathRoot,
    exp.JSONPathKey,
    exp.JSONPathSubscript,
    exp.JSONPathWildcard,
)
# Functions of their arguments alone, in the parser's words; each spelling of a dialect is one of them.
_PURE = _words("""
    Abs Acos Acosh AddMonths Array ArrayContains ArraySize ArrayToString Ascii Asin Asinh Atan Atan2 Atanh
    BitLength BitwiseCount ByteLength Case Cast Cbrt Ceil Chr Coalesce Concat ConcatWs Contains ConvertTimezone Cos Cosh Cot
    Date DateAdd DateDiff DateFromParts DateFromUnixDate DateStrToDate DateSub DateToDateStr DateTrunc Datetime DatetimeAdd
    DatetimeDiff DatetimeSub DatetimeTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname Decode DecodeCase Degrees
    Elt Encode EndsWith EqualNull Exp Extract Factorial Floor FromBase64 Greatest Hex Hour If Initcap IsInf IsNan
    JSONExtract JSONExtractScalar LastDay Least Left Length Levenshtein Ln Log Lower LowerHex MD5 MD5Digest MakeInterval
    Map MapFromEntries MapKeys MapSize Minute Month Monthname MonthsBetween Nanvl NextDay Nullif NumberToStr Nvl2 Overlay Pad
    Pi Pow Quarter Radians RegexpExtract RegexpLike RegexpReplace RegexpSplit Replace Reverse Right Rint Round SHA SHA1Digest SHA2
    SHA2Digest SafeAdd SafeDivide SafeMultiply SafeSubtract Sec Second Sign Sin Sinh Soundex Split SplitPart Sqrt StartsWith
    StrPosition StrToDate StrToTime StrToUnix String Struct Substring SubstringIndex Tan Tanh TimeAdd TimeDiff TimeStrToDate
    TimeStrToTime TimeStrToUnix TimeSub TimeToStr TimeToUnix TimeTrunc Timestamp TimestampAdd TimestampDiff
    TimestampFromParts TimestampSub TimestampTrunc ToBase64 ToBoolean ToChar ToDouble ToNumber Translate Trim Trunc Try
    TryCast TsOrDsAdd TsOrDsDiff TsOrDsToDate TsOrDsToDateStr TsOrDsToTimestamp Typeof Unhex Unicode UnixDate UnixMicros
    UnixMillis UnixSeconds UnixToStr UnixToTime UnixToTimeStr Upper VarMap Week WeekOfYear WidthBucket Year YearOfWeek
""")
# The time of the query: what Flink's computed columns and watermarks are made of besides.
_OF_NOW = _words("""
    CurrentDate CurrentDatetime CurrentTime CurrentTimestamp CurrentTimestampLTZ Localtime Localtimestamp
""")
# Functions that the parser has no class for, by their names; those of Flink are kept for Flink.
_NAMED = frozenset(
    _words("""
    bigint binary bin bool boolean btrim char_length character_length conv crc32 csc decimal double e element_at endswith expm1
    float format_number from_unixtime from_utc_timestamp hash hypot int isnotnull isnull ln1p log1p log2 make_date
    make_timestamp map_values mask negative nullifzero octet_length pmod positive proctime signum smallint startswith substr
    timestamp_micros timestamp_millis timestamp_seconds tinyint to_date to_timestamp to_timestamp_ltz to_timestamp_ntz
    date_format date_trunc date_sub levenshtein mod regexp_like to_char trunc unix_date width_bucket positive
    to_unix_timestamp to_utc_timestamp try_add try_divide try_multiply try_subtract unix_timestamp weekday xxhash64 zeroifnull
""")
)
_FUNCTIONS = tuple(getattr(exp, name) for name in [*_PURE, *_OF_NOW])
_NOW = tuple(getattr(exp, name) for name in _OF_NOW)
_TYPES = {
    *exp.DataType.TEXT_TYPES,
    *exp.DataType.NUMERIC_TYPES,
    *exp.DataType.TEMPORAL_TYPES,
    exp.DataType.Type.BOOLEAN,
    exp.DataType.Type.BINARY,
    exp.DataType.Type.VARBINARY,
    exp.DataType.Type.ARRAY,
    exp.DataType.Type.MAP,
    exp.DataType.Type.STRUCT,
    exp.DataType.Type.INTERVAL,
    exp.DataType.Type.TIME,
}
# What is written into a statement as it stands: a number, a unit, the name of a type.
_PLAIN = re.compile(r"[\w.+\-]*", re.ASCII)
_PLAIN_KEY = re.compile(r"[\w \-]+")
_HELP = (
    "An expression of a table is made of its own columns, constants, operators and functions of its list "
    "(docs/sql.md, “Computed columns”)."
)


def parse_expression(text: str, columns: Iterable[str] | None, what: str) -> exp.Expr:
    """The tree of an expression over columns, by default any, without comments; `what` names it in errors.

    Raises InvalidRequest for what is no expression, or names a column that is not there; Unsupported, naming it, for a
    function or a construct that is not known to be computed from the row alone.
    """
    tree = _parsed(text, what)
    for node in tree.walk():
        node.pop_comments()
        _refuse_impure(node, text, what)
    names = {name.lower(): name for name in columns or ()}
    for name in columns_of(tree) if columns is not None else ():
        if name.lower() not in names:
            raise InvalidRequest(
                f"{what} = {_short(text)} needs the column {name!r}, which is not there. Columns: {', '.join(names.values())}."
            )
    return tree


def columns_of(tree: exp.Expr) -> Iterator[str]:
    """The columns that an expression needs, by their names in a table; of nested ones the outermost."""
    for column in tree.find_all(exp.Column):
        yield column.parts[0].name


def check_derived(options: Mapping[str, str], columns: Iterable[str] | None) -> None:
    """Raise InvalidRequest or Unsupported for a computed column, or a watermark, that the options of a table describe and
    that is no expression over its columns, or over any if they are not given.
    """
    names = None if columns is None else list(columns)
    computed = computed_columns(options)
    for node in computed:
        parse_expression(node.expression, names, f"Computed column {node.name!r}")
    mark = watermark(options)
    if mark is not None:
        names = None if names is None else [*names, *(each.name for each in computed)]
        parse_expression(mark.expression, names, f"The watermark of {mark.column!r}")


def as_read(error: StorageError, table: str) -> StorageError:
    """What is wrong with an expression, said of a table that somebody else may have written."""
    kind = Unsupported if isinstance(error, Unsupported) else CorruptData
    return kind(
        f"Table {table} cannot be read by SQL, nothing of it was run: {error} If you own the table, take the expression out "
        "with ALTER TABLE … RESET ('schema.<number>.expr'), or read the stored columns in Python."
    )


def _parsed(text: str, what: str) -> exp.Expr:
    if len(text) > _MOST_CHARACTERS:
        raise InvalidRequest(
            f"{what} has {len(text)} characters, at most {_MOST_CHARACTERS} are read. Write a shorter expression."
        )
    try:
        trees = HeldSql().parse_into(exp.Condition, text)
    except (SqlglotError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        # The parser trusts a few functions to have the arguments that they should have.
        said = str(error).splitlines()[0] if isinstance(error, SqlglotError) and str(error) else "it cannot be parsed."
        raise InvalidRequest(f"{what} = {_short(text)} is no expression: {said}") from None
    except RecursionError:
        raise InvalidRequest(f"{what} = {_short(text)} is nested too deeply to be read.") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidRequest(f"{what} = {_short(text)} is not one expression.")
    return trees[0]


def is_of_row_alone(node: exp.Expr) -> bool:
    """Whether a node of a tree, without those below it, is computed from a row alone; the time of the query is not."""
    is_now = isinstance(node, _NOW) or (isinstance(node, exp.Anonymous) and node.name.lower() == "proctime")
    return is_pure(node) and is_written_safely(node) and not is_now


def is_pure(node: exp.Expr) -> bool:
    """Whether a node, its parts aside, is computed from the row alone."""
    if isinstance(node, exp.Anonymous):
        return isinstance(node.this, str) and node.name.lower() in _NAMED
    if isinstance(node, exp.DataType):
        return node.this in _TYPES
    if isinstance(node, exp.Column):
        # A star, or what an engine puts in the place of a name, is none.
        return all(isinstance(part, exp.Identifier) for part in node.parts) and not node.args.get("join_mark")
    if isinstance(node, exp.In):
        return not any(node.args.get(key) for key in ("query", "unnest", "field"))
    # By its very class: one that is derived from another may do something else.
    return type(node) in _NODES or type(node) in _FUNCTIONS or isinstance(node, exp.WeekStart)


def _refuse_impure(node: exp.Expr, text: str, what: str) -> None:
    if not is_pure(node) or not is_written_safely(node):
        raise Unsupported(f"{what} = {_short(text)}: {_short(named(node))} is not allowed in a table. {_HELP}")


def is_written_safely(node: exp.Expr) -> bool:
    """Whether the engine's text of a node can hold nothing else: texts and quoted names are escaped, other words are plain."""
    if (isinstance(node, exp.Literal) and node.is_string) or (
        isinstance(node, exp.Identifier) and node.args.get("quoted")
    ):
        return True
    if isinstance(node, exp.JSONPathKey):
        return isinstance(node.this, str) and _PLAIN_KEY.fullmatch(node.this) is not None
    part = node.this if isinstance(node, exp.Extract) else node.args.get("unit")
    if isinstance(part, exp.Expr) and not _PLAIN.fullmatch(part.name):
        # A part of a date may be given as text, and becomes a word.
        return False
    return all(_PLAIN.fullmatch(value) for value in node.args.values() if isinstance(value, str))


def named(node: exp.Expr) -> str:
    """What a node is called in an error."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name}()"
    if isinstance(node, exp.Func):
        return f"{node.sql_name().lower()}()"
    return node.key.upper()


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
