"""Metadata for readers of Iceberg follow whatever is done to a table, also what others do meanwhile, and what dies on the way."""

import datetime as dt
import json
import multiprocessing
from pathlib import Path
from unittest import mock
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import AddColumn, Catalog, ChangeType, DropColumn, RenameColumn, SetOptions, Table, Unsupported
from storage.data_types import DataType
from storage.iceberg import publish
from tests.interop.iceberg_reader import IcebergReader, assert_seen_alike
from tests.interop.java_paimon import JavaPaimon, since_1_3

IN_TABLE = {"metadata.iceberg.storage": "table-location"}
SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
KEYED = {**IN_TABLE, "bucket": "2"}


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("shop.t", SCHEMA, options=IN_TABLE)


def rows(*ids: int, word: str = "w") -> pa.Table:
    return pa.table([pa.array(ids, pa.int64()), [f"{word}{number}" for number in ids]], schema=SCHEMA)


def newest(table: Table) -> dict:
    directory = Path(table.directory) / "metadata"
    version = (directory / "version-hint.text").read_text()
    return json.loads((directory / f"v{version}.metadata.json").read_text())


# --- tables with a key


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_of_a_table_with_a_key_what_is_compacted_is_seen(catalog: Catalog, iceberg: IcebergReader, engine: str) -> None:
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options={**KEYED, "merge-engine": engine})
    table.write(rows(1, 2, 3))
    table.write(rows(2, 3, 4, word="later "))
    table.compact(full=True)
    assert_seen_alike(iceberg, table)
    seen = table.to_arrow()
    table.write(rows(3, 9, word="last "))
    # With first-row each write is compacted.
    assert_seen_alike(iceberg, table, ours=None if engine == "first-row" else seen)
    table.compact(full=True)
    assert_seen_alike(iceberg, table)
    assert_seen_alike(iceberg, table, "id >= 4")


def test_deleted_keys_are_not_seen(catalog: Catalog, iceberg: IcebergReader) -> None:
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options=KEYED)
    table.write(rows(*range(20)))
    table.delete("id < 5")
    table.compact(full=True)
    assert table.count() == 15
    assert_seen_alike(iceberg, table)
    table.overwrite(rows(1, 2))
    assert_seen_alike(iceberg, table)


# --- changes of columns


def test_changes_of_columns_are_followed(table: Table, iceberg: IcebergReader) -> None:
    table.write(rows(1, 2))
    table = table.alter(AddColumn("price", DataType("INT")))
    assert_seen_alike(iceberg, table)
    schema = table.schema.to_arrow()
    table.write(pa.table([[3, 4], ["c", "d"], [30, 2**31 - 1]], schema=schema))
    table = table.alter(ChangeType("price", DataType("BIGINT")), RenameColumn("word", "text"))
    assert_seen_alike(iceberg, table)
    table.write(pa.table([[5], ["e"], [2**40]], schema=table.schema.to_arrow()))
    for where in (None, "price = 30", "price > 2147483646", "text = 'w1'", "price IS NULL"):
        assert_seen_alike(iceberg, table, where)
    table = table.alter(DropColumn("text"))
    table = table.alter(AddColumn("text", DataType("VARCHAR", length=10)))
    assert_seen_alike(iceberg, table)
    table.write(pa.table([[6], [1], ["new"]], schema=table.schema.to_arrow()))
    assert_seen_alike(iceberg, table)
    assert_seen_alike(iceberg, table, "text = 'new'")


def test_a_change_of_a_type_that_its_readers_do_not_follow_is_refused(catalog: Catalog, table: Table) -> None:
    with pytest.raises(Unsupported, match="'id' is of type long for Iceberg and would be string"):
        table.alter(ChangeType("id", DataType("VARCHAR", length=2147483647)))
    other = catalog.create_table("shop.u", SCHEMA)
    other = other.alter(ChangeType("id", DataType("VARCHAR", length=2147483647)))
    with pytest.raises(Unsupported, match="'id' is of type long for Iceberg and would be string"):
        other.alter(SetOptions(IN_TABLE))


def test_files_without_ids_are_read_by_their_names(catalog: Catalog, iceberg: IcebergReader) -> None:
    """As earlier versions wrote them."""
    table = catalog.create_table("shop.t", SCHEMA)
    without_ids = mock.patch("storage.format.parquet_file.with_field_ids", lambda schema, _: schema)
    with without_ids:
        table.write(rows(1, 2))
    table = table.alter(RenameColumn("word", "text"))
    table = table.alter(SetOptions(IN_TABLE))
    assert_seen_alike(iceberg, table)
    table.write(pa.table([[3], ["c"]], schema=table.schema.to_arrow()))
    assert_seen_alike(iceberg, table)
    table = table.alter(DropColumn("text"))
    table = table.alter(AddColumn("text", DataType("VARCHAR", length=10)))
    table.write(pa.table([[3], ["c"]], schema=table.schema.to_arrow()))
    trouble = str(table.troubles()[0])
    assert "does not tell the ids of its columns, and text has been the name of several" in trouble
    table.compact(full=True)
    assert table.troubles() == []
    assert_seen_alike(iceberg, table)


