"""Buckets of one second, ten seconds and a minute per profile and revision, and how they merge.

A request belongs to the second in which it ended. A bucket that does not exist means "not measured";
a bucket with no requests means "measured, and nothing came".
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from monitoring.quantiles import Sketch, decode, encode

TIERS: tuple[int, ...] = (1, 10, 60)
RETENTION_SECONDS: dict[int, float] = {1: 6 * 3600.0, 10: 3 * 86400.0, 60: 90 * 86400.0}
STEPS: tuple[int, ...] = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400)
MAX_POINTS = 300
MICRO = 1_000_000
_VERSION = 1
_COUNTERS = (
    "requests",
    "streamed",
    "errors",
    "cut",
    "refused",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
)

type Key = tuple[str, int]  # profile name, revision number (0: no revision known)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a roll-up needs of one usage record. Times in epoch seconds, durations in seconds."""

    profile: str
    revision: int
    ended_at: float
    streamed: bool
    status: int
    outcome: str
    ttft: float | None
    e2e: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Gauge:
    """A level seen several times: how often, the sum of what was seen, and the highest."""

    count: int = 0
    total: float = 0.0
    high: float = 0.0

    def see(self, value: float) -> None:
        """Count one reading."""
        self.high = value if self.count == 0 else max(self.high, value)
        self.count += 1
        self.total += value

    def merge(self, other: "Gauge") -> None:
        """Add the readings of another gauge to this one."""
        if other.count:
            self.high = other.high if self.count == 0 else max(self.high, other.high)
            self.count += other.count
            self.total += other.total


@dataclass(slots=True)
class Bucket:
    """What happened to one profile and revision in one span of time.

    `busy` and `held` map an accelerator name to micro-unit-seconds (a unit is a core or a GPU), as
    integers, so that sums are exact. `peak` is the highest number of requests in any one second.
    """

    ttft: Sketch = field(default_factory=Sketch)
    e2e: Sketch = field(default_factory=Sketch)
    requests: int = 0
    streamed: int = 0
    errors: int = 0
    cut: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    peak: int = 0
    engine_tokens: int | None = None
    busy: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    running: Gauge = field(default_factory=Gauge)
    waiting: Gauge = field(default_factory=Gauge)
    kv_usage: Gauge = field(default_factory=Gauge)

    def observe(self, sample: Sample) -> None:
        """Count one request. E2E is taken of completed requests only: a cut one has no whole answer."""
        self.requests += 1
        self.streamed += sample.streamed
        self.errors += sample.status >= 500 or sample.outcome == "upstream_error"
        self.cut += sample.outcome == "cut"
        self.refused += sample.outcome == "refused"
        self.prompt_tokens += sample.prompt_tokens
        self.cached_tokens += sample.cached_tokens
        self.completion_tokens += sample.completion_tokens
        if sample.ttft is not None:
            self.ttft.add(sample.ttft)
        if sample.outcome == "completed":
            self.e2e.add(sample.e2e)

    def merge(self, other: "Bucket") -> None:
        """Add another bucket to this one; independent of order, `peak` and highs are kept as maxima."""
        self.ttft.merge(other.ttft)
        self.e2e.merge(other.e2e)
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.peak = max(self.peak, other.peak)
        if other.engine_tokens is not None:
            self.engine_tokens = (self.engine_tokens or 0) + other.engine_tokens
        add_into(self.busy, other.busy)
        add_into(self.held, other.held)
        self.running.merge(other.running)
        self.waiting.merge(other.waiting)
        self.kv_usage.merge(other.kv_usage)

    def encode(self) -> dict[str, Any]:
        """Return the stored form: plain JSON, sparse, with a version."""
        gauges = (self.running, self.waiting, self.kv_usage)
        return {
            "v": _VERSION,
            "t": encode(self.ttft),
            "e": encode(self.e2e),
            "n": [getattr(self, name) for name in _COUNTERS],
            "p": self.peak,
            "x": self.engine_tokens,
            "b": self.busy,
            "h": self.held,
            "g": [[gauge.count, gauge.total, gauge.high] for gauge in gauges],
        }

    @classmethod
    def decode(cls, payload: Mapping[str, Any]) -> Self:
        """Return the bucket of a stored form. Raises ValueError for another version."""
        if payload.get("v") != _VERSION:
            message = f"unknown roll-up version {payload.get('v')!r}"
            raise ValueError(message)
        running, waiting, kv_usage = (Gauge(*numbers) for numbers in payload["g"])
        return cls(
            ttft=decode(payload["t"]),
            e2e=decode(payload["e"]),
            **dict(zip(_COUNTERS, payload["n"], strict=True)),
            peak=payload["p"],
            engine_tokens=payload["x"],
            busy=dict(payload["b"]),
            held=dict(payload["h"]),
            running=running,
            waiting=waiting,
            kv_usage=kv_usage,
        )


