"""File indexes: no row is lost by them, damage is named, and what belongs to a data file goes where it goes."""

import datetime as dt
import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, DropColumn, InvalidRequest, RenameColumn, SetOptions, Table, Unsupported
from storage.data_types import BYTES, DataField, DataType
from storage.format.file_index.bloom_filter import hashes
from storage.format.file_index.container import read_container, write_container
from storage.read.predicate import And, Comparison, IsIn, Or, Predicate
from tests import scale
from tests.indexed_tables import Shape, condition, ids

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
SEEDS = scale.seeds(12, 4000, full=120)


def rows_of(first: int, names: list[str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + len(names)), pa.int64()), "name": pa.array(names, pa.string())}
    )


def indexed(catalog: Catalog, threshold: str = "500 b") -> Table:
    """Three files whose names overlap as texts do, each with other names."""
    options = {"file-index.bloom-filter.columns": "name", "file-index.bloom-filter.name.items": "1000"}
    table = catalog.create_table("shop.t", SCHEMA, options={**options, "file-index.in-manifest-threshold": threshold})
    for place in range(3):
        table.write(rows_of(10 * place, ["a", f"m{place}", "z", None]))
    return table


def files_left(table: Table, where: Predicate | str) -> int:
    return sum(len(section.files) for split in table.scan(where=where).splits for section in split.sections)


def index_files(table: Table) -> list[Path]:
    return sorted(Path(table.store.paths.root).rglob("*.index"))


@pytest.mark.pypaimon_differs("it reads TIMESTAMP(9) of Parquet as microseconds")
@pytest.mark.parametrize("seeds", scale.blocks(SEEDS, 6), ids=str)
def test_no_row_is_lost(tmp_path: Path, seeds: list[int]) -> None:
    scale.try_seeds(_try_conditions, seeds, tmp_path)


def _try_conditions(seed: int, directory: Path) -> None:
    rng = random.Random(seed)
    shape = Shape(rng, plain=False)
    keyed = rng.random() < 0.4
    options = {**shape.options, "bucket": "1"} if keyed else shape.options
    fields = pa.schema([pa.field(name, each.to_arrow()) for name, each in shape.types.items()])
    catalog = Catalog(str(directory))
    table = catalog.create_table("d.t", _fields(shape), primary_key=["id"] if keyed else (), options=options)
    written = []
    for place in range(rng.randint(2, 5)):
        # Files of a key that do not overlap are skipped by their values, others are merged.
        first = place * 1000 if rng.random() < 0.7 else 0
        written.append(shape.rows(rng.choice([1, 30, 300]), first))
        table.write(written[-1])
    rows = pa.concat_tables(written).cast(fields)
    everything = pa.concat_tables([table.to_arrow()]).combine_chunks()
    skipped = 0
    for _ in range(40):
        predicate, _java = condition(shape, rows)
        for each in (predicate, ~predicate):
            bound = each.bind(table.schema)
            (batch,) = everything.to_batches()
            expected = pa.Table.from_batches([bound.filter(batch)])
            scan = table.scan(where=each)
            assert ids(scan.to_arrow()) == ids(expected), each
            skipped += len(scan.entries) - files_left(table, each)
    assert skipped or keyed or seed


def _fields(shape: Shape) -> list[DataField]:
    return [DataField(place, name, each) for place, (name, each) in enumerate(shape.types.items())]


def test_files_are_left_alone(catalog: Catalog) -> None:
    table = indexed(catalog)
    assert files_left(table, "name = 'm1'") == 1
    assert files_left(table, "name = 'nobody'") == 0
    assert files_left(table, "name IN ('m0', 'm2')") == 2
    assert files_left(table, "name = 'm1' AND id > 25") == 0
    assert files_left(table, "name = 'm1' OR name = 'm2'") == 2
    # What the filter does not know, it does not tell.
    assert files_left(table, "name > 'm1'") == 3
    assert files_left(table, "name IS NULL") == 3
    # The scan of splits that another one planned.
    splits = table.scan().splits
    assert [len(each.sections) for each in table.scan(where="name = 'm1'").narrowed(splits)] == [1]
    table = table.alter(SetOptions({"file-index.read.enabled": "false"}))
    assert files_left(table, "name = 'm1'") == 3


def test_a_row_whose_newer_version_lies_elsewhere_does_not_come_up(catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.k",
        SCHEMA,
        primary_key=["id"],
        options={"bucket": "1", "file-index.bitmap.columns": "name", "write-only": "true"},
    )
    table.write(rows_of(0, ["old", "old"]))
    table.write(rows_of(0, ["new", "new"]))
    assert table.to_arrow(where="name = 'old'").num_rows == 0
    assert table.to_arrow(where="name = 'new'").num_rows == 2


