"""A plan reads each snapshot a few times, however long histories are, and asks lineage once for all tables."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lineage import sources_property
from resources import Session
from resources.recovery import plan_recovery
from storage import Catalog
from storage.metadata.snapshot_files import SnapshotFiles

SCHEMA = pa.schema([("k", pa.int64())])
TABLES = [f"db.t{number}" for number in range(8)]
LENGTH = 12


@pytest.fixture
def counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Each table was made from the one before it once, and got rows of its own since: how often what is opened and read."""
    tables = [session.catalog.create_table(name, SCHEMA) for name in TABLES]
    for number in range(LENGTH):
        for table, source in zip(tables, [None, *tables], strict=False):
            ref = None if source is None or number else source.last_change()
            properties = None if ref is None else sources_property([ref])
            table.write(pa.table({"k": [number]}), properties=properties)
    counts: Counter[str] = Counter()
    opened, read = Catalog.table, SnapshotFiles.find

    def table(catalog: Catalog, name: str) -> Any:
        counts[f"opened {name}"] += 1
        return opened(catalog, name)

    def find(files: SnapshotFiles, number: int) -> Any:
        counts[f"read {files._paths.snapshot(number)}"] += 1
        return read(files, number)

    monkeypatch.setattr(Catalog, "table", table)
    monkeypatch.setattr(SnapshotFiles, "find", find)
    return counts


def test_a_plan_opens_each_table_and_reads_each_snapshot_a_few_times(
    session: Session, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, stores = session.ref("db.t0@1"), session.stores_to_ask()
    asked = []
    reconciled = session.stores_to_ask
    monkeypatch.setattr(session, "stores_to_ask", lambda *given: asked.append(given) or reconciled(*given))
    counted.clear()
    plan = plan_recovery(session, bad, stores=stores)
    assert [(table.name, table.bad) for table in plan.tables] == [(name, 1) for name in TABLES]
    assert asked == []
    assert max(count for what, count in counted.items() if what.startswith("opened")) < 4
    assert max(count for what, count in counted.items() if what.startswith("read")) < 6
