"""A partition that others write to while its age is judged has not expired."""

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, Table
from tests.conftest import DAY_MS

_SCHEMA = pa.schema([("p", pa.string()), ("k", pa.int64())])


@pytest.mark.parametrize("key", [[], ["p", "k"]], ids=["append", "keyed"])
def test_rows_that_come_while_partitions_expire_stay(
    catalog: Catalog, clock: FixedClock, key: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"partition.expiration-time": "1 d", "partition.expiration-strategy": "update-time"}
    table = catalog.create_table(
        "d.t", _SCHEMA, primary_key=key, partition_by=["p"], options={**options, "bucket": "-1" if not key else "1"}
    )
    table.write(pa.table({"p": ["a", "b"], "k": [1, 1]}, _SCHEMA))
    clock.advance_ms(2 * DAY_MS)
    dropped = Table._drop

    def slept(self: Table, *arguments: object) -> object:
        monkeypatch.setattr(Table, "_drop", dropped)
        catalog.table("d.t").write(pa.table({"p": ["a"], "k": [2]}, _SCHEMA))
        return dropped(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "_drop", slept)
    assert table.expire_partitions() == [{"p": "b"}]
    assert sorted(row["k"] for row in catalog.table("d.t").to_arrow().to_pylist()) == [1, 2]


def test_as_many_expire_as_may(catalog: Catalog, clock: FixedClock) -> None:
    """The oldest of them: `partition.expiration-max-num` is a brake, as in Java."""
    options = {"partition.expiration-time": "1 d", "partition.expiration-max-num": "2"}
    table = catalog.create_table("d.t", _SCHEMA, partition_by=["p"], options=options)
    days = ["2020-01-03", "2020-01-01", "2020-01-02", "2020-01-04"]
    table.write(pa.table({"p": days, "k": [1, 2, 3, 4]}, _SCHEMA))
    assert table.expire_partitions(dry_run=True) == [{"p": "2020-01-01"}, {"p": "2020-01-02"}]
    assert table.expire_partitions() == [{"p": "2020-01-01"}, {"p": "2020-01-02"}]
    assert table.expire_partitions() == [{"p": "2020-01-03"}, {"p": "2020-01-04"}]
    assert table.expire_partitions() == []