def add_into(target: dict[str, int], other: Mapping[str, int]) -> None:
    """Add the amounts of `other` to `target`, name by name."""
    for name, amount in other.items():
        target[name] = target.get(name, 0) + amount


def by_second(samples: Iterable[Sample]) -> dict[tuple[Key, int], Bucket]:
    """Return one bucket for each key and second in which a request ended."""
    buckets: dict[tuple[Key, int], Bucket] = {}
    for sample in samples:
        place = ((sample.profile, sample.revision), math.floor(sample.ended_at))
        buckets.setdefault(place, Bucket()).observe(sample)
    return buckets


def coarser(fine: Mapping[tuple[Key, int], Bucket], *, tier: int) -> dict[tuple[Key, int], Bucket]:
    """Merge one-second buckets into spans of `tier` seconds, keyed by the span's first second."""
    merged: dict[tuple[Key, int], Bucket] = {}
    for (key, second), bucket in fine.items():
        merged.setdefault((key, second - second % tier), Bucket()).merge(bucket)
    return merged


def merge_all(buckets: Iterable[Bucket]) -> Bucket:
    """Return the sum of the buckets; an empty bucket when there are none."""
    total = Bucket()
    for bucket in buckets:
        total.merge(bucket)
    return total


def step_for(seconds: float) -> int:
    """Return the smallest offered step that shows a span in at most MAX_POINTS points."""
    for step in STEPS:
        if seconds / step <= MAX_POINTS:
            return step
    return STEPS[-1]


def tier_for(step: int, *, age: float) -> int:
    """Return the tier to read for a step: the coarsest that divides it and still holds `age` seconds back."""
    fitting = [tier for tier in TIERS if step % tier == 0 and RETENTION_SECONDS[tier] >= age]
    return max(fitting, default=TIERS[-1])


class Trailing:
    """The last seconds of every key in memory, so that a live frame costs no database read.

    Bounded: `forget` drops seconds that left the window, and with them keys that went quiet.
    """

    def __init__(self, *, seconds: int) -> None:
        self.seconds = seconds
        self._buckets: dict[Key, dict[int, Bucket]] = {}

    def add(self, fine: Mapping[tuple[Key, int], Bucket]) -> None:
        """Merge one-second buckets into the window, late ones into their own second."""
        for (key, second), bucket in fine.items():
            self._buckets.setdefault(key, {}).setdefault(second, Bucket()).merge(bucket)

    def forget(self, *, now: float) -> None:
        """Drop what lies before the window that ends at `now` (epoch seconds)."""
        oldest = math.floor(now) - self.seconds
        for key in list(self._buckets):
            kept = {second: bucket for second, bucket in self._buckets[key].items() if second > oldest}
            if kept:
                self._buckets[key] = kept
            else:
                del self._buckets[key]

    def profiles(self) -> set[str]:
        """Return the names of the profiles that have anything in the window."""
        return {profile for profile, _ in self._buckets}

    def merged(self, profile: str, *, now: float) -> Bucket:
        """Return everything of one profile, all revisions, in the window that ends at `now`."""
        newest = math.floor(now)
        return merge_all(
            bucket
            for (name, _), seconds in self._buckets.items()
            if name == profile
            for second, bucket in seconds.items()
            if newest - self.seconds < second <= newest
        )
