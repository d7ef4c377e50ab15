"""Options of S3: each has a kind, at every depth; others are refused by name before a store is asked, and with those
of its kind a client can be made. No store runs here.
"""

import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import args
from botocore.config import Config
from botocore.exceptions import InvalidRetryConfigurationError
from botocore.loaders import Loader
from s3fs import S3FileSystem

from storage import Catalog, StoreUnavailable, Unsupported
from storage.file_io import FileIO
from storage.s3_options import (
    kinds_of_client,
    kinds_of_config,
    kinds_of_file_system,
    kinds_of_requests,
    kinds_within_config,
)
from storage.value_kinds import ValueKind

OF_THE_PROCESS = ("session", "loop", "asynchronous")
# None of them is what most options take; which do is asked of the kind.
VALUES: list[Any] = [
    *(
        "nonsense value",
        "x-1",
        "",
        "/no/such/file.pem",
        "http://host:99999",
        "ftp://host",
        "http://host:9000",
        "host:3128",
    ),
    *(-1, 0, 1, 1.5, 2**70, float("inf"), True, False, ["x"], {}, {"a": 1}, {"a": "b"}),
    *("true", "sigv4", "us-east-1", "2030-01-31T00:00:00Z", "2006-03-01", "readahead", "s3v4"),
]


def declared() -> dict[str, dict[str, ValueKind]]:
    """The kinds of all options, by the option that they are in."""
    within = {f"config_kwargs.{name}": kinds() for name, kinds in kinds_within_config().items()}
    return {
        "": {name: kind for name, kind in kinds_of_file_system(S3FileSystem).items() if name not in OF_THE_PROCESS},
        "client_kwargs": kinds_of_client(),
        "config_kwargs": kinds_of_config(),
        "s3_additional_kwargs": kinds_of_requests(),
        **within,
    }


def every() -> Iterator[tuple[str, str, ValueKind]]:
    for where, kinds in declared().items():
        for name, kind in kinds.items():
            yield where, name, kind


EVERY = list(every())


def options(where: str, name: str, value: Any) -> dict[str, Any]:
    given = {name: value}
    for outer in reversed(where.split(".") if where else []):
        given = {outer: given}
    return given


def refused(given: dict[str, Any], *words: str) -> None:
    with pytest.raises(Unsupported) as raised:
        FileIO("s3://bucket", given)
    assert "\n" not in str(raised.value)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize(("where", "name", "kind"), EVERY, ids=[f"{where}.{name}" for where, name, _ in EVERY])
def test_a_value_of_another_kind_is_refused_by_name(where: str, name: str, kind: ValueKind) -> None:
    wrong = [value for value in VALUES if not kind.accepts(value)]
    assert len(wrong) >= 4, "it has no kind"
    for value in wrong:
        if not where and isinstance(value, str) and value == "true" and kind.accepts(True):
            continue
        refused(options(where, name, value), repr(name), f"takes {kind.values}", where)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("where", "name", "kind"), EVERY, ids=[f"{where}.{name}" for where, name, _ in EVERY])
