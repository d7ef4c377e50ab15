"""Table schemas: columns with ids, keys, partitions and options; one immutable JSON file for each version.

Follows `docs/format.md`, "Schema files".
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from ..data_types import READ_ONLY_ROOTS, DataField, DataType, arrow_schema, nested_fields, type_from_arrow
from ..document import integer, read_document, sealed, texts, writable
from ..document import text as document_text
from ..errors import CorruptData, InvalidRequest, NotFound, Unsupported
from ..file_io import FileIO
from ..format.file_index.wanted import check_file_indexes
from ..identifier import MAIN_BRANCH
from ..option_checks import check_table_options
from ..options import TableOptions
from ..paths import TablePaths
from ..values import from_literal
from .case_twins import refuse_new_twins
from .unchanged import unchanged
from .witness import WitnessOf, no_witness

_VERSION = 3
_FIRST_SYSTEM_FIELD_ID = 1073741823
_RESERVED_NAMES = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")
KEY_PREFIX = "_KEY_"
# The option by which Paimon takes a table to be one of its branches.
POINTED_BRANCH = "branch"
_SCHEMA_FILE = re.compile(r"schema-(\d+)")
_TRIES = 3


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's definition. Changed by making a copy with the next id.

    `uuid` tells the table from another one of the same name and columns; None if another writer wrote the file.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None
    time_ms: int
    uuid: str | None = None

    @classmethod
    def from_json(cls, text: str, source: str = "schema") -> "TableSchema":
        """Read a schema file. Raises CorruptData that names `source`."""
        value = read_document(text, source)
        try:
            return cls._from_value(value, source)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, InvalidRequest) as error:
            raise CorruptData(f"File {source} is no schema: {type(error).__name__}: {error}") from None

    @classmethod
    def _from_value(cls, value: dict[str, Any], source: str) -> "TableSchema":
        options = dict(texts(value["options"], source, "options"))
        version = integer(value.get("version", 1), source, "version")
        if version <= 1:
            options.setdefault("bucket", "1")
        if version < 3:
            options.setdefault("file.format", "orc")
        comment = value.get("comment")
        fields = tuple(DataField.from_json(field) for field in value["fields"])
        for field in fields:
            integer(field.id, source, "the id of a field")
            document_text(field.name, source, "the name of a field")
            if field.default_value is not None:
                document_text(field.default_value, source, "the default of a field")
        schema = cls(
            integer(value["id"], source, "id"),
            fields,
            integer(value["highestFieldId"], source, "highestFieldId"),
            tuple(document_text(one, source, "partitionKeys") for one in value["partitionKeys"]),
            tuple(document_text(one, source, "primaryKeys") for one in value["primaryKeys"]),
            options,
            None if comment is None else document_text(comment, source, "comment"),
            integer(value.get("timeMillis", 0), source, "timeMillis"),
            None if value.get("uuid") is None else document_text(value["uuid"], source, "uuid"),
        )
        schema.fields_named((*schema.partition_keys, *schema.primary_keys))
        numbered = _SCHEMA_FILE.fullmatch(source.rsplit("/", 1)[-1])
        if numbered and int(numbered[1]) != schema.id:
            raise CorruptData(f"File {source} is damaged: it says it is schema {schema.id}.")
        return schema

    def to_json(self) -> str:
        value: dict[str, Any] = {
            "version": _VERSION,
            "id": self.id,
            "fields": [field.to_json() for field in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            value["comment"] = self.comment
        value["timeMillis"] = self.time_ms
        if self.uuid is not None:
            value["uuid"] = self.uuid
        return json.dumps(sealed(value, f"schema-{self.id}"), indent=2, ensure_ascii=False)

    @property
    def column_names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def table_options(self) -> TableOptions:
        return TableOptions.read(self.options)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition columns: what files are sorted by."""
        return tuple(key for key in self.primary_keys if key not in self.partition_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns whose hash picks the bucket; empty for bucket-unaware tables."""
        return self.table_options.bucket_key or self.trimmed_primary_keys

    @property
    def crosses_partitions(self) -> bool:
        """Whether a key says nothing of some partition column, so that its row may move from one partition to another."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether a hash index says which bucket of its partition each key is in."""
        return bool(self.primary_keys) and self.table_options.bucket == -1 and not self.crosses_partitions

    def field(self, name: str) -> DataField:
        """The column of that name. Raises InvalidRequest that lists the columns there are."""
        for field in self.fields:
            if field.name == name:
                return field
        raise InvalidRequest(f"There is no column {name!r}. Columns: {', '.join(self.column_names)}.")

    def fields_named(self, names: Sequence[str]) -> list[DataField]:
        """The columns of those names, in the order of the names."""
        return [self.field(name) for name in names]

    def to_arrow(self) -> pa.Schema:
        """Columns in order, with the nullability of the table."""
        return arrow_schema(self.fields)


def new_schema(
    columns: pa.Schema | Sequence[DataField],
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    time_ms: int,
) -> TableSchema:
    """The first schema of a new table, checked. Raises InvalidRequest or Unsupported that says what is wrong.

    Columns of an Arrow schema get field ids in order, fields of nested columns right after their column.
    """
    texts = {str(key): _option_text(value) for key, value in (options or {}).items()}
    primary_keys = tuple(primary_keys) or _names(texts.pop("primary-key", ""))
    partition_keys = tuple(partition_keys) or _names(texts.pop("partition", ""))
    check_table_options(texts, "to be created")
    numbers = count()
    fields = tuple(_number(column, numbers) for column in columns)
    fields = tuple(
        replace(field, type=field.type.not_null()) if field.name in primary_keys else field for field in fields
    )
    texts |= _whole_row_key(texts, fields, primary_keys, partition_keys)
    highest = max((inner.id for field in fields for inner in (field, *nested_fields(field.type))), default=-1)
    schema = TableSchema(0, fields, highest, partition_keys, primary_keys, texts, comment, time_ms)
    check_schema(schema)
    refuse_new_twins(schema.to_arrow())
    check_column_options(schema, texts)
    check_file_indexes(schema.options, {field.name: field.type for field in schema.fields})
    check_avro(schema)
    return schema


def _whole_row_key(
    texts: Mapping[str, str], fields: Sequence[DataField], primary_keys: Sequence[str], partition_keys: Sequence[str]
) -> dict[str, str]:
    """Rows without a key that are hashed to buckets are hashed by all of their columns; the option says so to every reader."""
    options = TableOptions.read(texts)
    if primary_keys or options.bucket < 1 or options.bucket_key or any(field.type.is_nested for field in fields):
        return {}
    names = [field.name for field in fields if field.name not in partition_keys]
    return {} if not names or any("," in name for name in names) else {"bucket-key": ",".join(names)}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(column: pa.Field | DataField, numbers: "count[int]") -> DataField:
    field_id = next(numbers)
    if isinstance(column, DataField):
        return DataField(
            field_id, column.name, _renumber(column.type, numbers), column.description, column.default_value
        )
    description = (column.metadata or {}).get(b"comment")
    try:
        data_type = type_from_arrow(column.type, column.nullable, lambda: next(numbers))
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {column.name!r}: {error}") from None
    return DataField(field_id, column.name, data_type, description.decode() if description else None)


def renumbered(field: DataField, numbers: "count[int]") -> DataField:
    """A column with ids of its own."""
    return _number(field, numbers)


def _renumber(data_type: DataType, numbers: "count[int]") -> DataType:
    fields = tuple(replace(field, id=next(numbers), type=_renumber(field.type, numbers)) for field in data_type.fields)
    inner: dict[str, Any] = {
        name: _renumber(part, numbers)
        for name, part in (("key", data_type.key), ("element", data_type.element))
        if part is not None
    }
    return replace(data_type, fields=fields, **inner)


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported, saying what is wrong, for a schema that the format does not allow."""
    names = schema.column_names
    if not names:
        raise InvalidRequest("A table needs at least one column.")
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"Column {name!r} occurs {names.count(name)} times. Column names must be unique.")
        if not name or name in _RESERVED_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidRequest(f"Column name {name!r} is reserved by the format. Rename the column.")
    for what, keys in (("primary key", schema.primary_keys), ("partition", schema.partition_keys)):
        for key in keys:
            field = _declared(schema, key, f"{what} column")
            if field.type.is_nested:
                raise InvalidRequest(
                    f"{what.capitalize()} column {key!r} has type {field.type}: it must not be nested."
                )
            if what == "partition" and field.type.is_bytes:
                raise InvalidRequest(f"Partition column {key!r} has type {field.type}: use text, a number or a date.")
        if len(set(keys)) < len(keys):
            raise InvalidRequest(f"The {what} names a column twice: {', '.join(keys)}.")
    for field in schema.fields:
        field.type.to_arrow()
    _check_texts(schema)
    _check_untracked(schema)
    _check_keys(schema)
    _check_buckets(schema)


def check_column_options(schema: TableSchema, keys: Collection[str]) -> None:
    """Raise InvalidRequest if options that were given name columns that are not there, or say what nobody asks for."""
    options = schema.table_options
    for key in sorted(keys):
        value = schema.options[key]
        if key.startswith("fields."):
            named = key.removeprefix("fields.").rpartition(".")[0]
            strange = [name for name in named.split(",") if name and name.strip() not in schema.column_names]
            if strange:
                raise InvalidRequest(
                    f"Option {key!r}: there is no column {strange[0].strip()!r}. Columns: {', '.join(schema.column_names)}."
                )
            if key.endswith(".stats-mode"):
                continue
            if options.merge_engine not in ("aggregation", "partial-update"):
                raise InvalidRequest(
                    f"Option {key!r} has no effect with 'merge-engine' = {options.merge_engine!r}: it is for aggregation and "
                    "partial-update. Leave it out."
                )
        if key.startswith(("partition.expiration", "partition.timestamp")) and not schema.partition_keys:
            raise InvalidRequest(f"Option {key!r} has no effect on a table without partitions: leave it out.")
        if key == "partition.timestamp-pattern":
            columns = re.findall(r"\$(\w+)", value)
            if not columns:
                raise InvalidRequest(
                    f"Option {key!r} = {value!r} names no partition column: write $column, as in `$day $hour:00`."
                )
            strange = [name for name in columns if name not in schema.partition_keys]
            if strange:
                raise InvalidRequest(
                    f"Option {key!r} = {value!r} names {strange[0]!r}, which is no partition column: "
                    f"{', '.join(schema.partition_keys)}."
                )


def _check_untracked(schema: TableSchema) -> None:
    """Partitions without change tracking are named by values of partition columns."""
    for text in schema.table_options.change_tracking_off_partitions:
        for part in text.split("/"):
            name, equals, value = part.partition("=")
            if not equals or name not in schema.partition_keys:
                raise InvalidRequest(
                    f"Option 'change-tracking.off-partitions' has {text!r}: write partitions as column=value/column=value, with "
                    f"partition columns ({', '.join(schema.partition_keys) or 'the table has none'})."
                )
            from_literal(value, schema.field(name).type)


def check_avro(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise InvalidRequest for what Avro files of the table could not hold, or Paimon's Java library not write or read there;
    what was so `before` is left alone.
    """
    known = set() if before is None else set(_avro_troubles(before))
    for trouble in _avro_troubles(schema):
        if trouble not in known:
            raise InvalidRequest(trouble)


def _avro_troubles(schema: TableSchema) -> Iterator[str]:
    options = schema.table_options
    if all(options.format_of_level(level) != "avro" for level in range(options.top_level + 1)):
        return
    for field in (inner for one in schema.fields for inner in (one, *nested_fields(one.type))):
        if not (field.name[:1].isalpha() or field.name[:1] == "_") or not all(
            char.isalpha() or char.isdecimal() or char == "_" for char in field.name
        ):
            yield (
                f"Column {field.name!r}: a name in Avro files begins with a letter or _ and goes on with letters, digits and _. "
                "Rename the column, or use another 'file.format'."
            )
        if field.type.root == "TIME" and field.type.precision > 3:
            yield (
                f"Column {field.name!r}: Avro has no place for {field.type}. Use a precision of 3 or less, or another "
                "'file.format'."
            )


def _check_texts(schema: TableSchema) -> None:
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"A name, an option or a comment holds half of a character (a lone surrogate), {error.object[error.start]!r}, "
            "which no file can."
        ) from None


