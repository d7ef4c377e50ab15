"""The Kafka tables of a warehouse: definitions under a name, each in a file `<database>.db/<table>.kafka` beside the tables.

Paimon's catalog of a file system looks at directories alone, so that its readers do not take one for a table. A Kafka table
shares its name with tables and views: who comes second is refused. Dropping one leaves the topic as it is.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ..data_types import parse_type
from ..document import read_document, sealed, texts, writable
from ..errors import AlreadyExists, CorruptData, InvalidRequest, NotFound
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH, Identifier, check_name
from ..metadata.derived_columns import ComputedColumn, Watermark
from ..secret import Secret, guarded_value
from .definition import CONNECTORS, KafkaColumn, KafkaTable

_SUFFIX = ".kafka"
_VERSION = 1


class KafkaTables:
    """The Kafka tables of a catalog."""

    def __init__(self, file_io: FileIO, root: str, refuse_others: Callable[[Identifier], None]) -> None:
        self._file_io = file_io
        self._root = root
        self._refuse_others = refuse_others

    def names(self, database: str) -> list[str]:
        """The Kafka tables of a database, without its name, sorted; of one that does not exist none."""
        try:
            files = self._file_io.list_files(f"{self._root}/{database}.db", or_in_place=True)
        except FileNotFoundError:
            return []
        return sorted(name for file in files if (name := name_of_kafka_table(file.name)) is not None)

    def exists(self, name: str) -> bool:
        """Whether there is a definition of the name."""
        identifier = Identifier.parse(name)
        return _is_plain(identifier) and self._file_io.exists(self._path(identifier))

    def get(self, name: str) -> KafkaTable | None:
        """The Kafka table of a name; None if there is none. Raises CorruptData for one that cannot be read."""
        identifier = Identifier.parse(name)
        if not _is_plain(identifier):
            return None
        content = self._file_io.read_bytes_or_none(self._path(identifier))
        return None if content is None else _read(content, identifier, self._path(identifier))

    def create(self, table: KafkaTable, *, if_not_exists: bool = False, or_replace: bool = False) -> bool:
        """Keep the definition of a table, which has been checked; says whether it was written. `or_replace`: in the place of the
        Kafka table that has its name. Raises AlreadyExists.
        """
        identifier = table.identifier
        path = self._path(identifier)
        content = _written(table, path)
        self._refuse_others(identifier)
        self._file_io.make_directory(f"{self._root}/{identifier.database}.db")
        while not self._file_io.create_exclusively(path, content):
            if if_not_exists:
                return False
            if or_replace:
                before = self._file_io.read_bytes_or_none(path)
                if before == content or (before is not None and self._file_io.replace_if(path, before, content)):
                    return True
                # Somebody else has dropped or replaced it: whoever comes last stays.
                continue
            raise AlreadyExists(f"Kafka table {identifier} exists. Drop it first, or create it if it does not exist.")
        try:
            # Somebody may have created a table or a view meanwhile.
            self._refuse_others(identifier)
        except AlreadyExists:
            self._file_io.delete_if(path, content)
            raise
        return True

    def drop(self, name: str) -> None:
        """Delete a definition, whatever it holds; the topic stays. Raises NotFound."""
        identifier = Identifier.parse(name)
        if not self.exists(name):
            listed = ", ".join(self.names(identifier.database)) or "none"
            raise NotFound(f"Kafka table {identifier} does not exist. Kafka tables of {identifier.database}: {listed}.")
        self._file_io.delete(self._path(identifier))

    def refuse_taken(self, identifier: Identifier) -> None:
        """Raise AlreadyExists if a Kafka table has a name that something else is to get."""
        if self._file_io.exists(self._path(identifier)):
            raise AlreadyExists(
                f"{identifier.full_name} is a Kafka table. DROP TABLE it first, or choose another name."
            )

    def _path(self, identifier: Identifier) -> str:
        return f"{self._root}/{identifier.database}.db/{identifier.table}{_SUFFIX}"


def definition_text(table: KafkaTable) -> str:
    """A definition on its way to other processes; `table_of_text` reads it. Raises InvalidRequest for one that has secrets."""
    return _written(table, table.identifier.table).decode()


def table_of_text(text: str, name: str) -> KafkaTable:
    """The Kafka table of a `definition_text`, under its name."""
    identifier = Identifier.parse(name)
    return _read(text, identifier, identifier.table)


def name_of_kafka_table(file: str) -> str | None:
    """The Kafka table that a file of a database's directory is; None for what is somebody else's."""
    name = file.removesuffix(_SUFFIX)
    try:
        return check_name(name, "table") if name != file else None
    except InvalidRequest:
        return None


def _is_plain(identifier: Identifier) -> bool:
    return identifier.system_table is None and identifier.branch == MAIN_BRANCH


def _written(table: KafkaTable, path: str) -> bytes:
    for key, value in table.options.items():
        if isinstance(guarded_value(key, value), Secret):
            raise InvalidRequest(
                f"Option {key!r} is a secret, which all readers of the warehouse would see. "
                "Brokers that need one are not supported."
            )
    mark = table.watermark
    document: dict[str, Any] = {
        "version": _VERSION,
        "columns": [
            {
                "name": column.name,
                "type": column.type.to_json(),
                "metadata": column.metadata,
                "virtual": column.is_virtual,
                "comment": column.comment,
            }
            for column in table.columns
        ],
        "computed": [
            {"name": each.name, "expression": each.expression, "type": each.data_type, "comment": each.comment}
            for each in table.computed
        ],
        "watermark": mark and {"column": mark.column, "expression": mark.expression, "type": mark.data_type},
        "order": list(table.order),
        "primaryKey": list(table.primary_key),
        "options": dict(table.options),
        "comment": table.comment,
    }
    name = path.rpartition("/")[2]
    return writable(
        lambda: json.dumps(sealed(document, name), indent=2, ensure_ascii=False),
        lambda text: _read(text, table.identifier, path),
        "Kafka table",
    )


def _read(content: str | bytes, identifier: Identifier, path: str) -> KafkaTable:
    document = read_document(content, path)
    if document.get("version") != _VERSION:
        raise CorruptData(
            f"File {path} has version {document.get('version')!r} of a Kafka table; {_VERSION} is known here."
        )
    options = texts(document.get("options"), path, "options")
    if options.get("connector") not in CONNECTORS:
        raise CorruptData(f"File {path} is damaged: its connector is {options.get('connector')!r}.")
    try:
        mark = document["watermark"]
        return KafkaTable(
            identifier,
            tuple(_column(each) for each in document["columns"]),
            options,
            tuple(map(str, document["primaryKey"])),
            document["comment"],
            tuple(
                ComputedColumn(each["name"], each["expression"], each["type"], each["comment"])
                for each in document["computed"]
            ),
            None if mark is None else Watermark(mark["column"], mark["expression"], mark["type"]),
            tuple(map(str, document["order"])),
        )
    except (KeyError, TypeError, InvalidRequest) as error:
        raise CorruptData(
            f"File {path} is damaged: {error}. DROP TABLE and create it again, or restore the file."
        ) from None


def _column(given: Mapping[str, Any]) -> KafkaColumn:
    return KafkaColumn(
        str(given["name"]), parse_type(given["type"]), given["metadata"], bool(given["virtual"]), given["comment"]
    )