# --- snapshots, tags, rollback


def test_tags_are_refs_and_expired_snapshots_go(table: Table, iceberg: IcebergReader) -> None:
    for number in range(1, 6):
        table.write(rows(number))
    table.tags.create("second", snapshot_id=2)
    table.tags.create("third", snapshot_id=3)
    assert iceberg.read(table, tag="second")["id"].to_pylist() == [1, 2]
    table.expire(retain_last=2)
    assert [snapshot["snapshot-id"] for snapshot in newest(table)["snapshots"]] == [2, 3, 4, 5]
    assert iceberg.read(table, tag="third").num_rows == 3
    assert iceberg.read(table, snapshot=4).num_rows == 4
    table.tags.delete("third")
    table.tags.rename("second", "kept")
    assert [snapshot["snapshot-id"] for snapshot in newest(table)["snapshots"]] == [2, 4, 5]
    assert list(newest(table)["refs"]) == ["kept"]
    assert_seen_alike(iceberg, table)
    for number in range(6, 9):
        table.write(rows(number))
    table.expire(retain_last=1)
    assert_seen_alike(iceberg, table)
    assert iceberg.read(table, tag="kept").num_rows == 2
    # What nobody names any more is gone.
    table.tags.delete("kept")
    lists = list((Path(table.directory) / "metadata").glob("snap-*"))
    assert [snapshot["snapshot-id"] for snapshot in newest(table)["snapshots"]] == [8]
    assert len(lists) == 1


def test_a_rollback_is_followed(table: Table, iceberg: IcebergReader) -> None:
    for number in range(1, 4):
        table.write(rows(number))
    table.rollback_to(1)
    assert_seen_alike(iceberg, table)
    table.write(rows(9))
    assert_seen_alike(iceberg, table)
    assert table.to_arrow()["id"].to_pylist() == [1, 9]


def test_manifests_are_merged(catalog: Catalog, iceberg: IcebergReader) -> None:
    limits = {"metadata.iceberg.compaction.min.file-num": "2", "metadata.iceberg.compaction.max.file-num": "4"}
    table = catalog.create_table("shop.t", SCHEMA, options={**IN_TABLE, **limits, "snapshot.num-retained.max": "10"})
    for number in range(12):
        table.write(rows(number, number + 100))
        if number % 3 == 2:
            table.delete(f"id = {number}")
        assert_seen_alike(iceberg, table)
    table.expire(retain_last=1)
    assert len(list((Path(table.directory) / "metadata").glob("*-m*.avro"))) <= 4
    assert_seen_alike(iceberg, table)


def test_older_versions_are_kept_as_asked_for(catalog: Catalog) -> None:
    options = {**IN_TABLE, "metadata.iceberg.previous-versions-max": "2"}
    table = catalog.create_table("shop.t", SCHEMA, options=options)
    for number in range(6):
        table.write(rows(number))
    names = sorted(path.name for path in (Path(table.directory) / "metadata").glob("v*.json"))
    assert names == ["v4.metadata.json", "v5.metadata.json", "v6.metadata.json"]


# --- the table as a whole


@pytest.mark.parametrize("storage", ["table-location", "hadoop-catalog"])
def test_a_renamed_table_is_seen_under_its_new_name_and_a_dropped_one_not(
    catalog: Catalog, iceberg: IcebergReader, storage: str, tmp_path: Path
) -> None:
    table = catalog.create_table("shop.t", SCHEMA, options={"metadata.iceberg.storage": storage})
    for number in range(3):
        table.write(rows(number))
    table = catalog.rename_table("shop.t", "shop.u")
    assert_seen_alike(iceberg, table)
    table.write(rows(7))
    assert_seen_alike(iceberg, table)
    assert [path.parts[-3] for path in tmp_path.rglob("version-hint.text")] == ["u"]
    catalog.drop_table("shop.u")
    assert list(tmp_path.rglob("version-hint.text")) == []
    table = catalog.create_table("shop.u", SCHEMA, options={"metadata.iceberg.storage": storage})
    table.write(rows(5))
    assert_seen_alike(iceberg, table)


