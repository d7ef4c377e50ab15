"""The platform on several hosts: a story that two code locations tell together, and what becomes of it when hosts die.

The tests build on each other, in the order in which they stand.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from dagster import DagsterRunStatus
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError

from resources.sql.parsing import parse
from tests.resources.test_tpch import assert_same
from tests.scale import amount
from tests.tpch import KEYS, QUERIES, generate

from .cluster import BUCKET, KEY, SECRET, Cluster
from .hosts import ROOT, Host, end
from .programs import PLAIN_SPARK_JOB, TPCH

MARTS = ("marts.carrier_performance", "marts.daily_delays", "marts.delay_by_weather")
ROWS = 400_000
COMMITS = amount(5, 10, full=10)


def test_two_hosts_make_what_a_laptop_makes(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The demo's first month by one code location, the next by the other one, which has the wheel alone."""
    assert "6 of 6 asset checks passed" in cluster.snapline(cluster.first, "demo", "--partitions", "2013-01", "2013-01")
    assert "6 of 6 asset checks passed" in cluster.snapline(
        cluster.second, "demo", "--partitions", "2013-02", "2013-02"
    )
    laptop = {
        **os.environ,
        "SNAPLINE_HOME": str(tmp_path_factory.mktemp("laptop")),
        "SNAPLINE_SPARK_MASTER": "local[2]",
    }
    run = [sys.executable, "-c", "from resources.cli import main; main()", "demo", "--partitions", "2013-01", "2013-02"]
    subprocess.run(run, check=True, cwd=ROOT, env=laptop, capture_output=True, timeout=600)
    for table in ("core.flights", *MARTS):
        ask = f"SELECT count(*) AS rows, sum(hash(t)) AS content FROM {table} t"
        words = [sys.executable, "-c", "from resources.cli import main; main()", "query", ask, "--format", "json"]
        there = subprocess.run(words, check=True, cwd=ROOT, env=laptop, capture_output=True, text=True).stdout
        here = cluster.snapline(cluster.second, "query", ask, "--format", "json")
        assert json.loads(here) == json.loads(there), table


def test_both_see_the_runs_and_what_was_made_from_what(cluster: Cluster) -> None:
    ask = "from dagster import DagsterInstance; print(len(DagsterInstance.get().get_runs()))"
    for host in (cluster.first, cluster.second):
        assert int(cluster.python(host, "-c", ask, DAGSTER_HOME=str(host.directory / "home" / "dagster"))) == 2
    said = [cluster.snapline(host, "lineage", "marts.daily_delays") for host in (cluster.first, cluster.second)]
    assert said[0] == said[1]
    assert "core.flights@2" in said[0]


def test_a_catalog_that_one_host_makes_the_others_know(cluster: Cluster) -> None:
    keys = {"FAR_KEY": KEY, "FAR_SECRET": SECRET}
    options = {
        "warehouse": f"s3://{BUCKET}/far",
        "table-lineage": "true",
        "data-lineage": "true",
        "storage.key": "${env:FAR_KEY}",
        "storage.secret": "${env:FAR_SECRET}",
        "storage.endpoint_url": cluster.url("store", "http"),
    }
    given = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    made = (
        f"CREATE CATALOG far WITH ({given}); CREATE DATABASE far.raw; CREATE TABLE far.raw.a (id BIGINT); "
        "CREATE TABLE far.raw.b (id BIGINT); INSERT INTO far.raw.a VALUES (1), (2); "
        "INSERT INTO far.raw.b SELECT id FROM far.raw.a"
    )
    cluster.snapline(cluster.first, "sql", "--engine", "duckdb", made, **keys)
    asked = ("sql", "--engine", "duckdb", "--format", "json", "SELECT count(*) AS rows FROM far.raw.b")
    assert json.loads(cluster.snapline(cluster.second, *asked, **keys)) == [{"rows": 2}]
    said = [cluster.snapline(host, "lineage", "far.raw.b", **keys) for host in (cluster.first, cluster.second)]
    assert said[0] == said[1]
    assert "far.raw.a@1" in said[0]


