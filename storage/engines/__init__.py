"""The second door of the store: the only rooms that know Spark and DuckDB. Import the module you need:
`spark_source`, `spark_reader`, `spark_writer`, `spark_types`, `duckdb_views`."""
