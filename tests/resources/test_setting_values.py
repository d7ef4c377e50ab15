"""Values in the environment with which nothing could work: told when they are read, by the name of the variable."""

import json
import re
import zipfile
from pathlib import Path

import pytest

from resources import Session
from resources.settings import Settings
from resources.spark_values import trouble_with
from storage import FileIO, InvalidRequest, StorageError

WRONG = [
    ("SNAPLINE_HOM", "/data"),
    ("SNAPLINE_WAREHOUSE", "relative/path"),
    ("SNAPLINE_WAREHOUSE", "s4://bucket/w"),
    ("SNAPLINE_LINEAGE_URL", "sqlite:///data/l.db"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:oracle:x"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:sqlite:"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:sqlite:lineage.db"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:postgresql:db"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:postgresql://host:99999/db"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:mysql://me:s3cretword@host:many/db"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:postgresql://host/db?user=u&pasword=s3cretword"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:postgresql://host/db?sslmode=requre"),
    ("SNAPLINE_LINEAGE_URL", "jdbc:mysql://host/db?useSSL=true"),
    ("SNAPLINE_DAGSTER_URL", "postgresql://u:s3cretword@host/db?ssl_mode=require"),
    ("SNAPLINE_DAGSTER_URL", "postgresql://u:s3cretword@host:99999/db"),
    ("SNAPLINE_LOCK_DIRECTORY", "relative"),
    ("SNAPLINE_EXTERNAL_ROOTS", '["relative"]'),
    ("SNAPLINE_READABLE_DIRECTORIES", '["relative"]'),
    ("SNAPLINE_READABLE_DIRECTORIES", '["s3://bucket/in"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["relative"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["/"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["/a/../b"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["s4://bucket/out"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["s3:///"]'),
    ("SNAPLINE_SPARK_MASTER", "lokal[1]"),
    ("SNAPLINE_SPARK_MASTER", "local[0]"),
    ("SNAPLINE_SPARK_MASTER", "spark://host"),
    ("SNAPLINE_SPARK_REMOTE", "x"),
    ("SNAPLINE_SPARK_REMOTE", "http://host/;token=s3cretword"),
    ("SNAPLINE_SPARK_CONFIG", '{"nope": "1"}'),
    ("SNAPLINE_HOME", "relative/home"),
    ("SNAPLINE_SPARK_MASTER", "spark://h:99999"),
    ("SNAPLINE_SPARK_MASTER", "spark://a:7077,b:65536"),
    ("SNAPLINE_SPARK_MASTER", "k8s://https://h:99999"),
    ("SNAPLINE_SPARK_REMOTE", "sc://h:99999"),
    ("SNAPLINE_SPARK_REMOTE", "sc://[::1]:0/;token=s3cretword"),
    ("SNAPLINE_BROWSER_URL", "https://h:99999/snapline"),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.cores.max": "many"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.cores": 0}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.memory": "-1g"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.memory": "4 gigs"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.network.timeout": "soon"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.dynamicAllocation.enabled": "yes"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.memry": "1g"}'),
    ("SNAPLINE_SPARK_CONFIG", '{"spark.core.max": 4}'),
    ("SNAPLINE_STORAGE_OPTIONS", "[]"),
    pytest.param("SNAPLINE_STORAGE_OPTIONS", "[" * 100_000, id="a list in a list, without end"),
    ("SNAPLINE_STORAGE_OPTIONS", '{"auto_mkdir": true, "auto_mkdir": false}'),
    ("SNAPLINE_LOCK_DIRECTORY", "/dev/null"),
    ("SNAPLINE_WAREHOUSE", "memory://w"),
    ("SNAPLINE_WAREHOUSE", "ftp://host/w"),
    ("SNAPLINE_WAREHOUSE", "zip://w"),
    ("SNAPLINE_WAREHOUSE", "s3:/bucket/w"),
    ("SNAPLINE_WAREHOUSE", "s3://user:s3cretword@bucket/w"),
    ("SNAPLINE_READABLE_DIRECTORIES", '["/tmp/*"]'),
    ("SNAPLINE_READABLE_DIRECTORIES", '["/etc/passwd"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["s3://user:s3cretword@bucket/out"]'),
    ("SNAPLINE_WRITABLE_DIRECTORIES", '["http://host/out"]'),
    ("SNAPLINE_EXTERNAL_ROOTS", '["https://host/files"]'),
    ("SNAPLINE_BROWSER_READ_ONLY", "maybe"),
    ("TZ", "Europa/Berlin"),
    ("TZ", "no zone"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_cannot_work_is_refused_by_its_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as caught:
        Settings.from_environment({"SNAPLINE_HOME": str(tmp_path), name: value})
    assert "\n" not in str(caught.value) and "s3cretword" not in str(caught.value)


ADDRESSES = (
    *("SNAPLINE_HOME", "SNAPLINE_WAREHOUSE", "SNAPLINE_CHECKPOINTS", "SNAPLINE_LOCK_DIRECTORY", "SNAPLINE_BROWSER_URL"),
    *("SNAPLINE_EXTERNAL_ROOTS", "SNAPLINE_READABLE_DIRECTORIES", "SNAPLINE_WRITABLE_DIRECTORIES"),
)


@pytest.mark.parametrize("unseen", [" ", "\t", "\n", "\r\n", "\u00a0", "\u200b", "\ufeff", " /"])
@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_that_ends_with_what_nobody_sees_is_refused(tmp_path: Path, name: str, unseen: str) -> None:
    is_list = name.endswith(("_ROOTS", "_DIRECTORIES"))
    value = f"{tmp_path}/a{unseen}"
    with pytest.raises(InvalidRequest, match=f"{name}.* not shown") as caught:
        Settings.from_environment({"SNAPLINE_HOME": str(tmp_path), name: json.dumps([value]) if is_list else value})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SNAPLINE_WAREHOUSE", "/data/my tables"),
        ("SNAPLINE_WAREHOUSE", "file:///data/w"),
        ("SNAPLINE_WAREHOUSE", "file:/data/w"),
        ("SNAPLINE_WAREHOUSE", "abfs://container@account.dfs.core.windows.net/w"),
        ("SNAPLINE_WAREHOUSE", "hdfs://me@host:9000/w"),
        ("SNAPLINE_LINEAGE_URL", "jdbc:sqlite:///data/l.db"),
        ("SNAPLINE_LINEAGE_URL", "jdbc:postgresql://me:a@b/c@host:5432/db?password=x@y:z"),
        ("SNAPLINE_LINEAGE_URL", "jdbc:mariadb://[::1]:3306/db"),
        ("SNAPLINE_DAGSTER_URL", "postgresql://u:a@b/c@host:5432/db?sslmode=require&options=a@b/c"),
        ("SNAPLINE_WRITABLE_DIRECTORIES", '["/data/out/", "s3://bucket/exports", "local:///data/x"]'),
        ("TZ", "Europe/Berlin"),
        ("TZ", ":Asia/Kolkata"),
        ("TZ", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ("TZ", "<+03>-3"),
        ("TZ", ""),
        ("SNAPLINE_SPARK_MASTER", "local[2,4]"),
        ("SNAPLINE_SPARK_MASTER", "spark://a:7077,b:7077"),
        ("SNAPLINE_SPARK_MASTER", "k8s://https://host:6443"),
        ("SNAPLINE_SPARK_REMOTE", "sc://host:15002/;token=abc"),
        ("SNAPLINE_SPARK_CONFIG", '{"spark.sql.shuffle.partitions": 4}'),
        ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.memory": "1G", "spark.cores.max": 4, "spark.ui.enabled": false}'),
        ("SNAPLINE_SPARK_CONFIG", '{"spark.executor.memory": "${env:HOME}"}'),
        ("SNAPLINE_SPARK_CONFIG", '{"spark.a.package.memory": "x", "spark.sql.catalog.far": "C"}'),
        ("SNAPLINE_SPARK_REMOTE", "sc://host/;token=a:99999"),
        ("SNAPLINE_HOME", "~/snapline"),
    ],
)
def test_values_that_can_work_are_taken(tmp_path: Path, name: str, value: str) -> None:
    Settings.from_environment({"SNAPLINE_HOME": str(tmp_path)} | {name: value})


def test_no_setting_of_spark_is_taken_for_another_one_misspelt() -> None:
    pyspark = pytest.importorskip("pyspark")
    names: set[str] = set()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as classes:
            for name in classes.namelist():
                if re.search(r"internal/config/package|/SQLConf\$|/SparkConf\$|deploy/k8s/Config\$", name):
                    names |= {text.decode() for text in re.findall(rb"spark\.[A-Za-z][\w.]*\w", classes.read(name))}
    assert len(names) > 1000
    assert {name: trouble for name in names if (trouble := trouble_with(name, "1")) and "Did you mean" in trouble} == {}


def test_a_home_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for home in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nobody")):
        with pytest.raises(InvalidRequest, match="SNAPLINE_HOME"):
            Session(Settings(home, str(tmp_path / "w"), f"jdbc:sqlite:{tmp_path}/l.db"))


def test_options_of_a_store_that_it_would_pass_over_are_refused() -> None:
    pytest.importorskip("s3fs")
    with pytest.raises(StorageError, match=r"'endpoint'.*'endpoint_url'"):
        FileIO("s3://bucket/w", {"endpoint": "http://127.0.0.1:9000"})
    FileIO("s3a://bucket/w", {"endpoint_url": "http://127.0.0.1:9000", "client_kwargs": json.dumps({}), "anon": True})


def test_a_local_directory_takes_no_options_of_an_object_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="'key' has no effect on a local directory"):
        FileIO(str(tmp_path), {"key": "k"})
    FileIO(str(tmp_path), {"auto_mkdir": True})


def test_a_catalog_with_a_lineage_database_that_lies_elsewhere_elsewhere_is_refused(session: Session) -> None:
    home = session.settings.home
    with pytest.raises(InvalidRequest, match=r"jdbc\.url"):
        session.sql(
            f"CREATE CATALOG c WITH ('warehouse' = '{home}/c', 'jdbc.url' = 'jdbc:sqlite:lineage.db')", "duckdb"
        )
    assert session.catalog_names() == ["snapline"]
