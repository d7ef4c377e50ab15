"""Which bucket of a partition a key is in, by its hash, and which one a new key gets. Pure: numbers in, numbers out.

A key stays in the bucket that it was given first. New keys fill the buckets that are not full, the lowest first, then new
ones; with several assigners, each gives out the buckets whose number leaves its own when divided by how many there are, and
takes the keys whose hash does, so that they need not know of each other. As Paimon's Java library assigns, but for what it
draws by lot once all buckets are full: here the hash decides, and equal writes give equal tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from ..errors import InvalidRequest
from ..options import TableOptions

# Java holds bucket numbers in 16 bits.
_BUCKET_LIMIT = 32_767


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How new keys are spread, as `dynamic-bucket.*` says: `target_rows` keys a bucket, at most `limit` buckets (None: as many as
    the format can count), given out by `assigner_count` assigners.
    """

    target_rows: int
    limit: int | None = None
    assigner_count: int = 1

    @classmethod
    def of(cls, options: TableOptions) -> "BucketRule":
        """The rule of a table."""
        limit = None if options.dynamic_bucket_max_buckets == -1 else options.dynamic_bucket_max_buckets
        parallel = options.dynamic_bucket_assigner_parallelism or 1
        assigners = options.dynamic_bucket_initial_buckets or parallel
        return cls(options.dynamic_bucket_target_row_num, limit, min(assigners, limit or assigners))


def assigners_of(hashes: np.ndarray, assigner_count: int) -> np.ndarray:
    """The number of the assigner of each hash (int32)."""
    return np.abs(hashes.astype(np.int64)) % assigner_count


class KeyBuckets:
    """The hashes of a partition's keys and their buckets. Grows; it is of one thread."""

    def __init__(self, held: Mapping[int, np.ndarray] | None = None) -> None:
        """`held`: the hashes (int32) that each bucket holds. Of a hash in two of them, the lower bucket counts."""
        self._hashes = np.empty(0, np.int32)
        self._buckets = np.empty(0, np.int32)
        self._sizes: dict[int, int] = {}
        self._fresh: dict[int, list[np.ndarray]] = {}
        if held:
            buckets = sorted(held)
            hashes = np.concatenate([held[bucket] for bucket in buckets])
            numbers = np.repeat(np.array(buckets, np.int32), [len(held[bucket]) for bucket in buckets])
            self._hashes, first = np.unique(hashes, return_index=True)
            self._buckets = numbers[first]
            self._sizes = {bucket: len(held[bucket]) for bucket in buckets}

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The bucket (int32) of each hash; -1 for those of new keys."""
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int32)
        places = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        return np.where(self._hashes[places] == hashes, self._buckets[places], np.int32(-1))

    def assign(self, hashes: np.ndarray, rule: BucketRule) -> np.ndarray:
        """The bucket of each hash; new ones get theirs in the order in which they come. Raises InvalidRequest if there would be
        more buckets than the format can count.
        """
        found = self.find(hashes)
        unknown = found < 0
        if unknown.any():
            fresh, first = np.unique(hashes[unknown], return_index=True)
            fresh = fresh[np.argsort(first)]
            self._add(fresh, self._spread(fresh, rule))
            found[unknown] = self.find(hashes[unknown])
        return found

    def claim(self, hashes: np.ndarray, bucket: int) -> np.ndarray:
        """The bucket of each hash, which is the given one for those that had none."""
        found = self.find(hashes)
        fresh = np.unique(hashes[found < 0])
        if len(fresh):
            self._add(fresh, np.full(len(fresh), bucket, np.int32))
            found[found < 0] = bucket
        return found

    @property
    def fresh(self) -> dict[int, np.ndarray]:
        """The hashes that came since it was made, by bucket."""
        return {bucket: np.concatenate(parts) for bucket, parts in sorted(self._fresh.items())}

    def _add(self, hashes: np.ndarray, buckets: np.ndarray) -> None:
        order = np.argsort(hashes)
        hashes, buckets = hashes[order], buckets[order]
        places = np.searchsorted(self._hashes, hashes)
        self._hashes = np.insert(self._hashes, places, hashes)
        self._buckets = np.insert(self._buckets, places, buckets)
        for bucket, size in zip(*np.unique(buckets, return_counts=True), strict=True):
            self._fresh.setdefault(int(bucket), []).append(hashes[buckets == bucket])
            self._sizes[int(bucket)] = self._sizes.get(int(bucket), 0) + int(size)

    def _spread(self, hashes: np.ndarray, rule: BucketRule) -> np.ndarray:
        chosen = np.empty(len(hashes), np.int32)
        assigners = assigners_of(hashes, rule.assigner_count)
        for assigner in range(rule.assigner_count):
            own = np.flatnonzero(assigners == assigner)
            if len(own):
                chosen[own] = self._fill(hashes[own], assigner, rule)
        return chosen

    def _fill(self, hashes: np.ndarray, assigner: int, rule: BucketRule) -> np.ndarray:
        """The buckets of the new hashes of an assigner: a slot for each, as long as there is room, and then by the hash."""
        slots, usable = free_slots(self._sizes, len(hashes), rule, assigner)
        rest = np.abs(hashes[len(slots) :].astype(np.int64)) // rule.assigner_count
        return np.concatenate([slots, usable[rest % len(usable)]])


def free_slots(
    sizes: Mapping[int, int], wanted: int, rule: BucketRule, assigner: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The buckets (int32) for so many new keys, in order; fewer if all are full, and then with those that may hold more than they
    should. `sizes`: how many keys each bucket holds. Raises InvalidRequest if there would be more buckets than the format can
    count.
    """
    slots: list[np.ndarray] = [np.empty(0, np.int32)]
    left, own = wanted, []
    for bucket in _candidates(sizes, assigner, rule):
        own.append(bucket)
        room = min(left, rule.target_rows - sizes.get(bucket, 0))
        if room > 0:
            slots.append(np.full(room, bucket, np.int32))
            left -= room
        if not left:
            break
    if left and rule.limit is None:
        raise InvalidRequest(
            f"A partition would get more than {_BUCKET_LIMIT} buckets: raise 'dynamic-bucket.target-row-num', which is "
            f"{rule.target_rows}."
        )
    return np.concatenate(slots), np.array(own, np.int32)


def _candidates(sizes: Mapping[int, int], assigner: int, rule: BucketRule) -> Iterator[int]:
    """The buckets that an assigner may fill: those that there are, then new ones, each time the lowest first."""
    held = sorted(bucket for bucket in sizes if bucket % rule.assigner_count == assigner)
    yield from held
    known = set(held)
    limit = min(rule.limit or _BUCKET_LIMIT, _BUCKET_LIMIT)
    for bucket in count(assigner, rule.assigner_count):
        if bucket >= limit:
            return
        if bucket not in known:
            yield bucket
