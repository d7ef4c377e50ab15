"""What the store measures of its own work. Nothing is measured, and no time goes by, until somebody sets a meter."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

COUNTER, HISTOGRAM, GAUGE = "counter", "histogram", "gauge"


@dataclass(frozen=True)
class Metric:
    """`kind`: counter, histogram or gauge. `unit`: in UCUM, as OpenTelemetry has them. `attributes`: by what it is told apart."""

    name: str
    kind: str
    unit: str
    meaning: str
    attributes: tuple[str, ...]


COMMIT_DURATION = Metric(
    "snapline.commit.duration",
    HISTOGRAM,
    "s",
    "Commits, from their written files to the visible snapshot, all tries of each",
    ("table", "kind", "outcome"),
)
COMMIT_RETRIES = Metric(
    "snapline.commit.retries", COUNTER, "{retry}", "Races that commits have lost against other writers", ("table",)
)
COMMIT_ROWS = Metric(
    "snapline.commit.rows", COUNTER, "{row}", "Rows in the data files that commits have added", ("table", "kind")
)
COMMIT_BYTES = Metric("snapline.commit.bytes", COUNTER, "By", "Bytes of those files", ("table", "kind"))
PLAN_DURATION = Metric(
    "snapline.plan.duration", HISTOGRAM, "s", "Plans of scans, from a snapshot to the files to read", ("table",)
)
PLAN_FILES = Metric("snapline.plan.files", COUNTER, "{file}", "Data files that scans were to read", ("table",))
PLAN_ROWS = Metric("snapline.plan.rows", COUNTER, "{row}", "Rows in those files, before merging", ("table",))
PLAN_BYTES = Metric("snapline.plan.bytes", COUNTER, "By", "Bytes of those files", ("table",))
STREAM_LAG = Metric(
    "snapline.stream.lag", GAUGE, "{snapshot}", "Snapshots that a stream had not read when it last looked", ("table",)
)
STORE_CALL_DURATION = Metric(
    "snapline.store.call.duration",
    HISTOGRAM,
    "s",
    "Calls to the file system or object store, without those that go through open files",
    ("operation", "protocol", "outcome"),
)
METRICS = (
    COMMIT_DURATION,
    COMMIT_RETRIES,
    COMMIT_ROWS,
    COMMIT_BYTES,
    PLAN_DURATION,
    PLAN_FILES,
    PLAN_ROWS,
    PLAN_BYTES,
    STREAM_LAG,
    STORE_CALL_DURATION,
)


class Meter(Protocol):
    """Who takes what is measured. Called by any thread."""

    def take(self, metric: Metric, value: float, attributes: dict[str, str]) -> None:
        """An amount to add to a counter, one more value of a histogram, or the value that a gauge has now."""


_meters: list[Meter] = []


def set_meter(meter: Meter | None) -> None:
    """Give all that this process measures to a meter, in the place of the one before; None: measure nothing."""
    _meters[:] = [] if meter is None else [meter]


def is_metered() -> bool:
    """Whether anybody takes what is measured: where it costs something to find out, that is asked first."""
    return bool(_meters)


def take(metric: Metric, value: float, **attributes: str) -> None:
    """Give a value to the meter, if there is one."""
    for meter in _meters:
        meter.take(metric, value, attributes)


@contextmanager
def timed(metric: Metric, **attributes: str) -> Iterator[None]:
    """Measure how long something takes, in seconds, unless it fails."""
    began = time.perf_counter()
    yield
    take(metric, time.perf_counter() - began, **attributes)
