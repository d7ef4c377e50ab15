"""The Avro schemas of manifest lists and manifests, as `docs/format.md` gives them."""

from ..format import avro

_STATS_FIELDS = (
    ("_MIN_VALUES", "bytes"),
    ("_MAX_VALUES", "bytes"),
    ("_NULL_COUNTS", avro.nullable({"type": "array", "items": ["null", "long"]})),
)
LIST_SCHEMA = avro.parse(
    avro.record(
        "record",
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", avro.record("record__PARTITION_STATS", *_STATS_FIELDS)),
        ("_SCHEMA_ID", "long"),
        ("_MIN_BUCKET", avro.nullable("int")),
        ("_MAX_BUCKET", avro.nullable("int")),
        ("_MIN_LEVEL", avro.nullable("int")),
        ("_MAX_LEVEL", avro.nullable("int")),
        ("_MIN_ROW_ID", avro.nullable("long")),
        ("_MAX_ROW_ID", avro.nullable("long")),
    )
)
_FILE_SCHEMA = avro.record(
    "record__FILE",
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_MIN_KEY", "bytes"),
    ("_MAX_KEY", "bytes"),
    ("_KEY_STATS", avro.record("record__FILE__KEY_STATS", *_STATS_FIELDS)),
    ("_VALUE_STATS", avro.record("record__FILE__VALUE_STATS", *_STATS_FIELDS)),
    ("_MIN_SEQUENCE_NUMBER", "long"),
    ("_MAX_SEQUENCE_NUMBER", "long"),
    ("_SCHEMA_ID", "long"),
    ("_LEVEL", "int"),
    ("_EXTRA_FILES", {"type": "array", "items": "string"}),
    ("_CREATION_TIME", avro.nullable({"type": "long", "logicalType": "timestamp-millis"})),
    ("_DELETE_ROW_COUNT", avro.nullable("long")),
    ("_EMBEDDED_FILE_INDEX", avro.nullable("bytes")),
    ("_FILE_SOURCE", avro.nullable("int")),
    ("_VALUE_STATS_COLS", avro.nullable({"type": "array", "items": "string"})),
    ("_EXTERNAL_PATH", avro.nullable("string")),
    ("_FIRST_ROW_ID", avro.nullable("long")),
    ("_WRITE_COLS", avro.nullable({"type": "array", "items": "string"})),
)
MANIFEST_SCHEMA = avro.parse(
    avro.record(
        "record",
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _FILE_SCHEMA),
    )
)
LIST_TYPES, MANIFEST_TYPES = avro.types_of(LIST_SCHEMA), avro.types_of(MANIFEST_SCHEMA)
