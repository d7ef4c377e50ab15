"""Lineage for others: what the lineage tables hold, as OpenLineage events.

An event tells of one barrier: a job has completed, from these versions of these tables, giving those. Its run id is made
of the job and the barrier, so that any period can be sent again and receivers recognise what they have. Nothing here is
called by a commit: a command or a sensor reads the lineage tables, from where it had come to.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lineage import LineageStore, SnapshotLineage, columns_of
from storage import CorruptData, InvalidRequest, NotFound, SnapshotRef, hidden

from .session import Session

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

PRODUCER = "https://github.com/snapline/snapline"
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
# Rows of a crashed writer are recorded later than their commit: so far back is looked again, and sent again.
_OVERLAP = timedelta(minutes=10)


@dataclass(frozen=True)
class Exported:
    """`events`: how many were sent. `until`: the commit time of the last (UTC), from which to go on; None if there are none."""

    events: int
    until: datetime | None


def export(
    session: Session, client: "OpenLineageClient", since: datetime | None = None, namespace: str = "snapline"
) -> Exported:
    """Send every barrier whose commit was made after `since` (UTC unless it has a time zone), oldest first; all without it.

    Raises what the transport raises: what was sent before then can be sent again. So it is when the lineage of a catalog is
    out of reach: `until` stays where it was.
    """
    check_namespace(namespace)
    if since is not None and since.tzinfo is not None:
        since = since.astimezone(UTC).replace(tzinfo=None)
    stores = session.stores_to_ask()
    count, until = 0, since
    for event, moment in events(session, stores, since, namespace):
        client.emit(event)
        count, until = count + 1, moment if until is None else max(until, moment)
    return Exported(count, until if len(stores) == len(session.lineage_stores) else since)


def check_destination(url: object, file: object) -> None:
    """Raise InvalidRequest for a URL that leads to no server, a file without a name, and for both together."""
    if url is not None and file is not None:
        raise InvalidRequest("Events go to a URL or into a file: give one of them.")
    if file is not None and (not isinstance(file, str) or not file.strip()):
        raise InvalidRequest(f"Events go into a file: {file!r} is no name of one.")
    if url is None:
        return
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        is_address = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidRequest(f"{hidden(str(url))!r} is no URL of an OpenLineage server: write http://host:port.")


def check_namespace(namespace: object) -> None:
    """Raise InvalidRequest for a namespace of jobs that has no name."""
    if not isinstance(namespace, str) or not namespace.strip():
        raise InvalidRequest(f"namespace={namespace!r} is no name: jobs have one, such as 'snapline'.")


def client_of(url: str | None = None, file: str | None = None) -> "OpenLineageClient":
    """What sends events: over HTTP to a URL, as lines of JSON into a file, or as OpenLineage's own configuration says.

    Raises InvalidRequest if the extra `openlineage` is not installed, and if events would go nowhere; OSError for a file that
    cannot be written.
    """
    try:
        from openlineage.client import OpenLineageClient
        from openlineage.client.transport.file import FileConfig, FileTransport
        from openlineage.client.transport.http import HttpConfig, HttpTransport
    except ModuleNotFoundError:
        raise InvalidRequest(
            "OpenLineage events need the package openlineage-python: install the extra 'openlineage'."
        ) from None
    check_destination(url, file)
    if file:
        with open(file, "a", encoding="utf-8"):
            client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=file, append=True)))
    elif url:
        try:
            client = OpenLineageClient(transport=HttpTransport(HttpConfig(url=url)))
        except ValueError as error:
            raise InvalidRequest(f"{url!r} is no URL of an OpenLineage server: {error}") from None
    else:
        client = _configured(OpenLineageClient)
    if client.transport.kind == "noop":
        raise InvalidRequest("No event is sent while OpenLineage is switched off (OPENLINEAGE_DISABLED).")
    return client


def _configured(client_type: "type[OpenLineageClient]") -> "OpenLineageClient":
    """What sends events as OpenLineage's own configuration says. Raises InvalidRequest if there is none, or a wrong one."""
    # It warns that it would print events, which is not what is done here.
    logger = logging.getLogger("openlineage")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        client = client_type()
        is_said = bool((client.config.transport or {}).get("type"))
    except Exception as error:
        # Of its own many kinds.
        raise InvalidRequest(f"The configuration of OpenLineage cannot be used: {hidden(str(error))}") from None
    finally:
        logger.setLevel(before)
    if client.transport.kind == "console" and not is_said:
        raise InvalidRequest(
            "Say where events go: a URL or a file, or OpenLineage's own configuration (OPENLINEAGE_URL, openlineage.yml)."
        )
    return client


