"""What people type of Spark's and other dialects that is not known here, and what there is in its place."""

# Statements of Spark's and other dialects that people type, and what there is in their place.
NOT_KNOWN = {
    (
        "COMMENT",
        "ON",
    ): "only tables have a comment, COMMENT ON TABLE t IS 'text'; of a column ALTER COLUMN a COMMENT 'text'",
    ("MERGE", "WITH", "SCHEMA", "EVOLUTION"): "ALTER TABLE … ADD COLUMN first; leave out WITH SCHEMA EVOLUTION",
    ("ALTER", "DATABASE"): "a database has a name and nothing else",
    ("ALTER", "SCHEMA"): "a database has a name and nothing else",
    ("REFRESH",): "tables are read as they are, nothing is cached; leave it out",
    ("MSCK",): "partitions are there as soon as they have rows; leave it out",
    ("REPAIR",): "partitions are there as soon as they have rows; leave it out",
    ("CACHE",): "nothing is cached; leave it out",
    ("UNCACHE",): "nothing is cached; leave it out",
    ("VACUUM",): "CALL sys.expire_snapshots and CALL sys.remove_orphan_files do that",
    ("OPTIMIZE",): "ALTER TABLE t COMPACT does that",
    ("RESTORE",): "CALL sys.rollback does that",
    ("LOAD", "DATA"): "INSERT INTO t SELECT … reads rows",
    ("GRANT",): "who may read and write is said by the store that holds the warehouse",
    ("REVOKE",): "who may read and write is said by the store that holds the warehouse",
}

_CONSTRAINTS = (
    "a table has the constraints that it was made with, PRIMARY KEY (…) NOT ENFORCED, and NOT NULL, which ALTER COLUMN a SET NOT "
    "NULL adds; a sql_check of an asset looks at conditions"
)
_TAGS = "CALL sys.create_tag, rename_tag and delete_tag do that"
ALTERATIONS_NOT_KNOWN: dict[tuple[str, ...], str] = {
    ("ADD", "CONSTRAINT"): _CONSTRAINTS,
    ("DROP", "CONSTRAINT"): _CONSTRAINTS,
    ("DROP", "PRIMARY KEY"): _CONSTRAINTS,
    ("CHANGE",): "ALTER COLUMN a TYPE …, ALTER COLUMN a COMMENT '…', RENAME COLUMN a TO b, one thing at a time",
    ("REPLACE", "COLUMNS"): "ADD, DROP and ALTER COLUMN change columns; CREATE OR REPLACE TABLE gives others",
    ("CLUSTER",): "Buckets are options: SET ('bucket' = '4')",
    ("CREATE", "TAG"): _TAGS,
    ("CREATE", "OR", "REPLACE", "TAG"): _TAGS,
    ("REPLACE", "TAG"): _TAGS,
    ("DELETE", "TAG"): _TAGS,
    ("RENAME", "TAG"): _TAGS,
    ("RECOVER", "PARTITIONS"): "partitions are there as soon as they have rows; leave it out",
}

DESCRIPTIONS_NOT_KNOWN = {
    "QUERY": "EXPLAIN shows its plan",
    "DATABASE": "SHOW TABLES IN db lists its tables",
    "SCHEMA": "SHOW TABLES IN db lists its tables",
    "FUNCTION": "SHOW FUNCTIONS lists them",
    "CATALOG": "SHOW CATALOGS lists them",
}

SHOWN_NOT_KNOWN = {
    ("TABLE", "EXTENDED"): "DESCRIBE TABLE EXTENDED t shows one table, SHOW TABLES lists them",
    ("CURRENT", "NAMESPACE"): "SHOW CURRENT DATABASE does that",
    ("CURRENT", "SCHEMA"): "SHOW CURRENT DATABASE does that",
    ("NAMESPACES",): "SHOW DATABASES does that",
    ("LOCKS",): "there are none that statements wait for",
}

_CHANGES = "`table.changes(1, 2)` of the library reads what changed between two snapshots, and streaming INSERTs follow changes"
FUNCTIONS_NOT_KNOWN = {
    "paimon_incremental_query": _CHANGES,
    "paimon_incremental_between_timestamp": _CHANGES,
    "paimon_incremental_to_auto_tag": _CHANGES,
    "max_pt": "SELECT max(…) of a partition column, or SHOW PARTITIONS t, tells the newest partition",
    "vector_search": "there are no indexes of vectors",
    "full_text_search": "there are no indexes of texts",
}
