"""A sensor that sends lineage to an OpenLineage server."""

from datetime import datetime

import dagster as dg

from ..openlineage_export import check_destination, check_namespace, client_of, export
from .declared import check_sensor
from .tables import TablesResource


def openlineage_sensor(
    name: str = "openlineage",
    *,
    url: str | None = None,
    file: str | None = None,
    namespace: str = "snapline",
    minimum_interval_seconds: int = 60,
) -> dg.SensorDefinition:
    """A sensor that sends what was committed since it last ran. Without a URL or a file OpenLineage's own configuration
    says where events go. Raises InvalidRequest for what is no URL of a server, and for a file or a namespace without a name.
    """
    check_sensor(f"openlineage_sensor {name!r}", name, minimum_interval_seconds)
    check_destination(url, file)
    check_namespace(namespace)

    @dg.sensor(name=name, minimum_interval_seconds=minimum_interval_seconds)
    def send(context: dg.SensorEvaluationContext, tables: TablesResource) -> dg.SkipReason:
        since = datetime.fromisoformat(context.cursor) if context.cursor else None
        client = client_of(url, file)
        try:
            done = export(tables.session, client, since, namespace)
        finally:
            client.close()
        if done.until is not None:
            context.update_cursor(done.until.isoformat())
        return dg.SkipReason(f"Sent {done.events} events; this sensor starts no runs.")

    return send
