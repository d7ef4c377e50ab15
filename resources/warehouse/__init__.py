"""Which catalogs and tables there are, and what their lineage answers. No Dagster, no Spark, no SQL."""
