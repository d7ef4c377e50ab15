"""What a CREATE TABLE says, in the words of the store: columns with types of the format, keys, options.

Types have the format's names, so TIMESTAMP has no time zone, TIMESTAMP_LTZ the local one. Pure: nothing is created here. A part
that is not read here is left to the caller, who refuses it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sqlglot import exp

from ..data_types import DataField, DataType, parse_type
from ..errors import InvalidRequest, Unsupported
from ..metadata.default_values import default_text
from ..metadata.derived_columns import ComputedColumn, Watermark
from ..read.metadata_columns import METADATA_COLUMNS
from .commands import MetadataConstraint, WatermarkConstraint
from .dialect import SnaplineSql, shown
from .predicate_text import literal_of
from .written_types import REQUIRED, refusal

_Type = exp.DataType.Type
_WORDS = {
    _Type.TINYINT: "TINYINT",
    _Type.SMALLINT: "SMALLINT",
    _Type.INT: "INT",
    _Type.BIGINT: "BIGINT",
    _Type.FLOAT: "FLOAT",
    _Type.DOUBLE: "DOUBLE",
    _Type.DECIMAL: "DECIMAL",
    _Type.BOOLEAN: "BOOLEAN",
    _Type.TEXT: "STRING",
    _Type.VARCHAR: "VARCHAR",
    _Type.CHAR: "CHAR",
    _Type.BINARY: "BINARY",
    _Type.VARBINARY: "VARBINARY",
    _Type.DATE: "DATE",
    _Type.TIME: "TIME",
    _Type.TIMESTAMP: "TIMESTAMP",
    _Type.TIMESTAMPTZ: "TIMESTAMP",
    _Type.TIMESTAMPNTZ: "TIMESTAMP",
    _Type.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
    _Type.VARIANT: "VARIANT",
}
_KNOWN_TYPES = ", ".join([*dict.fromkeys(_WORDS.values()), "ARRAY<…>", "MAP<…>", "ROW<…>"])


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """`name type METADATA [FROM 'key'] [VIRTUAL]`; without FROM the name is the key."""

    name: str
    type: DataType
    key: str
    is_virtual: bool = False
    comment: str | None = None


@dataclass
class TableDefinition:
    """The parts of a table definition, for `Catalog.create_table`. `order`: the names of all columns, as they were declared."""

    fields: list[DataField] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    partition_by: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    computed_columns: list[ComputedColumn] = field(default_factory=list)
    watermark: Watermark | None = None
    metadata_columns: list[MetadataColumn] = field(default_factory=list)
    order: list[str] = field(default_factory=list)


def define_table(create: exp.Create, *, connectors: Collection[str] = ()) -> TableDefinition:
    """Read a CREATE TABLE. Raises InvalidRequest that names the column, Unsupported for tables of connectors but the given."""
    definition = TableDefinition()
    numbers = count()
    columns = create.this.expressions if isinstance(create.this, exp.Schema) else []
    for column in columns:
        if isinstance(column, exp.ColumnDef):
            _column(definition, column, numbers)
        elif isinstance(column, exp.PrimaryKey):
            _key(definition, column.expressions)
        elif isinstance(column, WatermarkConstraint):
            _refuse_second(definition.watermark, "WATERMARK")
            definition.watermark = Watermark(column.this.name, column.expression.sql(SnaplineSql))
        elif isinstance(column, exp.Constraint):
            # The name of a key is a name for readers of the statement.
            name, keys = column.name, [key for key in column.expressions if isinstance(key, exp.PrimaryKey)]
            if not keys:
                raise InvalidRequest(f"Constraint {name!r}: only PRIMARY KEY (…) NOT ENFORCED is known.")
            _key(definition, keys[0].expressions)
        elif isinstance(column, exp.Identifier):
            raise InvalidRequest(f"Column {column.name!r} has no type.")
        elif not isinstance(column, exp.LikeProperty):
            raise InvalidRequest(f"{shown(column)!r} cannot be part of a table definition.")
    for setting in _properties(create):
        if isinstance(setting, exp.SchemaCommentProperty):
            _refuse_second(definition.comment, "COMMENT")
            definition.comment = setting.this.name
        elif isinstance(setting, exp.PrimaryKey):
            _key(definition, setting.expressions)
        elif isinstance(setting, exp.PartitionedByProperty):
            _refuse_second(definition.partition_by, "PARTITIONED BY")
            if not setting.this.expressions:
                raise InvalidRequest("PARTITIONED BY () names no column: name one, or leave it out.")
            definition.partition_by = [_partition_column(definition, key, numbers) for key in setting.this.expressions]
        elif isinstance(setting, exp.FileFormatProperty) and _is_paimon(setting):
            # Every table is; whoever reads the name has carried it out.
            _ = setting.this.name
    definition.options = options_of(create)
    if definition.options.get("connector") not in connectors:
        _refuse_connector(definition)
    return definition


def _is_paimon(using: exp.FileFormatProperty) -> bool:
    """Whether USING names the format of all tables: looked at without counting as read."""
    word = dict.get(using.args, "this")
    return isinstance(word, exp.Expr) and str(dict.get(word.args, "this")).lower() == "paimon"


def _key(definition: TableDefinition, columns: Sequence[exp.Expr]) -> None:
    _refuse_second(definition.primary_key, "PRIMARY KEY")
    for column in columns:
        _refuse_text(column)
    definition.primary_key = [column.name for column in columns]


def _refuse_second(given: object, what: str) -> None:
    """Raise InvalidRequest if a part of a definition is there already."""
    if given:
        together = ", a key of several columns as PRIMARY KEY (a, b)" if what == "PRIMARY KEY" else ""
        raise InvalidRequest(f"{what} is given twice. Give it once{together}.")


def options_of(create: exp.Create) -> dict[str, str]:
    """The options after WITH or TBLPROPERTIES. Raises InvalidRequest for one that is given twice."""
    options: dict[str, str] = {}
    for setting in _properties(create):
        if type(setting) is exp.Property:
            key = setting.this.name
            if key in options:
                raise InvalidRequest(f"Option {key!r} is given twice. Give it once.")
            options[key] = setting.args["value"].name
    return options


def _properties(create: exp.Create) -> list[exp.Expr]:
    properties = create.args.get("properties")
    return properties.expressions if properties else []


def like_of(create: exp.Create) -> exp.Table | None:
    """The table after LIKE, if the definition has one."""
    listed = create.this.expressions if isinstance(create.this, exp.Schema) else []
    for node in (*listed, *_properties(create)):
        if isinstance(node, exp.LikeProperty):
            if len(listed) > (node in listed):
                raise InvalidRequest("CREATE TABLE … LIKE takes its columns from the other table: list none.")
            return node.this  # type: ignore[no-any-return]
    return None


def _partition_column(definition: TableDefinition, key: exp.Expr, numbers: "count[int]") -> str:
    # Hive's way: a partition column may be declared where it is named.
    if isinstance(key, exp.ColumnDef):
        _column(definition, key, numbers)
    _refuse_text(key)
    if not isinstance(key, exp.ColumnDef | exp.Identifier | exp.Column):
        raise InvalidRequest(
            f"PARTITIONED BY takes columns, and {shown(key)} is none: make it a column of its own. Buckets are options: "
            "'bucket' = '4', 'bucket-key' = 'a'."
        )
    return key.name


def _refuse_text(name: object) -> None:
    """Raise InvalidRequest for the name of a column in quotes: looked at without counting as read."""
    if isinstance(name, exp.Literal):
        raise InvalidRequest(f"{shown(name)}: a name of a column stands in back quotes; in quotes it is a text.")


def _column(definition: TableDefinition, column: exp.ColumnDef, numbers: "count[int]") -> None:
    _refuse_text(column.this)
    definition.order.append(column.name)
    kinds = [argument.args.get("kind") or argument for argument in column.args.get("constraints") or []]
    for kind in kinds:
        if isinstance(kind, exp.ComputedColumnConstraint):
            type_ = column.args.get("kind")
            text = str(type_of(type_)) if type_ else ""
            comments = [kind.this.name for kind in kinds if isinstance(kind, exp.CommentColumnConstraint)]
            made = ComputedColumn(column.name, kind.this.sql(SnaplineSql), text, comments[0] if comments else None)
            others = [each for each in kinds if not isinstance(each, type(kind) | exp.CommentColumnConstraint)]
            if others or len(kinds) > 1 + len(comments):
                raise InvalidRequest(
                    f"Computed column {column.name!r}: {shown((others or kinds)[0])} has no effect on it. Leave it out."
                )
            _refuse_second(comments[1:], "COMMENT")
            definition.computed_columns.append(made)
            return
        if isinstance(kind, MetadataConstraint):
            definition.metadata_columns.append(_metadata_column(column, kinds, kind))
            return
    if column.args.get("kind") is None:
        raise InvalidRequest(f"Column {column.name!r} has no type.")
    comment: str | None = None
    default: exp.Expr | None = None
    nullable = nullable_of(kinds, column.name)
    for kind in kinds:
        if isinstance(kind, exp.NotNullColumnConstraint):
            continue
        if isinstance(kind, exp.PrimaryKeyColumnConstraint):
            _key(definition, [column])
            nullable = False
        elif isinstance(kind, exp.CommentColumnConstraint):
            _refuse_second(comment, "COMMENT")
            comment = kind.this.name
        elif isinstance(kind, exp.DefaultColumnConstraint):
            _refuse_second(default, "DEFAULT")
            default = kind.this
        elif isinstance(kind, exp.AutoIncrementColumnConstraint | exp.GeneratedAsIdentityColumnConstraint):
            raise InvalidRequest(
                f"Column {column.name!r}: columns that number their rows (IDENTITY, AUTO_INCREMENT) are not known here: write "
                "the numbers."
            )
        else:
            raise InvalidRequest(f"Column {column.name!r}: {shown(kind)} is not known here.")
    kept = type_of(column.args["kind"], nullable=nullable)
    given = None if default is None else default_text(constant_of(default, kept, column.name), kept, column.name)
    definition.fields.append(DataField(next(numbers), column.name, kept, comment, given))


def _metadata_column(column: exp.ColumnDef, kinds: Sequence[exp.Expr], metadata: MetadataConstraint) -> MetadataColumn:
    name, comments = column.name, [kind.this.name for kind in kinds if isinstance(kind, exp.CommentColumnConstraint)]
    if column.args.get("kind") is None:
        raise InvalidRequest(f"Metadata column {name!r} has no type, as in {name} BIGINT METADATA.")
    for kind in kinds:
        if kind is not metadata and not isinstance(kind, exp.CommentColumnConstraint | exp.NotNullColumnConstraint):
            raise InvalidRequest(f"Metadata column {name!r}: {shown(kind)} has no effect on it. Leave it out.")
    _refuse_second(comments[1:], "COMMENT")
    type_ = type_of(column.args["kind"], nullable=nullable_of(kinds, name))
    key, is_virtual = metadata.args.get("this") or name, bool(metadata.args.get("virtual"))
    return MetadataColumn(name, type_, key, is_virtual, comments[0] if comments else None)


def nullable_of(kinds: Sequence[exp.Expr], name: str) -> bool:
    """What NOT NULL or NULL among the constraints of a column say. Raises InvalidRequest if both, or one twice, are there."""
    said = [bool(kind.args.get("allow_null")) for kind in kinds if isinstance(kind, exp.NotNullColumnConstraint)]
    is_key = any(isinstance(kind, exp.PrimaryKeyColumnConstraint) for kind in kinds)
    if len(said) > 1 or (is_key and True in said):
        raise InvalidRequest(
            f"Column {name!r}: NOT NULL, NULL and PRIMARY KEY say twice whether it takes nulls. Say it once."
        )
    return said[0] if said else True


def constant_of(node: exp.Expr, data_type: DataType, name: str) -> Any:
    """The constant of a DEFAULT. Raises InvalidRequest for an expression, and for a text that is to be a number or a boolean."""
    try:
        value = literal_of(node)
    except InvalidRequest:
        raise InvalidRequest(
            f"The DEFAULT of column {name!r}, {shown(node)}, is not a constant: a number, a text, TRUE, FALSE, DATE '…' or "
            "TIMESTAMP_NTZ '…'."
        ) from None
    is_number = data_type.is_integer or data_type.is_float or data_type.root in ("DECIMAL", "BOOLEAN")
    if isinstance(node, exp.Literal) and node.is_string and is_number:
        raise InvalidRequest(
            f"The DEFAULT of column {name!r} is a text, the column is {data_type}: leave the quotes out."
        )
    return value


def type_of(node: exp.Expr, *, nullable: bool = True) -> DataType:
    """The type of the format that a type in SQL stands for. Raises InvalidRequest for types that it does not have."""
    inner: list[Any] = node.expressions
    if isinstance(node, exp.DataType) and (wrong := refusal(node, stored=True)):
        raise InvalidRequest(f"{wrong}.")
    match node.this:
        case _Type.ARRAY:
            return DataType("ARRAY", nullable, element=_inner(inner[0]))
        case _Type.MAP:
            return DataType("MAP", nullable, key=_inner(inner[0]), element=_inner(inner[1]))
        case _Type.STRUCT:
            return DataType(
                "ROW", nullable, fields=tuple(DataField(0, each.name, _inner(each), _comment(each)) for each in inner)
            )
    word = _WORDS.get(node.this)
    if word is None:
        name = getattr(node.this, "value", node.this)
        raise InvalidRequest(f"{name} is not a type of the format. Types: {_KNOWN_TYPES}.")
    parameters = ", ".join(each.name for each in inner)
    if word == "CHAR":
        raise Unsupported(
            "CHAR: Spark fills such texts up with blanks when they are stored, read and compared, which is not done here. "
            "VARCHAR(n) holds the same texts as they are, STRING those of any length."
        )
    if word == "VARCHAR" and not parameters:
        raise InvalidRequest("VARCHAR needs a length, as in VARCHAR(20). A text of any length is a STRING.")
    if word in ("BINARY", "VARBINARY") and not parameters:
        # As in Spark: bytes of any length.
        word = "BYTES"
    text = f"{word}({parameters})" if parameters else word
    return parse_type(text if nullable else f"{text} NOT NULL")


def _inner(node: exp.Expr) -> DataType:
    if not isinstance(node, exp.ColumnDef):
        return type_of(node, nullable=REQUIRED not in node.meta)
    kinds = [constraint.args.get("kind") or constraint for constraint in node.args.get("constraints") or []]
    for kind in kinds:
        if not isinstance(kind, exp.NotNullColumnConstraint | exp.CommentColumnConstraint):
            raise InvalidRequest(f"Field {node.name!r} of a struct takes NOT NULL and COMMENT, and not {shown(kind)}.")
    return type_of(node.args["kind"], nullable=nullable_of(kinds, node.name))


def _comment(node: exp.Expr) -> str | None:
    comment: str | None = None
    for argument in node.args.get("constraints") or []:
        kind = argument.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint):
            _refuse_second(comment, f"The COMMENT of field {node.name!r}")
            comment = str(kind.this.name)
    return comment


def _refuse_connector(definition: TableDefinition) -> None:
    connector = definition.options.pop("connector", None)
    if connector not in (None, "paimon", "table-store", "snapline"):
        raise Unsupported(
            f"'connector' = {connector!r} is not there: without the option a table of the store is made, with 'kafka' or "
            "'upsert-kafka' one of a topic. Read any other system in an asset."
        )
    if definition.metadata_columns:
        raise Unsupported(
            f"Metadata columns ({', '.join(each.name for each in definition.metadata_columns)}) are declared of a "
            f"connector's tables. The rows of this one tell {', '.join(METADATA_COLUMNS)} to each query that names them: leave "
            "the declaration out, and give them other names and types in a VIEW."
        )
