"""Rows of a table with postponed buckets (`bucket` = -2): each partition has one bucket that takes whatever is written, which
readers do not see until a compaction has moved it to real buckets. Source: `docs/format.md`, "Postponed buckets".
"""

from dataclasses import replace

from ..errors import InvalidRequest
from ..file_formats import COMPRESSIONS
from ..metadata.manifest import POSTPONED_BUCKET
from ..metadata.schema import TableSchema
from ..metadata.schema_check import check_avro
from ..metadata.table_store import TableStore
from .data_file_sink import DataFileSink

# Java gives the files of one writer to one reader, in the order in which they were made, and finds the writer by this number.
_WRITER = "u-snapline-s-0-w"
_OF_FILES = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level", "file-index.")


def is_postponed(schema: TableSchema) -> bool:
    """Whether rows are written to postponed buckets."""
    return bool(schema.primary_keys) and schema.table_options.bucket == POSTPONED_BUCKET


def postponed_sink(store: TableStore, prefix: str) -> DataFileSink:
    """Where rows go that have no bucket yet: Avro files without statistics, as Java writes them; of a table with types that Avro
    does not have, files in its own format.
    """
    options = {
        key: value
        for key, value in store.schema.options.items()
        if not key.startswith(_OF_FILES) and not key.endswith(".stats-mode")
    }
    if options.get("file.compression", "zstd").lower() not in COMPRESSIONS["avro"]:
        del options["file.compression"]
    plain = replace(store.schema, options={**options, "file.format": "avro", "metadata.stats-mode": "none"})
    try:
        check_avro(plain)
    except InvalidRequest:
        plain = store.schema
    return DataFileSink(store.at_schema(plain), f"{prefix}-{_WRITER}")


def with_buckets(store: TableStore, count: int) -> TableStore:
    """The same table with that many buckets in place of postponed ones, to write to them."""
    return store.at_schema(replace(store.schema, options={**store.schema.options, "bucket": str(count)}))
