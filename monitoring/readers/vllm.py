"""Reads vLLM's /metrics, old names and new, within a bound on time and bytes."""

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import httpx

from monitoring.readers.base import EngineReading, Target

logger = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
_PREFIX = "vllm:"

# The name of today first; the second was gone by vLLM 0.12.0.
_SUMMED: dict[str, tuple[str, ...]] = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "generation_tokens": ("generation_tokens_total",),
    "prompt_tokens": ("prompt_tokens_total",),
    "preemptions": ("num_preemptions_total",),
}
_FULLEST: dict[str, tuple[str, ...]] = {"kv_usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc")}
_WANTED = frozenset(name for names in (*_SUMMED.values(), *_FULLEST.values()) for name in names)


def samples(text: str) -> Iterator[tuple[str, float]]:
    """Yield (name without prefix, value) of the wanted series of an exposition; broken lines are skipped."""
    for line in text.splitlines():
        if not line.startswith(_PREFIX):
            continue
        name = line[len(_PREFIX) :].split("{", 1)[0].split(" ", 1)[0]
        if name not in _WANTED:
            continue
        # Label values may hold spaces and braces; what follows the last brace may not.
        fields = line.rpartition("}")[2].split() if "{" in line else line.split()[1:]
        try:
            value = float(fields[0])
        except (IndexError, ValueError):
            continue
        if math.isfinite(value):
            yield name, value


def parse(text: str, *, at: float) -> EngineReading:
    """Return the reading of an exposition; a series that is absent is None."""
    found: dict[str, list[float]] = {}
    for name, value in samples(text):
        found.setdefault(name, []).append(value)

    def first(names: tuple[str, ...]) -> list[float] | None:
        return next((found[name] for name in names if name in found), None)

    sums = {field_: sum(values) if (values := first(names)) else None for field_, names in _SUMMED.items()}
    highs = {field_: max(values) if (values := first(names)) else None for field_, names in _FULLEST.items()}
    return EngineReading(at=at, **sums, **highs)


@dataclass(slots=True)
class CounterIncrease:
    """Growth of counters that may begin at 0 again: never negative, never the whole total as a spike.

    The first reading of a series only sets the mark: what it counted before we looked is not ours.
    """

    _marks: dict[str, float] = field(default_factory=dict)

    def take(self, name: str, value: float | None) -> float | None:
        """Return growth since the reading before; None while there is nothing to compare with."""
        if value is None:
            return None
        before = self._marks.get(name)
        self._marks[name] = value
        if before is None:
            return None
        return value - before if value >= before else value

    def keep(self, names: set[str]) -> None:
        """Forget every series that is not named, so that ended replicas take no memory."""
        self._marks = {name: mark for name, mark in self._marks.items() if name in names}


class VllmReader:
    """Scrapes all engines at once on an event loop of its own. Close it to end its connections."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._runner = asyncio.Runner()
        self._client: httpx.AsyncClient | None = None

    def read(self, targets: list[Target], *, now: float) -> dict[str, EngineReading]:
        """Return readings by replica id, in at most the timeout."""
        return self._runner.run(self._read_all(targets, now)) if targets else {}

    def close(self) -> None:
        """Close the connections and the loop."""
        if self._client is not None:
            self._runner.run(self._client.aclose())
        self._runner.close()

    async def _read_all(self, targets: list[Target], now: float) -> dict[str, EngineReading]:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=self._timeout, trust_env=False, follow_redirects=False)
        readings = await asyncio.gather(*(self._read_one(self._client, target, now) for target in targets))
        return {target.replica: reading for target, reading in zip(targets, readings, strict=True) if reading}

    async def _read_one(self, client: httpx.AsyncClient, target: Target, now: float) -> EngineReading | None:
        try:
            async with asyncio.timeout(self._timeout):
                text = await _fetch(client, f"{target.url}/metrics", {"authorization": f"Bearer {target.api_key}"})
        except (httpx.HTTPError, TimeoutError, UnicodeDecodeError) as error:
            logger.debug("no metrics from replica %s: %r", target.replica, error)
            return None
        return None if text is None else parse(text, at=now)


async def _fetch(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> str | None:
    """Return the body, or None for a status other than 200 or a body over MAX_BYTES."""
    async with client.stream("GET", url, headers=dict(headers)) as response:
        if response.status_code != httpx.codes.OK:
            return None
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                return None
        return body.decode()
