"""What a refused statement leaves, and what settings leave in tables that they mean nothing for."""

import os
from pathlib import Path

import pytest

from resources import Session
from storage import StorageError


@pytest.mark.parametrize("options", ["'jdbc.url'='jdbc:nosuch://x/y'", "'lineage-meta'='no.such.Store'"])
def test_a_refused_catalog_pins_no_options(session: Session, tmp_path: Path, options: str) -> None:
    place = tmp_path / "other"
    with pytest.raises(StorageError):
        session.sql(f"CREATE CATALOG c WITH ('warehouse'='{place}', 'table-lineage'='true', {options})", "duckdb")
    assert not place.exists() or not [file for _, _, files in os.walk(place) for file in files]
    session.sql(f"CREATE CATALOG c WITH ('warehouse'='{place}')", "duckdb")
    with pytest.raises(StorageError, match=r"since the catalog was created"):
        session.sql(f"CREATE CATALOG d WITH ('warehouse'='{place}', 'table-lineage'='true')", "duckdb")


def test_defaults_are_for_tables_that_they_mean_something_for(session: Session) -> None:
    session.sql(
        "SET 'table-storage.merge-engine'='aggregation'; SET 'table-storage.fields.default-aggregate-function'='sum'; "
        "SET 'table-storage.partition.expiration-time'='7 d'; CREATE TABLE plain (id INT, n INT); "
        "CREATE TABLE keyed (id INT PRIMARY KEY NOT ENFORCED, n INT); RESET; INSERT INTO keyed VALUES (1, 1); "
        "INSERT INTO keyed VALUES (1, 2)",
        "duckdb",
    )
    assert not {"merge-engine", "partition.expiration-time"} & set(session.table("default.plain").schema.options)
    assert session.table("default.keyed").to_arrow().to_pylist() == [{"id": 1, "n": 3}]
    [made] = session.sql("SHOW CREATE TABLE plain", "duckdb").to_arrow().to_pylist()
    session.sql(next(iter(made.values())).replace("plain", "again", 1), "duckdb")
    assert "default.again" in session.catalog.tables()


def test_a_key_among_the_options_is_a_key(session: Session) -> None:
    session.sql("CREATE TABLE k WITH ('primary-key'='n') AS SELECT 1 AS id, 2 AS n", "duckdb")
    schema = session.table("default.k").schema
    assert schema.primary_keys == ("n",) and schema.options["bucket"] == "1"
