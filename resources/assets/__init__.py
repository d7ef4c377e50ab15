"""Dagster: table assets, their checks, sensors and schedules, and what its UI shows of them."""
