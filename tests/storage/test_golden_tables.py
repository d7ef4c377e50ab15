"""Tables that Java Paimon and pypaimon wrote are read row for row; what is not understood is refused by name."""

import datetime as dt
import json
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, Unsupported

TABLES = Path(__file__).parent.parent / "fixtures" / "paimon" / "tables"


def views() -> list[tuple[str, dict[str, Any]]]:
    named_views = []
    for path in sorted(TABLES.glob("*/expected.json")):
        named_views += [(path.parent.name, view) for view in json.loads(path.read_text())["views"]]
    return named_views


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
        return {key: as_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(element) for element in value]
    return value


def multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(
    ("name", "view"), views(), ids=lambda value: value if isinstance(value, str) else name_of(value)
)
def test_a_golden_table_reads_as_in_java(name: str, view: dict[str, Any]) -> None:
    table = Catalog(str(TABLES / name)).table(f"golden.{name}")
    if view["kind"] == "branch":
        table = table.on_branch(view["name"])
    version = {"snapshot": view.get("snapshot_id"), "tag": view.get("name")}.get(view["kind"])
    rows = [as_json(row) for row in table.to_arrow(version=version).to_pylist()]
    assert multiset(rows) == multiset(view["rows"])
    assert table.count(version=version) == view["row_count"]
    if "live_files" in view:
        live_files = {
            (
                entry.file.name,
                entry.file.level,
                entry.bucket,
                entry.total_buckets,
                entry.partition.hex(),
                entry.file.row_count,
                entry.file.min_key.hex(),
                entry.file.max_sequence_number,
            )
            for entry in table.scan(version=version).entries
        }
        assert live_files == {
            (
                file["file"].rsplit("/", 1)[-1],
                file["level"],
                file["bucket"],
                file["total_buckets"],
                file["partition_hex"],
                file["rows"],
                file["min_key_hex"],
                file["max_sequence_number"],
            )
            for file in view["live_files"]
        }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("bucket-function.type", "mod"),
        ("chain-table.enabled", "true"),
        ("type", "object-table"),
        ("merge-engine", "future"),
        ("scan.fallback-branch", "other"),
        ("index-file-in-data-file-dir", "true"),
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


def test_a_table_with_deletion_vectors_is_read_and_written_further(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    before, latest = table.to_arrow().sort_by("id").to_pylist(), table.snapshot()
    assert table.to_arrow(where="id = 3").to_pylist() == [{"id": 3, "v": "second 3"}]
    assert table.changes(after=2).select(["rowkind", "id"]).num_rows == 3
    table.write(pa.table({"id": pa.array([3, 8], pa.int32()), "v": ["third", "third"]}))
    table.delete("id = 6")
    after = {row["id"]: row["v"] for row in before} | {3: "third", 8: "third"}
    after.pop(6)
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == after
    assert table.count() == len(after)
    table.branches.create("old", snapshot_id=latest.id)
    table.compact()
    assert table.snapshot().index_manifest is None
    assert table.count() == len(after)
    table.rollback_to(latest.id)
    assert table.to_arrow().sort_by("id").to_pylist() == before
    assert table.check(deep=True) == []


def test_a_branch_of_a_table_with_deletion_vectors_becomes_main(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    latest, rows = table.snapshot(), table.to_arrow().sort_by("id").to_pylist()
    first = table.to_arrow(version=2).sort_by("id").to_pylist()
    table.branches.create("new", snapshot_id=latest.id)
    table.branches.create("old", snapshot_id=2)
    table.branches.fast_forward("old", discard_main=True)
    assert table.to_arrow().sort_by("id").to_pylist() == first
    table.branches.adopt("new", until=table.snapshot().id, commit_id=CommitId("u", 1))
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    table.truncate()
    assert (table.count(), table.snapshot().index_manifest) == (0, None)
    assert table.check(deep=True) == []


def test_a_table_goes_back_to_deletion_vectors_that_it_has_no_more(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    shutil.copytree(TABLES / "jv_dv", warehouse)
    table = Catalog(str(warehouse)).table("golden.jv_dv")
    rows = table.to_arrow().sort_by("id").to_pylist()
    table.tags.create("vectors")
    table.compact()
    assert table.snapshot().index_manifest is None
    table.rollback_to("vectors")
    assert table.snapshot().index_manifest is not None
    assert table.to_arrow().sort_by("id").to_pylist() == rows
