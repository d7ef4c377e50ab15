"""Tables without a key count rows: a row of kind -D takes away one that equals it."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, InvalidRequest, Overwrite, Table
from storage.metadata.snapshot import Snapshot
from storage.write.table_write import CommitMessage

SCHEMA = pa.schema(
    [
        ("day", pa.string()),
        ("n", pa.int64()),
        ("text", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int64()), ("y", pa.float64())])),
    ]
)


@pytest.fixture(params=["unpartitioned", "partitioned", "bucketed"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    more: dict[str, Any] = {"partitioned": {"partition_by": ["day"]}}.get(request.param, {})
    if request.param == "bucketed":
        more = {"options": {"bucket": 2, "bucket-key": "n"}}
    return catalog.create_table("a.t", SCHEMA, **more)


def changes(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=False)]
    return pa.Table.from_arrays([*arrays, pa.array(columns[-1])], [*SCHEMA.names, "op"])


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str(list(row.values())) for row in rows)


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_a_multiset(table: Table, seed: int) -> None:
    chosen = random.Random(seed)
    expected: Counter[str] = Counter()
    known: dict[str, tuple[Any, ...]] = {}
    for _ in range(12):
        rows: list[tuple[Any, ...]] = []
        for _ in range(chosen.randint(1, 10)):
            held = [text for text, count in expected.items() if count > 0]
            if held and chosen.random() < 0.5:
                text = chosen.choice(held)
                rows.append((*known[text], chosen.choice(["-D", "-U"])))
                expected[text] -= 1
                continue
            row = (
                chosen.choice(["x", "y", None]),
                chosen.choice([1, 2, None]),
                chosen.choice(["a", "", None]),
                chosen.choice([["p"], ["p", None], [], None]),
                chosen.choice([{"x": 1, "y": None}, {"x": 1, "y": 0.5}, None]),
            )
            text = str(list(row))
            known[text] = row
            expected[text] += 1
            rows.append((*row, chosen.choice(["+I", "+U"])))
        table.write(changes(rows), row_kind_column="op")
        assert counted(table.to_arrow().to_pylist()) == +expected, f"seed {seed}"
    seen: Counter[str] = Counter()
    for row in table.changes().to_pylist():
        kind = row.pop("rowkind")
        del row["snapshot_id"]
        seen[str(list(row.values()))] += 1 if kind == "+I" else -1
    assert +seen == +expected


def test_a_row_that_is_not_there_is_named_and_nothing_is_written(table: Table) -> None:
    table.write(changes([("x", 1, "a", None, None, "+I")]), row_kind_column="op")
    before = sorted(file.name for file in _data_files(table))
    with pytest.raises(InvalidRequest, match=r"1 rows of kind -U or -D are not in .*'n': 2"):
        rows = [("x", 1, "a", None, None, "-D"), ("x", 2, "a", None, None, "-D"), ("y", 5, "new", None, None, "+I")]
        table.write(changes(rows), row_kind_column="op")
    assert table.count() == 1
    assert sorted(file.name for file in _data_files(table)) == before


def _data_files(table: Table) -> list[Any]:
    root = table.store.paths.root
    io = table.store.file_io
    places = [f"{root}/{name}" for name in io.list_directories(root)]
    places += [f"{directory}/{name}" for directory in places for name in io.list_directories(directory)]
    return [file for place in places if "bucket-" in place for file in io.list_files(place)]


def test_a_repeated_commit_takes_away_once(table: Table) -> None:
    table.write(changes([("x", 1, "a", None, None, "+I")] * 3), row_kind_column="op")
    retraction = changes([("x", 1, "a", None, None, "-D")])
    for _ in range(2):
        table.write(retraction, row_kind_column="op", commit_id=CommitId("job", 7))
    assert table.count() == 2


def test_an_overwrite_takes_no_retractions(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="takes no rows of kind"):
        table.new_write(replaces=True).write(changes([("x", 1, "a", None, None, "-D")]), "op")


def taking_away(catalog: Catalog) -> tuple[Table, CommitMessage]:
    """A table that holds 1 and 2, and what a writer has written that takes 1 away and adds 3."""
    schema = pa.schema([("n", pa.int64())])
    table = catalog.create_table("a.few", schema)
    table.write(pa.table({"n": [1, 2]}, schema))
    writer = table.new_write()
    writer.write(pa.table({"n": pa.array([1, 3], pa.int64()), "op": ["-D", "+I"]}), "op")
    return table, writer.prepare_commit()


def test_a_guard_is_asked_before_each_try_and_refuses_at_once(catalog: Catalog) -> None:
    table, message = taking_away(catalog)
    asked: list[int] = []

    def guard(latest: Snapshot | None) -> None:
        asked.append(latest.id if latest else 0)
        raise CommitConflict("Refused by the guard.")

    with pytest.raises(CommitConflict, match="Refused by the guard"):
        table.commit_messages([message], guard=guard)
    assert asked == [1]
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2]
    assert not any(table.store.file_io.exists(path) for path in message.paths)


@pytest.mark.parametrize("name", ["overwrite", "deleted"])
def test_rows_that_take_others_away_go_with_nothing_else_that_does(catalog: Catalog, name: str) -> None:
    table, message = taking_away(catalog)
    more: dict[str, Any] = {"overwrite": Overwrite()} if name == "overwrite" else {"deleted": table.scan().entries}
    with pytest.raises(InvalidRequest, match=f"cannot be committed with {name}"):
        table.commit_messages([message], **more)
    assert sorted(table.to_arrow()["n"].to_pylist()) == [1, 2]
    assert not any(table.store.file_io.exists(path) for path in message.paths)
