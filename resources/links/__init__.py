"""Addresses of pages, of the lineage browser and of the Dagster UI."""