def events(
    session: Session, stores: Mapping[str, LineageStore], since: datetime | None, namespace: str
) -> "Iterator[tuple[RunEvent, datetime]]":
    """An event for each barrier, with the time of its commit; oldest first."""
    start = datetime.min if since is None else since - _OVERLAP
    barriers: dict[tuple[str, int], list[tuple[str, SnapshotLineage]]] = {}
    for catalog, store in stores.items():
        for row in store.committed_since(start):
            barriers.setdefault((row.job, row.barrier_id), []).append((catalog, row))
    datasets = _Datasets(session)
    for (job, barrier), sinks in sorted(barriers.items(), key=lambda entry: (entry[1][0][1].create_time, entry[0])):
        sources = [
            row.ref(catalog)
            for catalog, store in stores.items()
            for row in store.snapshots("source", job=job, barrier_id=barrier)
        ]
        moment = sinks[0][1].create_time
        yield (
            _event(job, barrier, moment, [row.ref(catalog) for catalog, row in sinks], sources, datasets, namespace),
            moment,
        )


def _event(
    job: str,
    barrier: int,
    moment: datetime,
    sinks: Sequence[SnapshotRef],
    sources: Sequence[SnapshotRef],
    datasets: "_Datasets",
    namespace: str,
) -> "RunEvent":
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

    return RunEvent(
        eventTime=f"{moment.isoformat(timespec='milliseconds')}Z",
        eventType=RunState.COMPLETE,
        producer=PRODUCER,
        run=Run(runId=run_id(job, barrier)),
        job=Job(namespace=namespace, name=job),
        inputs=[datasets.input(source) for source in sources],
        outputs=[datasets.output(sink) for sink in sinks],
    )


def run_id(job: str, barrier: int) -> str:
    """The same for the same barrier, whenever it is asked for."""
    return str(uuid.uuid5(_RUNS, f"{job}\0{barrier}"))


class _Datasets:
    """Tables as datasets: the namespace is the warehouse, the name the table's, with `$branch_b` off the main branch."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def input(self, ref: SnapshotRef) -> Any:
        from openlineage.client.event_v2 import InputDataset

        return InputDataset(namespace=self._namespace(ref.catalog), name=ref.table_name, facets=self._facets(ref))

    def output(self, ref: SnapshotRef) -> Any:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.generated.column_lineage_dataset import ColumnLineageDatasetFacet, Fields, InputField

        facets = self._facets(ref)
        columns = self._columns(ref)
        if columns:
            facets["columnLineage"] = ColumnLineageDatasetFacet(
                fields={
                    name: Fields(
                        inputFields=[
                            InputField(namespace=self._namespace(catalog), name=f"{database}.{table}", field=column)
                            for catalog, database, table, column in sources
                        ]
                    )
                    for name, sources in columns.items()
                }
            )
        return OutputDataset(namespace=self._namespace(ref.catalog), name=ref.table_name, facets=facets)

    def _namespace(self, catalog: str) -> str:
        warehouse = self._session.catalog_of(catalog).warehouse
        warehouse = hidden(warehouse)
        return warehouse if "://" in warehouse else f"file://{warehouse}"

    def _facets(self, ref: SnapshotRef) -> dict[str, Any]:
        from openlineage.client.generated.dataset_version_dataset import DatasetVersionDatasetFacet
        from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

        facets: dict[str, Any] = {"version": DatasetVersionDatasetFacet(datasetVersion=str(ref.snapshot_id))}
        try:
            fields = self._session.catalog_of(ref.catalog).table(ref.table_name).pinned(ref.snapshot_id).schema.fields
        except (CorruptData, NotFound):
            # It has expired, or the table is gone or damaged: its version is what is known.
            return facets
        shown = [SchemaDatasetFacetFields(name=field.name, type=str(field.type)) for field in fields]
        return facets | {"schema": SchemaDatasetFacet(fields=shown)}

    def _columns(self, ref: SnapshotRef) -> Mapping[str, Sequence[tuple[str, str, str, str]]]:
        try:
            snapshot = self._session.catalog_of(ref.catalog).table(ref.table_name).snapshot(ref.snapshot_id)
        except (CorruptData, NotFound):
            return {}
        return {} if snapshot is None else columns_of(snapshot)
