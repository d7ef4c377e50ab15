"""Whoever deletes a branch, and sleeps until others have deleted it and made it anew, leaves the new one."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog
from tests.scale import amount
from tests.storage.interrupted import Act, Interrupted, acknowledged, calls_of

SCHEMA = pa.schema([("id", pa.int64())])
TABLES = ["d.t", "d.u"]


def prepare(catalog: Catalog) -> None:
    for name in TABLES:
        catalog.create_table(name, SCHEMA).write(pa.table({"id": [1]}, SCHEMA))
    catalog.branch_set("fix", TABLES).create()


def delete(catalog: Catalog) -> None:
    catalog.table("d.t").branches.delete("fix")


def delete_set(catalog: Catalog) -> None:
    catalog.branch_set("fix", TABLES).delete()


def make_anew(catalog: Catalog) -> None:
    """As somebody else who has found the branch, and begins another one of its name."""
    delete_set(catalog)
    catalog.branch_set("fix", TABLES).create()
    for name in TABLES:
        catalog.table(name).on_branch("fix").write(pa.table({"id": [2]}, SCHEMA))


@pytest.mark.parametrize(
    ("scheme", "act"),
    [("file://", delete), ("memory:/", delete), ("file://", delete_set)],
    ids=["local", "object store", "set"],
)
def test_a_branch_that_was_made_anew_meanwhile_stays(tmp_path: Path, scheme: str, act: Act) -> None:
    url = f"{scheme}{tmp_path}"
    calls = calls_of(f"{url}/counted", prepare, act)
    # It has looked which branch it is to delete, and closes it; from its decision on the others come too late.
    first = next(
        number for number, call in enumerate(calls) if "/branch-fix/snapshot/snapshot-" in call and "create" in call
    )
    decided = next(number for number, call in enumerate(calls) if "/.closed-" in call and call.startswith("create"))
    refused = 0
    for number in range(first - 2, decided + 1, amount(3, 1)):
        warehouse = f"{url}/{number}"
        prepare(Catalog(warehouse))
        was_made: list[bool] = []
        files = Interrupted(
            number, lambda at=warehouse, was=was_made: was.append(acknowledged(make_anew, Catalog(at))), url
        )
        done = acknowledged(act, Catalog(warehouse, file_io=files))
        if was_made == [True]:
            for name in TABLES:
                rows = Catalog(warehouse).table(name).on_branch("fix").to_arrow()["id"].to_pylist()
                assert sorted(rows) == [1, 2], (calls[number], done)
            # Where others have gone on with its closing, it is done: what it was to delete has gone.
            refused += not done
    assert refused
