"""A server that others wrote, over S3: its conditions hold, tables live on it, and every way to give credentials leads to it.

What a server does wrong on purpose is tried on the tests' own (`test_object_store.py`).
"""

import datetime as dt
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, StorageError, StoreUnavailable
from storage.engines.spark_types import storage_texts
from storage.file_io import FileIO
from tests.contracts.test_object_store import changed_between, empty_databases_are_there
from tests.contracts.versitygw import KEY, REGION, SECRET, Versitygw
from tests.scale import amount

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
WAREHOUSE = "s3://bucket/warehouse"
# An error is to come soon.
SOON = {"retries": {"max_attempts": 0}, "read_timeout": 1, "connect_timeout": 1}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["x"] * len(ids)})


def test_of_sixteen_creators_exactly_one_wins_each_time(gateway: Versitygw) -> None:
    file_ios = [FileIO("s3://bucket", gateway.options() | {"skip_instance_cache": True}) for _ in range(4)]
    rounds = amount(20, 200)
    with ThreadPoolExecutor(16) as pool:
        barrier = threading.Barrier(16)

        def create(number: int, path: str) -> bool:
            barrier.wait()
            return file_ios[number % 4].create_exclusively(path, str(number).encode())

        for each in range(rounds):
            path = f"bucket/d/{each}"
            won = list(pool.map(create, range(16), [path] * 16))
            assert won.count(True) == 1
            assert file_ios[0].read_bytes(path) == str(won.index(True)).encode()
            assert len(file_ios[1].list_files("bucket/d")) == each + 1


@pytest.mark.parametrize("change", ["delete", "replace"])
@pytest.mark.parametrize("others", ["write", "delete", "write the same", "nothing"])
def test_an_object_is_changed_only_if_it_is_still_what_was_seen(gateway: Versitygw, change: str, others: str) -> None:
    mine, other = (FileIO("s3://bucket", gateway.options() | {"skip_instance_cache": True}) for _ in range(2))
    changed_between(mine, other, change, others)


def test_tables_live_on_it(gateway: Versitygw) -> None:
    catalog = Catalog(WAREHOUSE, storage_options=gateway.options())
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 2})
    table.write(rows(0, 1))
    table.branches.create("fix", snapshot_id=1)
    table.on_branch("fix").write(rows(77))
    table.branches.merge("fix")
    table.branches.delete("fix")
    table.tags.create("kept")
    for number in range(6):
        table.write(rows(number, number + 1))
    table.compact(full=True)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [*range(7), 77]
    assert table.expire(retain_last=1).snapshot_ids
    assert sorted(table.to_arrow(version="kept")["id"].to_pylist()) == [0, 1, 77]
    table.rollback_to("kept")
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    catalog.rename_table("a.t", "b.u")
    renamed = Catalog(WAREHOUSE, storage_options=gateway.options()).table("b.u")
    assert renamed.count() == 3
    assert renamed.check(deep=True) == []
    catalog.drop_table("b.u")
    assert catalog.databases() == ["a", "b"]
    assert not list((gateway.directory / "bucket" / "warehouse").rglob("*-*"))
    assert gateway.buckets() == ["bucket"]


def test_a_database_without_tables_is_there_until_it_is_dropped(gateway: Versitygw) -> None:
    empty_databases_are_there(Catalog(WAREHOUSE, storage_options=gateway.options()))


