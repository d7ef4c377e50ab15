"""The names that a table had before: snapshots of other tables may say that they were made from those.

The file `FORMER-NAMES` in the table's directory lists them with the time until which each was its name. Readers of the
format do not look at it.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .. import document
from ..directory_lock import Witness
from ..document import integer, read_document, sealed
from ..errors import CommitConflict, CorruptData, DirectoryInPlace, InvalidRequest
from ..file_io import FileIO
from ..identifier import Identifier
from ..late_requests import LONGEST_MS

_FILE = "FORMER-NAMES"
_WAY_OUT = "Restore the file, or delete it by hand: the table is not known by its former names then."


@dataclass(frozen=True, slots=True, order=True)
class FormerName:
    """`name` (`db.t`) meant this table until `until_ms`, in milliseconds since 1970."""

    name: str
    until_ms: int


def former_names(file_io: FileIO, root: str) -> list[FormerName]:
    """Oldest first. Raises CorruptData for a file that cannot be read."""
    path = f"{root}/{_FILE}"
    try:
        text = file_io.read_text_or_none(path)
        if text is None:
            return []
        # Earlier versions wrote the list alone.
        rows = json.loads(text) if text.startswith("[") else read_document(text, path)["names"]
        names = [(document.text(name, path, "a name"), integer(until, path, "a time")) for name, until in rows]
        return [FormerName(Identifier.parse(name).full_name, until) for name, until in names]
    except DirectoryInPlace:
        raise
    except CorruptData as error:
        raise CorruptData(f"{error} {_WAY_OUT}") from None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, InvalidRequest) as error:
        raise CorruptData(f"{path} does not list names: {error}. {_WAY_OUT}") from None


def write_former_names(file_io: FileIO, root: str, names: Sequence[FormerName], of: Witness) -> None:
    """Write the list anew. Raises NotFound if the table is another one by now."""
    rows = [[name.name, name.until_ms] for name in names]
    file_io.overwrite(f"{root}/{_FILE}", json.dumps(sealed({"names": rows}, _FILE)).encode(), of=of)


def refuse_name_of_late(file_io: FileIO, names: Sequence[FormerName], target: Identifier, now_ms: int) -> None:
    """Raise CommitConflict if a table had a name a moment ago, on an object store: that may still carry out a deletion of what
    was left there, and the files would be those of the table again.
    """
    had_ms = max((each.until_ms for each in names if each.name == target.full_name), default=None)
    waits_ms = 0 if had_ms is None else had_ms + LONGEST_MS - now_ms
    if waits_ms > 0 and not file_io.moves_at_once:
        raise CommitConflict(
            f"The table was called {target.full_name} until a moment ago. An object store may carry out requests late that "
            f"delete what was left there: rename it back in {math.ceil(waits_ms / 60_000)} minutes, or choose another name."
        )
