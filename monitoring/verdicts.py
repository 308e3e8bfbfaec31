"""The sentence on top of a live page: the worst true thing, its number and its promise. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitoring.catalog import P99_SOLID_SAMPLES
from monitoring.words import count, number, share, span

_NAMES = {"ttft": "to the first token", "e2e": "to the whole answer"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`state` names a mark, `word` is said beside it, `headline` is the page's h1, `why` what stands behind it."""

    state: str
    word: str
    headline: str
    why: str


def live_verdict(*, profile: str, data: Mapping[str, Any] | None, promises: Mapping[str, float | None]) -> Verdict:
    """Return the verdict on a profile's last minute; `promises` are P99 seconds by chart name."""
    if data is None:
        return Verdict(
            "unknown",
            "Not measured",
            f"{profile}: nothing was measured in the last minute",
            "The monitor writes each second. When this stays, look at its process under Settings.",
        )
    if data["requests"] == 0:
        ready = data["replicas_ready"]
        if not ready:
            return Verdict("none", "No traffic", f"{profile}: no replica is ready", "Requests are refused with 503.")
        return Verdict("ok", "No traffic", f"{profile}: no requests in the last minute", f"{_replicas(ready)} ready.")
    broken = _broken(data, promises)
    if broken is not None:
        name, p99, promise = broken
        headline = f"{profile}: {span(p99)} {_NAMES[name]} at P99, {share(p99 / promise - 1)} over its promise"
        return Verdict("bad", "Promise broken", headline, _why(data))
    if data["errors_per_second"]:
        failed = data["errors_per_second"] * data["window_seconds"]
        headline = f"{profile}: {count(failed)} of {count(data['requests'])} requests failed in the last minute"
        return Verdict("warn", "Errors", headline, _why(data))
    return Verdict("ok", "Promise kept" if any(promises.values()) else "Well", _well(profile, data), _why(data))


def _broken(data: Mapping[str, Any], promises: Mapping[str, float | None]) -> tuple[str, float, float] | None:
    """Return the chart, P99 and promise that is broken by the largest factor, if any is."""
    found = [
        (p99 / promise, name, p99, promise)
        for name, promise in promises.items()
        if promise and (p99 := data[name]["p99"]) is not None and p99 > promise
    ]
    return max(found)[1:] if found else None


def _well(profile: str, data: Mapping[str, Any]) -> str:
    for name in ("ttft", "e2e"):
        if data[name]["p99"] is not None:
            return f"{profile}: {span(data[name]['p99'])} {_NAMES[name]} at P99"
    return f"{profile}: {count(data['requests'])} requests in the last minute, none completed yet"


def _why(data: Mapping[str, Any]) -> str:
    samples = max(data["ttft"]["count"], data["e2e"]["count"])
    few = f" P99 rests on {count(samples)} samples." if samples < P99_SOLID_SAMPLES else ""
    return (
        f"{number(data['requests_per_second'])} requests and {number(data['tokens_per_second'])} tokens a second "
        f"on {_replicas(data['replicas_ready'])}, over the last minute.{few}"
    )


def _replicas(ready: int) -> str:
    return f"{ready} replica" if ready == 1 else f"{ready} replicas"
