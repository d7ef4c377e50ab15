"""Options by which a file system is reached: one that it would pass over is refused.

A misspelt endpoint leads to another store.
"""

import contextlib
import difflib
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import Unsupported
from .s3_options import OF_THE_SESSION, check_s3_options, check_value, kind_of_default

# Those of whose options all are named; others take more than their constructors say.
_LOCAL = ("file", "local")
S3 = ("s3", "s3a")
# Texts, whatever they look like.
_TEXTS = ("key", "secret", "token", "username", "password", "endpoint_url", "default_cache_type", *OF_THE_SESSION)
_CHECKED = (*S3, *_LOCAL)
# What fsspec takes for all file systems, each with its default.
_OF_ALL = {"use_listings_cache": True, "skip_instance_cache": False}
_OF_LISTINGS = ("listings_expiry_time", "max_paths")


def check_storage_options(protocol: str, file_system: type, options: Mapping[str, Any]) -> None:
    """Raise Unsupported for an option that no constructor of a file system names, for a value that it does not take, and for
    options that contradict each other.
    """
    if protocol not in _CHECKED:
        return
    _refuse_unknown(protocol, file_system, options)
    for name, default in _OF_ALL.items():
        if name in options:
            check_value(repr(name), name, options[name], kind_of_default(default))
    if protocol in S3:
        check_s3_options(file_system, {name: value for name, value in options.items() if name not in _OF_ALL})
    elif "auto_mkdir" in options:
        check_value("'auto_mkdir'", "auto_mkdir", options["auto_mkdir"], kind_of_default(False))


def _refuse_unknown(protocol: str, file_system: type, given: Iterable[str]) -> None:
    known = set(_OF_ALL)
    for base in file_system.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            known |= {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
    known.discard("self")
    if protocol in S3:
        known.update(OF_THE_SESSION)
    for key in given:
        if key in _OF_LISTINGS and protocol in S3:
            raise Unsupported(f"Storage option {key!r} has no effect: no listings are kept. Leave it out.")
        if key not in known:
            if protocol in _LOCAL:
                raise Unsupported(
                    f"Storage option {key!r} has no effect on a local directory. Leave it out (SNAPLINE_STORAGE_OPTIONS, or "
                    "'storage.…' of the catalog), or name an object store as the warehouse."
                )
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else "Options are the parameters of s3fs.S3FileSystem."
            raise Unsupported(f"There is no storage option {key!r} of {protocol!r}. {hint}")


def typed_options(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as a file system takes them: what a variable of the environment, an option of a catalog or one of Spark holds as
    the text of a JSON object, of true or false, or for S3 of a number, is that again.
    """
    typed = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and name not in _TEXTS:
            with contextlib.suppress(ValueError):
                read = json.loads(value)
                if isinstance(read, dict | bool) or read is None or (protocol in S3 and isinstance(read, int | float)):
                    typed[name] = read
    return typed
