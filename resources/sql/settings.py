"""What USE and SET have said, and which settings there are: a key that nobody reads is refused, a value when it is set."""

import difflib
import re
from dataclasses import dataclass, field
from typing import Any

from storage import InvalidRequest, TableOptions, check_option_of_log, check_table_options, is_of_log

from ..warehouse.catalogs import CATALOG_NAME

JOB_OPTION = "pipeline.name"
STARTUP_OPTION = "pipeline.startup-from"
RUNTIME_MODE = "execution.runtime-mode"
TRIGGER = "execution.trigger"
TABLE_DEFAULTS = "table-storage."
FILE_PATH = "file.path"
_KEYS = (JOB_OPTION, STARTUP_OPTION, RUNTIME_MODE, TRIGGER)
_MODES = ("batch", "streaming")
_INTERVAL = re.compile(r"processing-time\s+\d+(\.\d+)?\s+(milli|micro)?(second|minute|hour|day)s?", re.IGNORECASE)


@dataclass
class Settings:
    """What USE and SET have said."""

    catalog: str = CATALOG_NAME
    database: str = "default"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`catalog.database`."""
        return f"{self.catalog}.{self.database}"

    @property
    def table_defaults(self) -> dict[str, str]:
        """The options of new tables that SET has given, by their own names."""
        texts = {
            key.removeprefix(TABLE_DEFAULTS): value
            for key, value in self.options.items()
            if key.startswith(TABLE_DEFAULTS)
        }
        texts.pop(FILE_PATH, None)
        return texts


def check_setting(key: str, value: str, warehouse: str) -> None:
    """Raise InvalidRequest for a setting that nobody reads, or a value that it cannot have."""
    check_key(key, value)
    if key.startswith(TABLE_DEFAULTS):
        own = key.removeprefix(TABLE_DEFAULTS)
        if own == FILE_PATH:
            _check_path(key, value, warehouse)
        elif is_of_log(own):
            # Whether options of a log go together is known when a table is made.
            check_option_of_log(own, value)
        else:
            check_table_options({own: value}, "to be created")
    elif key == RUNTIME_MODE and value not in _MODES:
        raise InvalidRequest(f"'{RUNTIME_MODE}' is batch or streaming, not {value!r}.")
    elif key == TRIGGER:
        trigger(value)
    elif not value.strip():
        raise InvalidRequest(f"{key!r} needs a name. RESET '{key}' takes it back.")


def check_key(key: str, value: str = "") -> None:
    """Raise InvalidRequest for a setting that nobody reads; `value`: what is to be shown of one without a default."""
    if key in _KEYS:
        return
    if key.startswith(TABLE_DEFAULTS):
        own = key.removeprefix(TABLE_DEFAULTS)
        if is_of_log(own):
            check_option_of_log(own, None)
            return
        # One that has no default is known as well.
        if own != FILE_PATH and (
            TableOptions.default_of(own) or own not in {each["key"] for each in TableOptions.declared()}
        ):
            check_table_options({own: TableOptions.default_of(own) or value}, "to be created")
        return
    near = difflib.get_close_matches(key, _KEYS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" Settings: {', '.join(_KEYS)}, {TABLE_DEFAULTS}<option>."
    engine = " Spark's own are given by SNAPLINE_SPARK_CONFIG." if key.startswith("spark.") else ""
    raise InvalidRequest(f"There is no setting {key!r}.{engine}{hint}")


def _check_path(key: str, value: str, warehouse: str) -> None:
    if value.rstrip("/") != warehouse.rstrip("/"):
        raise InvalidRequest(
            f"{key!r} = {value!r}: tables of this catalog lie in {warehouse!r}. CREATE CATALOG c WITH ('warehouse' = …) and "
            "USE CATALOG c put them elsewhere."
        )


def trigger(text: str) -> dict[str, Any]:
    """When a stream reads on, as Spark takes it. Raises InvalidRequest."""
    words = text.strip().lower()
    if words == "available-now":
        return {"availableNow": True}
    if _INTERVAL.fullmatch(words):
        return {"processingTime": words.removeprefix("processing-time").strip()}
    raise InvalidRequest(
        f"'{TRIGGER}' is available-now or processing-time <interval>, as in 'processing-time 10 seconds', not {text!r}."
    )
