"""Errors of the store that come back from Spark inside of Spark's own."""

import re

from .. import errors
from ..errors import StorageError

_RAISED = re.compile(r"storage\.errors\.(\w+): (.+?)(?=\n\S*(?:\n|$)|\Z)", re.DOTALL)

# What Spark's own reader of Parquet says of a page with another checksum, after the file that it was reading.
_PAGE = re.compile(r"(?:file:(/\S+?)\.?\s.*?)?(CRC checksum verification failed)", re.DOTALL)


def own_error(error: Exception) -> StorageError | None:
    """The store's error inside an error of Spark, which shows it as the end of a traceback in its text."""
    matches = _RAISED.findall(str(error))
    if not matches:
        page = _PAGE.search(str(error))
        return None if page is None else errors.CorruptData(f"Data file {page[1] or ''} is damaged: {page[2]}.")
    kind, message = matches[-1]
    known = getattr(errors, kind, None)
    return (
        known(message.strip().splitlines()[0]) if isinstance(known, type) and issubclass(known, StorageError) else None
    )
