"""What file systems and object stores raise, turned into StoreUnavailable that says what was tried and what to look at.

`FileIO` turns the errors of single calls; whoever carries out a whole operation says what has become of it.
"""

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from . import metrics
from .errors import AlreadyExists, DirectoryInPlace, NotFound, StorageError, StoreUnavailable, causes
from .local_file import what_is_in_place

P = ParamSpec("P")
T = TypeVar("T")
# Client libraries of object stores raise errors of their own besides OSErrors.
_CLIENT_LIBRARIES = ("botocore", "aiobotocore", "aiohttp", "s3fs", "gcsfs", "adlfs", "azure", "google")
NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_LOCAL_ADVICE = {
    errno.ENOSPC: "The disk is full: make room.",
    errno.EDQUOT: "The quota of the disk is used up: make room.",
    errno.EROFS: "The file system is mounted for reading only: mount it for writing, or use another warehouse.",
    errno.EACCES: "This user may not do that there: give it the right, or run as another user.",
    errno.EPERM: "This user, or this file system, may not do that there.",
    errno.ENAMETOOLONG: "A name is longer than the file system takes: choose a shorter tag, branch, table or partition.",
    errno.EMFILE: "This process has too many files open: raise `ulimit -n`.",
    errno.EIO: "The disk or the network behind it failed: look at the system's log.",
    errno.ESTALE: "The network file system has lost the file: mount it again.",
}
_LINK_ADVICE = (
    "The file system has no hard links, by which a file is created only if it is not there: put the warehouse on another "
    "file system, or give the catalog a lock: SNAPLINE_LOCK_DIRECTORY, or Catalog(…, lock=FileLock(directory))."
)
_CREDENTIALS = (
    "Look at 'key', 'secret' and 'token' of the storage options, or at what the environment gives in their place, and at what "
    "that user may do in the bucket."
)
_ENDPOINT = "Look at 'endpoint_url' of the storage options, and whether the server can be reached from here."
_REGION = "Look at 'region_name' in 'client_kwargs' of the storage options: the bucket is in another region."
# How many errors are looked at of those that one came from.
_MOST_CAUSES = 10
_PROXY = (
    "Look at 'proxies' and 'proxies_config' in 'config_kwargs' of the storage options, or at HTTP_PROXY and HTTPS_PROXY of the "
    "environment."
)
_CERTIFICATES = (
    "Look at 'verify' in 'client_kwargs' of the storage options, or at AWS_CA_BUNDLE of the environment, by which the server "
    "is known, and at 'client_cert' in 'config_kwargs', by which the server knows its client."
)
_SIGNATURE = "Look at 'signature_version' in 'config_kwargs' of the storage options."
_BUCKET = "The bucket does not exist: create it, or correct the warehouse's URL."
_OVERLOADED = "The store is overloaded: wait a while."
_REMOTE_ADVICE = {
    "NoSuchBucket": _BUCKET,
    "InvalidBucketName": "No bucket can have that name: correct the warehouse's URL.",
    "AccessDenied": _CREDENTIALS,
    "Forbidden": _CREDENTIALS,
    "403": _CREDENTIALS,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "InvalidLocationConstraint": _REGION,
    "400": _REGION,
    "SlowDown": "The store asks for fewer requests: wait a while.",
    "503": _OVERLOADED,
    "ServiceUnavailable": _OVERLOADED,
    "RequestTimeTooSkewed": "The clock of this machine differs from the store's: set it right.",
    "ProfileNotFound": "Look at 'profile' of the storage options, or at AWS_PROFILE of the environment.",
    "NoCredentialsError": _CREDENTIALS,
    "PartialCredentialsError": _CREDENTIALS,
    "NoRegionError": _REGION,
    "InvalidRegionError": _REGION,
    "ProxyConnectionError": _PROXY,
    "InvalidProxiesConfigError": _PROXY,
    "SSLError": _CERTIFICATES,
    "UnknownSignatureVersionError": _SIGNATURE,
    "UnsupportedSignatureVersionError": _SIGNATURE,
}
# What stores of one kind call errors is not known of all others; this is the same everywhere.
_STATUS_ADVICE = {
    301: _REGION,
    307: _REGION,
    401: _CREDENTIALS,
    403: _CREDENTIALS,
    429: _OVERLOADED,
    500: "The store failed within itself: look at its log, and try again.",
    502: _ENDPOINT,
    503: _OVERLOADED,
    504: _ENDPOINT,
}


def comes_from_a_store(error: BaseException) -> bool:
    """Whether an error was raised by a file system or by the client library of an object store."""
    return isinstance(error, OSError) or any(
        kind.__module__.split(".")[0] in _CLIENT_LIBRARIES for kind in type(error).__mro__
    )


def is_missing_bucket(error: BaseException) -> bool:
    """Whether what does not exist is the bucket, not the file that was asked for."""
    codes = codes_of(error)
    return "NoSuchBucket" in codes or "specified bucket does not exist" in str(error)


