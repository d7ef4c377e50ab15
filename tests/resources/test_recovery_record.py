"""What is remembered of a recovery is read by versions before, and by this one whatever later ones add."""

import json
from pathlib import Path

import pytest

from resources.recovery.record import (
    RecoveryRecord,
    TableRecord,
    change_record,
    create_record,
    delete_record,
    read_record,
    set_record_aside,
)
from storage import Catalog
from storage.document import read_document, sealed

# The keys that versions before read; they take a record with any other for a damaged one.
FIRST_KEYS = {"branch", "created_ms", "base", "tables", "mode", "bad", "status", "overrides"}
FIRST_TABLE_KEYS = {"main", "branch_at", "partitions", "corrected"}
RECORD = RecoveryRecord(
    "fix", 7, {"a.one": 1}, {"a.one": TableRecord(3, 2, main_identity="abc"), "a.two": TableRecord(1, 1)}
)


def content(catalog: Catalog, kind: str = "recovery") -> Path:
    return Path(catalog.warehouse) / f".{kind}" / "fix.json"


def test_which_snapshots_mains_are_is_kept_where_versions_before_do_not_look(catalog: Catalog) -> None:
    create_record(catalog, RECORD)
    document = read_document(content(catalog).read_text(), str(content(catalog)))
    assert set(document) == FIRST_KEYS
    assert all(set(table) == FIRST_TABLE_KEYS for table in document["tables"].values())
    assert read_record(catalog, "fix") == RECORD
    moved = RECORD.with_table("a.one", TableRecord(4, 2, main_identity="def"))
    change_record(catalog, RECORD, lambda _: moved)
    assert read_record(catalog, "fix") == moved
    # A version before has moved it on.
    document["tables"]["a.one"]["main"] = 5
    content(catalog).write_text(json.dumps(sealed(document, "fix.json")))
    assert read_record(catalog, "fix") == RECORD.with_table("a.one", TableRecord(5, 2))
    delete_record(catalog, RECORD)
    assert read_record(catalog, "fix") is None
    assert not content(catalog, "recovery-mains").exists()
    create_record(catalog, RECORD)
    set_record_aside(catalog, "fix")
    assert not content(catalog, "recovery-mains").exists()


@pytest.mark.parametrize(
    "kept", ["garbage", "{}", '{"created_ms": 7, "mains": {"a.one": 3, "a.three": [3, "abc"]}}', None]
)
def test_identities_that_are_damaged_or_of_another_recovery_are_as_none(catalog: Catalog, kept: str | None) -> None:
    create_record(catalog, RECORD)
    if kept is None:
        # Dropped by a version before, and begun anew.
        content(catalog).unlink()
        create_record(catalog, RecoveryRecord("fix", 8, {}, {"a.one": TableRecord(3, 2)}))
    else:
        content(catalog, "recovery-mains").write_text(kept)
    record = read_record(catalog, "fix")
    assert record is not None
    assert record.tables["a.one"] == TableRecord(3, 2)
    assert bool(catalog.check()) == (kept == "garbage")


def test_a_record_of_a_later_version_is_read_by_what_is_known_of_it(catalog: Catalog) -> None:
    create_record(catalog, RECORD)
    document = read_document(content(catalog).read_text(), str(content(catalog)))
    # As one version has kept it, with what another may add.
    document["tables"]["a.two"] |= {"main_identity": "ghi", "later": [1]}
    content(catalog).write_text(json.dumps(sealed({**document, "later": True}, "fix.json")))
    assert read_record(catalog, "fix") == RECORD.with_table("a.two", TableRecord(1, 1, main_identity="ghi"))
