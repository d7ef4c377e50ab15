"""CREATE TABLE: what a statement defines, and the table that is made of it."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import (
    AlreadyExists,
    CommitConflict,
    InvalidRequest,
    StorageError,
    Table,
    nullable_arrow,
    options_in_case,
    refuse_without_effect,
    with_an_effect,
)
from storage.sql.table_definition import TableDefinition, define_table, like_of, options_of

from .computed import check_computed
from .held_names import held_names, refuse_twins
from .names import Names
from .place import at
from .settings import Settings

_log = logging.getLogger(__name__)


class NewTables:
    """Reads what tables are to be; what it returns makes them."""

    def __init__(self, settings: Settings, names: Names) -> None:
        self._settings = settings
        self._names = names

    def define(self, node: exp.Create, *, replaces: bool = False) -> Callable[[pa.Schema | None], Table]:
        """What creates a table, given the columns of the query of a CREATE TABLE AS. `replaces`: what gives the table that is
        there under its new definition.
        """
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        self._names.refuse_read_only(place)
        catalog = self._names.catalog(place)
        if_not_exists, is_or_replace = bool(node.args.get("exists")), bool(node.args.get("replace"))
        if node.expression is not None:
            # Only what the statement has made itself is filled.
            if_not_exists = False
        like = like_of(node)
        if like is not None:
            if replaces:
                raise at(
                    name, InvalidRequest("CREATE OR REPLACE TABLE … LIKE is not supported here: list the columns.")
                )
            return self._copy(node, name, like, if_not_exists=if_not_exists)
        definition = define_table(node)
        refuse_twins(
            [field.name for field in definition.fields] + [column.name for column in definition.computed_columns]
        )
        if definition.fields:
            check_computed(definition, [field.name for field in definition.fields])
        if node.expression is not None and definition.fields:
            raise at(name, InvalidRequest("CREATE TABLE … AS SELECT takes its columns from the query: list none."))
        options = self._options(definition)

        def create(schema: pa.Schema | None) -> Table:
            properties: dict[str, Any] = {
                "primary_key": definition.primary_key,
                "partition_by": definition.partition_by,
                "options": options,
                "comment": definition.comment,
                "computed_columns": definition.computed_columns,
                "watermark": definition.watermark,
            }
            columns = definition.fields or pa.schema(map(nullable_arrow, schema or ()))
            names = [column.name for column in columns]
            refuse_twins(names)
            for what in ("primary_key", "partition_by"):
                properties[what] = held_names(properties[what], names)
            properties["options"] = options_in_case(options, names)
            try:
                if replaces:
                    return catalog.redefined_table(str(place.identifier), columns, **properties)
                return catalog.create_table(str(place.identifier), columns, if_not_exists=if_not_exists, **properties)
            except AlreadyExists as error:
                if not (is_or_replace and catalog.exists(str(place.identifier))):
                    raise at(name, error) from None
                said_again = (
                    f"Table {place.identifier} was created by somebody else meanwhile. Run the statement again."
                )
                raise at(name, CommitConflict(said_again)) from None
            except StorageError as error:
                raise at(name, error) from None

        return create

    def _copy(
        self, node: exp.Create, name: exp.Table, like: exp.Table, *, if_not_exists: bool
    ) -> Callable[[pa.Schema | None], Table]:
        """What creates a table with the columns of another one."""
        if node.expression is not None:
            raise at(name, InvalidRequest("A table is made LIKE another one or AS a SELECT: say one."))
        place, model, options = self._names.place(name), self._names.place(like), options_of(node)
        catalog = self._names.catalog(place)

        def copy(_: pa.Schema | None) -> Table:
            try:
                return catalog.create_table_like(
                    str(place.identifier),
                    str(model.identifier),
                    if_not_exists=if_not_exists,
                    options=options_in_case(options, catalog.table(str(model.identifier)).schema.column_names),
                )
            except StorageError as error:
                raise at(name, error) from None

        return copy

    def _options(self, definition: TableDefinition) -> dict[str, str]:
        """The options of a new table: its own, and defaults (`SET 'table-storage.*'`) that have an effect on it."""
        keyed = bool(definition.primary_key) or bool(definition.options.get("primary-key"))
        partitioned = bool(definition.partition_by) or bool(definition.options.get("partition"))
        defaults = with_an_effect(
            self._settings.table_defaults, definition.options, keyed=keyed, partitioned=partitioned
        )
        refuse_without_effect(definition.options, defaults, keyed=keyed, partitioned=partitioned)
        # A table with a key has one bucket, unless somebody says more.
        return {**({"bucket": "1"} if keyed else {}), **defaults, **definition.options}

    def take_back(self, node: exp.Create, table: Table) -> None:
        """Drop a table that a statement has created and could not fill."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        with suppress(StorageError):
            if self._names.catalog(self._names.place(name)).drop_unwritten(table):
                return
            if table.snapshots.latest_id() is None:
                _log.warning("Table %s was created and could not be filled: it is empty. Drop it.", table.identifier)

    def exists(self, node: exp.Create) -> bool:
        """Whether the table of a CREATE TABLE exists already."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        return self._names.catalog(place).exists(str(place.identifier))
