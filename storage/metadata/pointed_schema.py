"""What other readers of the format find where main's schemas were, once main is replaced: one schema, with the option `branch`.

Paimon's Java library takes a table to be the branch that this option of its schema names. So it finds, reads and writes the
branch under the plain name, and does not create a table over it. `MAIN-BRANCH` alone decides what main is; the schema follows.
Source: `docs/format.md`, "Branches".
"""

from collections.abc import Mapping
from dataclasses import replace

from ..directory_lock import Witness
from ..errors import NotFound
from ..file_io import FileIO
from ..identifier import MAIN_BRANCH
from ..paths import TablePaths
from .main_branch import find_main
from .schema import POINTED_BRANCH, SchemaFiles, TableSchema, points_at
from .witness import WitnessOf

_TRIES = 10


def own_schema(file_io: FileIO, paths: TablePaths, schema_id: int) -> bytes:
    """What a schema file of a branch holds. Raises NotFound if it is not there (any more), or points at what main is by now."""
    path = paths.schema(schema_id)
    content = file_io.read_bytes(path)
    if paths.branch == MAIN_BRANCH and points_at(TableSchema.from_json(content.decode(), path)) is not None:
        raise NotFound(f"{path} is a schema of main no more: main has been replaced meanwhile.")
    return content


def point_at_main(file_io: FileIO, paths: TablePaths, of: WitnessOf) -> None:
    """Let others find the branch that main is, in the newest version of its schema. Nothing if it is not main.

    Raises NotFound if the branch is another one than `of` tells.
    """
    place = TablePaths(paths.root)
    for _ in range(_TRIES):
        if paths.branch == MAIN_BRANCH or find_main(file_io, paths.root) != paths:
            return
        newest = SchemaFiles(file_io, paths).latest()
        if newest is None or not _put(file_io, place, _pointing(newest, paths.branch), of()):
            continue
        for schema_id in SchemaFiles(file_io, place).ids():
            # Those of what was main go with it.
            if schema_id != newest.id:
                _delete_pointing(file_io, place, schema_id, newest.id, paths.branch)
        if SchemaFiles(file_io, paths).ids()[-1:] == [newest.id]:
            return


def take_over_schemas(file_io: FileIO, paths: TablePaths, of: Witness) -> bool:
    """Give the branch that main is the versions of the schema that somebody who knows it by the option alone has added; says
    whether there were any.
    """
    place = TablePaths(paths.root)
    beside, own = SchemaFiles(file_io, place), SchemaFiles(file_io, paths, lambda: of)
    known, any_taken = own.ids(), False
    for schema_id in beside.ids():
        if known and schema_id > known[-1]:
            schema = beside.get(schema_id)
            if points_at(schema) == paths.branch:
                own.create(replace(schema, options=_without_branch(schema.options)))
                any_taken = True
    return any_taken


def _pointing(schema: TableSchema, branch: str) -> TableSchema:
    return replace(schema, options={**schema.options, POINTED_BRANCH: branch})


def _without_branch(options: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != POINTED_BRANCH}


def _put(file_io: FileIO, place: TablePaths, schema: TableSchema, of: Witness | None) -> bool:
    """Write a schema over whatever has its number; False if somebody else has just done so."""
    path, content = place.schema(schema.id), schema.to_json().encode()
    existing = file_io.read_bytes_or_none(path)
    if existing == content:
        return True
    return file_io.replace_if(path, existing, content, of=of)


def _delete_pointing(file_io: FileIO, place: TablePaths, schema_id: int, newest: int, branch: str) -> None:
    """Delete a schema that points at an earlier version, or at another branch."""
    path = place.schema(schema_id)
    existing = file_io.read_bytes_or_none(path)
    if existing is None:
        return
    pointed = points_at(TableSchema.from_json(existing.decode(), path))
    if pointed is not None and (pointed != branch or schema_id < newest):
        file_io.delete_if(path, existing)
