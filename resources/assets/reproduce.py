"""Make a snapshot again from exactly the snapshots it was made from, in a scratch branch, and say how the two differ."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage import offsets_of, stopping_nobody, topic_texts, trial_branch
from storage import Clock, CommitId, CorruptData, InvalidRequest, NotFound, Snapshot, SnapshotRef, Table, TopicRange
from storage.engines.duckdb_compare import Comparison, compare
from storage.engines.spark_reader import read_scan

from ..session import Session
from ..sql import Statements
from ..sql.parsing import parse
from ..sql.statements import CHANGES_OF_ROWS, makes_table_of_rows
from ..warehouse.snapshot_properties import CODE_PROPERTY, PARTITIONS_PROPERTY, PLACE_PROPERTY, STATEMENT_PROPERTY
from .commit_rows import commit_rows
from .partition_context import PartitionContext
from .partition_values import values_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .table_asset import TableAsset

Sources = Mapping[tuple[str, str], SnapshotRef]


@dataclass(frozen=True)
class Reproduction:
    """What came of it. `comparison`: the snapshot before, what was made again after. `branch` holds the rows, if kept."""

    ref: SnapshotRef
    comparison: Comparison
    warnings: tuple[str, ...] = ()
    branch: str | None = None


class Reproducer:
    """Runs what made a snapshot again. `assets`: the table assets by table, for snapshots that an asset made."""

    def __init__(
        self,
        session: Session,
        assets: "Callable[[], Mapping[str, TableAsset]]",
        start_spark: "Callable[[], SparkSession]",
    ) -> None:
        self._session = session
        self._assets = assets
        self._spark = start_spark

    def reproduce(self, ref: SnapshotRef, *, engine: str | None = None, keep: bool = False) -> Reproduction:
        """Make a snapshot again in a scratch branch, which goes afterwards unless it is to be kept.

        `engine` runs what was made by SQL, by default DuckDB.

        Raises InvalidRequest for a snapshot of which it is not known how it was made, or that was made from records of topics,
        NotFound for one whose sources, or whose table before it, have expired.
        """
        table = self._session.catalog_of(ref.catalog).table(ref.table_name)
        snapshot = table.snapshot(ref.snapshot_id)
        assert snapshot is not None
        if engine is not None and STATEMENT_PROPERTY not in (snapshot.properties or {}):
            raise InvalidRequest(f"{ref} was not made by SQL: give no engine, it runs where it always does.")
        _refuse_topics(ref, offsets_of(snapshot), "was made from")
        current = self._session.sources_of(snapshot)
        then = {(ref.catalog, ref.table_name): now for ref, now in current.items()}
        today = {(now.catalog, now.table_name): now for now in current.values()}
        # A statement names tables as they were called then, the code of an asset as they are called now.
        sources = today | then if STATEMENT_PROPERTY in (snapshot.properties or {}) else then | today
        missing = [str(ref) for ref in current.values() if self._session.fate(ref) not in ("", "taken back")]
        if missing:
            raise NotFound(f"{ref} was made from {', '.join(missing)}, which can no longer be read.")
        with self._scratch(table, snapshot, keep) as scratch:
            before = scratch.snapshots.latest()
            if STATEMENT_PROPERTY in (snapshot.properties or {}):
                warnings = self._run_statement(
                    scratch, snapshot, self._opener(sources, ref.catalog), engine or "duckdb"
                )
            else:
                warnings = self._run_asset(scratch, snapshot, self._opener(sources, ref.catalog), ref)
            made = scratch.snapshots.latest()
            if made is not None and made != before:
                # Of a topic that had no records then, or was read by a platform that did not keep their offsets.
                _refuse_topics(ref, offsets_of(made), "would now be made from")
            comparison = compare(table.after_commit(ref.snapshot_id), scratch.after_commit())
        return Reproduction(ref, comparison, tuple(warnings), scratch.identifier.branch if keep else None)

    def _opener(self, sources: Sources, catalog: str) -> Callable[[str], Table]:
        def open_table(name: str) -> Table:
            ref = sources.get((catalog, name))
            if ref is None and self._session.catalog_of(catalog).kafka_tables.exists(name):
                raise InvalidRequest(f"{name} is a Kafka table, whose records are not read again.")
            if ref is None:
                raise InvalidRequest(
                    f"{name} is read now, and was not when the snapshot was made: the code has changed since."
                )
            return self._session.catalog_of(catalog).table(ref.table_name).after_commit(ref.snapshot_id)

        return open_table

    def _run_statement(
        self, scratch: Table, snapshot: Snapshot, open_table: Callable[[str], Table], engine: str
    ) -> list[str]:
        properties = snapshot.properties or {}
        catalog, _, database = properties.get(PLACE_PROPERTY, "").partition(".")
        _refuse_other_statements(
            properties[STATEMENT_PROPERTY], f"snapshot {snapshot.id} of {scratch.identifier.full_name}"
        )
        statements = Statements(self._session, self._spark, open_table, opened=catalog, target=scratch)
        statements.settings.catalog, statements.settings.database = catalog, database
        statements.settings.options["pipeline.name"] = scratch.identifier.branch
        statements.run(properties[STATEMENT_PROPERTY], engine)
        return []

    def _run_asset(
        self, scratch: Table, snapshot: Snapshot, open_table: Callable[[str], Table], ref: SnapshotRef
    ) -> list[str]:
        name = f"{ref.database}.{ref.table}"
        asset = self._assets().get(name)
        if asset is None:
            raise InvalidRequest(
                f"{ref} was made by {snapshot.commit_user!r}, which is neither SQL nor a table asset of this platform: "
                "what it did cannot be run again."
            )
        warehouse = self._session.catalog_of(ref.catalog).warehouse

        def read(table_name: str, in_arrow: bool) -> Any:
            table = open_table(table_name)
            return table.to_arrow() if in_arrow else read_scan(self._spark(), table, table.scan(), warehouse)

        properties = snapshot.properties or {}
        keys = [name for name in properties.get(PARTITIONS_PROPERTY, "").split(",") if name]
        rows = asset.rows(read, PartitionContext(keys, asset.partitions_def), self._spark)
        partitions = asset.partitions(keys)
        listed = None if partitions is None else list(values_in(scratch, partitions).values())
        commit_rows(rows, scratch, warehouse, asset.mode, listed, CommitId(scratch.identifier.branch), {})
        then = properties.get(CODE_PROPERTY, "")
        if then and then != asset.code_version:
            return [f"The code of {name} has changed since: version {asset.code_version} now, {then} then."]
        return []

    @contextmanager
    def _scratch(self, table: Table, snapshot: Snapshot, keep: bool) -> Iterator[Table]:
        """A branch that stands where the table stood before the snapshot."""
        name = trial_branch(snapshot.id, Clock().unique_name())
        before = table.snapshots.before(snapshot)
        if before is None and snapshot.id > 1:
            raise NotFound(f"Snapshot {snapshot.id - 1} of {table.identifier}, which was changed, has expired.")
        if before is None:
            table.branches.create(name, empty=True, schema_id=snapshot.schema_id)
        else:
            # What was altered in between, the snapshot has.
            then = max(before.schema_id, snapshot.schema_id)
            table.branches.create(name, snapshot_id=before.id, schema_id=then)
        try:
            yield table.on_branch(name)
        except BaseException:
            keep = False
            raise
        finally:
            # What happens here is nobody's lineage.
            for store in self._session.lineage_stores.values():
                with stopping_nobody():
                    store.delete_tables(name)
                    store.delete_snapshots(name)
            if not keep:
                table.branches.delete(name)


def _refuse_topics(ref: SnapshotRef, ranges: Sequence[TopicRange], verb: str) -> None:
    """Raise InvalidRequest for records of topics: what a topic holds now is not what it held then."""
    if ranges:
        raise InvalidRequest(
            f"{ref} {verb} records of a topic ({'; '.join(topic_texts(ranges))}), which are not read again: what was made from "
            "snapshots alone can be made again."
        )


def _refuse_other_statements(text: str, where: str) -> None:
    """Raise CorruptData unless a recorded text is one change of rows: whoever can write a table could record any other."""
    try:
        trees = parse(text)
    except InvalidRequest as error:
        raise CorruptData(
            f"The statement that {where} records cannot be read, nothing of it was run: {error}"
        ) from None
    if len(trees) == 1 and makes_table_of_rows(trees[0]):
        raise InvalidRequest(
            f"{where[0].upper()}{where[1:]} was made by CREATE OR REPLACE TABLE … AS, which made the table anew: only changes of "
            "rows are made again. Compare it with the rows of its query."
        )
    if len(trees) != 1 or not isinstance(trees[0], CHANGES_OF_ROWS):
        raise CorruptData(
            f"The statement that {where} records is no INSERT, DELETE, UPDATE or MERGE, nothing of it was run: {text[:200]!r}. "
            "Platforms record no others: somebody has put it there."
        )
