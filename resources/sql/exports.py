"""COPY … TO and INSERT OVERWRITE DIRECTORY: the rows of a query, as either engine gives them, in a file for others.

The query reads its tables at pinned snapshots; lineage, which tells of tables, knows nothing of the file.
"""

import os
from collections.abc import Callable

from storage import InvalidRequest
from storage.sql.commands import Export

from ..exports import destination, export_format, write_file
from ..warehouse.warehouse_session import WarehouseSession
from .engine import Engine
from .query_preparation import Prepare
from .result import Act, Result
from .settings import RUNTIME_MODE
from .statement_context import StatementContext
from .unread import statement_name, take


def exported(tree: Export, context: StatementContext, prepare: Prepare, engine: Callable[[], Engine]) -> Act:
    """Plans an export; what it returns writes the file. Raises InvalidRequest for a place, a format or an option that is not
    allowed.
    """
    name, as_spark = statement_name(tree), bool(tree.args.get("as_spark"))
    if context.settings.options.get(RUNTIME_MODE) == "streaming":
        raise InvalidRequest(f"{name} writes what is there now: RESET '{RUNTIME_MODE}' first.")
    path = tree.args["path"]
    settings = context.session.settings
    place = destination(
        path,
        allowed=settings.writable_directories,
        forbidden=_of_the_platform(context.session),
        storage=(settings.warehouse, settings.storage_options),
        is_directory=as_spark,
        is_local=bool(tree.args.get("is_local")),
    )
    form = export_format(tree.args.get("form"), tree.args.get("options") or (), path, as_spark=as_spark)
    query = prepare(take(tree.this))

    def act() -> Result:
        with place.written(form.ending) as written:
            count = write_file(engine().batches(query), form, written)
        return Result(f"{count} {'row' if count == 1 else 'rows'} written to {place.shown}")

    return act


def _of_the_platform(session: WarehouseSession) -> list[str]:
    """Absolute paths and URLs that no export may touch."""
    return [place if ":/" in place else os.path.abspath(os.path.expanduser(place)) for place in session.own_places()]
