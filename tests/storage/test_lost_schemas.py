"""Tables and branches whose schema, or MAIN-BRANCH, is lost or damaged: nothing is taken for a place that is free."""

import datetime as dt
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import LineageRecorder, open_lineage_store, rebuild
from storage import AlreadyExists, Catalog, CommitConflict, CorruptData, InvalidRequest, NotFound, Table

pytestmark = [
    pytest.mark.pypaimon_differs("schemas are lost on purpose"),
    pytest.mark.java_differs("schemas are lost on purpose"),
]
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"k": list(ids), "v": list(ids)}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "warehouse"))


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = catalog.create_table("d.t", SCHEMA, primary_key=["k"], options={"bucket": 1})
    for number in range(3):
        table.write(rows(number))
    catalog.create_table("d.sound", SCHEMA).write(rows(1))
    return table


def make_again(catalog: Catalog) -> Table:
    return catalog.create_table("d.t", SCHEMA, primary_key=["k"], options={"bucket": 1}, if_not_exists=True)


def lose_schema(table: Table) -> Path:
    lost = Path(table.store.paths.schema(0))
    lost.rename(lost.parents[2] / "kept")
    return lost


def lose_all_schemas(table: Table) -> Path:
    lost = Path(table.store.paths.schema_directory)
    shutil.move(lost, lost.parents[1] / "kept")
    return lost


def lose_main_branch(table: Table) -> Path:
    table.branches.create("b")
    table.branches.replace_main("b")
    lost = Path(table.store.paths.main_branch_file)
    lost.rename(lost.parents[1] / "kept")
    return lost


@pytest.mark.parametrize("lose", [lose_schema, lose_all_schemas, lose_main_branch])
def test_a_table_whose_schema_is_lost_is_not_made_anew(catalog: Catalog, table: Table, lose) -> None:  # type: ignore[no-untyped-def]
    expected = table.to_arrow()
    lost = lose(table)
    for act in (
        lambda: make_again(catalog),
        lambda: catalog.table("d.t"),
        lambda: catalog.rename_table("d.sound", "d.t"),
        lambda: catalog.drop_table("d.t"),
        lambda: catalog.drop_database("d", cascade=True),
    ):
        # Where main was there is a schema that names the branch: the name is taken.
        taken = (AlreadyExists,) if lose is lose_main_branch else ()
        message = (
            r"(neither a schema nor MAIN-BRANCH|MAIN-BRANCH is lost).*drop-table d.t --discard-damaged|Table d.t exists"
        )
        with pytest.raises((CorruptData, *taken), match=message):
            act()
    assert catalog.tables() == ["d.sound", "d.t"]
    shutil.move(lost.parents[1] / "kept" if lose is not lose_schema else lost.parents[2] / "kept", lost)
    assert catalog.table("d.t").to_arrow().equals(expected)
    lose(catalog.table("d.t")) if lose is not lose_main_branch else lost.unlink()
    catalog.drop_table("d.t", discard_damaged=True)
    assert make_again(catalog).count() == 0
    assert catalog.table("d.sound").count() == 1


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"no branch of it"])
def test_a_damaged_name_of_main_stops_nobody_else_and_is_dropped(
    catalog: Catalog, table: Table, content: bytes, tmp_path: Path
) -> None:
    table.branches.create("b")
    table.branches.replace_main("b")
    Path(table.store.paths.main_branch_file).write_bytes(content)
    assert catalog.tables() == ["d.sound", "d.t"]
    with pytest.raises(CorruptData, match=r"drop-table d\.t --discard-damaged"):
        catalog.table("d.t")
    with pytest.raises(CorruptData):
        make_again(catalog)
    store = open_lineage_store({"jdbc.url": f"jdbc:sqlite:{tmp_path}/lineage.db"})
    assert rebuild(catalog, LineageRecorder(catalog.name, {catalog.name: store}, tables=True, snapshots=True)) == 1
    catalog.drop_table("d.t", discard_damaged=True)
    assert catalog.tables() == ["d.sound"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_branch_that_cannot_be_opened_is_deleted(catalog: Catalog, table: Table, is_lost: bool) -> None:
    table.branches.create("b")
    table.on_branch("b").write(rows(9))
    schema = Path(table.on_branch("b").store.paths.schema(0))
    content = schema.read_bytes()
    schema.write_bytes(content[:100])
    if is_lost:
        schema.unlink()
        assert any("is lost" in str(problem) for problem in table.check())
        with pytest.raises(CorruptData, match="its schema is lost"):
            table.branches.create("b")
    with pytest.raises(CorruptData, match="schema-0"):
        table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    table.expire(retain_last=1)
    schema.write_bytes(content)
    # Nothing that the branch needs has been taken.
    assert sorted(table.on_branch("b").to_arrow()["k"].to_pylist()) == [0, 1, 2, 9]
    schema.unlink() if is_lost else schema.write_bytes(b"{")
    table.branches.delete("b")
    assert table.branches.names() == []
    with pytest.raises(NotFound):
        table.branches.delete("b")
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.check(deep=True) == []
    assert table.count() == 3


def test_main_is_not_deleted_as_a_damaged_branch(catalog: Catalog, table: Table) -> None:
    table.branches.create("b")
    table.branches.replace_main("b")
    opened = catalog.table("d.t")
    Path(opened.store.paths.schema(0)).write_bytes(b"{")
    with pytest.raises((CorruptData, CommitConflict, NotFound, InvalidRequest)):
        opened.branches.delete("b")
    assert Path(opened.store.paths.schema(0)).exists()
    with pytest.raises((AlreadyExists, CorruptData)):
        make_again(catalog)


@pytest.mark.parametrize("name", ["LATEST", "EARLIEST"])
def test_a_directory_in_the_place_of_a_hint_is_not_believed(catalog: Catalog, table: Table, name: str) -> None:
    hint = Path(table.store.paths.snapshot_directory) / name
    hint.unlink(missing_ok=True)
    hint.mkdir()
    opened = catalog.table("d.t")
    assert opened.count() == 3
    opened.write(rows(7))
    opened.consumers.reset("reader", 2)
    opened.tags.create("x")
    assert opened.count() == 4
    assert [name in str(problem) for problem in opened.check()] == [True]


def test_no_advice_to_go_back_to_what_needs_the_lost_schema_as_well(catalog: Catalog, table: Table) -> None:
    from storage import SetOptions

    table.alter(SetOptions({"snapshot.num-retained.min": "3"}))
    lose_schema(table)
    with pytest.raises(CorruptData, match=r"(?!.*rollback).*restore the file"):
        catalog.table("d.t").to_arrow()