def _declared(schema: TableSchema, name: str, what: str) -> DataField:
    if name not in schema.column_names:
        raise InvalidRequest(
            f"{what.capitalize()} {name!r} is not a column. Columns: {', '.join(schema.column_names)}."
        )
    return schema.field(name)


def _check_keys(schema: TableSchema) -> None:
    if not schema.primary_keys:
        return
    missing = [key for key in schema.partition_keys if key not in schema.primary_keys]
    options = schema.table_options
    if missing and options.bucket != -1:
        raise InvalidRequest(
            f"The primary key ({', '.join(schema.primary_keys)}) must contain every partition column: add "
            f"{', '.join(missing)}, or partition by columns of the key. With 'bucket' = '-1' it need not: then rows of a key "
            "move from one partition to another."
        )
    if missing and options.sequence_field:
        raise Unsupported(
            f"Option 'sequence.field' with a primary key that does not contain {', '.join(missing)}: a row that comes late would "
            "be in two partitions. Leave the option out, or add the partition columns to the key."
        )
    if not schema.trimmed_primary_keys:
        raise InvalidRequest(
            f"The primary key ({', '.join(schema.primary_keys)}) consists of partition columns only: "
            "each partition could hold one row. Add a column to the key."
        )


def refuse_unwritable(schema: TableSchema) -> None:
    """Raise Unsupported for columns that are read and not written, and for buckets that other writers give keys to, and this one
    would give to others.
    """
    for field in schema.fields:
        for one in (field, *nested_fields(field.type)):
            if one.type.root in READ_ONLY_ROOTS:
                raise Unsupported(
                    f"Column {field.name!r} is of type {one.type}, which is read and not written here. Leave the column "
                    "out, or store it as BYTES."
                )
    bucket = schema.table_options.bucket
    if schema.primary_keys and bucket < 1 and bucket not in (-1, -2):
        raise Unsupported(
            f"A table with a primary key needs a positive 'bucket', -1 for dynamic ones or -2 for postponed ones, found {bucket}."
        )


