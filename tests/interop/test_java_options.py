"""Every option that Paimon's Java library knows is followed, accepted with a reason, or refused with one."""

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, SetOptions, StorageError, Unsupported
from storage.known_options import ACCEPTED, REFUSED, accepted_for, refused_for
from storage.option_checks import check_table_options
from storage.options import TableOptions
from tests.interop.java_paimon import JavaPaimon

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def test_no_option_of_java_is_unknown(java: JavaPaimon, catalog: Catalog) -> None:
    keys = java.ask(catalog.warehouse, "d.t", "options")["keys"]
    assert len(keys) > 150
    followed = {each["key"] for each in TableOptions.declared()}
    unknown = []
    for key in keys:
        if key in ("primary-key", "partition") or key in followed:
            # Those two become the keys of the schema.
            continue
        try:
            check_table_options({key: "some value"}, "to be created")
        except Unsupported:
            continue
        except InvalidRequest as error:
            unknown += [key] if "Unknown option" in str(error) else []
        except StorageError:
            continue
    assert unknown == []


def test_what_does_not_matter_here_is_accepted(catalog: Catalog) -> None:
    options = {
        "sink.parallelism": "4",
        "scan.parallelism": "4",
        "write-buffer-spillable": "true",
        "lookup.cache-max-memory-size": "1 gb",
        "lookup.cache.bloom.filter.enabled": "true",
        "sort-spill-threshold": "10",
        "num-sorted-run.stop-trigger": "7",
        "page-size": "64 kb",
        "metastore.partitioned-table": "true",
        "snapshot.expire.execution-mode": "async",
        "scan.plan-sort-partition": "true",
        "scan.mode": "default",
        "commit.callbacks": "",
    }
    table = catalog.create_table("shop.t", SCHEMA, options=options)
    assert options.items() <= table.schema.options.items()
    assert table.write(pa.table({"id": [1], "name": ["a"]}, schema=SCHEMA)) is not None


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("scan.snapshot-id", "3", "Say it where you read"),
        ("blob-field", "name", "blobs and vectors"),
        ("metadata.iceberg.uri", "thrift://host", "readers of Iceberg"),
        ("scan.ignore-lost-files", "true", "not left out silently"),
        ("commit.callbacks", "com.example.Callback", "Java classes"),
    ],
)
def test_what_would_matter_is_refused_with_the_reason(catalog: Catalog, key: str, value: str, match: str) -> None:
    with pytest.raises(Unsupported, match=rf"Option '{key}' = '{value}': .*{match}"):
        catalog.create_table("shop.t", SCHEMA, options={key: value})
    table = catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(Unsupported, match=match):
        table.alter(SetOptions({key: value}))


def test_each_reason_is_a_sentence() -> None:
    for reason in (*ACCEPTED.values(), *(each.reason for each in REFUSED.values())):
        assert reason.endswith(".") and len(reason) > 20
    assert accepted_for("lookup.refresh.full") and refused_for("materialized-table.refresh-mode")
    assert accepted_for("sinkparallelism") is None and refused_for("scanmode") is None
    assert not ACCEPTED.keys() & REFUSED.keys()


@pytest.mark.parametrize(
    ("key", "options", "beside"),
    [
        ([], {}, "without a primary key"),
        (["id"], {"bucket": "1", "changelog-producer": "lookup"}, "with 'changelog-producer' = 'lookup'"),
        (["id"], {"bucket": "1", "changelog-producer": "full-compaction"}, "'full-compaction'"),
    ],
)
def test_overwrites_are_told_by_default_where_java_does_not_open_a_table_that_says_so(
    java: JavaPaimon, catalog: Catalog, key: list[str], options: dict[str, str], beside: str
) -> None:
    says = {"streaming-read-overwrite": "true"}
    with pytest.raises(InvalidRequest, match=rf"Paimon's Java library does not open a table .*{beside}"):
        catalog.create_table("shop.t", SCHEMA, primary_key=key, options=options | says)
    table = catalog.create_table("shop.t", SCHEMA, primary_key=key, options=options)
    with pytest.raises(InvalidRequest, match=beside):
        table.alter(SetOptions(says))
    quiet = table.alter(SetOptions({"streaming-read-overwrite": "false"}))
    assert java.read(catalog.warehouse, "shop.t").num_rows == 0
    assert not quiet.schema.table_options.streaming_read_overwrite


def test_overwrites_are_told_where_java_opens_a_table_that_says_so(java: JavaPaimon, catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "streaming-read-overwrite": "true"}
    table = catalog.create_table("shop.t", SCHEMA, primary_key=["id"], options=options)
    assert java.read(catalog.warehouse, "shop.t").num_rows == 0
    with pytest.raises(InvalidRequest, match="does not open"):
        table.alter(SetOptions({"changelog-producer": "lookup"}))