def test_a_client_is_made_by_a_value_of_its_kind(where: str, name: str, kind: ValueKind, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    right = [value for value in (*VALUES, *_choices(kind), str(tmp_path / "file")) if kind.accepts(value)]
    if "certificates" in kind.values:
        return
    assert right
    if where == "s3_additional_kwargs":
        FileIO("s3://bucket", options(where, name, right[0]))
        return
    for value in (right[0], right[-1]):
        if isinstance(value, dict) or name in ("client_cert", "profile"):
            continue
        pairs = {"key": "secret", "secret": "key", "aws_access_key_id": "aws_secret_access_key", "username": "password"}
        pairs |= {"aws_secret_access_key": "aws_access_key_id", "password": "username"}
        given = options(where, name, value)
        if name in pairs:
            given = (
                {**given, **options(where, pairs[name], "x")} if not where else {where: {name: value, pairs[name]: "x"}}
            )
        elif name in ("token", "aws_session_token"):
            given |= {"key": "k", "secret": "s"}
        fs = FileIO("s3://bucket", {**given, "skip_instance_cache": True})._fs
        assert fs.s3 is not None


def _choices(kind: ValueKind) -> list[str]:
    return [word.strip("' ") for part in kind.values.split(",") for word in part.split(" or ")]


def test_what_the_libraries_know_has_a_kind() -> None:
    """Of newer versions of them as well: a new option needs a kind."""
    parameters = inspect.signature(S3FileSystem.__init__).parameters
    assert set(parameters) - {"self", "kwargs"} <= set(kinds_of_file_system(S3FileSystem))
    assert set(kinds_of_config()) == set(Config.OPTION_DEFAULTS)
    modes = Loader().load_data("sdk-default-configuration")["modes"]
    assert all(kinds_of_config()["defaults_mode"].accepts(mode) for mode in (*modes, "legacy", "auto"))
    with pytest.raises(InvalidRetryConfigurationError) as raised:
        Config(retries={"x": 1})
    assert set(raised.value.kwargs["valid_options"]) == set(kinds_within_config()["retries"]())
    assert args.VALID_REGIONAL_ENDPOINTS_CONFIG


@pytest.mark.parametrize("where", [where for where in declared() if where])
def test_a_name_that_is_not_known_is_refused_at_every_depth(where: str) -> None:
    name = next(iter(declared()[where]))
    refused(options(where, f"{name}x", "x"), f"'{name}x'", f"{where!r}", f"Did you mean {name!r}")
    refused(options(where, "zzzz", "x"), "'zzzz'", f"{where!r}", "It takes ", name)


@pytest.mark.parametrize("name", ["Bucket", "Key", "Body", "IfMatch", "IfNoneMatch", "ChecksumCRC32", "acl"])
def test_what_each_request_says_is_no_option(name: str) -> None:
    refused({"s3_additional_kwargs": {name: "x"}}, repr(name))


KEYS = {"key": "k", "secret": "s"}
ENDPOINT = "http://127.0.0.1:9"
CONTRADICTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nobody with a key": ({**KEYS, "anon": True}, ("'anon'", "'key'")),
    "nobody with a key of the client": (
        {"anon": True, "client_kwargs": {"aws_access_key_id": "k", "aws_secret_access_key": "s"}},
        ("'anon'", "'aws_access_key_id' in 'client_kwargs'"),
    ),
    "nobody who signs": (
        {"anon": True, "config_kwargs": {"signature_version": "s3v4"}},
        ("'anon'", "'signature_version' in 'config_kwargs'"),
    ),
    "a user and a key": ({**KEYS, "username": "u"}, ("'key'", "'username'")),
    "a password and a secret": ({**KEYS, "password": "u"}, ("'secret'", "'password'")),
    "two addresses": (
        {"endpoint_url": ENDPOINT, "client_kwargs": {"endpoint_url": "http://127.0.0.1:8"}},
        ("'endpoint_url' in 'client_kwargs'",),
    ),
    "two keys": ({**KEYS, "client_kwargs": {"aws_access_key_id": "other"}}, ("'key'", "'aws_access_key_id'")),
    "two secrets": ({**KEYS, "client_kwargs": {"aws_secret_access_key": "other-one"}}, ("'aws_secret_access_key'",)),
    "encrypted or not": ({"use_ssl": True, "client_kwargs": {"use_ssl": False}}, ("'use_ssl' in 'client_kwargs'",)),
    "two regions": (
        {"client_kwargs": {"region_name": "eu-west-1"}, "config_kwargs": {"region_name": "eu-west-2"}},
        ("'region_name' in 'client_kwargs'", "'config_kwargs'"),
    ),
    "two numbers of attempts": (
        {"config_kwargs": {"retries": {"max_attempts": 1, "total_max_attempts": 3}}},
        ("'max_attempts'", "'total_max_attempts'"),
    ),
    "half of the credentials": ({"key": "k"}, ("'key' needs 'secret'",)),
    "the other half": ({"secret": "s"}, ("'secret' needs 'key'",)),
    "a token alone": ({"token": "t"}, ("'token' needs 'key'",)),
    "a loop": ({"loop": "x"}, ("'loop' is an object of the program",)),
    "a session": ({"session": "x"}, ("'session' is an object of the program",)),
    "asynchronous": ({"asynchronous": True}, ("'asynchronous' is an object of the program",)),
    "listings that none keeps": ({"max_paths": 5}, ("'max_paths' has no effect",)),
    "a cache of file systems": ({"skip_instance_cache": "x"}, ("'skip_instance_cache' takes true or false",)),
    "an address without http": ({"endpoint_url": "127.0.0.1:9"}, ("'endpoint_url'", "http://host:port")),
    "a name": ({"endpoint": "x"}, ("Did you mean 'endpoint_url'",)),
    "a text for an object": ({"client_kwargs": "region_name=x"}, ("'client_kwargs' takes an object of JSON",)),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_options_that_contradict_each_other_are_refused_by_name(case: str) -> None:
    given, words = CONTRADICTIONS[case]
    refused(given, *words)
    with pytest.raises(Unsupported):
        Catalog("s3://bucket/warehouse", storage_options=given)


def test_the_same_said_twice_is_no_contradiction() -> None:
    client = {"endpoint_url": ENDPOINT, "aws_access_key_id": "k"}
    assert FileIO("s3://bucket", {**KEYS, "endpoint_url": ENDPOINT, "client_kwargs": client})._fs.s3 is not None


@pytest.mark.parametrize("name", ["secret", "token", "password"])
def test_a_secret_of_another_kind_is_not_shown(name: str) -> None:
    with pytest.raises(Unsupported) as raised:
        FileIO("s3://bucket", {name: 712345678})
    assert "712345678" not in str(raised.value)
    with pytest.raises(Unsupported) as raised:
        FileIO("s3://bucket", {"s3_additional_kwargs": {"SSECustomerKey": 712345678}})
    assert "712345678" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "variables", "match"),
    [
        (
            {"config_kwargs": {"proxies": {"http": "http://127.0.0.1:9"}}, "endpoint_url": "http://no.such.invalid"},
            {},
            "'proxies'.*HTTPS_PROXY",
        ),
        ({"endpoint_url": "https://127.0.0.1:9"}, {"AWS_CA_BUNDLE": "/no/such.pem"}, "'verify'.*AWS_CA_BUNDLE"),
    ],
)
def test_errors_of_proxies_and_certificates_name_their_settings(
    given: dict[str, Any], variables: dict[str, str], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    soon = {"retries": {"max_attempts": 0}, "connect_timeout": 1, "read_timeout": 1}
    config = {**given.get("config_kwargs", {}), **soon}
    file_io = FileIO("s3://bucket", {**KEYS, **given, "config_kwargs": config, "skip_instance_cache": True})
    with pytest.raises(StoreUnavailable, match=match) as raised:
        file_io.read_bytes("bucket/x")
    assert "'endpoint_url'" not in str(raised.value)


def test_a_local_directory_takes_values_of_their_kind_too(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="'auto_mkdir' takes true or false"):
        FileIO(str(tmp_path), {"auto_mkdir": "x"})
    with pytest.raises(Unsupported, match="'max_paths' has no effect on a local directory"):
        FileIO(str(tmp_path), {"max_paths": 3})


def test_a_local_warehouse_loads_no_client_of_a_store(tmp_path: Path) -> None:
    program = (
        "import sys; from storage.file_io import FileIO; "
        f"FileIO({str(tmp_path)!r}, {{'auto_mkdir': True}}); "
        "print([name for name in ('botocore', 's3fs') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert shown.stdout.strip() == "[]"
