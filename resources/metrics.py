"""Metrics of the store's work, given to OpenTelemetry; nothing of it is imported unless `SNAPLINE_METRICS` says where they go."""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from storage import METRICS, InvalidRequest, Metric, Unsupported, set_meter

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader

OTLP, CONSOLE = "otlp", "console"
_PLACES = (OTLP, CONSOLE)
# Seconds: from a call to a local disk to a commit that loses race after race.
_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_started: dict[str, "MeterProvider"] = {}


def check_metrics(name: str, text: str) -> None:
    """Raise InvalidRequest, by what gave it, for a place that metrics cannot go to."""
    if text not in _PLACES:
        raise InvalidRequest(
            f"{name} = {text!r} is no place for metrics: write otlp (the endpoint of OTEL_EXPORTER_OTLP_ENDPOINT), or console."
        )


def start_metrics(place: str) -> None:
    """Send what this process measures from now on to a place, `otlp` or `console`: once a minute (OTEL_METRIC_EXPORT_INTERVAL),
    and at its end. Done once in a process. Raises InvalidRequest for a second place, Unsupported where OpenTelemetry is not
    installed.
    """
    if not place or place in _started:
        return
    if _started:
        raise InvalidRequest(
            f"SNAPLINE_METRICS: the metrics of this process go to {', '.join(_started)} already, and not to {place} too. Begin "
            "another process, or name one place."
        )
    # Only those who want metrics pay for the import of OpenTelemetry.
    try:
        _started[place] = _provider(_reader(place))
    except ImportError as error:
        raise Unsupported(
            f"Metrics need OpenTelemetry ({error}): install the extra 'metrics' of this package, or leave SNAPLINE_METRICS out."
        ) from None
    set_meter(_OpenTelemetry(_started[place]))


def _reader(place: str) -> "MetricReader":
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

    if place == CONSOLE:
        # Standard output is what a command answers.
        return PeriodicExportingMetricReader(ConsoleMetricExporter(out=sys.stderr))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return PeriodicExportingMetricReader(OTLPMetricExporter())


def _provider(reader: "MetricReader") -> "MeterProvider":
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource

    own = Resource({SERVICE_NAME: "snapline", SERVICE_VERSION: version("snapline")})
    # What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before.
    return MeterProvider([reader], resource=Resource.create().merge(own).merge(OTELResourceDetector().detect()))


class _OpenTelemetry:
    """A meter of the store that has an instrument of OpenTelemetry for each metric."""

    def __init__(self, provider: "MeterProvider") -> None:
        meter = provider.get_meter("snapline")
        self._instruments: dict[Metric, Any] = {}
        for metric in METRICS:
            said: Mapping[str, Any] = {"name": metric.name, "unit": metric.unit, "description": metric.meaning}
            if metric.kind == "counter":
                self._instruments[metric] = meter.create_counter(**said).add
            elif metric.kind == "histogram":
                self._instruments[metric] = meter.create_histogram(
                    **said, explicit_bucket_boundaries_advisory=_BOUNDS_S
                ).record
            else:
                self._instruments[metric] = meter.create_gauge(**said).set

    def take(self, metric: Metric, value: float, attributes: dict[str, str]) -> None:
        """Give a value to its instrument."""
        self._instruments[metric](value, attributes)
