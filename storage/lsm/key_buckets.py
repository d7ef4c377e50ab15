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

# Few hashes are looked up bucket by bucket, many in all buckets at once.
_FEW = 4
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
        self._held = {bucket: _in_order(hashes) for bucket, hashes in sorted((held or {}).items())}
        self._fresh: dict[int, np.ndarray] = {}
        # All hashes in order, and their buckets, once they were asked for.
        self._together: tuple[np.ndarray, np.ndarray] | None = None

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The bucket (int32) of each hash; -1 for those of new keys."""
        sorted_hashes, inverse = np.unique(hashes, return_inverse=True)
        return self._find(sorted_hashes)[inverse]

    def assign(self, hashes: np.ndarray, rule: BucketRule) -> np.ndarray:
        """The bucket of each hash; new ones get theirs in the order in which they come. Raises InvalidRequest if there would be
        more buckets than the format can count.
        """
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        assigned = self._find(distinct)
        unknown = assigned < 0
        if unknown.any():
            fresh = distinct[unknown]
            arrival = np.argsort(first[unknown])
            chosen = np.empty(len(fresh), np.int32)
            chosen[arrival] = self._spread(fresh[arrival], rule)
            self._add(fresh, chosen)
            assigned[unknown] = chosen
        return assigned[inverse]

    def claim(self, hashes: np.ndarray, bucket: int) -> np.ndarray:
        """The bucket of each hash, which is the given one for those that had none."""
        distinct, inverse = np.unique(hashes, return_inverse=True)
        assigned = self._find(distinct)
        fresh = distinct[assigned < 0]
        if len(fresh):
            self._add(fresh, np.full(len(fresh), bucket, np.int32))
            assigned[assigned < 0] = bucket
        return assigned[inverse]

    @property
    def fresh(self) -> dict[int, np.ndarray]:
        """The hashes that came since it was made, by bucket, in order."""
        return dict(sorted(self._fresh.items()))

    def _find(self, distinct: np.ndarray) -> np.ndarray:
        """As `find`, for hashes in order, each once."""
        assigned = np.full(len(distinct), -1, np.int32)
        size = sum(len(held) for held in self._held.values())
        if len(distinct) * len(self._held) > _FEW * size:
            hashes, buckets = self._all()
            places = _places_in(hashes, distinct)
            return np.where(hashes[places] == distinct, buckets[places], assigned) if size else assigned
        for bucket, held in self._held.items():
            if len(held):
                assigned[(assigned < 0) & (held[_places_in(held, distinct)] == distinct)] = bucket
        return assigned

    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        if self._together is None:
            hashes = np.concatenate([np.empty(0, np.int32), *self._held.values()])
            numbers = np.repeat(np.array(list(self._held), np.int32), [len(held) for held in self._held.values()])
            order = np.argsort(hashes, kind="stable")
            self._together = hashes[order], numbers[order]
        return self._together

    def _add(self, hashes: np.ndarray, buckets: np.ndarray) -> None:
        """Take new hashes, which are in order."""
        self._together = None
        for bucket in np.flatnonzero(np.bincount(buckets)).tolist():
            own = hashes[buckets == bucket]
            for known in (self._held, self._fresh):
                known[bucket] = np.sort(np.concatenate([known[bucket], own]), kind="stable") if bucket in known else own
        self._held = dict(sorted(self._held.items()))

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
        slots, usable = free_slots(
            {bucket: len(held) for bucket, held in self._held.items()}, len(hashes), rule, assigner
        )
        rest = np.abs(hashes[len(slots) :].astype(np.int64)) // rule.assigner_count
        return np.concatenate([slots, usable[rest % len(usable)]])


def _in_order(hashes: np.ndarray) -> np.ndarray:
    return hashes if bool((hashes[1:] >= hashes[:-1]).all()) else np.sort(hashes)


def _places_in(held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where in `held` what is wanted is, if it is there; both are in order."""
    return np.minimum(np.searchsorted(held, wanted), max(len(held) - 1, 0))


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
