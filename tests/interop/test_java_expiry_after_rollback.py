"""A rollback brings files back that commits before it deleted; Java's expiry takes deletions for final."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, Table
from tests.interop.java_paimon import JavaPaimon

pytestmark = pytest.mark.java_differs("its expiry deletes files that a rollback has brought back (decision 0020, open)")
SCHEMA = pa.schema([("id", pa.int64()), ("item", pa.string())])
TABLES: list[tuple[dict[str, str], list[str]]] = [({"bucket": "1"}, ["id"]), ({}, [])]


def rolled_back(catalog: Catalog, options: dict[str, Any], key: list[str]) -> Table:
    """A table of three rows, which an overwrite took away and a rollback brought back."""
    table = catalog.create_table("shop.t", SCHEMA, primary_key=key, options=options)
    for number in range(3):
        table.write(pa.table({"id": [number], "item": ["a"]}))
    target = table.snapshot()
    assert target is not None
    table.overwrite(pa.table({"id": [7], "item": ["x"]}))
    table.rollback_to(target.id)
    assert table.count() == 3
    return table


@pytest.mark.xfail(strict=True, reason="open: decision 0020")
@pytest.mark.parametrize(("options", "key"), TABLES, ids=["keyed", "without a key"])
def test_rows_that_came_back_survive_javas_expiry(
    java: JavaPaimon, catalog: Catalog, options: dict[str, Any], key: list[str]
) -> None:
    rolled_back(catalog, options, key)
    java.ask(catalog.warehouse, "shop.t", "expire", retain=1)
    assert catalog.table("shop.t").to_arrow().num_rows == 3


@pytest.mark.parametrize(("options", "key"), TABLES, ids=["keyed", "without a key"])
def test_they_do_once_what_came_before_the_rollback_has_expired_here(
    java: JavaPaimon, catalog: Catalog, options: dict[str, Any], key: list[str]
) -> None:
    rolled_back(catalog, options, key).expire(retain_last=1)
    java.ask(catalog.warehouse, "shop.t", "expire", retain=1)
    table = catalog.table("shop.t")
    assert table.to_arrow().num_rows == 3
    assert table.check(deep=True) == []
