"""A batch of a stream is told from another one of its number by the checkpoint that it comes from."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, InvalidRequest, Table
from storage.engines.spark_checkpoint import batch_properties

SCHEMA = pa.schema([("k", pa.int64())])


def checkpoint(directory: Path, name: str, *ends: int) -> str:
    """A checkpoint as Spark leaves it, with where its batches end."""
    place = directory / name
    (place / "offsets").mkdir(parents=True, exist_ok=True)
    (place / "metadata").write_text(json.dumps({"id": name}))
    for number, end in enumerate(ends):
        at = {"batchTimestampMs": hash((name, number))}
        lines = ["v1", json.dumps(at), json.dumps({"snapshot": end})]
        (place / "offsets" / f"{number}").write_text("\n".join(lines))
    return str(place)


def commit(table: Table, number: int, place: str) -> None:
    commit_id = CommitId("job", number)
    given = batch_properties(table, commit_id, place)
    table.write(pa.table({"k": [number]}, SCHEMA), commit_id=commit_id, properties=given)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("d.t", SCHEMA)


def test_a_batch_of_other_rows_under_a_number_that_was_committed_is_refused(table: Table, tmp_path: Path) -> None:
    first = checkpoint(tmp_path, "first", 1, 2)
    for number in (0, 1, 0, 1):
        commit(table, number, first)
    # The same rows under another checkpoint are the same batch.
    commit(table, 0, checkpoint(tmp_path, "alike", 1))
    with pytest.raises(InvalidRequest, match="with other rows"):
        commit(table, 0, checkpoint(tmp_path, "other", 3))
    # One that ends where the other does, and begins elsewhere.
    with pytest.raises(InvalidRequest, match="with other rows"):
        commit(table, 1, checkpoint(tmp_path, "longer", 0, 2))
    assert table.to_arrow()["k"].to_pylist() == [0, 1]


def test_a_batch_of_another_checkpoint_is_refused_though_the_commit_has_expired(table: Table, tmp_path: Path) -> None:
    first = checkpoint(tmp_path, "first", 1, 2, 3)
    for number in range(3):
        commit(table, number, first)
    table.write(pa.table({"k": [9]}, SCHEMA))
    table.expire(retain_last=2)
    commit(table, 0, first)
    with pytest.raises(InvalidRequest, match="with other rows"):
        commit(table, 0, checkpoint(tmp_path, "other", 1))
    assert sorted(table.to_arrow()["k"].to_pylist()) == [0, 1, 2, 9]


def test_commits_of_versions_before_and_checkpoints_that_cannot_be_read_say_nothing(
    table: Table, tmp_path: Path
) -> None:
    table.write(pa.table({"k": [0]}, SCHEMA), commit_id=CommitId("job", 0))
    commit(table, 0, checkpoint(tmp_path, "first", 1))
    commit(table, 1, str(tmp_path / "none"))
    assert table.to_arrow()["k"].to_pylist() == [0, 1]