def test_large_indexes_lie_beside_their_files_and_go_with_them(catalog: Catalog) -> None:
    table = indexed(catalog, threshold="0 b")
    table = catalog.table("shop.t")
    entries = table.scan().entries
    assert all(
        re.fullmatch(re.escape(each.file.name) + r"\.[0-9a-f]{8}\.index", each.file.extra_files[0]) for each in entries
    )
    assert all(each.file.embedded_index is None for each in entries)
    assert len(index_files(table)) == 3 and files_left(table, "name = 'm1'") == 1
    assert table.check(deep=True) == []
    assert not table.remove_orphan_files(older_than=dt.timedelta(), no_writers=True) and len(index_files(table)) == 3
    table.compact(full=True)
    assert len(index_files(table)) == 4 and files_left(table, "name = 'nobody'") == 0
    table.expire(retain_last=1)
    (left,) = index_files(table)
    assert left.with_suffix("").with_suffix("").exists()
    left.with_name("data-nobody.parquet.index").write_bytes(b"of a writer that died")
    table.remove_orphan_files(older_than=dt.timedelta(), no_writers=True)
    assert index_files(table) == [left]


def test_a_missing_or_damaged_index_is_named(catalog: Catalog) -> None:
    table = indexed(catalog, threshold="0 b")
    path = index_files(table)[1]
    content = path.read_bytes()
    for harm in (content[:30], b"", b"x" * len(content), content[:-60] + content[-20:]):
        path.write_bytes(harm)
        with pytest.raises(CorruptData, match=path.name):
            table.to_arrow(where="name = 'm1'")
    path.unlink()
    with pytest.raises(CorruptData, match=rf"{path.name} is missing.*file-index.read.enabled"):
        table.to_arrow(where="name = 'm1'")
    assert any(path.name in str(each) for each in table.check())
    assert table.to_arrow().num_rows == 12
    unread = table.alter(SetOptions({"file-index.read.enabled": "false"}))
    assert unread.to_arrow(where="name = 'm1'").num_rows == 1
    path.write_bytes(content)


