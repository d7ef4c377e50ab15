"""Jobs: what is materialized together."""

import dagster as dg

# `snapline demo` runs this for all months at once.
demo = dg.define_asset_job(
    "demo",
    dg.AssetSelection.all() - dg.AssetSelection.key_prefixes("recovery"),
    description="Load the raw files and materialize every table made from them.",
)

# Everything but the raw files again, when those have changed.
refresh = dg.define_asset_job(
    "refresh", dg.AssetSelection.groups("core", "marts"), description="Make the tables anew that the raw files feed."
)
