"""Views and statistics that are damaged are told of by `check`, and each error says what ends it."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, View, ViewColumn
from storage.engines.duckdb_statistics import analyze

SCHEMA = pa.schema([("k", pa.int64())])


def view(query: str = "SELECT k FROM d.t") -> View:
    return View(query, (ViewColumn("k", "BIGINT"),))


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b"[1]", None])
def test_a_damaged_view_is_a_line_of_check_and_can_be_replaced_or_dropped(
    catalog: Catalog, damage: bytes | None
) -> None:
    catalog.create_table("d.t", SCHEMA)
    for name in ("one", "two"):
        catalog.views.create(f"d.{name}", view())
    assert catalog.check() == []
    for name in ("one", "two"):
        file = Path(catalog.warehouse) / "d.db" / f"{name}.view"
        # A bit of what it says, unless it is all lost.
        file.write_bytes(file.read_bytes().replace(b"SELECT k", b"SELECT j") if damage is None else damage)
    problems = [str(line) for line in catalog.check()]
    assert [name in line for name, line in zip(("one.view", "two.view"), problems, strict=True)] == [True, True]
    assert all("DROP VIEW" in line for line in problems)
    with pytest.raises(CorruptData, match=r"CREATE OR REPLACE VIEW d\.one, or DROP VIEW"):
        catalog.views.get("d.one")
    catalog.views.create("d.one", view(), replaces=True)
    catalog.views.drop("d.two")
    assert catalog.check() == []


def test_a_directory_in_the_place_of_a_view_is_a_line_of_check(catalog: Catalog) -> None:
    catalog.create_table("d.t", SCHEMA)
    (Path(catalog.warehouse) / "d.db" / "v.view").mkdir()
    (line,) = catalog.check()
    assert "v.view" in str(line) and "Move that away" in str(line)


@pytest.mark.parametrize("number", ['"mergedRecordCount": 3', '"max": "2"', '"nullCount": 0'])
def test_a_digit_that_is_changed_in_statistics_is_noticed(catalog: Catalog, number: str) -> None:
    table = catalog.create_table("d.t", SCHEMA)
    table.write(pa.table({"k": [0, 1, 2]}, SCHEMA))
    made = analyze(table, None)
    assert made is not None and made.statistics is not None
    file = Path(table.store.paths.statistics(made.statistics))
    text = file.read_text()
    assert number in text
    file.write_text(text.replace(number, f"{number[:-1]}9" if number[-1] != '"' else f'{number[:-2]}9"'))
    with pytest.raises(CorruptData, match=rf"{made.statistics}.*checksum.*ANALYZE TABLE again"):
        table.system_table("statistics")
    (line,) = table.check()
    assert made.statistics in str(line)
    analyze(table, None)
    assert table.system_table("statistics")["mergedRecordCount"].to_pylist() == [3]
