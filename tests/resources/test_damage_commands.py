"""What is damaged beside the tables: named with the command that ends it, and shown by `check` once it is kept aside."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from resources.recovery.record import RecoveryRecord, TableRecord, create_record
from resources.session import Session
from tests.resources.test_cli import Run, left_open, run, shop

__all__ = ["left_open", "run", "shop"]


@pytest.fixture
def recoveries(shop: Session) -> Path:
    """Two recoveries of a table; returns the file of the first."""
    for branch in ("fix", "other"):
        create_record(
            shop.catalog, RecoveryRecord(branch, 0, {"shop.orders": 1}, {"shop.orders": TableRecord(1, 1)}, bad="x@1")
        )
        shop.table("shop.orders").branches.create(branch)
    return Path(shop.catalog.warehouse) / ".recovery/fix.json"


GARBAGE: dict[str, Callable[[Path], object]] = {
    "no text": lambda path: path.write_bytes(b"\xff"),
    "no JSON": lambda path: path.write_text("{"),
    "another form": lambda path: path.write_text('{"tables": 3}'),
    "other keys": lambda path: path.write_text('{"tables": {}, "why": 1}'),
    "a changed value": lambda path: path.write_text(path.read_text().replace("shop.orders", "shop.others")),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_damaged_recovery_stops_no_other_and_is_given_up(
    run: Run, shop: Session, recoveries: Path, what: str
) -> None:
    GARBAGE[what](recoveries)
    damaged = recoveries.read_bytes()
    code, shown, _ = run("recovery", "list")
    assert code == 0
    assert "other" in shown and "damaged" in shown
    assert "fix.json" in shown and "`snapline recovery drop fix --discard-damaged`" in shown
    code, _, error = run("recovery", "compare", "fix")
    assert code == 2 and "fix.json" in error and "--discard-damaged`" in error
    assert shop.catalog.consistent(["shop.orders"])["shop.orders"].count() == 2
    code, shown, _ = run("recovery", "drop", "fix", "--discard-damaged")
    assert code == 0, shown
    assert "Dropped branch fix of shop.orders." in shown
    kept = recoveries.with_name("damaged-fix")
    assert f"kept as {kept}" in shown and kept.read_bytes() == damaged
    assert shop.table("shop.orders").branches.names() == ["other"]
    code, shown, _ = run("check", "shop.orders")
    assert code == 0
    assert f"{kept}: was damaged and is kept aside" in shown
    assert "shop.orders is sound; 1 damaged file is kept aside." in shown
    code, _, error = run("recovery", "drop", "other", "--discard-damaged")
    assert code == 2 and "can be read" in error


def test_a_damaged_journal_is_named_and_discarded(run: Run, left_open: Session) -> None:
    (Path(left_open.catalog.warehouse) / ".journal/open-00000001").write_text("{")
    code, shown, _ = run("check", "shop.totals")
    assert code == 1 and "open-00000001 is damaged" in shown and "`snapline branch recover --discard-damaged`" in shown
    for option in ("--list", "--dry-run"):
        code, shown, _ = run("branch", "recover", option)
        assert code == 0 and "open-00000001 is damaged" in shown
        assert "`snapline branch recover --discard-damaged` ends it" in shown
    code, _, error = run("branch", "recover")
    assert code == 2 and "`snapline branch recover --discard-damaged` ends it" in error
    assert "cannot be combined" in run("branch", "recover", "--discard-damaged", "--undo")[2]
    shown = run("branch", "recover", "--discard-damaged")[1]
    assert "Publication 1: it is undone on shop.orders. The damaged file is kept as" in shown
    assert run("branch", "recover", "--discard-damaged")[1] == "No journal of a publication is damaged.\n"
    assert run("branch", "recover")[1] == "No publication is open.\n"
    code, shown, _ = run("check", "shop.totals")
    assert code == 0 and "1 damaged file is kept aside" in shown


def test_a_damaged_snapshot_is_named_and_mended(run: Run, shop: Session) -> None:
    orders = shop.table("shop.orders")
    orders.branches.create("fix")
    orders.write(pa.table({"id": [3], "price": [3], "what": ["x"]}))
    Path(orders.store.paths.snapshot(2)).write_text("{")
    code, _, error = run("query", "SELECT * FROM shop.orders")
    assert code != 0 and "`snapline rollback --version 1`" in error
    code, shown, _ = run("branches", "shop.orders")
    assert code == 0 and "snapline mend-snapshots" in shown.replace("\n", " ")
    assert "snapshot-2 is not a readable snapshot" in run("check", "shop.orders")[1]
    shown = run("mend-snapshots", "shop.orders")[1]
    assert "Snapshot 2 shows the state of 1; what it committed is lost." in shown
    assert "STAND IN" in run("snapshots", "shop.orders")[1]
    assert run("mend-snapshots", "shop.orders")[1] == "Every snapshot of shop.orders can be read.\n"
    assert "1 damaged file is kept aside" in run("check", "shop.orders")[1]


@pytest.mark.parametrize("where", ["branch/branch-fix/", ""])
def test_a_branch_goes_beside_a_damaged_snapshot_and_says_what_stays(run: Run, shop: Session, where: str) -> None:
    orders = shop.table("shop.orders")
    orders.branches.create("fix")
    write = orders.on_branch("fix").write if where else orders.write
    for _ in range(2):
        write(orders.to_arrow())
    root = Path(orders.store.paths.root.removeprefix("file://"))
    number = (orders.on_branch("fix") if where else orders).store.snapshots.ids()[-2]
    (root / f"{where}snapshot/snapshot-{number}").write_text("{")
    code, shown, error = run("delete-branch", "shop.orders", "--name", "fix")
    assert code == 0, error
    assert shop.table("shop.orders").branches.names() == []
    code, shown, _ = run("check", "shop.orders")
    assert (
        code == 1 and "The branch is deleted; files that nobody needs stay for `snapline remove-orphan-files`" in shown
    )


def test_a_damaged_table_is_marked_in_the_list_and_can_be_dropped(run: Run, shop: Session) -> None:
    root = Path(shop.catalog.warehouse) / "shop.db"
    (root / "orders/schema/schema-0").write_text("{")
    code, shown, _ = run("tables")
    assert code == 1 and "shop.totals" in shown
    assert "shop.orders" in shown and "damaged" in shown and "schema-0" in shown
    assert "orders" in run("sql", "--engine", "duckdb", "SHOW TABLES IN shop")[1]
    code, _, error = run("sql", "--engine", "duckdb", "DROP DATABASE shop CASCADE")
    assert code == 2 and "Nothing is dropped" in error
    assert "`snapline drop-table shop.orders --discard-damaged`" in error
    assert shop.catalog.tables("shop") == ["shop.orders", "shop.totals"]
    code, _, error = run("drop-table", "shop.totals", "--discard-damaged")
    assert code == 2 and "can be opened" in error
    assert "--discard-damaged`" in run("drop-table", "shop.orders")[2]
    assert run("drop-table", "shop.orders", "--discard-damaged")[0] == 0
    assert not (root / "orders").exists()
    assert run("tables")[0] == 0
