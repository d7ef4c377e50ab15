"""Put the files of an overwrite on the top level of their buckets, where no reader has to merge them. Pure.

Only where they do not overlap and hold no deletes; files that do stay on level 0.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter

from ..data_types import DataType
from ..format.binary_row import decode
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry


def lift_to_top(entries: Sequence[ManifestEntry], key_types: Sequence[DataType], top_level: int) -> list[ManifestEntry]:
    """The entries, those of buckets that allow it on the top level."""
    lifted: list[ManifestEntry] = []
    place = attrgetter("place")
    for _, group in groupby(sorted(entries, key=place), place):
        together = list(group)
        if together[0].bucket != POSTPONED_BUCKET and _is_a_run(together, key_types):
            together = [replace(entry, file=replace(entry.file, level=top_level)) for entry in together]
        lifted += together
    return lifted


def _is_a_run(entries: Sequence[ManifestEntry], key_types: Sequence[DataType]) -> bool:
    if any(entry.file.delete_row_count != 0 for entry in entries):
        return False
    ranges = sorted((decode(entry.file.min_key, key_types), decode(entry.file.max_key, key_types)) for entry in entries)
    return all(high < low for (_, high), (low, _) in pairwise(ranges))
