"""What people type of Spark's and other dialects that is not known here, and what there is in its place."""

# Statements of Spark's and other dialects that people type, and what there is in their place.
_INDEXES = "columns get indexes by an option: ALTER TABLE t SET ('file-index.bloom-filter.columns' = 'a')"
_FUNCTIONS = "there are none of one's own; SHOW FUNCTIONS lists those that are there"
_VARIABLES = "there are no variables; write the value, or put the statement together in Python"
_SCRIPTS = "rows go through no scripts; write an asset, or mapInPandas in Python"
NOT_KNOWN = {
    (
        "COMMENT",
        "ON",
    ): "only tables have a comment, COMMENT ON TABLE t IS 'text'; of a column ALTER COLUMN a COMMENT 'text'",
    ("MERGE", "WITH", "SCHEMA", "EVOLUTION"): "ALTER TABLE … ADD COLUMN first; leave out WITH SCHEMA EVOLUTION",
    ("ALTER", "DATABASE"): "a database has a name and nothing else",
    ("ALTER", "SCHEMA"): "a database has a name and nothing else",
    ("CREATE", "FUNCTION"): _FUNCTIONS,
    ("CREATE", "OR", "REPLACE", "FUNCTION"): _FUNCTIONS,
    ("CREATE", "TEMPORARY", "FUNCTION"): _FUNCTIONS,
    ("CREATE", "OR", "REPLACE", "TEMPORARY", "FUNCTION"): _FUNCTIONS,
    ("DROP", "FUNCTION"): _FUNCTIONS,
    ("DROP", "TEMPORARY", "FUNCTION"): _FUNCTIONS,
    ("CREATE", "FLOW"): "a streaming INSERT INTO t SELECT … is a flow",
    ("CREATE", "INDEX"): _INDEXES,
    ("DROP", "INDEX"): _INDEXES,
    ("DECLARE",): _VARIABLES,
    ("DROP", "TEMPORARY", "VARIABLE"): _VARIABLES,
    ("DROP", "TEMPORARY", "VAR"): _VARIABLES,
    ("EXECUTE", "IMMEDIATE"): "put the statement together in Python, and run that",
    ("BEGIN",): "there are no scripts and no transactions over several statements; write them one after the other",
    ("COMMIT",): "each statement is committed by itself",
    ("ROLLBACK",): "each statement is committed by itself; CALL sys.rollback goes back to a snapshot",
    ("MAP",): _SCRIPTS,
    ("REDUCE",): _SCRIPTS,
    ("CLEAR", "CACHE"): "nothing is cached; leave it out",
    ("REFRESH",): "tables are read as they are, nothing is cached; leave it out",
    ("MSCK REPAIR",): "partitions are there as soon as they have rows; leave it out",
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
_PLACE = "a table lies in the warehouse of its catalog; CREATE TABLE … AS SELECT in another catalog copies it"
_SERDE = "what files are is an option: SET ('file.format' = 'orc')"
_TAGS = "CALL sys.create_tag, rename_tag and delete_tag do that"
ALTERATIONS_NOT_KNOWN: dict[tuple[str, ...], str] = {
    ("ADD", "CONSTRAINT"): _CONSTRAINTS,
    ("ADD", "CHECK", "("): _CONSTRAINTS,
    ("ADD", "UNIQUE", "("): _CONSTRAINTS,
    ("ADD", "PRIMARY KEY"): _CONSTRAINTS,
    ("ADD", "FOREIGN KEY"): _CONSTRAINTS,
    ("DROP", "CONSTRAINT"): _CONSTRAINTS,
    ("SET", "LOCATION"): _PLACE,
    ("SET", "SERDE"): _SERDE,
    ("SET", "SERDEPROPERTIES"): _SERDE,
    ("SET", "FILEFORMAT"): _SERDE,
    ("DROP", "PRIMARY KEY"): _CONSTRAINTS,
    ("CHANGE",): "ALTER COLUMN a TYPE …, ALTER COLUMN a COMMENT '…', RENAME COLUMN a TO b, one thing at a time",
    ("REPLACE", "COLUMNS"): "ADD, DROP and ALTER COLUMN change columns; CREATE OR REPLACE TABLE gives others",
    ("CLUSTER BY",): "buckets are options: SET ('bucket' = '4')",
    ("CLUSTER",): "buckets are options: SET ('bucket' = '4')",
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
    ("COLLATIONS",): "texts are compared by their bytes",
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

_EVOLUTION = "ALTER TABLE … ADD COLUMN first"
_READ_CHANGES = (
    "a streaming INSERT follows changes, and `table.changes(1, 2)` of the library reads those between two snapshots"
)
_LATE = "a watermark is declared in CREATE TABLE: WATERMARK FOR at AS at - INTERVAL '5' SECOND"
_NEAREST = "a join takes a condition with ON"
# Clauses of Spark, by the words at which the parser stops or those before: what it says of them names no clause. "…" stands for
# some words, "'" for a text, "$" for the end of the statement.
CLAUSES_NOT_KNOWN: dict[tuple[str, ...], str] = {
    ("AS", "JSON", "$"): "`snapline … --format json` writes JSON",
    ("AS", "SERDE", "$"): "SHOW CREATE TABLE shows the statement that makes the table",
    ("WITH", "SCHEMA", "EVOLUTION"): _EVOLUTION,
    ("REPLACE", "ON"): "INSERT INTO t REPLACE WHERE …, or MERGE INTO",
    ("REPLACE", "USING"): "INSERT INTO t REPLACE WHERE …, or MERGE INTO",
    (
        ")",
        "IF",
        "NOT",
        "EXISTS",
    ): "a partition that is there is overwritten; leave it out, or ask SHOW PARTITIONS first",
    ("LOCATION", "'"): "partitions lie in the table's own directory",
    ("PURGE", "$"): "files go with the snapshots that need them; leave it out",
    ("RENAME", "TO", "PARTITION"): "UPDATE t SET the column of the partition",
    ("?",): "there are no parameters; write the value",
    ("COLUMN", "("): "ALTER TABLE t ALTER COLUMN a COMMENT 'text', one column at a time",
    ("IDENTIFIED", "BY"): "'pipeline.name' names a stream",
    ("WATERMARK", "…", "DELAY"): _LATE,
    ("CHANGES", "FROM"): _READ_CHANGES,
    ("BIN", "BY"): "group by date_trunc, floor, or window(…)",
    ("APPROX", "NEAREST"): _NEAREST,
    ("EXACT", "NEAREST"): _NEAREST,
    ("NEAREST", "…", "BY"): _NEAREST,
    ("@",): "write VERSION AS OF 3 or TIMESTAMP AS OF '2024-05-01' behind the table",
    ("MAP", "…", "USING"): _SCRIPTS,
    ("REDUCE", "…", "USING"): _SCRIPTS,
    ("FOR", "ORDINALITY"): "posexplode numbers rows",
    ("DISTRIBUTE BY",): "an asset in Python places rows by repartition",
    ("CLUSTER BY",): "a window takes PARTITION BY and ORDER BY",
    ("WITH", "SCHEMA"): "a view has the columns that its query has; make it anew by CREATE OR REPLACE VIEW",
}