def test_a_recovery_begins_on_one_host_and_ends_on_the_other(cluster: Cluster) -> None:
    first, second = cluster.first, cluster.second
    cluster.snapline(first, "recovery", "start", "fix", "--bad", "raw.flights@1", "--mode", "full")
    cluster.snapline(second, "recovery", "correct", "fix", "--sql", "DELETE FROM raw.flights WHERE carrier = 'UA'")
    assert "4 runs on branch fix" in cluster.snapline(second, "recovery", "backfill", "fix", timeout_s=800)
    assert "Published fix" in cluster.snapline(first, "recovery", "publish", "fix")
    left = "SELECT count(*) AS rows FROM core.flights WHERE carrier = 'UA'"
    assert json.loads(cluster.snapline(second, "query", left, "--format", "json")) == [{"rows": 0}]
    sound(cluster, "core.flights")


def test_tpch_has_the_same_answers(cluster: Cluster, tmp_path: Path) -> None:
    generate("0.01", tmp_path)
    # All of them are tried on one machine; over hosts every fourth one, with `SNAPLINE_TEST_AMOUNT=full` all.
    trees = parse(QUERIES.read_text())[:: amount(4, 1, full=1)]
    queries = [tree.sql("databricks") for tree in trees]
    given = [tmp_path, json.dumps(KEYS), json.dumps(queries)]
    answers = json.loads(cluster.python(cluster.first, "-c", TPCH, *given, timeout_s=800).splitlines()[-1])
    with duckdb.connect() as connection:
        for name in KEYS:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{tmp_path / f'{name}.parquet'}')")
        for tree, answer in zip(trees, answers, strict=True):
            expected = connection.sql(tree.sql("duckdb")).to_arrow_table().to_pylist()
            assert_same([*map(_as_read, answer, expected)], [tuple(row.values()) for row in expected])


def test_plain_spark_jobs_of_two_hosts_write_to_one_table_beside_compactions(cluster: Cluster) -> None:
    create = "CREATE TABLE lake.shared (id BIGINT, writer STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')"
    cluster.snapline(cluster.first, "sql", "--engine", "duckdb", create)
    jobs = [
        begin(cluster, host, name, "-c", PLAIN_SPARK_JOB, name, COMMITS, 1000 * number)
        for number, (host, name) in enumerate(((cluster.first, "one"), (cluster.second, "two")))
    ]
    compacted = 0
    while any(job.poll() is None for job in jobs):
        try:
            cluster.snapline(cluster.first, "table", "compact", "lake.shared")
            compacted += 1
        except AssertionError as error:
            # Both jobs compact after each commit: on a slow machine one of them may take the files away in each of the tries.
            assert "another commit has changed what was to be compacted" in str(error)
    assert [job.returncode for job in jobs] == [0, 0], logs(cluster)
    assert compacted
    counted = "SELECT writer, count(*) AS rows FROM lake.shared GROUP BY writer ORDER BY writer"
    rows = json.loads(cluster.snapline(cluster.second, "query", counted, "--format", "json"))
    assert rows == [{"writer": name, "rows": 10 * COMMITS} for name in ("one", "two")]
    sound(cluster, "lake.shared")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("struck", ["a worker is killed", "the store pauses"])
def test_a_write_goes_on(cluster: Cluster, struck: str) -> None:
    table = f"lake.{struck.split()[1]}"
    job = insert(cluster, table)
    wait_for_data(cluster, table, job)
    if struck == "the store pauses":
        assert cluster.store is not None
        os.killpg(cluster.store.pid, signal.SIGSTOP)
        time.sleep(5)
        os.killpg(cluster.store.pid, signal.SIGCONT)
    else:
        end(cluster.workers["worker-1"], signal.SIGKILL)
    assert job.wait(timeout=600) == 0, logs(cluster)
    if struck != "the store pauses":
        cluster.start_worker("worker-1")
    assert count(cluster, table) == ROWS
    sound(cluster, table)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("struck", ["driver", "store"])
def test_a_write_that_dies_leaves_nothing_half_and_is_repeated(cluster: Cluster, struck: str) -> None:
    table = f"lake.of_{struck}"
    job = insert(cluster, table)
    wait_for_data(cluster, table, job)
    if struck == "driver":
        end(job, signal.SIGKILL)
    else:
        assert cluster.store is not None
        end(cluster.store, signal.SIGKILL)
        time.sleep(2)
        cluster.start_store()
        job.wait(timeout=600)
    assert count(cluster, table) in (0, ROWS)
    if count(cluster, table) == 0:
        assert insert(cluster, table).wait(timeout=600) == 0, logs(cluster)
    assert count(cluster, table) == ROWS
    sound(cluster, table)


