"""The options of a catalog, which a warehouse keeps in one JSON file.

They are written when the catalog is first used with them; those of lineage cannot be changed afterwards. Secrets, and what only
whoever opens the catalog knows, are not kept.
"""

import json
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .document import read_document, texts
from .errors import CorruptData, InvalidRequest, StorageError
from .file_io import FileIO
from .secret import Secret, guarded_value

_OPTIONS_FILE = "catalog-options.json"
IMMUTABLE_OPTIONS = ("table-lineage", "data-lineage")
# What whoever opens the catalog knows; it says nothing to others.
_OF_THE_OPENER = ("jdbc.username", "storage.")


def settle_options(file_io: FileIO, root: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options of the catalog of a warehouse: those that it has, and those that are given now, which are kept unless they
    are secret. Raises InvalidRequest if these contradict those with which it was created, CorruptData.
    """
    path = posixpath.join(root, _OPTIONS_FILE)
    content = file_io.read_bytes_or_none(path)
    try:
        stored = None if content is None else texts(read_document(content, path), path, "an option")
    except CorruptData as error:
        raise CorruptData(
            f"{str(error).rstrip('.')}. Restore it, or delete it: then no options of the catalog have been given."
        ) from None
    given = _without_secrets(given)
    if stored is None:
        if given and not file_io.create_exclusively(path, _json(given)):
            return settle_options(file_io, root, given)
        return given
    # Earlier versions have kept some there.
    whole, stored = stored, _without_secrets(stored)
    _refuse_other(stored, given)
    merged = {**stored, **given}
    if merged != stored:
        if not file_io.replace_if(path, content, _json(merged)):
            # Somebody else has given some meanwhile.
            return settle_options(file_io, root, given)
    elif stored != whole:
        with suppress(StorageError, OSError):
            # Who only reads cannot take them out.
            file_io.replace_if(path, content, _json(merged))
    return merged


def refuse_other_options(file_io: FileIO, root: str, given: Mapping[str, str]) -> None:
    """Raise InvalidRequest for options that contradict what the catalog was created with. Nothing is written."""
    path = posixpath.join(root, _OPTIONS_FILE)
    content = file_io.read_bytes_or_none(path)
    if content is not None:
        _refuse_other(texts(read_document(content, path), path, "an option"), given)


def _refuse_other(stored: Mapping[str, str], given: Mapping[str, str]) -> None:
    for key in IMMUTABLE_OPTIONS:
        before = stored.get(key, "false")
        if key in given and given[key] != before:
            raise InvalidRequest(
                f"Catalog option {key!r} is {before!r} since the catalog was created and cannot become "
                f"{given[key]!r}. Create another warehouse, or leave the option out."
            )


def _without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Options that may lie in the warehouse, for everybody who reads it."""
    return {
        key: value
        for key, value in options.items()
        if not isinstance(guarded_value(key, value), Secret) and not key.startswith(_OF_THE_OPENER)
    }


def option_text(value: Any) -> str:
    """The value of an option as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json(options: Mapping[str, str]) -> bytes:
    return json.dumps(dict(options), indent=2, sort_keys=True).encode()