def test_an_index_of_another_number_of_rows_is_damage(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    # Names of other writers tell no checksum.
    monkeypatch.setattr("storage.read.file_indexes.is_damaged", lambda name, content: False)
    table = catalog.create_table(
        "shop.t", SCHEMA, options={"file-index.range-bitmap.columns": "id", "file-index.in-manifest-threshold": "0 b"}
    )
    for count in (3, 4):
        table.write(rows_of(0, ["x"] * count))
    first, second = index_files(table)
    content = [first.read_bytes(), second.read_bytes()]
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    with pytest.raises(CorruptData, match=r"is of \d rows, the data file has \d"):
        table.to_arrow(where="id = 2")
    first.write_bytes(content[0])
    second.write_bytes(content[1])


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"bloom-filter.columns": "nobody"}, InvalidRequest, "no column 'nobody'"),
        ({"bloom-filter.columns": "yes"}, Unsupported, "bloom-filter.*'yes' of type BOOLEAN"),
        ({"bsi.columns": "name"}, Unsupported, "bsi.*'name' of type STRING"),
        ({"bitmap.columns": "d38"}, Unsupported, "bitmap.*'d38'"),
        ({"range-bitmap.columns": "d38"}, Unsupported, "range-bitmap.*'d38'"),
        ({"bitmap.columns": "fine"}, Unsupported, "bitmap.*'fine' of type TIMESTAMP"),
        ({"bitmap.columns": "m[a]"}, Unsupported, "single keys of maps"),
        ({"bitmap.columns": "m"}, Unsupported, "'m' of type MAP"),
        ({"other.columns": "name"}, Unsupported, "no file index of that type"),
        ({"bloom-filter.columns": "id,,name"}, InvalidRequest, "empty column name"),
        ({"bloom-filter.name.items": "3"}, InvalidRequest, "not named by 'file-index.bloom-filter.columns'"),
        ({"bloom-filter.columns": "name", "bloom-filter.name.item": "3"}, InvalidRequest, "items, fpp"),
        ({"bloom-filter.columns": "name", "bloom-filter.name.items": "0"}, InvalidRequest, "1 at the least"),
        ({"bloom-filter.columns": "name", "bloom-filter.name.items": "x"}, InvalidRequest, "bloom-filter.name"),
        ({"bloom-filter.columns": "name", "bloom-filter.name.fpp": "1"}, InvalidRequest, "between 0 and 1"),
        ({"bloom-filter.columns": "name", "bloom-filter.name.items": "999999999"}, InvalidRequest, "more bits"),
        ({"bitmap.columns": "name", "bitmap.name.version": "3"}, InvalidRequest, "1 or 2"),
        ({"bitmap.columns": "name", "bitmap.name.index-block-size": "1 b"}, InvalidRequest, "64 b"),
    ],
)
def test_what_cannot_be_indexed_is_refused(
    catalog: Catalog, options: dict[str, str], error: type[Exception], match: str
) -> None:
    schema = pa.schema(
        [
            *SCHEMA,
            ("yes", pa.bool_()),
            ("d38", pa.decimal128(38, 2)),
            ("fine", pa.timestamp("ns")),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    given = {f"file-index.{key}": value for key, value in options.items()}
    with pytest.raises(error, match=match):
        catalog.create_table("shop.t", schema, options=given)
    table = catalog.create_table("shop.t", schema)
    with pytest.raises(error, match=match):
        table.alter(SetOptions(given))


def test_options_follow_renamed_columns_and_hold_dropped_ones(catalog: Catalog) -> None:
    table = indexed(catalog)
    with pytest.raises(InvalidRequest, match=r"'name' is named by option 'file-index.bloom-filter.columns'"):
        table.alter(DropColumn("name"))
    table = table.alter(RenameColumn("name", "title"))
    assert table.schema.options["file-index.bloom-filter.columns"] == "title"
    assert table.schema.options["file-index.bloom-filter.title.items"] == "1000"
    assert files_left(table, "title = 'm1'") == 1
    table.write(pa.table({"id": pa.array([70], pa.int64()), "title": ["q"]}))
    assert files_left(table, "title = 'q'") == 1 and files_left(table, "title = 'm1'") == 1


def test_branches_and_copies_carry_their_indexes_along(catalog: Catalog) -> None:
    table = indexed(catalog, threshold="0 b")
    table.branches.create("b")
    branch = table.on_branch("b")
    branch.write(rows_of(80, ["branch"]))
    assert files_left(branch, "name = 'branch'") == 1 and files_left(branch, "name = 'm1'") == 1
    catalog.rename_table("shop.t", "shop.renamed")
    renamed = catalog.table("shop.renamed")
    assert files_left(renamed, "name = 'm1'") == 1 and renamed.check(deep=True) == []


def test_writers_of_a_key_at_once_keep_their_indexes(catalog: Catalog) -> None:
    """The writer that comes second writes its file again, under another name and with other numbers."""
    options = {"bucket": "1", "file-index.bitmap.columns": "name", "file-index.in-manifest-threshold": "0 b"}
    table = catalog.create_table("shop.k", SCHEMA, primary_key=["id"], options={**options, "write-only": "true"})
    first, second = (catalog.table("shop.k").new_write() for _ in range(2))
    first.write(rows_of(0, ["a"]))
    second.write(rows_of(10, ["b"]))
    for message in [each.prepare_commit() for each in (first, second)]:
        catalog.table("shop.k").commit_messages([message])
    assert files_left(table, "name = 'b'") == 1
    assert table.check(deep=True) == []
    table.remove_orphan_files(older_than=dt.timedelta(), no_writers=True)
    assert len(index_files(table)) == 2


def test_xxh64_of_known_texts() -> None:
    texts = [b"", b"a", b"abc", b"Nobody inspects the spammish repetition", bytes(range(100))]
    matching = hashes(pa.array(texts, pa.binary()), BYTES).tolist()
    assert matching[:4] == [0xEF46DB3751D8E999, 0xD24EC4F1A98C6E5B, 0x44BC2CF5AD770999, 0xFBCEA83C8A378BF1]
    assert hashes(np.array([0, 1, -1], np.int64), DataType("BIGINT")).dtype == np.uint64


def test_the_container_of_names_beyond_ascii() -> None:
    indexes = {"é\U0001f600\0": {"bitmap": b"xyz"}, "b": {"bsi": b"", "bitmap": b"1"}}
    data = write_container(indexes)
    read = read_container(data, "x")
    got = {
        name: {kind: data[each.start : each.start + each.length] for kind, each in by_kind.items()}
        for name, by_kind in read.items()
    }
    assert got == indexes


def test_conditions_of_several_parts_are_narrowed_by_rows(catalog: Catalog) -> None:
    """Each part alone has rows in the file, both together none."""
    table = catalog.create_table("shop.t", SCHEMA, options={"file-index.bitmap.columns": "id,name"})
    table.write(rows_of(0, ["a", "b", "c"]))
    both = And((Comparison("id", "=", 0), Comparison("name", "=", "b")))
    assert files_left(table, both) == 0
    assert files_left(table, Or((both, IsIn("id", (2, 7))))) == 1


def test_bytes_that_were_changed_end_in_an_answer_or_in_damage_that_is_named(catalog: Catalog) -> None:
    kinds = ("bloom-filter", "bitmap", "range-bitmap")
    options = {f"file-index.{kind}.columns": "id,name" for kind in kinds}
    options |= {"file-index.bsi.columns": "id", "file-index.in-manifest-threshold": "0 b"}
    options |= {f"file-index.bloom-filter.{name}.items": "20" for name in ("id", "name")}
    table = catalog.create_table("shop.t", SCHEMA, options=options)
    table.write(rows_of(0, ["a", "b" * 40, None, "c"] * 20))
    (path,) = index_files(table)
    content, rng = path.read_bytes(), random.Random(7)
    for _ in range(scale.amount(60, 5000, full=400)):
        changed = bytearray(content)
        for _ in range(rng.choice([1, 1, 3])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        for where in ("id = 3", "id < 9", "name = 'b'", "name LIKE 'a%'", "name IS NULL", "NOT id IN (1, 2)"):
            try:
                assert len(table.scan(where=where).splits) <= 1
            except CorruptData as error:
                assert path.name in str(error)
    path.write_bytes(content)
