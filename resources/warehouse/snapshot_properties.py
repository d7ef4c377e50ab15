"""Keys of snapshot properties that say how a snapshot came to be, next to those of `lineage`."""

# Version of the code that made the rows, and the Dagster partitions that they are for.
CODE_PROPERTY = "snapline.code-version"
PARTITIONS_PROPERTY = "snapline.partitions"
# The tags that it was to get, by which newer ones of a partition are told: a JSON list.
TAGS_PROPERTY = "snapline.tags"
BACKFILL_PROPERTY = "snapline.backfill"
# What of topics is in a table whose asset reads them on: of each partition the offsets, as lineage's ranges.
POSITION_PROPERTY = "snapline.topic-position"
# The SQL statement that made the change, and the catalog and database that its names were completed with.
STATEMENT_PROPERTY = "snapline.statement"
PLACE_PROPERTY = "snapline.statement.place"