def refuse_moving_keys(schema: TableSchema, doing: str) -> None:
    """Raise Unsupported for what brings files back or over, where a key may be in another partition by now."""
    if schema.crosses_partitions:
        raise Unsupported(
            f"{doing} is not supported for a table whose primary key ({', '.join(schema.primary_keys)}) does not contain all "
            "partition columns: a key could come to be in two partitions."
        )


def _check_buckets(schema: TableSchema) -> None:
    options = schema.table_options
    refuse_unwritable(schema)
    if options.bucket == 0 or options.bucket < -2 or (options.bucket == -2 and not schema.primary_keys):
        raise InvalidRequest(
            f"Option 'bucket' = {options.bucket}: use a positive number, -1, or with a primary key -2."
        )
    if not schema.primary_keys and options.bucket > 0 and not options.bucket_key:
        raise InvalidRequest(
            f"Option 'bucket' = {options.bucket} without a primary key needs a 'bucket-key': name the columns to hash."
        )
    if options.dynamic_bucket_max_buckets == 0:
        raise InvalidRequest("Option 'dynamic-bucket.max-buckets' = 0: use a positive number, or -1 for no limit.")
    if options.bucket < 0 and options.bucket_key:
        raise InvalidRequest("Option 'bucket-key' needs a positive 'bucket'.")
    for key in options.bucket_key:
        field = _declared(schema, key, "bucket key")
        if key in schema.partition_keys or field.type.is_nested:
            raise InvalidRequest(f"Bucket key {key!r} must be a plain column outside of the partition columns.")
        if schema.primary_keys and key not in schema.primary_keys:
            raise InvalidRequest(f"Bucket key {key!r} must be part of the primary key.")
    if (
        options.rowkind_field is not None
        and not _declared(schema, options.rowkind_field, "'rowkind.field'").type.is_text
    ):
        raise InvalidRequest(f"Option 'rowkind.field' = {options.rowkind_field!r} must name a text column.")


