"""Create an object that does not exist yet, so that of several callers exactly one succeeds: by a request on condition that there
is none, or, where a store takes no such condition, under the catalog's lock.
"""

import posixpath
from collections.abc import Callable

from fsspec import AbstractFileSystem

from .errors import NotFound, StoreUnavailable, Unsupported
from .lock import CatalogLock
from .object_store import is_there, says_that_it_changed

# File systems that create a file on condition that there is none, as one step.
_CONDITIONAL_PUT = ("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")


def create_object(
    fs: AbstractFileSystem,
    protocol: str,
    lock: CatalogLock | None,
    read: Callable[[str], bytes],
    path: str,
    data: bytes,
) -> bool:
    """Create an object that does not exist yet; False if it does. `read` raises NotFound for one that is not there."""
    if protocol not in _CONDITIONAL_PUT:
        return _create_under_lock(fs, protocol, lock, path, data)
    try:
        # On object stores this is the conditional put (If-None-Match and its relatives).
        fs.pipe_file(path, data, mode="create")
    except FileExistsError:
        return _is_ours(read, path, data)
    except OSError as error:
        if not says_that_it_changed(error):
            raise
        return _is_ours(read, path, data)
    return True


def _is_ours(read: Callable[[str], bytes], path: str, data: bytes) -> bool:
    # An answer that was lost is asked for again by the client library, which then meets its own file.
    try:
        return read(path) == data
    except NotFound:
        # It was there a moment ago: whose it was cannot be told.
        raise StoreUnavailable(f"Creating {path} was refused since it exists, and it does not exist.") from None


def _create_under_lock(fs: AbstractFileSystem, protocol: str, lock: CatalogLock | None, path: str, data: bytes) -> bool:
    if lock is None:
        raise Unsupported(
            f"The file system {protocol!r} cannot create a file on condition that there is none, so that two "
            "commits could overwrite each other. Give the catalog a lock: Catalog(…, lock=FileLock(directory))."
        )
    with lock.hold(path):
        fs.invalidate_cache(posixpath.dirname(path))
        if is_there(fs, path):
            return False
        fs.pipe_file(path, data)
    return True
