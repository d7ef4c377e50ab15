"""A writer that hashed its rows before a table was rescaled, perhaps to and fro: the commit is refused, or no key is twice."""

from itertools import chain, product
from pathlib import Path

import pytest
from pyarrow import Table as Rows
from pyarrow import int64, schema

from storage import Catalog, StorageError, Table
from storage.maintain import rescale
from tests.scale import amount

_SCHEMA = schema([("k", int64()), ("v", int64())])
_KINDS = {
    "with a key": ({"primary_key": ["k"]}, {"bucket": "3"}),
    "lookup": ({"primary_key": ["k"]}, {"bucket": "3", "changelog-producer": "lookup"}),
    "without a key": ({}, {"bucket": "3", "bucket-key": "k"}),
}
_STEPS = ("to 1", "to 3", "begun to 1", "begun to 3", "back", "overwrite", "write")


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("first", _STEPS)
def test_a_commit_comes_after_rescales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, first: str) -> None:
    definition, options = _KINDS[kind]
    others = chain(*(product(_STEPS, repeat=count) for count in range(amount(usual=2, full=3, long=4))))
    for place, steps in enumerate((first, *each) for each in others):
        name = f"d.t{place}"
        table = Catalog(str(tmp_path)).create_table(name, _SCHEMA, **definition, options=options)  # type: ignore[arg-type]
        rows = dict.fromkeys(range(20), 0)
        _write(table, rows)
        writer = table.new_write()
        late = {key if definition else key + 100: 1 for key in range(8)}
        writer.write(_rows(late))
        message = writer.prepare_commit()
        for number, step in enumerate(steps):
            _do(Catalog(str(tmp_path)).table(name), monkeypatch, step, rows, number)
        try:
            table.commit_messages([message])
        except StorageError:
            pass
        else:
            rows |= late
        table = Catalog(str(tmp_path)).table(name)
        assert _held(table) == sorted(rows.items()), steps
        table.compact(full=True)
        assert _held(table) == sorted(rows.items()), steps
        table.rescale(table.schema.table_options.bucket)
        assert _held(Catalog(str(tmp_path)).table(name)) == sorted(rows.items()), steps
        assert not table.check(deep=True), steps


def _do(table: Table, monkeypatch: pytest.MonkeyPatch, step: str, rows: dict[int, int], number: int) -> None:
    """One thing that somebody else does, and what it makes of the rows; what is refused is not done."""

    def dies(*_: object, **__: object) -> None:
        raise KeyError("died")

    try:
        if step.startswith("begun"):
            with monkeypatch.context() as patched, pytest.raises(KeyError):
                patched.setattr(rescale, "rescale", dies)
                table.rescale(int(step[-1]))
        elif step.startswith("to"):
            table.rescale(int(step[-1]))
        elif step == "back":
            table.rollback_to(1)
            rows.clear()
            rows.update(dict.fromkeys(range(20), 0))
        elif step == "overwrite":
            table.overwrite(_rows(fresh := dict.fromkeys(range(30, 35), 2)))
            rows.clear()
            rows.update(fresh)
        else:
            _write(table, fresh := {50 + number: 3})
            rows.update(fresh)
    except StorageError:
        pass


def _rows(rows: dict[int, int]) -> Rows:
    return Rows.from_pydict({"k": [*rows], "v": [*rows.values()]}, _SCHEMA)


def _write(table: Table, rows: dict[int, int]) -> None:
    table.write(_rows(rows))


def _held(table: Table) -> list[tuple[int, int]]:
    rows = table.to_arrow()
    return sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
