"""Options by which a file system is reached: one that it would pass over is refused.

A misspelt endpoint leads to another store.
"""

import difflib
import inspect
from collections.abc import Iterable

from .errors import Unsupported

# Those of whose options all are named; others take more than their constructors say.
_LOCAL = ("file", "local")
_CHECKED = ("s3", "s3a", *_LOCAL)
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
