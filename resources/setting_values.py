"""Values of settings: those with which nothing could be done later are refused when they are read, by the setting's name."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fsspec.registry import known_implementations

from lineage import check_libpq_parameters
from storage import InvalidRequest, Secret, hidden, is_known_protocol, refuse_other_urls

from .spark_values import trouble_with

_LAST_PORT = 65535
# File systems of fsspec's own list that tables can be kept in (docs/object-stores.md); others that it knows hold nothing beyond
# a process, can only be read, or cannot say that a file is there already.
_OF_TABLES = frozenset(
    ("file", "local", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "arrow_hdfs", "webhdfs")
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_MASTERS = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\]|local-cluster\[\d+,\s*\d+,\s*\d+\]|spark://[^\s/]+:\d+(,[^\s/]+:\d+)*"
    r"|yarn|k8s://\S+"
)
# As POSIX has it: a name, the hours west of Greenwich, and what may follow for summer.
_ZONE_BY_RULE = re.compile(r"([A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d{1,2}(:\d{2}){0,2}([A-Za-z<].*)?$")
# What stands before the last @ may be a password, of any characters.
_POSTGRESQL = re.compile(
    r"postgresql://(.*?@)?(\[[0-9A-Fa-f:.]+\]|[^@:/?\s]+)(:(?P<port>\d+))?/[^/?\s]+(\?(?P<query>.*))?"
)
_REMOTES = re.compile(r"sc://[^\s/:;]+(:\d+)?(/.*)?|sc://\[[0-9A-Fa-f:.]+\](:\d+)?(/.*)?|local(\[.+\])?")


def refuse_unseen(name: str, value: str) -> None:
    """Raise InvalidRequest for an address with a blank at an end, or with characters that nobody sees: it would be another one,
    which is made without a word.
    """
    if value != value.strip() or value.rstrip("/") != value.rstrip("/ ") or not value.isprintable():
        raise InvalidRequest(
            f"{name} = {hidden(value)!r} begins or ends with a blank, or holds characters that are not shown: leave them out."
        )


def check_warehouse(name: str, value: str) -> None:
    """Raise InvalidRequest for a path that means another directory wherever a program is started."""
    refuse_unseen(name, value)
    if not value.startswith("/") and not _SCHEME.match(value):
        raise InvalidRequest(
            f"{name} = {hidden(value)!r} is no absolute path, and no URL such as s3://bucket/warehouse: programs that are "
            "started elsewhere would look for the tables there."
        )
    _refuse_store(name, value, "tables")


def check_home(name: str, value: str) -> None:
    """Raise InvalidRequest for a home that is another directory wherever a program is started."""
    refuse_unseen(name, value)
    if not value.startswith(("/", "~")):
        raise InvalidRequest(f"{name} = {hidden(value)!r} is no absolute path: each program would have another home.")


def check_directory(name: str, value: str) -> None:
    """Raise InvalidRequest for what is no absolute path of this machine."""
    refuse_unseen(name, value)
    if not _is_path(value):
        raise InvalidRequest(f"{name} = {hidden(value)!r} is no directory: give an absolute path.")
    if os.path.exists(value) and not os.path.isdir(value):
        raise InvalidRequest(f"{name} = {hidden(value)!r} is no directory, but a file: give another path.")


def check_directories(name: str, values: Iterable[str], *, urls: bool) -> None:
    """Raise InvalidRequest that names the first of several that is no directory; `urls`: whether it may be on another store."""
    for value in values:
        refuse_unseen(name, value)
        scheme = _SCHEME.match(value) if urls else None
        path = value[scheme.end() :] if scheme else value
        if not path.strip("/") or not _is_path(path) or "*" in path:
            raise InvalidRequest(
                f"{name}: {hidden(value)!r} is no directory: give an absolute path below /"
                f"{', or a URL such as s3://bucket/path' if urls else ''}, without ., .. and * in it."
            )
        if not scheme and os.path.exists(value) and not os.path.isdir(value):
            raise InvalidRequest(f"{name}: {hidden(value)!r} is no directory, but a file: give that which holds it.")
        # What a session exports into the memory of its process, it reads there.
        if urls and _protocol(value) != "memory":
            _refuse_store(name, value, "files")


def _refuse_store(name: str, value: str, what: str) -> None:
    """Raise InvalidRequest for a URL of a file system that keeps no files, and for one with a password in it."""
    _refuse_protocol(name, value)
    protocol = _protocol(value)
    if protocol in known_implementations and protocol not in _OF_TABLES:
        raise InvalidRequest(
            f"{name} = {hidden(value)!r}: {protocol}:// keeps no {what}. Use a path, file://, s3://, gs://, abfs:// or hdfs://."
        )
    try:
        refuse_other_urls(value)
    except InvalidRequest as error:
        raise InvalidRequest(f"{name}: {error}") from None


def check_time_zone(name: str, value: str) -> None:
    """Raise InvalidRequest for a time zone that is not known: the C library takes it for UTC, and says nothing."""
    zone = value.removeprefix(":")
    if _ZONE_BY_RULE.match(zone) or (zone.startswith("/") and os.path.isfile(zone)):
        return
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise InvalidRequest(f"{name} = {value!r} is no time zone: write one such as Europe/Berlin, or UTC.") from None


def check_dagster_url(name: str, value: str) -> None:
    """Raise InvalidRequest for what is no URL of a PostgreSQL database. The value may hold a password."""
    match = _POSTGRESQL.fullmatch(value)
    if match is None:
        raise InvalidRequest(
            f"{name} = {hidden(value)!r} is no URL of a PostgreSQL database: write postgresql://user:password@host/database."
        )
    refuse_ports(name, match["port"])
    check_libpq_parameters(name, match["query"] or "")


def check_spark_master(name: str, value: str) -> None:
    """Raise InvalidRequest for a master that Spark does not know."""
    if not _MASTERS.fullmatch(value):
        raise InvalidRequest(f"{name} = {value!r} is no master: write local[*], spark://host:port, yarn or k8s://….")
    if "://" in value:
        refuse_ports(name, *re.findall(r":(\d+)(?=[,/]|$)", value))


def refuse_ports(name: str, *ports: str | None) -> None:
    """Raise InvalidRequest for the first port that no server can have."""
    for port in ports:
        if port is not None and not 0 < int(port) <= _LAST_PORT:
            raise InvalidRequest(f"{name} has the port {port}: ports go from 1 to {_LAST_PORT}.")


def check_spark_remote(name: str, value: str) -> None:
    """Raise InvalidRequest for what is no URL of Spark Connect. The value may hold a token."""
    if not _REMOTES.fullmatch(value):
        raise InvalidRequest(f"{name} is no URL of Spark Connect: write sc://host:port. Its text is not shown.")
    # What follows the slash may be a token, with colons in it.
    refuse_ports(name, *re.findall(r"^sc://(?:\[[^]]*\]|[^:/]*):(\d+)", value))


def check_spark_config(name: str, config: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a key that Spark would pass over, and for a value that is not one. Only values of settings that
    cannot be secret are shown.
    """
    for key, value in config.items():
        if not isinstance(key, str) or not key.startswith("spark."):
            raise InvalidRequest(
                f"{name}: {key!r} is no setting of Spark: those begin with spark., and Hadoop's with spark.hadoop."
            )
        if not isinstance(value, str | bool | int | float | Secret):
            raise InvalidRequest(
                f"{name}: the value of {key!r} is no text, number or boolean, but {type(value).__name__}."
            )
        trouble = None if isinstance(value, Secret) or "${env:" in str(value) else trouble_with(key, str(value))
        if trouble is not None:
            raise InvalidRequest(f"{name}: {trouble}")


def _refuse_protocol(name: str, value: str) -> None:
    protocol = _protocol(value)
    if not is_known_protocol(protocol):
        raise InvalidRequest(
            f"{name} = {hidden(value)!r}: no file system is known by {protocol!r}. Use a path, file:// or s3://."
        )


def _protocol(value: str) -> str:
    return value.partition(":")[0] if _SCHEME.match(value) else "file"


def _is_path(text: str) -> bool:
    return text.startswith("/") and not {".", ".."}.intersection(text.split("/")) and "\0" not in text
