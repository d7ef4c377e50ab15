"""Objects of a store, in as few requests as it takes: read and listed in one, found to be there or not in one, and deleted or
replaced if they still hold some bytes, in one request where the store takes a condition.

S3 does (`If-Match`, by the object's ETag). With other stores, and with those of S3's kind that know no such condition, it
is a look and a request, between which somebody else may write. What fsspec asks besides, of stores without directories,
is whether the name is of a directory: a list for each file that is not there, a second one for each empty directory, and
the size before each read.
"""

import contextlib
import datetime as dt
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from .errors import StorageError
from .store_errors import codes_of, comes_from_a_store, is_missing_bucket, store_error

# The store was about to change the object for somebody else: it is to be asked again.
_CONFLICT = ("ConditionalRequestConflict", "OperationAborted", "409")
_CHANGED = ("PreconditionFailed", "412")
_GONE = ("NoSuchKey", "404")
_NO_CONDITIONS = ("NotImplemented", "501")
_NO_SUCH_RANGE = ("InvalidRange", "416")
_OF_DIRECTORIES = "application/x-directory"


def read(fs: AbstractFileSystem, path: str) -> bytes:
    """What an object holds. Raises FileNotFoundError if there is none."""
    # More than one part at once would need its size first.
    return bytes(fs.cat_file(path, max_concurrency=1) if _speaks_s3(fs) else fs.cat_file(path))


def read_part(fs: AbstractFileSystem, path: str, start: int, end: int) -> bytes:
    """The bytes of an object from one position up to another, or up to its end; none beyond it. Raises FileNotFoundError if there
    is no object.
    """
    try:
        return bytes(fs.cat_file(path, start=start, end=end)) if end > start else b""
    except OSError as error:
        if set(codes_of(error)).intersection(_NO_SUCH_RANGE):
            return b""
        raise


def read_of_size(fs: AbstractFileSystem, path: str, size_bytes: int) -> bytes | None:
    """What an object holds, in one request; None if it has another size. Raises FileNotFoundError if there is none."""
    content = read_part(fs, path, 0, size_bytes + 1)
    return content if len(content) == size_bytes else None


class OpenObject:
    """An object that is read in parts, or written, as Arrow takes a file; errors of the store name it."""

    def __init__(self, fs: AbstractFileSystem, path: str, mode: str) -> None:
        self._url = str(fs.unstrip_protocol(path))
        self._doing = "read" if mode == "rb" else "write"
        self._file = fs.open(path, mode)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._file, name)
        if not callable(attribute):
            return attribute

        def named(*arguments: Any) -> Any:
            try:
                return attribute(*arguments)
            except (StorageError, FileNotFoundError):
                raise
            except Exception as error:
                if not comes_from_a_store(error):
                    raise
                raise store_error(error, self._doing, self._url) from error

        return named