def test_the_option_can_be_set_and_removed(catalog: Catalog, iceberg: IcebergReader, tmp_path: Path) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.write(rows(1))
    table = table.alter(SetOptions(IN_TABLE))
    assert_seen_alike(iceberg, table)
    table = table.alter(SetOptions({"metadata.iceberg.storage": "hadoop-catalog"}))
    assert_seen_alike(iceberg, table)
    assert len(list(tmp_path.rglob("version-hint.text"))) == 1
    table = table.alter(SetOptions({}, removed=["metadata.iceberg.storage"]))
    assert list(tmp_path.rglob("version-hint.text")) == []


def test_branches_are_not_seen_until_one_becomes_main(table: Table, iceberg: IcebergReader) -> None:
    table.write(rows(1, 2))
    table.branches.create("fix")
    branch = table.on_branch("fix")
    branch.overwrite(rows(8))
    assert_seen_alike(iceberg, table)
    table.branches.replace_main("fix")
    main = branch.on_branch("main")
    assert main.to_arrow()["id"].to_pylist() == [8]
    assert_seen_alike(iceberg, main)
    main.write(rows(9))
    assert_seen_alike(iceberg, main)


def test_orphan_cleaning_leaves_what_is_named(table: Table, iceberg: IcebergReader) -> None:
    for number in range(3):
        table.write(rows(number))
    left = Path(table.directory) / "metadata" / "left-m1.avro"
    left.write_bytes(b"of a writer that died")
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert not left.exists()
    assert_seen_alike(iceberg, table)
    for snapshot in (1, 2, 3):
        assert iceberg.read(table, snapshot=snapshot).num_rows == snapshot


# --- what dies, and who comes at the same time


def test_a_commit_stands_when_what_follows_it_fails_and_the_next_makes_up_for_it(
    table: Table, iceberg: IcebergReader
) -> None:
    table.write(rows(1))
    with mock.patch.object(publish.TableMetadata, "to_json", side_effect=OSError("no space left")):
        assert table.write(rows(2)) is not None
        table.write(rows(3))
    assert "metadata for readers of Iceberg has failed" in str(table.check()[0])
    assert iceberg.read(table)["id"].to_pylist() == [1]
    table.write(rows(4))
    assert table.troubles() == []
    assert table.check() == []
    assert_seen_alike(iceberg, table)


def test_metadata_that_lag_are_told_by_check(table: Table) -> None:
    table.write(rows(1))
    with mock.patch("storage.iceberg.publish.publish", return_value=True):
        table.write(rows(2))
    assert "show snapshot 1, and the newest is 2" in str(table.check()[0])
    table.write(rows(3))
    assert table.check() == []


def test_a_version_never_follows_a_newer_one(table: Table, iceberg: IcebergReader) -> None:
    """Somebody commits while another one publishes, at each step of that."""
    table.write(rows(1))
    for number, name in enumerate(("replace_if", "raise_number", "write_bytes"), 2):
        file_io = type(table.store.file_io)
        original = getattr(file_io, name)
        done: list[int] = []

        def first_another(*arguments: object, **more: object) -> object:
            if not done and any("metadata" in str(argument) for argument in arguments):  # noqa: B023
                done.append(1)  # noqa: B023
                table.write(rows(100 + number))  # noqa: B023
            return original(*arguments, **more)  # noqa: B023

        with mock.patch.object(file_io, name, first_another):
            table.write(rows(number))
        assert done
        assert table.troubles() == []
        assert_seen_alike(iceberg, table)


@pytest.mark.parametrize("what", ["metadata.json", "-m1.avro", "version-hint.text", "snap-"])
@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_what_is_lost_or_damaged_is_made_anew(table: Table, iceberg: IcebergReader, what: str, harm: str) -> None:
    for number in range(3):
        table.write(rows(number))
    for path in (Path(table.directory) / "metadata").iterdir():
        if what in path.name:
            path.unlink() if harm == "lost" else path.write_bytes(b"none")
    table.delete("id = 1")
    table.write(rows(7))
    assert table.troubles() == []
    assert_seen_alike(iceberg, table)


# --- Java


