"""The recovery graph: for each asset a twin on branches, and the jobs that begin and end a recovery. See docs/recovery.md."""

import dagster as dg

from resources import recovery_definitions

from . import flights, marts, raw, word_count

recovery = recovery_definitions(dg.load_assets_from_modules([raw, flights, marts, word_count]))
