"""Rows of monitoring's tables, as text. Pure but for the record type."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gateway.models import UsageRecord
from monitoring.selectors import Summary
from monitoring.web.stats import busy_note, cost_text
from monitoring.words import NO_DATA, count, number, span, time_of

_MARKS = {"completed": "done", "cut": "warn", "client_gone": "stopped", "upstream_error": "bad", "refused": "warn"}
_WORDS = {
    "completed": "Completed",
    "cut": "Cut at the drain deadline",
    "client_gone": "Client left",
    "upstream_error": "Engine failed",
    "refused": "Refused",
}


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A profile in the comparison: its last minute as text. `state` names a mark."""

    profile: str
    state: str
    word: str
    ttft_p99: str
    e2e_p99: str
    samples: str
    requests: str
    tokens: str
    cost: str
    busy: str


def live_rows(summaries: Iterable[Summary]) -> list[LiveRow]:
    """Return the comparison: profiles with errors first, then by P99 of the whole answer, highest first."""
    ordered = sorted(summaries, key=_worst_first)
    return [_live_row(summary) for summary in ordered]


def _worst_first(summary: Summary) -> tuple[bool, bool, float, str]:
    data = summary.data
    if data is None:
        return (True, True, 0.0, summary.profile)
    return (False, not data["errors_per_second"], -(data["e2e"]["p99"] or 0.0), summary.profile)


def _live_row(summary: Summary) -> LiveRow:
    data = summary.data or {}
    state, word = _state(summary)
    return LiveRow(
        profile=summary.profile,
        state=state,
        word=word,
        ttft_p99=span(data["ttft"]["p99"]) if data else NO_DATA,
        e2e_p99=span(data["e2e"]["p99"]) if data else NO_DATA,
        samples=count(data["e2e"]["count"]) if data else NO_DATA,
        requests=number(data.get("requests_per_second")),
        tokens=number(data.get("tokens_per_second")),
        cost=cost_text(data),
        busy=busy_note(data),
    )


def _state(summary: Summary) -> tuple[str, str]:
    data = summary.data
    if data is None:
        return "unknown", "Not measured"
    if data["errors_per_second"]:
        return "warn", "Errors"
    if not data["requests"]:
        return "stopped", "No traffic"
    return "ok", "Serving"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A request as the list shows it. `state` names a mark."""

    id: str
    client_id: str
    at: datetime
    profile: str
    revision: str
    team: str
    state: str
    word: str
    status: int
    code: str
    ttft: str
    e2e: str
    tokens: str
    streamed: bool


def usage_row(record: UsageRecord) -> UsageRow:
    """Return a request as text; the first token of an answer that was not streamed is not measured."""
    return UsageRow(
        id=record.id,
        client_id=record.client_request_id or "",
        at=time_of(record.at),
        profile=record.profile or "",
        revision=f"r{record.revision}" if record.revision else "",
        team=record.team or "",
        state=_MARKS.get(record.outcome, "unknown"),
        word=_WORDS.get(record.outcome, record.outcome),
        status=record.status,
        code=record.error_code or "",
        ttft=span(record.ttft) if record.ttft is not None else "not measured",
        e2e=span(record.e2e),
        tokens=_tokens(record),
        streamed=record.streamed,
    )


def _tokens(record: UsageRecord) -> str:
    if record.prompt_tokens is None and record.completion_tokens is None:
        return "none counted"
    cached = f" ({count(record.cached_tokens)} cached)" if record.cached_tokens else ""
    return f"{count(record.prompt_tokens)}{cached} + {count(record.completion_tokens)}"
