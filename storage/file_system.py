"""The file system that a URL names: opened through fsspec, and the paths that its URLs stand for."""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import fsspec
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from .errors import InvalidRequest, Unsupported
from .redaction import hidden
from .secret import revealed
from .storage_options import S3, check_storage_options, typed_options

# With it, fsspec takes a file that is in no listing of its own for one that does not exist.
_LISTINGS = "use_listings_cache"
# s3fs asks again where its client library has given up already, and around a read once more: each time takes as long as that
# waits, so that five times five of them would be half an hour of a server that does not answer.
_REQUESTS = 2
_ONE_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/(?!/))")
# Other names that URLs give a file system.
_SAME_PROTOCOL = {
    "s3": ("s3a", "s3n"),
    "s3a": ("s3", "s3n"),
    "gs": ("gcs",),
    "gcs": ("gs",),
    "abfs": ("abfss",),
    "abfss": ("abfs",),
}


def protocol_of(url: str) -> str:
    """The protocol of a URL, `file` for a local path."""
    return urlsplit(url).scheme if "://" in url else "file"


def open_file_system(url: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    """The file system of a URL; secrets among the options are texts again in the hands of fsspec alone. Raises Unsupported for
    one that is not known, or not installed, and for options that it does not take.
    """
    protocol = protocol_of(url)
    given = typed_options(protocol, revealed(options))
    if given.get(_LISTINGS) is True:
        raise Unsupported(
            f"Storage option {_LISTINGS!r} lets a process miss the files that others have written since. Leave it out."
        )
    try:
        file_system = fsspec.get_filesystem_class(protocol)
        # What none knows by name would be passed on, and be an error of somebody else's.
        check_storage_options(protocol, file_system, given)
        fs = fsspec.filesystem(protocol, **{**given, _LISTINGS: False})
    except ImportError as error:
        hint = " The extra 's3' of this package brings it." if protocol in S3 else ""
        raise Unsupported(f"{hidden(url)}: {error}.{hint}") from None
    except OSError as error:
        # Of Hadoop's native library.
        raise Unsupported(f"{hidden(url)}: {' '.join(str(error).split())}") from None
    except ValueError as error:
        if "Protocol not known" not in str(error):
            raise
        raise Unsupported(
            f"{hidden(url)}: no file system is known by {protocol!r}. Use a path, file:// or s3://."
        ) from None
    if protocol in S3:
        fs.retries = _REQUESTS
    return fs


def same_protocol(protocol: str, other: str) -> bool:
    """Whether URLs of two protocols are of the same file system, as `s3` and `s3a` are."""
    return protocol == other or other in _SAME_PROTOCOL.get(protocol, ()) or protocol in _SAME_PROTOCOL.get(other, ())


def is_known_protocol(protocol: str) -> bool:
    """Whether there is a file system by that name; it may still need a package."""
    return protocol in fsspec.available_protocols() or protocol in fsspec.registry


def split_url(url: str) -> str:
    """The path of an fsspec URL or local path, absolute and without a slash at the end. Raises InvalidRequest for a URL of an
    object store that names no bucket, and for one with a password in it.
    """
    refuse_other_urls(url)
    if "://" not in url:
        # Hadoop writes URLs of local files with one slash.
        return os.path.abspath(os.path.expanduser(url.removeprefix("file:") if url.startswith("file:/") else url))
    protocol = urlsplit(url).scheme
    path = str(fsspec.get_filesystem_class(protocol)._strip_protocol(url)).rstrip("/")
    if not path.partition("/")[0] and protocol in _SAME_PROTOCOL:
        raise InvalidRequest(f"{hidden(url)!r} names no bucket: write {protocol}://bucket/path.")
    return path


def refuse_other_urls(url: str) -> None:
    """Raise InvalidRequest for a URL of a store that would be taken for a relative path, and for one with a password in it."""
    slashed = _ONE_SLASH.match(url)
    if slashed and slashed.group() != "file:":
        raise InvalidRequest(f"{hidden(url)!r} is no URL: write {slashed.group()}//, or ./ before a path.")
    if "://" in url and ":" in urlsplit(url).netloc.rpartition("@")[0]:
        raise InvalidRequest(f"{hidden(url)!r} holds a password: give it as a storage option.")


def path_of(fs: AbstractFileSystem, protocol: str, url: str) -> str | None:
    """The path that a URL of this file system stands for; None for anything else, and for one that leads upwards."""
    is_local = isinstance(fs, LocalFileSystem)
    scheme, colon, rest = url.partition(":")
    if not (colon and scheme.isalnum()):
        path = url if url.startswith("/") else None
    elif not same_protocol(protocol, scheme):
        path = None
    elif is_local:
        path = rest.removeprefix("//") if rest.startswith("/") else None
    else:
        path = str(fs._strip_protocol(url)) if rest.startswith("//") else None
    if path is None or "\0" in path or (is_local and not path.startswith("/")):
        return None
    return None if {".", ".."} & set(path.split("/")) else path
