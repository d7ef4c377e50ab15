"""Three ways through the house, counted: a SQL insert, a branch that is merged, a materialization.

    python -m tests.house.ways

`files`: those that are entered. `entered again`: from how many further files they are entered, one way in each being the first.
`turns`: pairs of files that enter each other, so that a value goes back and forth. It runs on versions of before as well
(PYTHONPATH says which), so that they can be compared.
"""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("storage", "lineage", "resources", "platform_assets")


class Ways:
    """Which files of the packages call into which others, while it is told of calls."""

    def __init__(self) -> None:
        homes = [importlib.util.find_spec(name) for name in PACKAGES]
        self._roots = tuple(f"{Path(str(home.origin)).parent}{os.sep}" for home in homes if home is not None)
        self._root = str(Path(self._roots[0]).parent)
        self.edges: set[tuple[str, str]] = set()

    def _file(self, frame: FrameType | None) -> str | None:
        while frame is not None:
            name = frame.f_code.co_filename
            # What an import runs is no step of a way.
            if name.startswith(self._roots) and frame.f_code.co_name != "<module>":
                return os.path.relpath(name, self._root)
            frame = frame.f_back
        return None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(self._roots):
            return
        if frame.f_code.co_name == "<module>":
            return
        callee, caller = os.path.relpath(frame.f_code.co_filename, self._root), self._file(frame.f_back)
        if caller is not None and caller != callee:
            self.edges.add((caller, callee))

    def counts(self) -> tuple[int, int, int]:
        """Files, ways in beyond the first of each, and pairs that enter each other."""
        files = {name for edge in self.edges for name in edge}
        entered = {callee for _, callee in self.edges}
        turns = sum((callee, caller) in self.edges for caller, callee in self.edges) // 2
        return len(files), len(self.edges) - len(entered), turns


def counted(act: Callable[[], object]) -> tuple[int, int, int]:
    """The counts of what an act does; it has been done once before, so that what is loaded the first time is not counted."""
    ways = Ways()
    sys.setprofile(ways)
    try:
        act()
    finally:
        sys.setprofile(None)
    return ways.counts()


def ways(home: str) -> dict[str, Callable[[], object]]:
    """The three, by name."""
    os.environ["SNAPLINE_HOME"] = home
    import dagster as dg
    import pandas as pd

    from resources import Session, SparkResource, TablesResource, table_asset

    session = Session()
    create = "CREATE TABLE IF NOT EXISTS shop.{} (id BIGINT, what STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
    session.sql("CREATE DATABASE IF NOT EXISTS shop", "duckdb")
    for name in ("orders", "copies", "merged"):
        session.sql(create.format(name), "duckdb")
    numbers = iter(range(1, 1000))

    def insert() -> None:
        session.sql(f"INSERT INTO shop.orders VALUES ({next(numbers)}, 'a')", "duckdb")
        session.sql("INSERT INTO shop.copies SELECT * FROM shop.orders WHERE id > 0", "duckdb")

    def merge() -> None:
        number = next(numbers)
        table = session.table("shop.merged")
        session.sql(f"INSERT INTO shop.merged VALUES ({number}, 'a')", "duckdb")
        table.branches.create(f"b{number}")
        session.sql(f"INSERT INTO shop.`merged$branch_b{number}` VALUES ({number}, 'b')", "duckdb")
        table.branches.merge(f"b{number}")

    @table_asset("shop.days", inputs={"orders": "shop.orders"}, primary_key=["id"])
    def days(orders: pd.DataFrame) -> pd.DataFrame:
        return orders[["id"]]

    resources = {"tables": TablesResource(spark=SparkResource())}
    return {
        "a SQL insert": insert,
        "a branch merged": merge,
        "a materialization": lambda: dg.materialize([days], resources=resources),
    }


def main() -> None:
    """Print the counts of each way."""
    print(f"{'':20}{'files':>8}{'entered again':>16}{'turns':>8}")
    with tempfile.TemporaryDirectory() as home:
        for name, act in ways(home).items():
            act()
            files, again, turns = counted(act)
            print(f"{name:20}{files:>8}{again:>16}{turns:>8}")


if __name__ == "__main__":
    main()
