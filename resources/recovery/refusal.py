"""What a run of a recovery fails with when it is refused: one line, and no trace of the code that refuses."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

# Not public API: of this family of errors Dagster takes what they say as it is, and adds no stack trace.
from dagster._core.errors import DagsterUserCodeProcessError
from dagster._utils.error import SerializableErrorInfo


class _Traceless(DagsterUserCodeProcessError):
    def __init__(self, message: str) -> None:
        # Dagster's constructor has no types.
        super().__init__(  # type: ignore[no-untyped-call]
            message, user_code_process_error_infos=[SerializableErrorInfo(message, [], "Refused")]
        )


class Refused(dg.Failure, _Traceless):
    """Not tried again: the same would be refused."""

    def __init__(self, reason: object, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__(" ".join(str(reason).split()), metadata=metadata, allow_retries=False)