def points_at(schema: TableSchema) -> str | None:
    """The branch that a schema in the place of main's says the table is, since main was replaced; None if it is main's own."""
    branch = schema.options.get(POINTED_BRANCH, MAIN_BRANCH)
    return None if branch == MAIN_BRANCH else branch


class SchemaFiles:
    """The schema files of one branch. What a schema is hardly ever changes, so each is read once."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of
        self._read: dict[int, TableSchema] = {}
        # The text of a version that was compared with what its reader knows of it.
        self._confirmed: dict[int, str] = {}

    def get(self, schema_id: int) -> TableSchema:
        """The schema of that id. Raises CorruptData if it is missing or unreadable, NotFound if the table has gone."""
        if schema_id not in self._read:
            path = self._paths.schema(schema_id)
            try:
                self._read[schema_id] = TableSchema.from_json(self._file_io.read_bytes(path).decode(), path)
            except NotFound:
                if not self._is_there():
                    raise NotFound(f"{path} has gone: the table was dropped, renamed or replaced meanwhile.") from None
                raise CorruptData(f"Schema file {path} is missing, but files of the table name it.") from None
            except UnicodeDecodeError as error:
                raise CorruptData(f"Schema file {path} is unreadable: {error}") from None
        return self._read[schema_id]

    def _is_there(self) -> bool:
        """Whether the branch has schemas of its own, and not one that points at what main is by now."""
        newest = self.ids()[-1:]
        path = self._paths.schema(newest[0]) if newest else ""
        text = self._file_io.read_text_or_none(path) if path else None
        if text is None or self._paths.branch != MAIN_BRANCH:
            return text is not None
        return points_at(TableSchema.from_json(text, path)) is None

    def is_still(self, schema: TableSchema) -> bool:
        """Whether a version that was read before is still there and the same: else this is no more the same table."""
        path = self._paths.schema(schema.id)
        text = self._file_io.read_text_or_none(path)
        if text is not None and self._confirmed.get(schema.id) != text:
            if TableSchema.from_json(text, path) != schema:
                return False
            self._confirmed[schema.id] = text
        return text is not None

    def content_of(self, schema: TableSchema) -> bytes | None:
        """What the file of a version holds that was read before; None if this is no more the same table."""
        if schema.id not in self._confirmed and not self.is_still(schema):
            return None
        return self._confirmed[schema.id].encode()

    def ids(self) -> list[int]:
        """All schema ids, ascending."""
        names = (
            _SCHEMA_FILE.fullmatch(file.name)
            for file in self._file_io.list_files(self._paths.schema_directory, or_in_place=True)
        )
        return sorted(int(match[1]) for match in names if match)

    def latest(self) -> TableSchema | None:
        """The schema with the highest id, or None if there is no table."""
        for tries_left in reversed(range(_TRIES)):
            ids = self.ids()
            if not ids:
                return None
            try:
                return self.get(ids[-1])
            except (CorruptData, NotFound):
                # What was dropped, renamed or deleted since it was listed is not damaged: it is no more.
                if not tries_left or self._file_io.exists(self._paths.schema(ids[-1])):
                    raise
        raise AssertionError("the last try raises")

    def create(self, schema: TableSchema) -> bool:
        """Write a new schema version; False if another writer took its id."""
        path = self._paths.schema(schema.id)
        content = writable(schema.to_json, lambda text: TableSchema.from_json(text, path), "schema")
        return self._file_io.create_exclusively(path, content, of=self._of())

    def delete_if(self, schema: TableSchema) -> bool:
        """Forget a version, if its file still holds it; says whether it did."""
        path = self._paths.schema(schema.id)
        content = unchanged(self._file_io, path, TableSchema.from_json, schema)
        self._read.pop(schema.id, None)
        return content is not None and self._file_io.delete_if(path, content)
