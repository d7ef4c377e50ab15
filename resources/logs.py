"""Logs of the platform's packages as JSON, a line each, on standard error: for those who collect logs, `SNAPLINE_LOGS=json`."""

import datetime as dt
import json
import logging
import os
import traceback

from storage import LOG_FIELDS, InvalidRequest, hidden

JSON = "json"
# Whose loggers are named after them; of what they call, warnings come through as Python has them.
_PACKAGES = ("storage", "lineage", "resources", "snapline", "platform_assets")
_handlers: list[logging.Handler] = []


def check_logs(name: str, text: str) -> None:
    """Raise InvalidRequest, by what gave it, for a form that logs do not have."""
    if text != JSON:
        raise InvalidRequest(f"{name} = {text!r} is no form of logs: write json, or leave it out for plain text.")


def start_logs(form: str) -> None:
    """Write what this process logs from now on, from INFO on, in a form: `json`, or nothing for Python's own. Done once."""
    if not form or _handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    _handlers.append(handler)
    for package in _PACKAGES:
        logger = logging.getLogger(package)
        logger.addHandler(handler)
        # Handlers of the root logger would write it once more, as text.
        logger.propagate = False
        logger.setLevel(logging.INFO)


class _Lines(logging.Formatter):
    """A record as a JSON object in one line: what every record has, then the fields that the event has of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. `time` is in UTC, ISO 8601, with milliseconds."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": hidden(record.getMessage()),
            "process": os.getpid(),
            "thread": record.threadName,
            **getattr(record, LOG_FIELDS, {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = hidden("".join(traceback.format_exception(*record.exc_info)))
        return json.dumps(line, ensure_ascii=False, default=str)
