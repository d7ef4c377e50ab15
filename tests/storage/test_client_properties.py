"""Each property of Kafka's client that a table may have refuses what it cannot mean, when the table is made."""

import pytest

from storage.client_properties import PROPERTIES
from storage.errors import InvalidRequest, Unsupported
from storage.kafka.options import read_options
from storage.log_options import CLIENT_OPTIONS
from storage.option_checks import check_table_options

KAFKA_TABLE = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "b:9092", "format": "json"}
TEXTS = ("client.id", "client.rack", "group.id")
NO_VALUES = ("", " ", "no such", "-7", "1.5", "99999999999999999999", "٣")


@pytest.mark.parametrize("name", sorted(PROPERTIES))
@pytest.mark.parametrize("value", NO_VALUES)
def test_no_property_takes_what_its_client_does_not(name: str, value: str) -> None:
    if name in TEXTS and (value.strip() or name != "group.id"):
        return
    if name == "linger.ms" and value == "1.5":
        return
    if name == "bootstrap.servers" and value in ("-7", "1.5", "99999999999999999999", "٣"):
        return
    with pytest.raises((InvalidRequest, Unsupported), match=f"'properties.{name}'"):
        read_options({**KAFKA_TABLE, f"properties.{name}": value})
    if f"kafka.{name}" in CLIENT_OPTIONS:
        log = {"log.system": "kafka", "kafka.bootstrap.servers": "b:9092", f"kafka.{name}": value}
        with pytest.raises((InvalidRequest, Unsupported), match=f"'kafka.{name}'"):
            check_table_options(log, "a.t")


@pytest.mark.parametrize(
    "value", ["b", "b:1", "b:1, c:2", "b:1,", "b:1,,c:2", "PLAINTEXT://b:1", "[::1]:9092", "10.0.0.1:9092"]
)
def test_servers_are_hosts_and_ports(value: str) -> None:
    assert read_options({**KAFKA_TABLE, "properties.bootstrap.servers": value}).client["bootstrap.servers"] == value


@pytest.mark.parametrize("value", [",", "b:", "b:x", "b:0", "b:65536", "b:1;c:2"])
def test_servers_that_are_none(value: str) -> None:
    with pytest.raises((InvalidRequest, Unsupported), match="no host:port"):
        read_options({**KAFKA_TABLE, "properties.bootstrap.servers": value})


@pytest.mark.parametrize("side", ["startup", "bounded"])
@pytest.mark.parametrize("value", ["9223372036854775808", "٣", "-1", ""])
def test_times_and_offsets_have_64_bits(side: str, value: str) -> None:
    key = f"scan.{side}.timestamp-millis"
    with pytest.raises((InvalidRequest, Unsupported), match=key):
        read_options({**KAFKA_TABLE, f"scan.{side}.mode": "timestamp", key: value})
    key = f"scan.{side}.specific-offsets"
    with pytest.raises((InvalidRequest, Unsupported), match=key):
        read_options({**KAFKA_TABLE, f"scan.{side}.mode": "specific-offsets", key: f"partition:0,offset:{value}"})
