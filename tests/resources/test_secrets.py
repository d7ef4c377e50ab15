"""A secret that a user hands over is in no output, no file that others can read, no event and no setting of Spark."""

import json
import logging
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from click.testing import CliRunner

from lineage import GuardedStore, LineageUnavailable
from resources import Session, Settings
from resources.cli import cli
from resources.private_files import make_private_directory
from resources.warehouse.catalog_options import open_catalog
from resources.warehouse.catalog_registry import CatalogRegistry
from storage import Catalog, InvalidRequest, Secret, SetOptions, StorageError, hidden, revealed, shown_options
from storage.redaction import is_secret_name, secrets_in
from storage.secret import guarded_options, resolved
from tests.contracts.s3_server import object_store

# None of them has a word in it by which it could be recognised.
MARK = "m4rk3r-Zq7"
SCHEMA = pa.schema([("id", pa.int64())])
# Every option that says itself that it is a secret, and every place in a URL.
OPTIONS = {
    "s3.secret-key": MARK + "a",
    "fs.s3a.access.key": MARK + "b",
    "s3.session.token": MARK + "c",
    "jdbc.password": MARK + "d",
    "jdbc.url": f"jdbc:postgresql://me:{MARK}@e/@127.0.0.1:1/db?password={MARK}f&application_name=x",
    "storage.key": MARK + "g",
    "storage.client_kwargs": json.dumps({"aws_secret_access_key": MARK + "h"}),
    "azure.accountKey": MARK + "i",
    "storage.connection_string": f"AccountName=a;AccountKey={MARK}j==;x=1",
    "oauth.credential": MARK + "k",
    "storage.sas_token": MARK + "l",
    "jaas": f"login password='{MARK}m';",
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A platform whose every setting holds a secret, over an object store; where it keeps its state."""
    home = tmp_path / ".snapline"
    # At this level the library that speaks to the store shows the name of the key that signs a request.
    logging.getLogger("botocore").setLevel(logging.INFO)
    monkeypatch.setenv("SNAPLINE_HOME", str(home))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", "s3://bucket/warehouse")
    monkeypatch.setenv("SNAPLINE_LINEAGE_URL", f"jdbc:postgresql://me:{MARK}p@127.0.0.1:1/db?password={MARK}q")
    monkeypatch.setenv("SNAPLINE_SPARK_CONFIG", json.dumps({"spark.hadoop.fs.s3a.secret.key": MARK + "r"}))
    with object_store() as (endpoint, _, _):
        options = {"key": MARK + "n", "secret": MARK + "o", "token": MARK + "t", "endpoint_url": endpoint}
        monkeypatch.setenv("SNAPLINE_STORAGE_OPTIONS", json.dumps(options))
        yield home
        fsspec.get_filesystem_class("s3").clear_instance_cache()


def readable_by_others(directory: Path) -> Iterator[Path]:
    """The files that another user of the machine could read, if the directory were open."""
    for path in directory.rglob("*"):
        if path.is_file() and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            yield path


def assert_unmarked(text: str, where: str) -> None:
    assert "m4rk3r" not in text, f"{where}: {text[:2000]}"


def test_names_of_options_tell_secrets() -> None:
    secret = (
        "password",
        "jdbc.password",
        "s3.secret-key",
        "fs.s3a.access.key",
        "aws_access_key_id",
        "sasToken",
        "accountKey",
        "spark.ssl.keyPassword",
        "token",
        "oauth2.client.secret",
        "api_key",
        "private-key",
        "Authorization",
        "sas",
    )
    plain = (
        "fields.token.aggregate-function",
        "bucket-key",
        "primary-key",
        "key",
        "keys",
        "tokenizer",
        "sequence.field",
        "path",
        "passed",
        "sasquatch",
        "username",
    )
    assert [name for name in secret if not is_secret_name(name)] == []
    assert [name for name in plain if is_secret_name(name)] == []


@pytest.mark.parametrize("password", ["plain", "p@ss", "sl/ash", "qu?stion", "co:lon", "h#sh", "a&b", "semi;colon"])
def test_a_password_in_a_url_is_hidden_whatever_characters_it_has(password: str) -> None:
    for url in (f"jdbc:postgresql://me:{password}{MARK}@host:5432/db", f"s3://me:{password}{MARK}@bucket/x?y=z"):
        assert_unmarked(hidden(f"cannot open {url}: no route"), url)
        assert guarded_options({"warehouse": url}) == {"warehouse": Secret(url)}
        assert "host" in hidden(url) or "bucket" in hidden(url)
    for url in (
        "abfss://container@account.dfs/x",
        "s3://bucket/a",
        "jdbc:sqlite:/x/y.db",
        "jdbc:postgresql://h:5432/d?user=me",
    ):
        assert hidden(url) == url
        assert list(secrets_in(url)) == []


def test_a_secret_shows_itself_nowhere_and_travels() -> None:
    secret = Secret(MARK)
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret:>40}", repr({"x": [secret]}), "%s" % secret):  # noqa: UP031
        assert_unmarked(shown, "shown")
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert secret.reveal() == MARK
    # What has been read as a secret is known wherever it turns up again.
    assert_unmarked(str(StorageError(f"the server said: {MARK} is wrong")), "an error")
    assert_unmarked(str(pickle.loads(pickle.dumps(InvalidRequest(f"{MARK}")))), "a pickled error")


def test_references_are_resolved_when_they_are_used_and_kept_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SNAPLINE_TEST_PW", raising=False)
    options = {
        "warehouse": "${env:SNAPLINE_TEST_WH}/w",
        "table-lineage": "true",
        "jdbc.url": "jdbc:sqlite:${env:SNAPLINE_TEST_WH}/l.db",
        "jdbc.password": "${env:SNAPLINE_TEST_PW}",
        "storage.auto_mkdir": "${env:SNAPLINE_TEST_FLAG}",
    }
    registry = CatalogRegistry(tmp_path)
    with pytest.raises(InvalidRequest, match=r"SNAPLINE_TEST_\w+ of the environment is not set"):
        registry.create("c", options)
    monkeypatch.setenv("SNAPLINE_TEST_WH", str(tmp_path / "there"))
    monkeypatch.setenv("SNAPLINE_TEST_PW", MARK)
    monkeypatch.setenv("SNAPLINE_TEST_FLAG", "true")
    registry.create("c", options)
    kept = (tmp_path / "catalogs.json").read_text()
    assert_unmarked(kept, "catalogs.json")
    assert kept.count("${env:") == 4
    catalog = open_catalog("c", registry.get("c"))
    assert catalog.warehouse == str(tmp_path / "there/w")
    assert (tmp_path / "there/l.db").exists()
    kept_there = json.loads((tmp_path / "there/w/catalog-options.json").read_text())
    assert kept_there == {"table-lineage": "true", "data-lineage": "false"}
    assert catalog.storage_options == {"auto_mkdir": "true"}
    with pytest.raises(InvalidRequest, match="NOT_THERE"):
        resolved("${env:NOT_THERE}", {})
    # What somebody else's warehouse says is text.
    path = tmp_path / "there/w/catalog-options.json"
    path.write_text(json.dumps({"table-lineage": "true", "x": "${env:SNAPLINE_TEST_PW}"}))
    assert open_catalog("c", registry.get("c")).options["x"] == "${env:SNAPLINE_TEST_PW}"


def test_files_that_hold_secrets_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = tmp_path / "new/.snapline"
        make_private_directory(home)
        registry = CatalogRegistry(home)
        registry.create("c", {"warehouse": str(tmp_path / "w"), "jdbc.password": MARK})
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "catalogs.json").stat().st_mode & 0o777 == 0o600
        # As an earlier version left them.
        home.chmod(0o755)
        (home / "catalogs.json").chmod(0o644)
        make_private_directory(home)
        assert revealed(CatalogRegistry(home).get("c"))["jdbc.password"] == MARK
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "catalogs.json").stat().st_mode & 0o777 == 0o600
        assert [path.name for path in home.iterdir() if path.suffix == ".tmp"] == []
        (tmp_path / "shared").mkdir(mode=0o755)
        make_private_directory(tmp_path / "shared")
        assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


def test_a_warehouse_keeps_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "catalog-options.json"
    catalog = Catalog(str(tmp_path), options={**OPTIONS, "table-lineage": "true"})
    assert json.loads(path.read_text()) == {"table-lineage": "true"} == catalog.options
    # One that an earlier version has kept is not shown, and goes.
    path.write_text(json.dumps({**OPTIONS, "table-lineage": "true"}))
    assert Catalog(str(tmp_path)).options == {"table-lineage": "true"}
    assert_unmarked(path.read_text(), "catalog-options.json")
    for name, value in OPTIONS.items():
        if not name.startswith("storage.key"):
            with pytest.raises(InvalidRequest, match="holds a secret") as failed:
                catalog.create_table("a.t", SCHEMA, options={name: value})
            assert_unmarked(str(failed.value), name)
    table = catalog.create_table("a.t", SCHEMA)
    with pytest.raises(InvalidRequest, match="holds a secret"):
        table.alter(SetOptions({"x.password": MARK}))
    # Of somebody else's table, such as one of Flink's connectors, they are not shown.
    schema = tmp_path / "a.db/t/schema/schema-0"
    value = json.loads(schema.read_text())
    value["options"] |= OPTIONS
    schema.write_text(json.dumps({key: content for key, content in value.items() if "crc" not in key}))
    table = Catalog(str(tmp_path)).table("a.t")
    assert_unmarked(str(table.describe()), "describe")
    for name in ("options", "schemas"):
        assert_unmarked(str(table.system_table(name).to_pylist()), f"${name}")
    table.alter(SetOptions({"bucket": "-1"}))


def test_settings_show_no_secret_however_wrong_they_are(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_unmarked(repr(Settings.from_environment()), "settings")
    plain = Settings(
        environment, "/w", f"jdbc:mysql://a:{MARK}@b/c", {"secret": MARK}, spark_remote=f"sc://h/;token={MARK}"
    )
    assert_unmarked(repr(plain), "settings made by hand")
    for text in (f'{{"secret": "{MARK}"', f'["{MARK}"]', f'"{MARK}"', MARK):
        for name in ("SNAPLINE_STORAGE_OPTIONS", "SNAPLINE_SPARK_CONFIG"):
            with pytest.raises(InvalidRequest, match=name) as failed:
                Settings.from_environment({name: text})
            assert_unmarked(str(failed.value), name)


def test_a_lineage_store_that_is_away_says_so_without_its_password() -> None:
    for url in (
        OPTIONS["jdbc.url"],
        f"jdbc:nothing://me:{MARK}@h/db",
        f"jdbc:postgresql://h:many/db?password={MARK}",
    ):
        store = GuardedStore("c", {"jdbc.url": url, "jdbc.password": MARK + "d"})
        for act in (store.check_options, lambda store=store: store.tables("sink")):  # type: ignore[misc]
            try:
                act()
            except LineageUnavailable as error:
                assert_unmarked(str(error) + error.store, url)
        assert_unmarked(repr(vars(store)), "the store")


def statements(tmp_path: Path) -> list[str]:
    """What hands secrets over in SQL, rightly and wrongly."""
    listed = ", ".join(
        f"'{key}' = '{value}'" for key, value in OPTIONS.items() if not key.startswith(("jaas", "jdbc.url"))
    )
    endpoint = json.loads(os.environ["SNAPLINE_STORAGE_OPTIONS"])["endpoint_url"]
    known = f"'storage.key' = '{MARK}g', 'storage.secret' = '{MARK}h', 'storage.endpoint_url' = '{endpoint}'"
    url = OPTIONS["jdbc.url"]
    return [
        f"CREATE CATALOG unknown WITH ('warehouse' = '{tmp_path}/far', {listed})",
        f"CREATE CATALOG far WITH ('warehouse' = 's3://bucket/far', {known})",
        f"CREATE CATALOG local WITH ('warehouse' = '{tmp_path}/local', {known})",
        f"CREATE CATALOG away WITH ('warehouse' = '{tmp_path}/away', 'jdbc.url' = '{url}')",
        f"CREATE CATALOG wrong WITH ('warehouse' = '{tmp_path}/far', 'type' = 'x', {listed})",
        f"CREATE CATALOG wrong WITH ({listed})",
        f"CREATE CATALOG wrong WITH ('jdbc.url' = 'jdbc:x://a:{MARK}@b/c', 'warehouse' = '{tmp_path}/w')",
        f"CREATE CATALOG wrong WITH ('jdbc.password' = '{MARK}' oops",
        f"CREATE CATALOG wrong WITH ('jdbc.password' '{MARK}')",
        f"SET 'jdbc.password' = '{MARK}'",
        "SET",
        "SET 'jdbc.password'",
        f"SET 'some.url' = 'http://me:{MARK}@host'",
        "SET",
        f"CREATE TABLE d.wrong (id INT) WITH ('s3.secret-key' = '{MARK}')",
        "CREATE TABLE d.t (id INT)",
        f"ALTER TABLE d.t SET ('password' = '{MARK}')",
        "INSERT INTO d.t SELECT 1",
        "EXPLAIN SELECT * FROM d.t",
        "CREATE TABLE far.d.t (id INT)",
        "INSERT INTO far.d.t SELECT id FROM d.t",
        "EXPLAIN SELECT * FROM far.d.t",
        "SELECT * FROM far.d.t",
        "SELECT * FROM paimon.catalog_options",
        "SELECT * FROM far.paimon.catalog_options",
        "SELECT * FROM away.paimon.catalog_options",
        "SHOW CATALOGS",
        "SHOW CREATE TABLE far.d.t",
        "DESCRIBE EXTENDED far.d.t",
        f"SELECT * FROM d.t /*+ OPTIONS('password' = '{MARK}') */",
        "SELECT * FROM far.paimon.sink_snapshot_lineage",
        f"CALL sys.compact(table => 'd.nothing', password => '{MARK}')",
    ]


@pytest.mark.parametrize("lineage", ["in the home", "on a server that is away"])
def test_no_output_shows_a_secret(
    environment: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, lineage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where lineage lies on a server, catalogs do as well, so that none can be made while it is away."""
    in_home = lineage == "in the home"
    if in_home:
        monkeypatch.delenv("SNAPLINE_LINEAGE_URL")
    caplog.set_level(logging.DEBUG)
    runner = CliRunner()
    ran = 0
    for text in statements(tmp_path):
        done = runner.invoke(cli, ["sql", "--engine", "duckdb", text])
        assert_unmarked(done.output + repr(done.exception), text)
        ran += done.exit_code == 0
    assert ran > (12 if in_home else 6)
    for arguments in (
        ["tables"],
        ["query", "SELECT * FROM paimon.catalog_options"],
        ["describe", "d.t"],
        ["snapshots", "d.t"],
        ["check", "d.t"],
        ["lineage", "rebuild"],
        ["options"],
    ):
        done = runner.invoke(cli, arguments)
        assert_unmarked(done.output + repr(done.exception), str(arguments))
    assert_unmarked(caplog.text, "the log")
    for path in readable_by_others(tmp_path):
        assert_unmarked(path.read_bytes().decode(errors="replace"), str(path))
    assert not in_home or MARK in (environment / "catalogs.json").read_text()
    assert environment.stat().st_mode & 0o077 == 0


SPARK = """
import json, os, pathlib, sys
from resources import Session
from resources.spark_session import start_spark

session = Session()
spark = start_spark(session.settings)
mark = sys.argv[1]
said = []
create = "CREATE TABLE d.t (id INT PRIMARY KEY NOT ENFORCED, v INT)"
for text in (create, "INSERT INTO d.t SELECT 1, 2", "INSERT INTO d.t SELECT 1, 3"):
    said.append(str(session.sql(text).message))
frame = session.sql("SELECT * FROM d.t WHERE v > 1").frame
assert frame.collect()[0].v == 3
for mode in ("simple", "extended", "codegen", "formatted"):
    said.append(frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), mode))
for row in spark.sql("SET -v").collect() + spark.sql("SET").collect():
    said.append(str(row))
java = spark.sparkContext._gateway.proc.pid
said.append(pathlib.Path(f"/proc/{java}/cmdline").read_bytes().decode(errors="replace"))
said.append(str(frame._jdf.queryExecution().logical()) + repr(session.settings) + repr(vars(session.catalog)))
said.append(spark.sparkContext._jsc.sc().getConf().toDebugString())
settings = dict(spark.sparkContext.getConf().getAll())
# The one that Spark was given for its own file systems, and no other.
assert [key for key, value in settings.items() if mark in value] == ["spark.hadoop.fs.s3a.secret.key"], settings
print(json.dumps(said))
spark.stop()
"""


@pytest.mark.spark
def test_spark_shows_no_secret(environment: Path, tmp_path: Path, spark_home: Path) -> None:
    """In no plan, setting, event log or command line; storage options go to it as options of the data source."""
    given = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.log.level": "INFO",
        "spark.hadoop.fs.s3a.secret.key": MARK + "r",
    }
    (tmp_path / "events").mkdir()
    variables = {
        **os.environ,
        "SNAPLINE_SPARK_CONFIG": json.dumps(given),
        "SNAPLINE_LINEAGE_URL": f"jdbc:sqlite:{tmp_path}/l.db",
    }
    done = subprocess.run(
        [sys.executable, "-c", SPARK, MARK],
        env=variables,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert_unmarked(done.stderr, "the log")
    assert done.returncode == 0, done.stderr[-3000:]
    for text in json.loads(done.stdout.splitlines()[-1]):
        assert_unmarked(text, "Spark")
    events = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    assert events
    for path in [*events, *readable_by_others(tmp_path)]:
        assert_unmarked(path.read_bytes().decode(errors="replace"), str(path))


@pytest.mark.dagster
def test_dagster_and_openlineage_show_no_secret(
    environment: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import dagster as dg

    from resources import SparkResource, TableDefinition, TablesResource
    from resources.openlineage_export import client_of, export

    caplog.set_level(logging.DEBUG)

    @dg.asset(key=["d", "a"])
    def good(context: dg.AssetExecutionContext, tables: TablesResource) -> Any:
        return tables.write(context, pa.table({"id": pa.array([1], pa.int64())}), TableDefinition("d.a"))

    @dg.asset(key=["d", "b"], deps=[good])
    def bad(context: dg.AssetExecutionContext, tables: TablesResource) -> None:
        tables.sql(context, f"SELECT 1 FROM d.a /*+ OPTIONS('s3.secret-key' = '{MARK}') */")

    for url in (f"jdbc:postgresql://me:{MARK}p@127.0.0.1:1/db?password={MARK}q", f"jdbc:sqlite:{tmp_path}/l.db"):
        with dg.DagsterInstance.ephemeral(tempdir=str(tmp_path)) as instance:
            tables = TablesResource(spark=SparkResource(), lineage_url=url)
            result = dg.materialize([good, bad], instance=instance, resources={"tables": tables}, raise_on_error=False)
            assert not result.success
            for event in instance.all_logs(result.run_id):
                assert_unmarked(str(event), "Dagster's events")
    assert_unmarked(caplog.text, "the log")
    os.environ["SNAPLINE_LINEAGE_URL"] = f"jdbc:sqlite:{tmp_path}/l.db"
    client = client_of(file=str(tmp_path / "events.json"))
    assert export(Session(), client).events
    client.close()
    for path in readable_by_others(tmp_path):
        assert_unmarked(path.read_bytes().decode(errors="replace"), str(path))


def test_options_are_shown_with_their_secrets_hidden() -> None:
    shown = shown_options(OPTIONS | {"plain": "x", "url": "s3://bucket/x"})
    assert_unmarked(str(shown), "options")
    assert (shown["plain"], shown["url"]) == ("x", "s3://bucket/x")
    guarded: Callable[[], str] = lambda: str(guarded_options(OPTIONS))  # noqa: E731
    assert_unmarked(guarded(), "typed")


def test_a_password_in_an_address_without_a_scheme_is_hidden() -> None:
    servers = "me:s3cretword@one:9092, you:s3:c@ret@two:9092,three:9092"
    shown = shown_options(
        {"kafka.bootstrap.servers": servers, "fields.a.expr": "concat(a, ':', '@')", "sequence": "a:b"}
    )
    assert shown["kafka.bootstrap.servers"] == "******@one:9092, ******@two:9092,three:9092"
    assert (shown["fields.a.expr"], shown["sequence"]) == ("concat(a, ':', '@')", "a:b")
