"""SQL of both engines on a real server over S3, with credentials given in every way that the platform knows."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from storage import StoreUnavailable
from tests.contracts.versitygw import KEY, REGION, SECRET, Versitygw
from tests.resources.sql_runner import runner

if TYPE_CHECKING:
    from resources import Session

pytestmark = pytest.mark.spark
MAIN = "import sys; from resources.cli import main; sys.exit(main())"
ENGINES = ("spark", "duckdb")
ROOT = Path(__file__).parents[2]
# Names that tell nothing, and values that are numbers, truths and objects: what a task makes of them must be the same.
CONFIG = {"read_timeout": 20, "retries": {"max_attempts": 4}, "s3": {"addressing_style": "path"}}


def _settings(gateway: Versitygw, way: str) -> dict[str, str]:
    typed = {"anon": False, "default_block_size": 8 << 20, "config_kwargs": CONFIG}
    region = {"client_kwargs": {"region_name": REGION}}
    ways: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "settings": ({}, {**gateway.options(), **typed}),
        "references": (
            {"OWN_KEY": KEY, "OWN_SECRET": SECRET},
            {
                "key": "${env:OWN_KEY}",
                "secret": "${env:OWN_SECRET}",
                "endpoint_url": gateway.endpoint,
                **typed,
                **region,
            },
        ),
    }
    variables, options = ways[way]
    return {**variables, "SNAPLINE_STORAGE_OPTIONS": json.dumps(options)}


@pytest.fixture
def platform(
    gateway: Versitygw, spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> "Session":
    """A session whose warehouse is on the server."""
    from resources import Session

    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", "s3://bucket/warehouse")
    for name, value in _settings(gateway, way).items():
        monkeypatch.setenv(name, value)
    return Session()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("way", ["settings", "references"])
def test_sql_of_both_engines_reads_and_writes_there(platform: "Session", way: str) -> None:
    spark, duckdb = runner(platform, "spark"), runner(platform, "duckdb")
    duckdb("CREATE TABLE a.t (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')")
    spark("INSERT INTO a.t VALUES (1, 'spark'), (2, 'spark')")
    duckdb("INSERT INTO a.t VALUES (2, 'duckdb'), (3, 'duckdb')")
    expected = [(1, "spark"), (2, "duckdb"), (3, "duckdb")]
    for run in (spark, duckdb):
        assert run("SELECT id, v FROM a.t ORDER BY id") == expected
        assert run("SELECT count(*) FROM a.t VERSION AS OF 1") == [(2,)]
    spark("UPDATE a.t SET v = 'other' WHERE id = 1")
    duckdb("DELETE FROM a.t WHERE id = 3")
    spark("CALL sys.compact(table => 'a.t')")
    assert duckdb("SELECT id, v FROM a.t ORDER BY id") == [(1, "other"), (2, "duckdb")]
    assert duckdb("CALL sys.check(table => 'a.t', deep => true)") == []


@pytest.mark.parametrize("way", ["settings"])
def test_a_further_catalog_has_options_of_its_own(platform: "Session", gateway: Versitygw, way: str) -> None:
    spark, duckdb = runner(platform, "spark"), runner(platform, "duckdb")
    os.environ["OWN_SECRET"] = SECRET
    try:
        region = json.dumps({"region_name": REGION})
        duckdb(
            f"CREATE CATALOG far WITH ('warehouse' = 's3://bucket/far', 'storage.key' = '{KEY}', 'storage.anon' = 'false', "
            f"'storage.secret' = '${{env:OWN_SECRET}}', 'storage.endpoint_url' = '{gateway.endpoint}', "
            f"'storage.client_kwargs' = '{region}', 'storage.default_block_size' = '6291456')"
        )
        spark("CREATE TABLE far.a.t AS SELECT 1 AS id")
        duckdb("INSERT INTO far.a.t VALUES (2)")
        for run in (spark, duckdb):
            assert run("SELECT id FROM far.a.t ORDER BY id") == [(1,), (2,)]
    finally:
        del os.environ["OWN_SECRET"]


@pytest.mark.parametrize("way", ["settings"])
def test_streams_read_and_write_there(platform: "Session", tmp_path: Path, way: str) -> None:
    duckdb = runner(platform, "duckdb")
    duckdb("CREATE TABLE a.t (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    duckdb("CREATE TABLE a.mirror (id BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    duckdb("INSERT INTO a.t VALUES (1, 'first'), (2, 'first')")
    stream = (
        "SET 'execution.runtime-mode' = 'streaming'; SET 'execution.trigger' = 'available-now'; SET 'pipeline.name' = 'm'; "
        "INSERT INTO a.mirror SELECT id, v FROM a.t; RESET"
    )
    platform.sql(stream, "spark")
    duckdb("INSERT INTO a.t VALUES (2, 'second'), (3, 'second')")
    platform.sql(stream, "spark")
    assert duckdb("SELECT id, v FROM a.mirror ORDER BY id") == [(1, "first"), (2, "second"), (3, "second")]


def test_credentials_of_the_environment_reach_spark(gateway: Versitygw, spark_home: Path, tmp_path: Path) -> None:
    """In a process of its own: tasks see the environment that Spark was started in."""
    environment = os.environ | {
        "SNAPLINE_HOME": str(tmp_path / "home"),
        "SNAPLINE_WAREHOUSE": "s3://bucket/warehouse",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": gateway.endpoint,
        "PYTHONPATH": str(ROOT),
    }
    text = "CREATE TABLE a.t AS SELECT 41 AS id; INSERT INTO a.t VALUES (42); SELECT sum(id) AS total FROM a.t"
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "sql", "--engine", "spark", text],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "83" in done.stdout


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"secret": "wrong"}, "'key', 'secret'"),
        ({"endpoint_url": "http://127.0.0.1:9"}, "'endpoint_url'"),
        ({"endpoint_url": "127.0.0.1:9"}, "'endpoint_url'"),
        ({"client_kwargs": {"region": "x"}}, "Did you mean 'region_name'"),
    ],
    ids=["secret", "endpoint", "address", "region"],
)
def test_the_command_line_says_a_wrong_setting_in_one_line(
    gateway: Versitygw, tmp_path: Path, changed: dict[str, Any], match: str
) -> None:
    options = gateway.options(retries={"max_attempts": 0}, read_timeout=2, connect_timeout=2) | changed
    environment = os.environ | {
        "SNAPLINE_HOME": str(tmp_path / "home"),
        "SNAPLINE_WAREHOUSE": "s3://bucket/warehouse",
        "SNAPLINE_STORAGE_OPTIONS": json.dumps(options),
        "PYTHONPATH": str(ROOT),
    }
    commands = [["tables"], ["sql", "--engine", "duckdb", "SELECT 1 FROM a.t"]]
    for command in commands if "secret" in changed else commands[:1]:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *command],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1, done.stderr
        assert match in done.stderr
    assert list((gateway.directory / "bucket").iterdir()) == []


@pytest.mark.parametrize("way", ["settings"])
def test_a_server_that_goes_while_a_query_runs_is_named(
    own_gateway: Versitygw, spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    from resources import Session

    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", "s3://bucket/warehouse")
    options = own_gateway.options(retries={"max_attempts": 0}, read_timeout=2, connect_timeout=2)
    monkeypatch.setenv("SNAPLINE_STORAGE_OPTIONS", json.dumps(options))
    platform = Session()
    platform.sql("CREATE TABLE a.t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED); INSERT INTO a.t VALUES (1)", "duckdb")
    planned = platform.sql("SELECT id FROM a.t", "spark")
    own_gateway.kill()
    acts = [planned.to_arrow, *(lambda engine=engine: platform.sql("SELECT id FROM a.t", engine) for engine in ENGINES)]
    for act in acts:
        with pytest.raises(StoreUnavailable, match=r"Could not connect.*'endpoint_url'") as raised:
            act()
        assert "\n" not in str(raised.value)
