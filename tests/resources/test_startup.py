"""Jobs that begin with the versions that another job began with, so that their results belong together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from resources import Session, table_asset
from storage import NotFound
from tests.resources.test_table_asset import rows, words

pytestmark = pytest.mark.dagster


def stream(session: Session, job: str, table: str, **options: str) -> None:
    settings = {"execution.runtime-mode": "streaming", "pipeline.name": job, **options}
    said = "".join(f"SET '{key}' = '{value}';" for key, value in settings.items())
    result = session.sql(f"{said} INSERT INTO {table} SELECT id FROM raw.a")
    assert result.stream is not None
    result.stream.awaitTermination(120)
    session.sql("".join(f"RESET '{key}';" for key in settings))


@pytest.fixture
def source(session: Session) -> Session:
    session.sql(
        "CREATE TABLE raw.a (id BIGINT); CREATE TABLE core.x (id BIGINT); CREATE TABLE core.y (id BIGINT)", "duckdb"
    )
    session.sql("INSERT INTO raw.a VALUES (1); INSERT INTO raw.a VALUES (2)", "duckdb")
    return session


def test_a_stream_begins_where_another_began_and_their_sinks_line_up(source: Session) -> None:
    stream(source, "first", "core.x")
    source.sql("INSERT INTO raw.a VALUES (3)", "duckdb")
    stream(source, "second", "core.y", **{"pipeline.startup-from": "first"})
    assert [(row.job, row.snapshot_id) for row in source.lineage_store.startups(table="a")] == [
        ("first", 2),
        ("second", 2),
    ]
    # The first snapshot of each was made from the same version, and further ones snapshot by snapshot.
    assert rows(source, "core.y", version=1) == rows(source, "core.x") == [(1,), (2,)]
    assert rows(source, "core.y") == [(1,), (2,), (3,)]
    together = source.aligned(["core.x", "core.y"], on="raw.a")
    assert {name: table.count() for name, table in together.items()} == {"core.x": 2, "core.y": 2}
    stream(source, "first", "core.x")
    # It went on from its checkpoint: what it began with stays.
    assert [row.snapshot_id for row in source.lineage_store.startups(job="first")] == [2]
    assert {name: table.count() for name, table in source.aligned(["core.x", "core.y"], on="raw.a").items()} == {
        "core.x": 3,
        "core.y": 3,
    }


def test_a_statement_reads_what_another_job_began_with(source: Session) -> None:
    source.sql("SET 'pipeline.name' = 'first'; INSERT INTO core.x SELECT id FROM raw.a", "duckdb")
    source.sql("RESET 'pipeline.name'; INSERT INTO raw.a VALUES (3)", "duckdb")
    source.sql("SET 'pipeline.startup-from' = 'first'; INSERT INTO core.y SELECT id FROM raw.a", "duckdb")
    assert rows(source, "core.y") == rows(source, "core.x") == [(1,), (2,)]
    with pytest.raises(NotFound, match=r"has not begun with core\.x"):
        source.sql("SELECT * FROM core.x", "duckdb")


def test_a_run_reads_what_another_run_began_with(
    materialize: Callable[..., Any], session: Session, tmp_path: Path
) -> None:
    def copy_of(name: str) -> Any:
        def body(words: pa.Table) -> pa.Table:
            return words

        return table_asset(name, inputs={"words": "raw.words"}, code_version="1", description="A copy.")(body)

    first_copy, other = copy_of("core.one"), copy_of("core.other")
    materialize(words)
    first = materialize(first_copy, selection=[first_copy])
    materialize(words)
    assert materialize(other, selection=[other], tags={"snapline/startup-of": first.run_id}).success
    assert rows(session, "core.other") == rows(session, "core.one")
    with pytest.raises(Exception, match="no job of that name has begun"):
        materialize(other, selection=[other], tags={"snapline/startup-of": "nobody"})
    with pytest.raises(Exception, match="startup-of = '' names no run and no job: leave it out"):
        materialize(other, selection=[other], tags={"snapline/startup-of": ""})
