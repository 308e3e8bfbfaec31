"""Quantile sketches with fixed logarithmic buckets: mergeable, exact in count, within 1 % in value.

Bucket i covers 10 us * (GAMMA^(i-1), GAMMA^i]. Its reported value 10 us * 2 * GAMMA^i / (GAMMA + 1)
is at most (GAMMA - 1) / (GAMMA + 1) = 0.99 % from any value inside (the DDSketch mapping of
Masson, Rim and Lee, VLDB 2019). Merging adds integers, so the order of merging cannot matter.
"""

import math
from collections.abc import Iterable, Sequence

GAMMA = 1.02
FLOOR_SECONDS = 1e-5
BUCKETS = 996
_LOG_GAMMA = math.log(GAMMA)


def bucket_of(seconds: float) -> int:
    """Return the bucket index of a duration in seconds.

    Durations up to 10 us share bucket 0, those above an hour the last one.
    Raises ValueError for a negative or non-finite value.
    """
    if not math.isfinite(seconds) or seconds < 0.0:
        message = f"not a duration: {seconds!r}"
        raise ValueError(message)
    if seconds <= FLOOR_SECONDS:
        return 0
    return min(math.ceil(math.log(seconds / FLOOR_SECONDS) / _LOG_GAMMA), BUCKETS - 1)


def value_of(bucket: int) -> float:
    """Return the value in seconds that stands for a bucket (module docstring, formula)."""
    return float(FLOOR_SECONDS * 2.0 * GAMMA**bucket / (GAMMA + 1.0))


class Sketch:
    """Counts per bucket, sparse. Mutable: `add` and `merge` change it in place."""

    __slots__ = ("counts", "total")

    def __init__(self, counts: dict[int, int] | None = None) -> None:
        self.counts: dict[int, int] = {} if counts is None else counts
        self.total: int = sum(self.counts.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]  # mutable: equality without a hash

    def __repr__(self) -> str:
        return f"Sketch(total={self.total}, buckets={len(self.counts)})"

    def add(self, seconds: float) -> None:
        """Count one duration. Raises ValueError as `bucket_of` does."""
        bucket = bucket_of(seconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.total += 1

    def merge(self, other: "Sketch") -> None:
        """Add the counts of another sketch to this one."""
        counts = self.counts
        for bucket, count in other.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
        self.total += other.total

    def quantile(self, q: float) -> float | None:
        """Return the nearest-rank quantile in seconds, or None when there are no samples.

        The rank is ceil(q * n), at least 1: numpy's `method='inverted_cdf'`.
        """
        return self.quantiles([q])[0]

    def quantiles(self, wanted: Sequence[float]) -> list[float | None]:
        """Return several nearest-rank quantiles in one pass; `wanted` must be ascending."""
        found: list[float | None] = []
        if self.total == 0:
            return [None] * len(wanted)
        ranks = [max(1, math.ceil(q * self.total)) for q in wanted]
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            while len(found) < len(ranks) and seen >= ranks[len(found)]:
                found.append(value_of(bucket))
        return found


def sketch_of(values: Iterable[float]) -> Sketch:
    """Return a sketch of the given durations in seconds."""
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


def encode(sketch: Sketch) -> list[int]:
    """Return the sparse form: bucket, count, bucket, count, ... in ascending order of bucket."""
    return [number for bucket in sorted(sketch.counts) for number in (bucket, sketch.counts[bucket])]


def decode(numbers: Sequence[int]) -> Sketch:
    """Return the sketch of a sparse form. Raises ValueError for a form that `encode` cannot make."""
    if len(numbers) % 2:
        message = "a sparse sketch holds pairs of bucket and count"
        raise ValueError(message)
    counts = dict(zip(numbers[::2], numbers[1::2], strict=True))
    if any(not 0 <= bucket < BUCKETS for bucket in counts) or any(count <= 0 for count in counts.values()):
        message = "a bucket or a count is out of range"
        raise ValueError(message)
    return Sketch(counts)