def _environment(gateway: Versitygw, directory: Path, way: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Variables of the environment, and storage options, by which a client reaches the server."""
    address = {"endpoint_url": gateway.endpoint}
    region = {"client_kwargs": {"region_name": REGION}}
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    (directory / "credentials").write_text(
        f"[team]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n[process]\ncredential_process = "
        + f"echo '{json.dumps({'Version': 1, 'AccessKeyId': KEY, 'SecretAccessKey': SECRET})}'\n"
    )
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(directory / "credentials")}
    ways: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "options": ({}, gateway.options()),
        "options that are texts": ({}, {**gateway.options(), "client_kwargs": json.dumps(region["client_kwargs"])}),
        "options of the client": (
            {},
            {"client_kwargs": {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, **address}},
        ),
        "references": (
            {"OWN_KEY": KEY, "OWN_SECRET": SECRET, "OWN_PLACE": gateway.endpoint},
            {"key": "${env:OWN_KEY}", "secret": "${env:OWN_SECRET}", "endpoint_url": "${env:OWN_PLACE}", **region},
        ),
        "the environment": ({**keys, "AWS_DEFAULT_REGION": REGION}, address),
        "the environment alone": ({**keys, "AWS_ENDPOINT_URL_S3": gateway.endpoint}, {}),
        "a profile": ({**files, "AWS_PROFILE": "team"}, address),
        "a profile by option": (files, {**address, "profile": "team"}),
        "a process": ({**files, "AWS_PROFILE": "process"}, address),
    }
    return ways[way]


@pytest.mark.parametrize(
    "way",
    [
        *("options", "options that are texts", "options of the client", "references", "the environment"),
        *("the environment alone", "a profile", "a profile by option", "a process"),
    ],
)
def test_credentials_are_given_in_every_way(
    gateway: Versitygw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    variables, options = _environment(gateway, tmp_path, way)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    table = Catalog(WAREHOUSE, storage_options=options).create_table("a.t", SCHEMA)
    table.write(rows(1, 2))
    assert Catalog(WAREHOUSE, storage_options=options).table("a.t").count() == 2


def test_credentials_that_expire_are_renewed(
    gateway: Versitygw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Expiration": "EXPIRES"}
    script = (
        "import datetime as dt, pathlib\n"
        f"pathlib.Path({str(tmp_path / 'asked')!r}).open('a').write('.')\n"
        "soon = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=30)\n"
        f"print({json.dumps(given)!r}.replace('EXPIRES', soon.strftime('%Y-%m-%dT%H:%M:%SZ')))"
    )
    (tmp_path / "give.py").write_text(script)
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} -I {tmp_path / 'give.py'}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    file_io = FileIO("s3://bucket", {"endpoint_url": gateway.endpoint})
    for _ in range(3):
        file_io.write_bytes("bucket/x", b"1")
    assert len((tmp_path / "asked").read_text()) >= 3


def test_options_keep_their_types_as_texts() -> None:
    """As options of a catalog, of Spark's data source and in the environment they are texts."""
    config = {"read_timeout": 7.5, "retries": {"max_attempts": 3}, "s3": {"addressing_style": "path"}}
    options = {"key": "12345", "secret": "x", "anon": False, "default_block_size": 6 << 20, "config_kwargs": config}
    texts = {name.removeprefix("storage."): value for name, value in storage_texts(options).items()}
    assert all(isinstance(value, str) for value in texts.values())
    fs = FileIO("s3://bucket", texts)._fs
    assert (fs.key, fs.anon, fs.default_block_size, fs.config_kwargs) == ("12345", False, 6 << 20, config)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"key": "x"}, r"(No user exists|does not exist in our records).*'key', 'secret'"),
    "secret": ({"secret": "x"}, r"signature.*'key', 'secret'"),
    "no credentials": ({"key": None, "secret": None}, r"Unable to locate credentials.*'key', 'secret'"),
    "nobody's": ({"key": None, "secret": None, "anon": True}, r"Access Denied.*'key', 'secret'"),
    "profile": (
        {"key": None, "secret": None, "profile": "none"},
        r"profile \(none\).*'profile' of the storage options",
    ),
    "port": ({"endpoint_url": "http://127.0.0.1:9"}, "Could not connect.*'endpoint_url'"),
    "host": ({"endpoint_url": "http://no.such.host.invalid"}, "Could not connect.*'endpoint_url'"),
}


def fails_by_one_line(act: Callable[[], object], expected: type[StorageError], match: str) -> None:
    with pytest.raises(expected, match=match) as raised:
        act()
    assert "\n" not in str(raised.value)
    assert "disk" not in str(raised.value)