def is_there(fs: AbstractFileSystem, path: str) -> bool:
    """Whether there is an object of that name. Raises FileNotFoundError if there is no bucket."""
    try:
        if _speaks_s3(fs):
            # Unlike a look at the head, its answer says whether the bucket is what is missing.
            fs.cat_file(path, start=0, end=1)
        else:
            fs.info(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        if is_missing_bucket(error):
            raise
        return False
    except ValueError:
        # No object has such a name.
        return False
    except OSError as error:
        # Nothing is in it.
        if not set(codes_of(error)).intersection(_NO_SUCH_RANGE):
            raise
    return True


def listing(fs: AbstractFileSystem, path: str) -> Iterator[tuple[str, int, str, int | None]]:
    """Name, size in bytes, kind and time of what lies directly in a directory; nothing if there is none."""
    for info in _described(fs, path):
        name = posixpath.basename(str(info["name"]).rstrip("/"))
        if name and str(info["name"]).rstrip("/").lstrip("/") != path.strip("/"):
            yield name, info.get("size") or 0, info["type"], _modified_ms(info)


def _modified_ms(info: Mapping[str, Any]) -> int | None:
    """When a file was last written, under the names that file systems give it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        moment = info.get(key)
        if isinstance(moment, dt.datetime):
            return int(moment.timestamp() * 1000)
        if isinstance(moment, int | float):
            return int(moment * 1000)
    return None


def _described(fs: AbstractFileSystem, path: str) -> Iterator[Mapping[str, Any]]:
    """What lies directly in a directory, as fsspec describes it: name, size, type and times; nothing if there is none."""
    if not _speaks_s3(fs):
        fs.invalidate_cache(path)
        yield from fs.ls(path, detail=True)
        return
    bucket, key, _ = fs.split_path(path)
    prefix = f"{key.strip('/')}/" if key else ""
    more: dict[str, str] = {}
    while True:
        page = fs.call_s3("list_objects_v2", fs.kwargs, Bucket=bucket, Prefix=prefix, Delimiter="/", **more)
        for folder in page.get("CommonPrefixes") or []:
            yield {"name": f"{bucket}/{folder['Prefix'].rstrip('/')}", "size": 0, "type": "directory"}
        for item in page.get("Contents") or []:
            yield {**item, "name": f"{bucket}/{item['Key']}", "size": item["Size"], "type": "file"}
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def make_directory(fs: AbstractFileSystem, path: str, *, listed: bool) -> None:
    """Make a directory. S3 has none but those that objects lie in: `listed` puts an empty object whose name ends in a slash, as
    Hadoop and Arrow do, unless it is listed anyway.
    """
    if not _speaks_s3(fs):
        fs.makedirs(path, exist_ok=True)
    elif listed and not any(True for _ in _described(fs, path)):
        bucket, key, _ = fs.split_path(path)
        fs.call_s3("put_object", Bucket=bucket, Key=f"{key.strip('/')}/", Body=b"", ContentType=_OF_DIRECTORIES)


def delete_empty_directory(fs: AbstractFileSystem, path: str) -> bool:
    """Delete a directory if nothing is in it, with the object that lists it; says whether it is gone."""
    try:
        described = list(_described(fs, path))
        if any(str(info["name"]).strip("/") != path.strip("/") for info in described):
            return False
        if _speaks_s3(fs) and described:
            bucket, key, _ = fs.split_path(path)
            fs.call_s3("delete_object", Bucket=bucket, Key=f"{key.strip('/')}/")
        elif isinstance(fs, MemoryFileSystem):
            with contextlib.suppress(OSError):
                fs.rmdir(path)
    except FileNotFoundError as error:
        if is_missing_bucket(error):
            raise
    return True


def _speaks_s3(fs: AbstractFileSystem) -> bool:
    return hasattr(fs, "call_s3")


def delete_if(fs: AbstractFileSystem, path: str, expected: bytes) -> bool:
    """Delete an object if it holds some bytes; says whether it did.

    What goes in that very moment counts as deleted by this call: clients of HTTP ask for a deletion again when its answer is
    lost, and then hear that there is nothing.
    """

    def delete(**condition: str) -> None:
        if condition:
            fs.call_s3("delete_object", **condition)
        else:
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(path)

    return _change(fs, path, expected, delete, None)


def replace_if(fs: AbstractFileSystem, path: str, expected: bytes, data: bytes) -> bool:
    """Replace an object if it holds some bytes; says whether it did. Who is refused and finds the new bytes did: the answer
    to an earlier request was lost.
    """

    def put(**condition: str) -> None:
        if condition:
            fs.call_s3("put_object", Body=data, **condition)
        else:
            fs.pipe_file(path, data)

    return _change(fs, path, expected, put, data)


def _change(
    fs: AbstractFileSystem, path: str, expected: bytes, request: Callable[..., None], wanted: bytes | None
) -> bool:
    """Carry out a request if the object holds what is expected; says whether it holds what is wanted by that."""
    while True:
        tag = _tag(fs, path)
        if _held(fs, path) != expected:
            return False
        bucket, key, _ = fs.split_path(path) if tag else ("", "", None)
        try:
            request(**({"Bucket": bucket, "Key": key, "IfMatch": tag} if tag else {}))
        except Exception as error:
            codes = set(codes_of(error))
            if codes.intersection(_NO_CONDITIONS):
                request()
                return True
            if codes.intersection(_CONFLICT):
                continue
            if isinstance(error, FileNotFoundError) or codes.intersection(_CHANGED + _GONE):
                return _held(fs, path) == wanted
            raise
        return True


def _tag(fs: AbstractFileSystem, path: str) -> str | None:
    """What the store tells an object's contents apart by; None if it takes no condition, or there is no object."""
    if not _speaks_s3(fs):
        return None
    bucket, key, _ = fs.split_path(path)
    try:
        return str(fs.call_s3("head_object", Bucket=bucket, Key=key)["ETag"])
    except FileNotFoundError:
        return None


def _held(fs: AbstractFileSystem, path: str) -> bytes | None:
    try:
        return read(fs, path)
    except FileNotFoundError as error:
        if is_missing_bucket(error):
            raise
        return None


def says_that_it_changed(error: BaseException) -> bool:
    """Whether a request was refused for its condition: not every store says so in words that fsspec knows."""
    return bool(set(codes_of(error)).intersection(_CHANGED))
