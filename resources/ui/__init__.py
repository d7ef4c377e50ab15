"""The Dagster UI with the lineage browser beside it."""
