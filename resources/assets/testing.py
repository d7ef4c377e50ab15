"""What an asset check has to do, as tests for those of one's own.

class TestEnoughOrders(AssetCheckContract):
    check = enough_orders
    good = {"shop.orders": pa.table({"id": [1]})}
    bad = {"shop.orders": pa.table({"id": []}, pa.schema([("id", pa.int64())]))}
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import dagster as dg
import pyarrow as pa
import pytest

from storage import SnapshotRef

from ..spark_resource import SparkResource
from .tables import TablesResource


class AssetCheckContract:
    """Tests that an asset check passes, in a warehouse of its own. `good`: rows of all tables that it reads, by their names;
    `bad`: those of some of them with which it has to fail.
    """

    check: ClassVar[dg.AssetChecksDefinition]
    good: ClassVar[Mapping[str, pa.Table]]
    bad: ClassVar[Mapping[str, pa.Table]]

    @pytest.fixture
    def tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TablesResource:
        """A warehouse with the good rows."""
        monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
        resource = TablesResource(spark=SparkResource())
        for name, rows in self.good.items():
            resource.session.catalog.create_table(name, rows.schema, options={"bucket": "-1"}).write(rows)
        return resource

    def test_it_passes_on_good_rows_and_says_of_what_asset(self, tables: TablesResource) -> None:
        """The asset is that of a table with good rows."""
        evaluation = self.evaluation(tables)
        assert evaluation.passed, evaluation.description
        assert ".".join(evaluation.asset_key.path[-2:]) in self.good

    def test_it_fails_on_bad_rows_and_passes_again_once_they_are_good(self, tables: TablesResource) -> None:
        """Nothing of an earlier run is remembered."""
        self._overwrite(tables, self.bad)
        assert not self.evaluation(tables).passed
        self._overwrite(tables, self.good)
        assert self.evaluation(tables).passed

    def test_it_reads_what_its_run_began_with(self, tables: TablesResource, monkeypatch: pytest.MonkeyPatch) -> None:
        """Bad rows that come as soon as its first table is pinned belong to the next run."""
        pin = TablesResource.pin
        pinned: list[str] = []

        def pin_and_write(resource: TablesResource, context: dg.AssetCheckExecutionContext, name: str) -> SnapshotRef:
            ref = pin(resource, context, name)
            if not pinned:
                self._overwrite(tables, self.bad)
            pinned.append(name)
            return ref

        with monkeypatch.context() as patched:
            patched.setattr(TablesResource, "pin", pin_and_write)
            during = self.evaluation(tables)
        assert pinned, "It pins no table: read with `tables.read`, `tables.read_arrow` or `tables.query`."
        assert during.passed, "It has read rows that came after its run began."
        assert not self.evaluation(tables).passed

    def evaluation(self, tables: TablesResource) -> dg.AssetCheckEvaluation:
        """What a run of the check alone comes to."""
        done = dg.materialize(
            [self.check],
            instance=dg.DagsterInstance.ephemeral(),
            resources={"tables": tables},
            selection=dg.AssetSelection.checks(self.check),
            raise_on_error=False,
        )
        evaluations = done.get_asset_check_evaluations()
        assert len(evaluations) == 1, "The check has raised an error: its log says which."
        return evaluations[0]

    @staticmethod
    def _overwrite(tables: TablesResource, rows: Mapping[str, pa.Table]) -> None:
        for name, given in rows.items():
            tables.session.catalog.table(name).overwrite(given)