# Of the client that Dagster offers, in what it calls.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_runs_are_launched_as_the_page_on_deploying_says(cluster: Cluster) -> None:
    """Webserver and daemon on one host, the code location on the other one, started by the words of the compose file."""
    services = yaml.safe_load((ROOT / "docs" / "deploy" / "compose.yaml").read_text())["services"]
    workspace = yaml.safe_load((ROOT / "docs" / "deploy" / "workspace.yaml").read_text())
    workspace["load_from"][0]["grpc_server"]["host"] = cluster.second.address
    (cluster.first.directory / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    for name, host in (("code", cluster.second), ("webserver", cluster.first), ("daemon", cluster.first)):
        words = services[name]["command"].replace("docs/deploy/workspace.yaml", "workspace.yaml").split()
        home = {"DAGSTER_HOME": str(host.directory / "dagster")}
        (host.directory / "dagster").mkdir(exist_ok=True)
        shutil.copy(ROOT / "dagster.yaml", host.directory / "dagster")
        host.start(as_module(cluster, host, words), f"{name}.log", **{**cluster.platform(host), **home})
    client = DagsterGraphQLClient("127.0.0.1", port_number=3000)
    until, status = time.monotonic() + 120, None
    run, reason = None, ""
    while status != DagsterRunStatus.SUCCESS:
        assert time.monotonic() < until, f"{run} {status} {reason}\n{logs(cluster)}"
        time.sleep(0.5)
        try:
            run = run or client.submit_job_execution("__ASSET_JOB", asset_selection=[["example", "words"]])
            status = client.get_run_status(run)
        except DagsterGraphQLClientError as error:
            # Not all of them are there yet.
            reason = str(error)
            continue
        assert status != DagsterRunStatus.FAILURE, logs(cluster)
    with urllib.request.urlopen("http://127.0.0.1:3000/snapline/") as page:
        assert b"example.words" in page.read()


def as_module(cluster: Cluster, host: Host, words: list[str]) -> list[object]:
    """A command by the interpreter of a host, which need not have the programs of the packages in its PATH."""
    modules = {"dagster": ["-m", "dagster"], "dagster-daemon": ["-m", "dagster._daemon"], "python": []}
    return [cluster.interpreter(host), *modules[words[0]], *words[1:]]


def insert(cluster: Cluster, table: str) -> "subprocess.Popen[bytes]":
    """Begin to write ROWS rows to a table, by the code location that has the wheel."""
    statement = (
        f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT, text STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '4');"
        f"INSERT INTO {table} SELECT id, repeat(md5(CAST(id AS STRING)), 8) FROM range({ROWS})"
    )
    main = "import sys; from resources.cli import main; sys.exit(main())"
    return begin(cluster, cluster.second, "insert", "-c", main, "sql", "--engine", "spark", statement)


def begin(cluster: Cluster, host: Host, name: str, *words: object) -> "subprocess.Popen[bytes]":
    return host.start([cluster.interpreter(host), *words], f"{name}.log", **cluster.platform(host))


def wait_for_data(cluster: Cluster, table: str, job: "subprocess.Popen[bytes]") -> None:
    """Wait until a task of the job has written a file. Raises AssertionError if it ends before."""
    database, name = table.split(".")
    directory = cluster.first.directory / "objects" / BUCKET / "warehouse" / f"{database}.db" / name
    until = time.monotonic() + 180
    while not any(directory.glob("bucket-*/*")):
        assert job.poll() is None and time.monotonic() < until, logs(cluster)
        time.sleep(0.02)


def count(cluster: Cluster, table: str) -> int:
    rows = json.loads(
        cluster.snapline(cluster.first, "query", f"SELECT count(*) AS rows FROM {table}", "--format", "json")
    )
    return int(rows[0]["rows"])


def sound(cluster: Cluster, table: str) -> None:
    assert "sound" in cluster.snapline(cluster.second, "check", table, "--deep")


def logs(cluster: Cluster) -> str:
    """What the programs of hosts have said last."""
    written = [path for host in cluster.hosts.values() for path in host.directory.glob("*.log")]
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-2000:]}" for path in written)


def _as_read(row: dict[str, Any], expected: dict[str, Any]) -> tuple[Any, ...]:
    """A row from JSON, with dates and decimals as those of another one."""
    kinds: list[Callable[[Any], Any]] = [
        (lambda value: value) if value is None or isinstance(value, str) else _reader(value)
        for value in expected.values()
    ]
    return tuple(kind(value) for kind, value in zip(kinds, row.values(), strict=True))


def _reader(like: Any) -> Callable[[Any], Any]:
    return type(like).fromisoformat if hasattr(like, "isoformat") else type(like)
