"""The figures on top of the live page and in its comparison, as text. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitoring.catalog import QUANTILES
from monitoring.words import NO_DATA, count, money, number, share, span


@dataclass(frozen=True, slots=True)
class Stat:
    """One figure: `key` is what the page's script fills it by, `note` the small line under it."""

    key: str
    label: str
    value: str
    note: str


def stats_of(data: Mapping[str, Any] | None) -> list[Stat]:
    """Return the figures of a frame's data; every one says "no data" when there is none."""
    return [
        *_latencies("ttft", "first token", data),
        *_latencies("e2e", "whole answer", data),
        *_rates(data or {}),
    ]


def _latencies(name: str, label: str, data: Mapping[str, Any] | None) -> list[Stat]:
    part = data[name] if data else {}
    samples = part.get("count")
    note = NO_DATA if samples is None else f"of {count(samples)} samples"
    return [
        Stat(f"{name}.{quantile}", f"{quantile.upper()}, {label}", span(part.get(quantile)), note)
        for quantile in QUANTILES
    ]


def _rates(data: Mapping[str, Any]) -> list[Stat]:
    streamed = data.get("ttft", {}).get("streamed_share")
    errors = data.get("errors_per_second")
    return [
        Stat(
            "requests_per_second",
            "Requests a second",
            number(data.get("requests_per_second")),
            NO_DATA if errors is None else f"{number(errors)} failed a second",
        ),
        Stat("tokens_per_second", "Output tokens a second", number(data.get("tokens_per_second")), "last minute"),
        Stat("cost_per_minute", "Busy cost a minute", cost_text(data), busy_note(data)),
        Stat("streamed", "Streamed", share(streamed), "first token is timed on these"),
    ]


def cost_text(data: Mapping[str, Any]) -> str:
    """Return the cost a minute; without a price row its own words, since that is not "no data"."""
    if not data:
        return NO_DATA
    cost = data.get("cost_per_minute")
    return "no price row" if cost is None else money(cost)


def busy_note(data: Mapping[str, Any]) -> str:
    """Return what share of the held capacity was busy."""
    busy = data.get("busy_share")
    return "nothing held" if busy is None else f"{share(busy)} of the time busy"
