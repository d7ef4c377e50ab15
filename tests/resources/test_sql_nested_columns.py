"""Fields of structs inside of arrays and maps, which ALTER TABLE names as Spark does: `a.element.x`, `m.value.x`."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import AddColumn, InvalidRequest


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A table t with a row that was written before it is altered."""
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    session = Session()
    run(
        session,
        "CREATE TABLE t (id INT, a ARRAY<STRUCT<X INT>>, m MAP<STRING, STRUCT<y INT>>, d ARRAY<ARRAY<STRUCT<z INT>>>, "
        "s STRUCT<arr ARRAY<STRUCT<q INT>>, kept INT>, p ARRAY<INT>, k MAP<STRUCT<kk INT>, INT>)",
    )
    table = session.catalog.table("default.t")
    row = {
        "id": 1,
        "a": [{"X": 1}],
        "m": [("k", {"y": 2})],
        "d": [[{"z": 3}]],
        "s": {"arr": [{"q": 4}], "kept": 5},
        "p": [1],
        "k": [({"kk": 1}, 1)],
    }
    table.write(pa.Table.from_pylist([row], table.schema.to_arrow()))
    return session


def run(session: Session, text: str) -> list[dict[str, Any]]:
    return list(session.sql(text, "duckdb").to_arrow().to_pylist())


def test_fields_inside_of_arrays_and_maps_are_added_changed_and_dropped(session: Session) -> None:
    for statement in (
        "ADD COLUMN a.element.n STRING",
        "ADD COLUMN A.ELEMENT.f INT FIRST",
        "ADD COLUMN m.value.n STRING AFTER Y",
        "ADD COLUMN d.element.element.n INT",
        "ADD COLUMN s.arr.element.n STRUCT<deep INT>",
        "ADD COLUMN s.arr.element.n.more INT",
        "ALTER COLUMN a.element.x TYPE BIGINT",
        "ALTER COLUMN a.element.n COMMENT 'a note'",
        "RENAME COLUMN m.value.y TO yy",
        "DROP COLUMN d.element.element.z",
    ):
        run(session, f"ALTER TABLE t {statement}")
    assert run(session, "SELECT a, m, d, s FROM t") == [
        {
            "a": [{"f": None, "X": 1, "n": None}],
            "m": [("k", {"yy": 2, "n": None})],
            "d": [[{"n": None}]],
            "s": {"arr": [{"q": 4, "n": None}], "kept": 5},
        }
    ]
    run(session, "INSERT INTO t SELECT id + 1, array(named_struct('f', 7, 'X', 5L, 'n', 'q')), m, d, s, p, k FROM t")
    assert run(session, "SELECT a FROM t WHERE id = 2") == [{"a": [{"f": 7, "X": 5, "n": "q"}]}]
    session.catalog.table("default.t").compact(full=True)
    assert run(session, "SELECT a FROM t ORDER BY id")[0] == {"a": [{"f": None, "X": 1, "n": None}]}
    ids = [field.id for field in session.catalog.table("default.t").schema.fields]
    assert len(ids) == len(set(ids))


def test_if_exists_knows_fields_of_structs(session: Session) -> None:
    for statement in (
        "DROP COLUMN IF EXISTS s.nope",
        "DROP COLUMN IF EXISTS s.ARR.element.nope",
        "ADD COLUMN IF NOT EXISTS a.element.x INT",
        "ADD COLUMN IF NOT EXISTS S.arr INT",
    ):
        assert run(session, f"ALTER TABLE t {statement}") == [{"result": "default.t stays as it is."}], statement
    run(session, "ALTER TABLE t ADD COLUMN IF NOT EXISTS s.b INT")
    # This was taken for a column that is not there, and nothing was dropped.
    run(session, "ALTER TABLE t DROP COLUMN IF EXISTS s.ARR")
    assert run(session, "SELECT s FROM t") == [{"s": {"kept": 5, "b": None}}]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ADD COLUMN a.x INT", r"called a\.element"),
        ("ADD COLUMN m.y2 INT", r"called m\.value"),
        ("ADD COLUMN k.key.x INT", "keys of maps stay"),
        ("ADD COLUMN p.element.x INT", r"'p\.element' of type INT has no fields"),
        ("ADD COLUMN id.x INT", "'id' of type INT has no fields"),
        ("ADD COLUMN a.element.x INT", "differ by case alone"),
        ("ADD COLUMN a.element.X INT", "exists"),
        ("ADD COLUMN a.element INT", r"called a\.element"),
        ("ADD COLUMN a.element.n INT NOT NULL", "must be nullable"),
        ("DROP COLUMN a.element.X", "is the only one"),
    ],
)
def test_what_is_no_field_is_refused_by_name(session: Session, statement: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        run(session, f"ALTER TABLE t {statement}")
    assert session.catalog.table("default.t").schema.id == 0


def test_the_store_names_them_as_well(session: Session) -> None:
    table = session.catalog.table("default.t").alter(AddColumn("a.element.n", "INT"))
    assert table.to_arrow()["a"].to_pylist() == [[{"X": 1, "n": None}]]
    with pytest.raises(InvalidRequest, match="no column"):
        table.alter(AddColumn("a.element.nope.n", "INT"))