def store_call(doing: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A call of FileIO whose errors become StoreUnavailable that names its path.

    That a file is there, or is not, is an answer and goes on as it is.
    """

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        def measured(*arguments: P.args, **named: P.kwargs) -> T:
            file_io: Any = arguments[0]
            outcome, began = "failed", time.perf_counter()
            try:
                answer = call(*arguments, **named)
                outcome = "answered"
                return answer
            except (FileNotFoundError, FileExistsError, NotFound, AlreadyExists):
                outcome = "answered"
                raise
            finally:
                seconds = time.perf_counter() - began
                metrics.take(
                    metrics.STORE_CALL_DURATION, seconds, operation=doing, protocol=file_io.protocol, outcome=outcome
                )

        @wraps(call)
        def guarded(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return measured(*arguments, **named) if metrics.is_metered() else call(*arguments, **named)
            except (StorageError, FileExistsError):
                raise
            except IsADirectoryError as error:
                raise DirectoryInPlace(
                    f"File {error.filename or arguments[1]} is damaged: {what_is_in_place(error)}. Move that away by hand, or "
                    "put the file back."
                ) from None
            except Exception as error:
                absent = isinstance(error, FileNotFoundError) and not is_missing_bucket(error)
                if absent or not comes_from_a_store(error):
                    raise
                file_io: Any = arguments[0]
                path = _first(arguments[1] if len(arguments) > 1 else named.get("path", ""))
                raise store_error(error, doing, path if file_io.is_local else file_io.url(path)) from error

        return guarded

    return decorate


@contextmanager
def naming(doing: str, where: str) -> Iterator[None]:
    """Errors of a store inside become StoreUnavailable that names a file, as those of single calls do; for streams, whose calls
    say nothing of where they write.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, StorageError) or not comes_from_a_store(error):
            raise
        raise store_error(error, doing, where) from error


def _first(paths: object) -> str:
    """The path of a call, or the first of several."""
    return str(next(iter(paths), "") if isinstance(paths, Mapping) else paths)


def store_error(error: BaseException, doing: str, where: str) -> StoreUnavailable:
    """The error that says what could not be done, why, and what to look at."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return StoreUnavailable(f"Could not {doing} {where}: {reason.rstrip('.')}. {_advice(error, doing)}".rstrip())


def _advice(error: BaseException, doing: str) -> str:
    codes = codes_of(error)
    for code in codes:
        if code in _REMOTE_ADVICE:
            return _REMOTE_ADVICE[code]
    if is_missing_bucket(error):
        return _REMOTE_ADVICE["NoSuchBucket"]
    if (status := _status_of(error)) is not None:
        # Somebody who is not known is found nowhere to some stores.
        return _STATUS_ADVICE.get(status, _CREDENTIALS if "access key" in str(error) else "")
    if "HTTPClientError" in codes and _is_of_certificates(error):
        return _CERTIFICATES
    if codes or isinstance(error, TimeoutError) or not isinstance(error, OSError):
        return _ENDPOINT
    if "create" in doing and error.errno in NO_HARD_LINKS and error.filename2 is not None:
        return _LINK_ADVICE
    return _LOCAL_ADVICE.get(error.errno or 0, "")


def codes_of(error: BaseException) -> list[str]:
    """What the answer of an object store, or the class of its client's error, calls the error."""
    codes: list[str] = []
    for cause in causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            codes.append(str(response.get("Error", {}).get("Code")))
        if comes_from_a_store(cause):
            # Time-outs and lost connections of client libraries are errors of the system as well.
            codes += [kind.__name__ for kind in type(cause).__mro__ if kind.__module__.startswith(_CLIENT_LIBRARIES)]
    return codes


def _is_of_certificates(error: BaseException) -> bool:
    """Whether a client of HTTP failed at a file of certificates, before it asked anything."""
    return any(
        isinstance(cause, FileNotFoundError) or type(cause).__module__ == "ssl"
        for cause in islice(causes(error), _MOST_CAUSES)
    )


def _status_of(error: BaseException) -> int | None:
    """The status by which an object store answered; None if it did not."""
    for cause in islice(causes(error), _MOST_CAUSES):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status if isinstance(status, int) else None
    return None


@contextmanager
def outcome(text: str, *, landed: bool | None = None, of_whole: bool = False) -> Iterator[None]:
    """Errors of a store inside become StoreUnavailable that ends with what has become of the operation.

    Those that say it already, and all other errors, go on as they are; with `of_whole` what a part says of itself gives way to
    what is said of the whole. Also a decorator.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreUnavailable):
            if error.says_outcome and not of_whole:
                raise
        elif isinstance(error, StorageError) or not comes_from_a_store(error):
            raise
        message = (error.reason or str(error)) if isinstance(error, StoreUnavailable) else _plain(error)
        unavailable = StoreUnavailable(f"{message} {text}")
        unavailable.landed = landed
        unavailable.reason = message
        unavailable.says_outcome = True
        raise unavailable from error


def made_or_told(make: Callable[[], bool], is_there: Callable[[], bool], what: str) -> bool:
    """What `make` returns; True also if it fails when what it makes is there, as on a store that loses answers. Other errors of
    the store end with whether it is there, or that this cannot be known.
    """
    try:
        return make()
    except StoreUnavailable as error:
        with outcome(f"Whether {what} is there cannot be known: look before you do it again. ({error})"):
            landed = is_there()
        if landed:
            return True
        with outcome(f"Nothing is done: {what} is not there. Mend the store, then do it again.", landed=False):
            raise


def _plain(error: Exception) -> str:
    text = f"The store failed: {str(error).rstrip('.') or type(error).__name__}."
    return f"{text} {_advice(error, '')}".rstrip()
