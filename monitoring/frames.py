"""Makes one second's observations and one profile's live frame from what was read. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitoring.catalog import QUANTILES
from monitoring.ledger import Claim, PriceBook, unit_seconds
from monitoring.quantiles import Sketch
from monitoring.readers.base import EngineReading
from monitoring.rollups import Bucket, Key

WINDOW_SECONDS = 60
# A reading older than this says nothing about now.
ENGINE_FORGET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Holder:
    """A replica that holds capacity: whose it is, what it claims, and whether it is ready to serve."""

    id: str
    profile: str
    revision: int
    claim: Claim | None
    ready: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """A profile that the monitor watches: the revision wanted now (0: none), and its P99 promises in seconds."""

    name: str
    team: str
    revision: int
    promised: Mapping[str, float | None] = field(default_factory=dict)


def observations(
    *,
    watched: Iterable[Watched],
    holders: Sequence[Holder],
    busy: Mapping[str, float],
    readings: Mapping[str, EngineReading],
    grown: Mapping[str, float | None],
    elapsed: float,
    now: float,
) -> dict[tuple[Key, int], Bucket]:
    """Return this second's bucket for every watched profile: money held and busy, and engine levels.

    `busy` is busy seconds and `grown` generated tokens by replica id since the pass before, `elapsed`
    seconds long. A profile without replicas has an empty bucket: measured, and nothing there.
    """
    second = math.floor(now)
    buckets: dict[tuple[Key, int], Bucket] = {}
    for profile in watched:
        buckets[((profile.name, profile.revision), second)] = Bucket()
    for holder in holders:
        bucket = buckets.setdefault(((holder.profile, holder.revision), second), Bucket())
        if holder.claim is not None:
            # A request can outlast a tick's own clock; more than was held is not busy time.
            used = unit_seconds(holder.claim, min(busy.get(holder.id, 0.0), elapsed))
            held = unit_seconds(holder.claim, elapsed)
            _spread(buckets, holder, held=held, used=used, seconds=shares_of(elapsed=elapsed, now=now))
        tokens = grown.get(holder.id)
        if tokens is not None:
            bucket.engine_tokens = (bucket.engine_tokens or 0) + round(tokens)
    for key, group in _by_key(holders).items():
        _see_levels(buckets[(key, second)], [readings[holder.id] for holder in group if holder.id in readings])
    return buckets


def shares_of(*, elapsed: float, now: float) -> list[tuple[int, float]]:
    """Return the seconds (epoch) that the last `elapsed` seconds touch, each with its share of them, oldest first.

    A tick is never exactly a second long: booked whole into one second, a late one would show more than was there.
    """
    start = now - elapsed
    if elapsed <= 0.0:
        return [(math.floor(now), 1.0)]
    seconds = range(math.floor(start), math.floor(now) + 1)
    return [(second, (min(now, second + 1) - max(start, second)) / elapsed) for second in seconds]


def _spread(
    buckets: dict[tuple[Key, int], Bucket], holder: Holder, *, held: int, used: int, seconds: list[tuple[int, float]]
) -> None:
    """Book whole amounts over the seconds by share; what rounding leaves goes to the newest, so that sums hold."""
    accelerator = holder.claim.accelerator if holder.claim else ""
    left_held, left_used = held, used
    for index, (second, share) in enumerate(seconds):
        newest = index == len(seconds) - 1
        part_held = left_held if newest else round(held * share)
        part_used = left_used if newest else round(used * share)
        left_held -= part_held
        left_used -= part_used
        bucket = buckets.setdefault(((holder.profile, holder.revision), second), Bucket())
        bucket.held[accelerator] = bucket.held.get(accelerator, 0) + part_held
        bucket.busy[accelerator] = bucket.busy.get(accelerator, 0) + part_used


def _by_key(holders: Iterable[Holder]) -> dict[Key, list[Holder]]:
    groups: dict[Key, list[Holder]] = {}
    for holder in holders:
        groups.setdefault((holder.profile, holder.revision), []).append(holder)
    return groups


def _see_levels(bucket: Bucket, readings: Sequence[EngineReading]) -> None:
    levels = engine_levels(readings)
    for gauge, value in (
        (bucket.running, levels["running"]),
        (bucket.waiting, levels["waiting"]),
        (bucket.kv_usage, levels["kv_usage"]),
    ):
        if value is not None:
            gauge.see(value)


def engine_levels(readings: Sequence[EngineReading]) -> dict[str, float | None]:
    """Return requests running and waiting summed over engines, and the fullest engine's KV share."""
    running = [reading.running for reading in readings if reading.running is not None]
    waiting = [reading.waiting for reading in readings if reading.waiting is not None]
    fullest = [reading.kv_usage for reading in readings if reading.kv_usage is not None]
    return {
        "running": sum(running) if running else None,
        "waiting": sum(waiting) if waiting else None,
        "kv_usage": max(fullest) if fullest else None,
    }


def quantile_summary(sketch: Sketch) -> dict[str, float | int | None]:
    """Return p50, p95 and p99 in seconds, None without samples, and the number of samples."""
    values = sketch.quantiles(list(QUANTILES.values()))
    return {**dict(zip(QUANTILES, values, strict=True)), "count": sketch.total}


def window_data(
    bucket: Bucket,
    *,
    prices: PriceBook,
    readings: Sequence[EngineReading],
    replicas_ready: int,
    now: float,
) -> dict[str, Any]:
    """Return the `data` part of a live frame from everything that happened in the trailing window."""
    fresh = [reading for reading in readings if now - reading.at <= ENGINE_FORGET_SECONDS]
    return {
        "window_seconds": WINDOW_SECONDS,
        "ttft": {
            **quantile_summary(bucket.ttft),
            "streamed_share": bucket.streamed / bucket.requests if bucket.requests else None,
        },
        "e2e": quantile_summary(bucket.e2e),
        "requests": bucket.requests,
        "requests_per_second": bucket.requests / WINDOW_SECONDS,
        "tokens_per_second": bucket.completion_tokens / WINDOW_SECONDS,
        "errors_per_second": bucket.errors / WINDOW_SECONDS,
        "cost_per_minute": _dollars_a_minute(bucket.busy, bucket.held, prices, now=now),
        "held_cost_per_minute": _dollars_a_minute(bucket.held, bucket.held, prices, now=now),
        "busy_share": busy_share(bucket),
        "engine": {**engine_levels(fresh), "age": max((now - reading.at for reading in fresh), default=None)},
        "replicas_ready": replicas_ready,
    }


def busy_share(bucket: Bucket) -> float | None:
    """Return the busy part of what was held, 0 to 1, or None when nothing was held."""
    held = sum(bucket.held.values())
    return min(1.0, sum(bucket.busy.values()) / held) if held else None


def _dollars_a_minute(
    amounts: Mapping[str, int], held: Mapping[str, int], prices: PriceBook, *, now: float
) -> float | None:
    """Return the window's dollars a minute; None when what is held has no price row, even while idle."""
    if not prices.priced(held, when=now):
        return None
    cost = prices.cost(amounts, when=now)
    return None if cost is None else float(cost) * 60.0 / WINDOW_SECONDS
