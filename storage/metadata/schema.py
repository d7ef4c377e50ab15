"""Table schemas: columns with ids, keys, partitions and options; one immutable JSON file for each version.

Follows `docs/format.md`, "Schema files".
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..data_types import DataField, arrow_schema
from ..document import integer, read_document, sealed, texts, writable
from ..document import text as document_text
from ..errors import CorruptData, InvalidRequest, NotFound
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH
from ..option_spelling import in_one_spelling
from ..options import TableOptions
from ..paths import TablePaths
from ..store_errors import made_or_told
from .unchanged import unchanged
from .witness import WitnessOf, no_witness

_VERSION = 3
_FIRST_SYSTEM_FIELD_ID = 1073741823
KEY_PREFIX = "_KEY_"
# The option by which Paimon takes a table to be one of its branches.
POINTED_BRANCH = "branch"
_SCHEMA_FILE = re.compile(r"schema-(\d+)")
_TRIES = 3


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One version of a table's definition. Changed by making a copy with the next id.

    `uuid` tells the table from another one of the same name and columns; None if another writer wrote the file. `options` have
    one spelling, whatever was given or written.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", in_one_spelling(self.options))

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
            tuple(document_text(each, source, "partitionKeys") for each in value["partitionKeys"]),
            tuple(document_text(each, source, "primaryKeys") for each in value["primaryKeys"]),
            options,
            None if comment is None else document_text(comment, source, "comment"),
            integer(value.get("timeMillis", 0), source, "timeMillis"),
            None if value.get("uuid") is None else document_text(value["uuid"], source, "uuid"),
        )
        _refuse_twice("fields", [field.name for field in fields])
        _refuse_twice("ids of fields", [field.id for field in fields])
        _refuse_twice("partitionKeys", schema.partition_keys)
        _refuse_twice("primaryKeys", schema.primary_keys)
        schema.fields_named((*schema.partition_keys, *schema.primary_keys))
        numbered = _SCHEMA_FILE.fullmatch(source.rsplit("/", 1)[-1])
        if numbered and int(numbered[1]) != schema.id:
            raise CorruptData(f"File {source} is damaged: it says it is schema {schema.id}.")
        return schema

    def to_json(self) -> str:
        """The content of the schema's file."""
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
        """The names of all columns, in order."""
        return [field.name for field in self.fields]

    @property
    def table_options(self) -> TableOptions:
        """The options, parsed. Raises InvalidRequest for values that make no sense."""
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
        return made_or_told(
            lambda: self._file_io.create_exclusively(path, content, of=self._of()),
            # No two have the same, for each bears a name of its own.
            lambda: self._file_io.read_bytes_or_none(path) == content,
            f"version {schema.id} of the schema",
        )

    def delete_if(self, schema: TableSchema) -> bool:
        """Forget a version, if its file still holds it; says whether it did."""
        path = self._paths.schema(schema.id)
        content = unchanged(self._file_io, path, TableSchema.from_json, schema)
        self._read.pop(schema.id, None)
        return content is not None and self._file_io.delete_if(path, content)


def _refuse_twice(what: str, values: Sequence[object]) -> None:
    if len(set(values)) < len(values):
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        raise ValueError(f"{what} has {', '.join(twice)} more than once")
