"""Jobs: what is materialized together."""

import dagster as dg

# `snapline demo` runs this for all months at once.
demo = dg.define_asset_job(
    "demo",
    dg.AssetSelection.all() - dg.AssetSelection.groups("recovery"),
    description="Load the raw files and materialize every table made from them.",
)