@since_1_3
@pytest.mark.parametrize("scheme", ["file:", ""])
def test_java_goes_on_with_the_metadata_and_this_store_with_those_of_java(
    catalog: Catalog, java: JavaPaimon, iceberg: IcebergReader, scheme: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("day", pa.date32())])
    warehouse = f"{scheme}{catalog.warehouse}"
    fields = {"id": "BIGINT", "word": "STRING", "day": "DATE"}

    def some(*ids: int) -> pa.Table:
        days = [dt.date(2024, 1, 1 + number % 2) for number in ids]
        return pa.table([ids, [f"w{number}" for number in ids], days], schema=schema)

    # The first version is Java's, which names local files as the warehouse was given to it.
    java.create(warehouse, "shop.t", fields, partition_by=["day"], options=IN_TABLE)
    table = catalog.table("shop.t")
    java.write(warehouse, "shop.t", some(1, 2), table.schema.fields)
    assert_seen_alike(iceberg, table)
    for number in (10, 20, 30):
        table = catalog.table("shop.t")
        table.write(some(number, number + 1))
        table.delete(f"id = {number}")
        assert table.troubles() == []
        assert_seen_alike(iceberg, table)
        java.write(warehouse, "shop.t", some(number + 2, number + 3), table.schema.fields)
        assert_seen_alike(iceberg, table)
        java.write(warehouse, "shop.t", some(number + 4), table.schema.fields, overwrite={})
        assert_seen_alike(iceberg, table)


def test_a_rollback_by_java_is_followed(
    catalog: Catalog, java: JavaPaimon, iceberg: IcebergReader, table: Table
) -> None:
    for number in range(1, 5):
        table.write(rows(number))
    java.ask(catalog.warehouse, "shop.t", "rollback", snapshot=2)
    table = catalog.table("shop.t")
    assert table.to_arrow().num_rows == 2
    table.write(rows(9))
    assert_seen_alike(iceberg, table)
    assert pq.read_table(next(Path(table.directory).rglob("data-*.parquet"))).num_rows == 1


# --- at each step, at once, and on other file systems


class _Stop(OSError):
    pass


def test_whoever_dies_at_a_step_leaves_it_to_the_next_commit(catalog: Catalog, iceberg: IcebergReader) -> None:
    """Each call that changes a file of the metadata fails in turn, before and after it has done it."""
    limits = {"metadata.iceberg.compaction.min.file-num": "2", "metadata.iceberg.compaction.max.file-num": "3"}
    table = catalog.create_table("shop.t", SCHEMA, options={**IN_TABLE, **limits})
    table.write(rows(0))
    file_io = type(table.store.file_io)
    names = ("write_bytes", "replace_if", "raise_number", "delete", "delete_quietly")
    number, steps = 0, 0
    for name in names:
        original = getattr(file_io, name)
        for after in (False, True):
            for step in range(10):
                number += 1
                calls: list[int] = []

                def failing(self: object, path: object, *more: object, **named: object) -> object:
                    is_meant = "/metadata/" in str(path)
                    if is_meant:
                        calls.append(1)  # noqa: B023
                    stops = is_meant and len(calls) == step + 1  # noqa: B023
                    if stops and not after:  # noqa: B023
                        raise _Stop("stopped")
                    result = original(self, path, *more, **named)  # noqa: B023
                    if stops:
                        raise _Stop("stopped")
                    return result

                with mock.patch.object(file_io, name, failing):
                    assert table.write(rows(number)) is not None
                    if number % 3 == 0:
                        table.delete(f"id = {number - 1}")
                stopped = len(calls) > step
                if not stopped:
                    break
                steps += 1
                # Whoever reads between sees a state that the table has had.
                seen = set(iceberg.read(table)["id"].to_pylist())
                assert any(
                    seen == set(table.to_arrow(version=snapshot_id)["id"].to_pylist())
                    for snapshot_id in table.store.snapshots.ids()[-3:]
                )
                number += 1
                table.write(rows(number))
                assert table.troubles() == []
                assert table.check() == []
    assert steps > 10
    assert_seen_alike(iceberg, table)


def _writer(warehouse: str, first: int) -> None:
    table = Catalog(warehouse).table("shop.t")
    for number in range(first, first + 8):
        table.write(rows(number))


def test_writers_at_once_leave_the_newest_state(catalog: Catalog, table: Table, iceberg: IcebergReader) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_writer, args=(catalog.warehouse, first)) for first in (100, 200, 300)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert table.count() == 24
    assert table.troubles() == []
    assert table.check() == []
    assert_seen_alike(iceberg, table)


def test_metadata_follow_on_a_file_system_without_directories() -> None:
    catalog = Catalog(f"memory://{uuid4()}")
    table = catalog.create_table("shop.t", SCHEMA, options={"metadata.iceberg.storage": "hadoop-catalog"})
    for number in range(5):
        table.write(rows(number))
    table.delete("id = 2")
    table.expire(retain_last=2)
    assert table.check() == []
    table = catalog.rename_table("shop.t", "shop.u")
    table.write(rows(7))
    assert table.check() == []
    assert table.troubles() == []
