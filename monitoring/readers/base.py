"""The values that readers return. What was not there is None, never 0."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Target:
    """An engine to scrape: whose replica it is, where it listens, and the key that it asks for."""

    replica: str
    profile: str
    revision: int
    url: str
    api_key: str


@dataclass(frozen=True, slots=True)
class EngineReading:
    """One engine's levels and counters, summed over its data-parallel ranks (`kv_usage`: the fullest rank)."""

    at: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    generation_tokens: float | None
    prompt_tokens: float | None
    preemptions: float | None


class EngineReader(Protocol):
    """Reads many engines at once, in bounded time."""

    def read(self, targets: list[Target], *, now: float) -> dict[str, EngineReading]:
        """Return readings by replica id; an engine that did not answer in time is not in it."""
        ...
