"""Damage that is met while main is replaced or a branch deleted: either ends, and nothing stays closed."""

from pathlib import Path

import pytest

from storage import Catalog, CorruptData, Table
from tests.storage.branched_tables import NAMES, all_held, fork_tables, held, make_tables, rows

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")


@pytest.fixture
def forked(catalog: Catalog) -> Catalog:
    fork_tables(catalog, make_tables(catalog))
    return catalog


def replace_main(catalog: Catalog, how: str) -> None:
    """Let the branch become main of the first table, or of all three."""
    if how == "one":
        catalog.table(NAMES[0]).branches.replace_main("fix")
    else:
        catalog.branch_set("fix", NAMES).replace_main()


@pytest.mark.parametrize("how", ["one", "set"])
@pytest.mark.parametrize("content", ["garbage", '{"nextSnapshot": 0}'])
def test_a_damaged_consumer_is_handed_over_as_it_is(forked: Catalog, how: str, content: str) -> None:
    table = forked.table(NAMES[0])
    table.consumers.reset("sound", 3)
    Path(table.store.paths.consumer("feed")).write_text(content)
    replace_main(forked, how)
    table = forked.table(NAMES[0])
    with pytest.raises(CorruptData, match="Reset or delete the consumer"):
        table.consumers.get("feed")
    table.consumers.reset("feed", 1)
    assert [(one.name, one.next_snapshot_id) for one in table.consumers.list()] == [("feed", 1), ("sound", 3)]
    table.write(rows(9))
    assert table.check(deep=True) == []
