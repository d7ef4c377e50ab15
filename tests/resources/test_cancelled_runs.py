"""Runs that are cancelled before each change that they make to the warehouse, and executed again: every row is there once."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterExecutionInterruptedError
from dagster._core.execution.api import execute_run_iterator

from resources import Session, SparkResource, TablesResource, table_asset
from tests.crash.kill_at_each_step import CHANGES
from tests.resources.shop import rows
from tests.scale import amount

pytestmark = pytest.mark.dagster
STRIDE = amount(3, 1, full=1)


class Cancelling:
    """Cancels whoever is about to make a change below a directory, at one of them."""

    def __init__(self) -> None:
        self.directory, self.left = "", 0
        self.is_done = True

    def begin(self, directory: str, change: int) -> None:
        self.directory, self.left, self.is_done = directory, change, False

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_done:
            return
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (event in CHANGES or writes) and self.directory in str(arguments[0]):
            self.left -= 1
            if self.left < 0:
                self.is_done = True
                raise DagsterExecutionInterruptedError


@pytest.fixture(scope="module")
def cancelling() -> Iterator[Cancelling]:
    watcher = Cancelling()
    # It stays for as long as the process lives, and does nothing once the tests are over.
    sys.addaudithook(watcher.watch)
    yield watcher
    watcher.is_done = True


@table_asset("core.appended", mode="append", inputs={"orders": "raw.orders"})
def appended(orders: pa.Table) -> pa.Table:
    return orders


@table_asset("core.increment", inputs={"orders": "raw.orders"}, incremental="orders")
def increment(orders: pa.Table) -> pa.Table:
    return orders


@table_asset("core.whole", inputs={"orders": "raw.orders"})
def whole(orders: pa.Table) -> pa.Table:
    return orders


@table_asset("core.keyed", inputs={"orders": "raw.orders"}, primary_key=["id"], mode="append")
def keyed(orders: pa.Table) -> pa.Table:
    return orders


@pytest.mark.parametrize("asset", [appended, increment, whole, keyed], ids=lambda asset: asset.key.path[-1])
def test_a_run_that_is_cancelled_anywhere_and_executed_again_has_its_effect_once(
    session: Session, instance: dg.DagsterInstance, cancelling: Cancelling, asset: Any
) -> None:
    spark = SparkResource()
    defs = dg.Definitions(
        assets=[asset],
        executor=dg.in_process_executor,
        resources={"tables": TablesResource(spark=spark), "spark": spark},
    )
    job = defs.resolve_implicit_global_asset_job_def()

    def run(parent: str | None = None) -> dg.DagsterRun:
        made = instance.create_run_for_job(job, parent_run_id=parent, root_run_id=parent)
        try:
            list(execute_run_iterator(InMemoryJob(job), made, instance))
        except KeyboardInterrupt:
            cancelling.is_done = True
        finished_run = instance.get_run_by_id(made.run_id)
        assert finished_run is not None
        return finished_run

    session.sql(
        "CREATE DATABASE raw; CREATE TABLE raw.orders (id INT, v INT); INSERT INTO raw.orders VALUES (0, 0)", "duckdb"
    )
    assert run().is_success
    name = "core." + asset.key.path[-1]
    warehouse = session.catalog.warehouse
    expected = Counter(rows(session.table(name)))
    cancelled, change = 0, 0
    while True:
        number = change + 1
        session.sql(f"INSERT INTO raw.orders VALUES ({number}, {number})", "duckdb")
        source = rows(session.table("raw.orders"))
        if asset is appended:
            expected += Counter(source)
        elif asset is increment:
            expected += Counter([(number, number)])
        else:
            expected = Counter(source)
        cancelling.begin(warehouse, change)
        first = run()
        reached, cancelling.is_done = cancelling.is_done, True
        # Whether it was told as cancelled or not, it is executed again, as Dagster's retries do.
        if not first.is_success:
            cancelled += 1
            assert run(first.run_id).is_success, change
        table = session.table(name)
        assert Counter(rows(table)) == expected, f"cancelled before change {change}"
        assert table.check(deep=True) == []
        if not reached:
            break
        change += STRIDE
    assert cancelled > 2
