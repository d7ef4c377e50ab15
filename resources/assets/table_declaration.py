"""What a table asset says about its table, next to the function that makes the rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from storage import (
    AlreadyExists,
    Catalog,
    InvalidRequest,
    StorageError,
    Table,
    check_table_options,
    new_table_name,
    refuse_without_effect,
)


@dataclass(frozen=True)
class TableDefinition:
    """A table to be created when it is first written. Columns come from the rows. One column may be given as a text."""

    name: str
    primary_key: str | Sequence[str] = ()
    partition_by: str | Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    comment: str | None = None
    column_descriptions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        new_table_name(self.name)
        for what in ("primary_key", "partition_by"):
            object.__setattr__(self, what, _columns(what, getattr(self, what)))
        for name, description in self.column_descriptions.items():
            if not isinstance(description, str):
                raise InvalidRequest(
                    f"column_descriptions: {name}={description!r} is no text, which says what it holds."
                )
        missing = [name for name in self.partition_by if self.primary_key and name not in self.primary_key]
        if missing:
            raise InvalidRequest(
                f"The primary key ({', '.join(self.primary_key)}) must contain every partition column: "
                f"add {', '.join(missing)}."
            )
        if self.primary_key and {*self.primary_key} == {*self.partition_by}:
            raise InvalidRequest(
                f"The primary key ({', '.join(self.primary_key)}) consists of partition columns only: each partition would hold "
                "one row. Add a column to it."
            )
        options = {key: str(value) for key, value in self.options.items()}
        check_table_options(options, self.name)
        refuse_without_effect(options, {}, keyed=bool(self.primary_key), partitioned=bool(self.partition_by))

    def open_or_create(
        self, catalog: Catalog, columns: pa.Schema, created: Callable[[Table], None] | None = None
    ) -> Table:
        """The table; created with the given columns if it does not exist: `created` is told of it then.

        Raises InvalidRequest if it exists with another key or other partition columns.
        """
        exists = catalog.exists(self.name)
        held = catalog.table(self.name).schema.column_names if exists else []
        strange = [name for name in self.column_descriptions if name not in columns.names and name not in held]
        if strange:
            raise InvalidRequest(
                f"column_descriptions names {strange[0]!r}, which is no column of {self.name}. "
                f"Columns: {', '.join(columns.names)}."
            )
        if not exists:
            described = pa.schema([self._described(column) for column in columns])
            # A table with a primary key needs buckets; one is right for all but large tables.
            options = {"bucket": 1, **self.options} if self.primary_key else dict(self.options)
            with suppress(AlreadyExists):
                made = catalog.create_table(
                    self.name,
                    described,
                    primary_key=self.primary_key,
                    partition_by=self.partition_by,
                    options=options,
                    comment=self.comment,
                )
                if created is not None:
                    created(made)
                return made
            # Another run came first.
        table = catalog.table(self.name)
        for argument, declared, actual in (
            ("primary key", tuple(self.primary_key), table.schema.primary_keys),
            ("partition columns", tuple(self.partition_by), table.schema.partition_keys),
        ):
            if declared != actual:
                raise InvalidRequest(
                    f"Table {self.name} exists with {argument} ({', '.join(actual) or 'none'}), the asset declares "
                    f"({', '.join(declared) or 'none'}). Keep the declaration, or drop the table."
                )
        return table

    def _described(self, column: pa.Field) -> pa.Field:
        description = self.column_descriptions.get(column.name)
        return column.with_metadata({"comment": description}) if description else column


@contextmanager
def unless_left_empty(catalog: Catalog) -> Iterator[Callable[[Table], None]]:
    """Within, what gives is to be told of a table that was created: an error drops it again, unless it was written to."""
    made: list[Table] = []
    try:
        yield made.append
    except BaseException:
        for table in made:
            with suppress(StorageError):
                catalog.drop_unwritten(table)
        raise


def _columns(argument: str, given: Any) -> tuple[str, ...]:
    """Names of columns. Raises InvalidRequest for anything else."""
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong or len({str(name).lower() for name in names}) < len(names):
        raise InvalidRequest(f"{argument}={given!r}: give names of columns, each once, as {argument}=['id'].")
    return names
