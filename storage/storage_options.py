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
from .s3_options import OF_THE_SESSION

# Those of whose options all are named; others take more than their constructors say.
_LOCAL = ("file", "local")
S3 = ("s3", "s3a")
# Texts, whatever they look like.
_TEXTS = ("key", "secret", "token", "username", "password", "endpoint_url", "default_cache_type", *OF_THE_SESSION)
_CHECKED = (*S3, *_LOCAL)
_OF_ALL = {"use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache"}


def refuse_unknown_options(protocol: str, file_system: type, given: Iterable[str]) -> None:
    """Raise Unsupported for an option that no constructor of a file system names."""
    if protocol not in _CHECKED:
        return
    known = set(_OF_ALL)
    for base in file_system.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            known |= {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
    known.discard("self")
    if protocol in S3:
        known.update(OF_THE_SESSION)
    for key in given:
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
