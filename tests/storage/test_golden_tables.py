"""Tables that Java Paimon and pypaimon wrote are read row for row; what is not understood is refused by name."""

import datetime as dt
import json
import shutil
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from storage import Catalog, CommitId, Unsupported

TABLES = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables"


def views() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(TABLES.glob("*/expected.json")):
        found += [(path.parent.name, view) for view in json.loads(path.read_text())["views"]]
    return found


def name_of(view: dict[str, Any]) -> str:
    return str(view.get("name", "latest"))


def as_json(value: Any) -> Any:
    """A value as `expected.json` writes it."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value


def multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(("name", "view"), views(), ids=lambda one: one if isinstance(one, str) else name_of(one))
def test_a_golden_table_reads_as_in_java(name: str, view: dict[str, Any]) -> None:
    table = Catalog(str(TABLES / name)).table(f"golden.{name}")
    if view["kind"] == "branch":
        table = table.on_branch(view["name"])
    version = {"snapshot": view.get("snapshot_id"), "tag": view.get("name")}.get(view["kind"])
    rows = [as_json(row) for row in table.to_arrow(version=version).to_pylist()]
    assert multiset(rows) == multiset(view["rows"])
    assert table.count(version=version) == view["row_count"]
    if "live_files" in view:
        found = {
            (entry.file.name, entry.file.level, entry.bucket, entry.total_buckets, entry.partition.hex(),
             entry.file.row_count, entry.file.min_key.hex(), entry.file.max_sequence_number)
            for entry in table.scan(version=version).entries
        }  # fmt: skip
        assert found == {
            (one["file"].rsplit("/", 1)[-1], one["level"], one["bucket"], one["total_buckets"], one["partition_hex"],
             one["rows"], one["min_key_hex"], one["max_sequence_number"])
            for one in view["live_files"]
        }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("data-evolution.enabled", "true"),
        ("row-tracking.enabled", "true"),
        ("bucket-function.type", "mod"),
        ("chain-table.enabled", "true"),
        ("deletion-vectors.merge-on-read", "true"),
        ("sequence.field.sort-order", "descending"),
        ("type", "object-table"),
        ("merge-engine", "future"),
        ("scan.fallback-branch", "other"),
        ("partial-update.remove-record-on-sequence-group", "v"),
    ],
)
def test_what_would_be_misread_is_refused_by_name(tmp_path: Path, option: str, value: str) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_pk", warehouse)
    schema = warehouse / "golden.db" / "jv_pk" / "schema" / "schema-0"
    content = json.loads(schema.read_text())
    content["options"][option] = value
    schema.write_text(json.dumps(content))
    with pytest.raises(Unsupported, match=option):
        Catalog(str(warehouse)).table("golden.jv_pk").to_arrow()


def test_a_table_with_deletion_vectors_is_read_and_not_written(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    assert table.to_arrow(where="id = 3").to_pylist() == [{"id": 3, "v": "second 3"}]
    for act in (lambda: table.write(table.to_arrow()), table.compact, table.changes):
        with pytest.raises(Unsupported, match="deletion-vectors"):
            act()


def test_files_of_a_table_with_deletion_vectors_are_not_put_in_the_place_of_others(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    latest, rows = table.snapshot(), table.to_arrow().to_pylist()
    assert latest is not None and latest.index_manifest is not None
    table.branches.create("old", snapshot_id=1)
    for act in (
        lambda: table.rollback_to(2), lambda: table.rollback_to(1), table.truncate,
        lambda: table.branches.fast_forward("old", discard_main=True),
        lambda: table.branches.adopt("old", until=latest.id, commit_id=CommitId("u", 1)),
    ):  # fmt: skip
        with pytest.raises(Unsupported, match="index manifest"):
            act()
    assert table.snapshot() == latest
    assert table.to_arrow().to_pylist() == rows
    assert table.check(deep=True) == []


def test_a_table_does_not_go_back_to_deletion_vectors_that_it_has_no_more(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    latest = table.snapshot()
    assert latest is not None
    table.tags.create("vectors")
    # As the engine leaves it that has worked the vectors in.
    plain = replace(latest, id=latest.id + 1, uuid="plain", index_manifest=None, properties=None)
    assert table.store.snapshots.create(plain)
    for version in ("vectors", latest.id):
        with pytest.raises(Unsupported, match="index manifest"):
            table.rollback_to(version)
    assert table.snapshot() == plain
