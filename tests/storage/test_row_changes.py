"""Deleting and updating single rows, and reading what commits changed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, InvalidRequest, NotFound, Table, Unsupported

SCHEMA = pa.schema([("day", pa.string()), ("id", pa.int64()), ("text", pa.string())])


@pytest.fixture(params=["keyed", "plain"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    keyed = {"primary_key": ["day", "id"], "options": {"bucket": 2}}
    made = catalog.create_table("a.b", SCHEMA, partition_by=["day"], **(keyed if request.param == "keyed" else {}))
    for first in (0, 10):
        ids = range(first, first + 10)
        made.write(
            pa.table({"day": ["xy"[number % 2] for number in ids], "id": ids, "text": [f"t{number}" for number in ids]})
        )
    return made


def rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow(**options).to_pylist()), key=str)


def test_rows_are_deleted_and_the_rest_stays(table: Table) -> None:
    before = rows(table)
    snapshot = table.delete("id IN (3, 4) OR text = 't15'")
    assert snapshot is not None
    assert snapshot.operation == "DELETE"
    assert rows(table) == [row for row in before if row[1] not in (3, 4, 15)]
    assert rows(table, version=2) == before
    assert table.delete("id = 77") is None


def test_files_in_which_nothing_matches_are_not_written_anew(events: Table) -> None:
    for what in ("a", "b"):
        events.write(pa.table({"day": ["x", "x", "y"], "what": [what, "other", what]}))
    changes = events.changes_of(events.delete("what = 'a' AND day = 'x'"))  # type: ignore[arg-type]
    assert (changes.files_deleted, changes.files_added, changes.rows_added) == (1, 1, 1)


def test_a_file_whose_rows_all_match_disappears(table: Table) -> None:
    table.delete("id < 10 AND day = 'x'")
    assert table.count() == 15
    table.delete("id >= 0")
    assert table.count() == 0


def test_columns_of_matching_rows_are_set(table: Table) -> None:
    snapshot = table.update("day = 'x' AND id > 14", {"text": "changed"})
    assert snapshot is not None
    assert snapshot.operation == "UPDATE"
    assert rows(table, where="text = 'changed'") == [("x", 16, "changed"), ("x", 18, "changed")]
    table.update("id = 16", {"text": None})
    assert rows(table, where="text IS NULL") == [("x", 16, None)]
    assert table.count() == 20
    assert table.update("id = 77", {"text": "x"}) is None


def test_an_update_that_cannot_be_is_refused(table: Table) -> None:
    with pytest.raises(InvalidRequest, match="says where a row lies"):
        table.update("id = 1", {"day": "z"})
    with pytest.raises(InvalidRequest, match="no column 'nope'"):
        table.update("id = 1", {"nope": 1})
    with pytest.raises(InvalidRequest, match="not text"):
        table.update("id = 1", {"text": 5})
    with pytest.raises(InvalidRequest, match="at least one"):
        table.update("id = 1", {})


def test_an_update_of_a_table_that_merges_is_refused(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.c",
        pa.schema([("id", pa.int64()), ("n", pa.int64())]),
        primary_key=["id"],
        options={"bucket": 1, "merge-engine": "aggregation"},
    )
    with pytest.raises(Unsupported, match="is merged, not replaced"):
        table.update("id = 1", {"n": 1})


def test_an_update_below_what_is_there_is_refused(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("first", pa.float64()), ("second", pa.int64())])
    options = {"bucket": 1, "sequence.field": "first,second"}
    table = catalog.create_table("a.t", schema, primary_key=["id"], options=options)
    table.write(pa.table({"id": [1, 2], "first": [0.5, None], "second": [5, 5]}, schema))
    for values in ({"first": 0.25}, {"first": None}, {"second": 4}, {"second": None}, {"first": 0.5, "second": 1}):
        with pytest.raises(Unsupported, match=r"sequence\.field"):
            table.update("id = 1", values)
    latest = table.snapshot()
    assert latest is not None
    assert latest.id == 1
    table.update("id = 1", {"first": 0.75, "second": 0})
    table.update("id = 2", {"second": 5})
    assert table.update("id = 3", {"first": None}) is None
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "first": [0.75, None], "second": [0, 5]}


def test_a_delete_by_key_is_refused_where_deletes_are_ignored(catalog: Catalog) -> None:
    rows = pa.table({"id": [1, 2], "v": [1, 2]})
    keyed = catalog.create_table(
        "a.keyed", rows.schema, primary_key=["id"], options={"bucket": 1, "ignore-delete": True}
    )
    plain = catalog.create_table("a.plain", rows.schema, options={"ignore-delete": True})
    for table in (keyed, plain):
        table.write(rows)
    with pytest.raises(Unsupported, match="ignore-delete"):
        keyed.delete("id = 1")
    assert keyed.count() == 2
    # Files are written anew here: no row of kind -D is needed.
    plain.delete("id = 1")
    assert plain.count() == 1


def test_a_rewrite_that_another_overtook_is_done_again(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("a.c", pa.schema([("id", pa.int64())]))
    table.write(pa.table({"id": [1, 2, 3]}))
    from storage import matching_rows as module

    real = module.rewrite_files

    def overtaken(*arguments: Any) -> Any:
        result = real(*arguments)
        Catalog(str(tmp_path / "warehouse")).table("a.c").delete("id = 2")
        return result

    monkeypatch.setattr(module, "rewrite_files", lambda *arguments: (monkeypatch.undo(), overtaken(*arguments))[1])
    table.delete("id = 1")
    assert rows(table) == [(3,)]


# --- changes


def changed(table: Table, *versions: Any, **options: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.changes(*versions, **options).to_pylist()), key=str)


def test_changes_are_the_rows_that_commits_wrote_with_their_kinds(catalog: Catalog) -> None:
    table = catalog.create_table(
        "a.c", pa.schema([("id", pa.int64()), ("v", pa.string())]), primary_key=["id"], options={"bucket": 1}
    )
    assert changed(table) == []
    table.write(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.write(pa.table({"id": [2, 1], "v": ["B", "a"], "op": ["+U", "-D"]}), row_kind_column="op")
    table.tags.create("two")
    table.compact()
    table.write(pa.table({"id": [3], "v": ["c"]}))
    everything = [("+I", 1, 1, "a"), ("+I", 1, 2, "b"), ("+I", 4, 3, "c"), ("+U", 2, 2, "B"), ("-D", 2, 1, "a")]
    assert changed(table) == everything
    assert changed(table, 1, "two") == [("+U", 2, 2, "B"), ("-D", 2, 1, "a")]
    assert changed(table, "two") == [("+I", 4, 3, "c")]
    assert changed(table, 4) == []
    assert changed(table, columns=["v"], where="id = 2") == [("+I", 1, "b"), ("+U", 2, "B")]


def test_an_overwrite_shows_what_was_there_and_what_came(table: Table) -> None:
    table.overwrite(pa.table({"id": [100], "text": ["new"]}), partition={"day": "x"})
    changes = changed(table, 2)
    gone = [(kind, row[2:]) for kind, *row in changes if kind == "-D"]
    assert len(gone) == 10
    assert [row for row in changes if row[0] == "+I"] == [("+I", 3, "x", 100, "new")]


def test_applying_all_changes_gives_the_table(table: Table) -> None:
    table.delete("id IN (1, 2)")
    table.update("id = 5", {"text": "five"})
    state: dict[tuple[str, int], str] = {}
    for kind, _, day, number, text in [tuple(row.values()) for row in table.changes().to_pylist()]:
        if kind in ("+I", "+U"):
            state[day, number] = text
        else:
            state.pop((day, number), None)
    assert sorted(((*key, text) for key, text in state.items()), key=str) == rows(table)


def test_changes_of_all_versions_are_shown_in_the_newest_schema(table: Table) -> None:
    later = table.alter(AddColumn("more", pa.int32()))
    later.write(pa.table({"day": ["x"], "id": [50], "text": ["t"], "more": pa.array([1], pa.int32())}))
    changes = later.changes(where="id IN (4, 50)")
    assert sorted(zip(changes["id"].to_pylist(), changes["more"].to_pylist(), strict=True)) == [(4, None), (50, 1)]


def test_expired_changes_are_said_to_be_gone(table: Table) -> None:
    table.store.file_io.delete(table.store.paths.snapshot(1))
    with pytest.raises(NotFound, match="Snapshot 1 does not exist"):
        table.changes()