@pytest.mark.parametrize("setting", WRONG)
def test_a_wrong_setting_is_named(gateway: Versitygw, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    changed, match = WRONG[setting]
    options = {name: value for name, value in (gateway.options(**SOON) | changed).items() if value is not None}
    match = f"Could not read {WAREHOUSE}/catalog-options.json: .*{match}"
    fails_by_one_line(lambda: Catalog(WAREHOUSE, storage_options=options).tables(), StoreUnavailable, match)
    fails_by_one_line(
        lambda: Catalog(WAREHOUSE, storage_options=options).create_table("a.t", SCHEMA), StoreUnavailable, match
    )
    assert list((gateway.directory / "bucket").iterdir()) == []


def test_a_wrong_region_is_put_right_by_the_answer(gateway: Versitygw) -> None:
    options = gateway.options() | {"client_kwargs": {"region_name": "us-west-2"}}
    Catalog(WAREHOUSE, storage_options=options).create_table("a.t", SCHEMA).write(rows(1))
    assert Catalog(WAREHOUSE, storage_options=gateway.options()).table("a.t").count() == 1


@pytest.mark.parametrize("warehouse", ["s3://", "s3:///w", "s3a://"])
def test_a_warehouse_without_a_bucket_is_refused(warehouse: str) -> None:
    fails_by_one_line(lambda: Catalog(warehouse), InvalidRequest, f"'{warehouse}' names no bucket")


@pytest.mark.parametrize(
    ("bucket", "match"), [("missing", "bucket does not exist.*create it"), ("No_Name", "No bucket can have that name")]
)
def test_no_bucket_is_made_by_accident(gateway: Versitygw, bucket: str, match: str) -> None:
    catalog = Catalog(WAREHOUSE, storage_options=gateway.options())
    catalog.create_table("a.t", SCHEMA).write(rows(1))
    wrong = f"s3://{bucket}/warehouse"
    acts: list[Callable[[Catalog], object]] = [
        lambda wrong: wrong.tables(),
        lambda wrong: wrong.create_database("b"),
        lambda wrong: wrong.create_table("a.t", SCHEMA),
        lambda wrong: wrong.table("a.t"),
    ]
    for act in acts:
        fails_by_one_line(
            lambda act=act: act(Catalog(wrong, storage_options=gateway.options())),
            StoreUnavailable,
            f"{wrong}/.*{match}",
        )
    assert gateway.buckets() == ["bucket"]
    # And one that goes while a table is open.
    table = catalog.table("a.t")
    gateway.empty()
    (gateway.directory / "bucket").rmdir()
    fails_by_one_line(lambda: table.write(rows(2)), StoreUnavailable, "bucket does not exist.*Nothing was committed")
    fails_by_one_line(table.count, StoreUnavailable, "bucket does not exist")
    assert gateway.buckets() == []


def _with_users(gateway: Versitygw, **actions: list[str]) -> None:
    """Make a bucket, `users`, and users who may do something in it; their secrets are their names, twice."""
    bucket = "arn:aws:s3:::users"
    fs = FileIO("s3://bucket", gateway.options())._fs
    fs.call_s3("create_bucket", Bucket="users", CreateBucketConfiguration={"LocationConstraint": REGION})
    allowed = []
    for name, given in actions.items():
        gateway.add_user(name, name * 2)
        for resource, chosen in ((f"{bucket}/warehouse/*", given), (bucket, ["s3:ListBucket"])):
            allowed.append({"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": chosen, "Resource": resource})
    policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    fs.call_s3("put_bucket_policy", Bucket="users", Policy=policy)


def test_what_users_need_is_what_the_documentation_says(own_gateway: Versitygw) -> None:
    """SECURITY.md, "The least that each needs": of a reader and of a writer."""
    writer = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    _with_users(own_gateway, reader=["s3:GetObject"], writer=writer)
    read, written = (
        Catalog("s3://users/warehouse", storage_options=own_gateway.options() | {"key": name, "secret": name * 2})
        for name in ("reader", "writer")
    )
    table = written.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1})
    for number in range(7):
        table.write(rows(number))
    table.branches.create("fix")
    table.on_branch("fix").write(rows(77))
    table.branches.merge("fix")
    table.branches.delete("fix")
    table.tags.create("kept")
    table.compact(full=True)
    assert table.expire(retain_last=1).snapshot_ids
    seen = read.table("a.t")
    assert read.tables() == ["a.t"]
    assert seen.count() == 8
    assert seen.check(deep=True) == []
    acts: list[tuple[Callable[[], object], str]] = [
        (lambda: seen.write(rows(1)), "write s3://users/warehouse/a.db/t/bucket-0/data-.*Nothing was committed"),
        (lambda: seen.tags.create("x"), "replace s3://users/warehouse/a.db/t/tag/"),
        (lambda: seen.compact(full=True), "write s3://users/warehouse/a.db/t/bucket-0/"),
        (lambda: read.drop_table("a.t"), "delete s3://users/warehouse/a.db/t/schema/schema-0"),
        (lambda: read.create_database("b"), "create the directory s3://users/warehouse/b.db"),
        (lambda: read.create_table("a.u", SCHEMA), "create s3://users/warehouse/a.db/u/schema/schema-0"),
    ]
    table.write(rows(8))
    for act, match in acts:
        fails_by_one_line(act, StoreUnavailable, f"Could not {match}".replace(": ", ".*Access Denied.*"))
    assert table.check(deep=True) == []
    assert seen.count() == 9
    written.rename_table("a.t", "a.other")
    assert read.table("a.other").count() == 9
    written.drop_table("a.other")
    assert read.tables() == []


def test_a_server_that_is_away_or_does_not_answer_is_named(own_gateway: Versitygw) -> None:
    options = own_gateway.options(**SOON)
    table = Catalog(WAREHOUSE, storage_options=options).create_table("a.t", SCHEMA)
    table.write(rows(1))
    stops: list[tuple[Callable[[], None], Callable[[], None], str]] = [
        (own_gateway.pause, own_gateway.resume, "Read timeout"),
        (own_gateway.kill, own_gateway.start, "Could not connect"),
    ]
    for stop, go_on, match in stops:
        stop()
        fails_by_one_line(
            lambda: Catalog(WAREHOUSE, storage_options=options).tables(), StoreUnavailable, f"{match}.*'endpoint_url'"
        )
        fails_by_one_line(table.count, StoreUnavailable, f"{match}.*'endpoint_url'")
        go_on()
        fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert Catalog(WAREHOUSE, storage_options=options).table("a.t").count() == 1
