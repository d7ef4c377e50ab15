"""Errors of the store that come back from Spark inside of Spark's own."""

import re

from pyspark.errors import PySparkException

from .. import errors
from ..errors import StorageError

_RAISED = re.compile(r"storage\.errors\.(\w+): (.+?)(?=\n\S*(?:\n|$)|\Z)", re.DOTALL)


def own_error(error: PySparkException) -> StorageError | None:
    """The store's error inside an error of Spark, which shows it as the end of a traceback in its text."""
    found = _RAISED.findall(str(error))
    if not found:
        return None
    kind, message = found[-1]
    known = getattr(errors, kind, None)
    return (
        known(message.strip().splitlines()[0]) if isinstance(known, type) and issubclass(known, StorageError) else None
    )
