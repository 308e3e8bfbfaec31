"""Reads for the live pages, the request list, prices and cost. Every read for a person takes the viewer first."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet

from gateway.models import UsageRecord
from monitoring.catalog import METRICS, QUANTILES
from monitoring.frames import WINDOW_SECONDS, window_data
from monitoring.ledger import PriceBook, PriceRow
from monitoring.models import Price, Rollup
from monitoring.rollups import Bucket, merge_all, step_for, tier_for
from monitoring.series import Series, gaps_of
from monitoring.verdicts import live_verdict
from profiles_app.models import Profile
from profiles_app.selectors import Viewer, open_replicas, profile_by_name, profiles
from profiles_app.states import ReplicaPhase
from profiles_app.web.marks import mark

# A second is complete once its requests have had time to arrive.
SETTLE_SECONDS = 2.0
LONGEST_MINUTES = 90 * 1440


@dataclass(frozen=True, slots=True)
class Summary:
    """A profile's last minute; `data` is None when nothing was measured in it."""

    profile: str
    team: str
    data: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class UsagePage:
    """One page of requests, newest first, and the key of the next page, None on the last one."""

    rows: list[UsageRecord]
    next_key: str | None


@dataclass(frozen=True, slots=True)
class CostTotals:
    """Dollars of a span; None where capacity without a price row was held."""

    busy: Decimal | None
    held: Decimal | None


def prices(viewer: Viewer) -> QuerySet[Price]:
    """Return every price row, newest first: prices belong to no team, each member sees them."""
    rows = Price.objects.select_related("created_by").order_by("-valid_from", "-id")
    return rows if viewer.can_somewhere("viewer") else rows.none()


def price_book() -> PriceBook:
    """Return all price rows for pricing: for loops and sums, never for a person."""
    rows = Price.objects.values_list("id", "accelerator", "usd", "valid_from")
    return PriceBook(PriceRow(pk, accelerator, usd, at.timestamp()) for pk, accelerator, usd, at in rows)


def live_series(*, viewer: Viewer, profile: str, minutes: int, now: float) -> Series:
    """Return a profile's series over the last minutes, at most 300 points a metric.

    Percentiles come from sketches merged over each step; a step without any roll-up is None in every
    metric. Raises NotFoundError for a profile that the viewer does not see.
    """
    profile_by_name(viewer, profile)
    seconds = max(1, min(minutes, LONGEST_MINUTES)) * 60
    step = step_for(seconds)
    last = math.floor((now - SETTLE_SECONDS) / step) * step
    times = [last - i * step for i in range(math.ceil(seconds / step) - 1, -1, -1)]
    tier = tier_for(step, age=now - times[0])
    steps = _steps(_rollups(profile, tier=tier, start=times[0], end=last + step), step=step)
    book = price_book()
    points = [_point(steps.get(at, []), length=min(step, now - at), book=book) for at in times]
    known = [at in steps for at in times]
    return Series(
        step=step,
        times=times,
        values={metric.name: [point.get(metric.name) for point in points] for metric in METRICS},
        gaps=gaps_of(times, known, step=step),
        marks=_revision_marks(steps, times),
    )


type Row = tuple[int, int, Bucket]  # start, revision, bucket


def _rollups(profile: str, *, tier: int, start: float, end: float) -> Iterator[Row]:
    rows = Rollup.objects.filter(profile=profile, tier=tier, start__gte=int(start), start__lt=int(end))
    for at, revision, payload in rows.order_by("start").values_list("start", "revision", "payload").iterator():
        yield at, revision, Bucket.decode(payload)


def _steps(rows: Iterable[Row], *, step: int) -> dict[int, list[Row]]:
    steps: dict[int, list[Row]] = {}
    for row in rows:
        steps.setdefault(row[0] - row[0] % step, []).append(row)
    return steps


def _point(rows: list[Row], *, length: float, book: PriceBook) -> dict[str, float | None]:
    """Return every metric of one step from its roll-ups; nothing at all when there are none."""
    if not rows:
        return {}
    total = merge_all(bucket for _, _, bucket in rows)
    return {
        **_latency("ttft", total),
        **_latency("e2e", total),
        "tokens_per_second": total.completion_tokens / length,
        "prompt_tokens_per_second": total.prompt_tokens / length,
        "engine_tokens_per_second": None if total.engine_tokens is None else total.engine_tokens / length,
        "requests_per_second": total.requests / length,
        "requests_peak": total.peak,
        "errors_per_second": total.errors / length,
        **_money(rows, total, length=length, book=book),
        "running": total.running.high if total.running.count else None,
        "waiting": total.waiting.high if total.waiting.count else None,
        "kv_usage": total.kv_usage.high if total.kv_usage.count else None,
    }


def _latency(name: str, total: Bucket) -> dict[str, float | None]:
    sketch = total.ttft if name == "ttft" else total.e2e
    values = sketch.quantiles(list(QUANTILES.values()))
    named = {f"{name}_{label}": value for label, value in zip(QUANTILES, values, strict=True)}
    return {**named, f"{name}_count": sketch.total}


def _money(rows: list[Row], total: Bucket, *, length: float, book: PriceBook) -> dict[str, float | None]:
    busy, held = _cost(rows, book)
    # Requests were served while the monitor was away: what that held was not measured.
    if busy is None or held is None or (not total.held and total.requests > total.refused):
        return {"cost_per_minute": None, "idle_cost_per_minute": None}
    a_minute = 60.0 / length
    return {
        "cost_per_minute": float(busy) * a_minute,
        "idle_cost_per_minute": max(0.0, float(held - busy)) * a_minute,
    }


def _cost(rows: Iterable[Row], book: PriceBook) -> tuple[Decimal | None, Decimal | None]:
    """Return dollars busy and held, each roll-up priced at its own start; None when a price is missing."""
    busy = held = Decimal(0)
    for start, _, bucket in rows:
        row_held = book.cost(bucket.held, when=start)
        row_busy = book.cost(bucket.busy, when=start)
        if row_held is None or row_busy is None:
            return None, None
        busy += row_busy
        held += row_held
    return busy, held


def _revision_marks(steps: Mapping[int, list[Row]], times: list[int]) -> list[tuple[float, str]]:
    """Return where a revision was first seen after another one had been."""
    marks: list[tuple[float, str]] = []
    seen: set[int] = set()
    for at in times:
        there = {revision for _, revision, bucket in steps.get(at, []) if revision and (bucket.held or bucket.requests)}
        marks += [(float(at), f"r{revision}") for revision in sorted(there - seen) if seen]
        seen |= there
    return marks


def live_summary(*, viewer: Viewer, now: float) -> list[Summary]:
    """Return the last minute of every profile that the viewer sees, by name; one query for the figures."""
    found = {row.name: row.team.slug for row in profiles(viewer)}
    data = _last_minute(list(found), now=now)
    return [Summary(profile=name, team=team, data=data.get(name)) for name, team in found.items()]


def live_now(*, viewer: Viewer, profile: str, now: float) -> dict[str, Any] | None:
    """Return a profile's last minute in the form of a live frame's data, None when nothing was measured."""
    profile_by_name(viewer, profile)
    return _last_minute([profile], now=now).get(profile)


def _last_minute(names: list[str], *, now: float) -> dict[str, dict[str, Any]]:
    """Return the trailing minute of each profile, from the same seconds that the live frames are made of."""
    rows = Rollup.objects.filter(
        tier=1, start__gt=int(now) - WINDOW_SECONDS, start__lte=int(now), profile__in=names
    ).values_list("profile", "payload")
    buckets: dict[str, list[Bucket]] = {}
    for name, payload in rows.iterator():
        buckets.setdefault(name, []).append(Bucket.decode(payload))
    book = price_book()
    ready = _ready_counts(names)
    return {
        name: window_data(merge_all(parts), prices=book, readings=[], replicas_ready=ready.get(name, 0), now=now)
        for name, parts in buckets.items()
    }


def _ready_counts(names: list[str]) -> dict[str, int]:
    rows = open_replicas().filter(phase=ReplicaPhase.READY, deployment__profile__name__in=names)
    return Counter(rows.values_list("deployment__profile__name", flat=True))


def cost_since(*, viewer: Viewer, profile: str, start: float, end: float) -> CostTotals:
    """Return dollars of a profile in [start, end) at the prices in force then, corrections included.

    Whole minutes come from the minute tier; the rest from seconds, while they are kept.
    """
    profile_by_name(viewer, profile)
    first = math.ceil(start / 60) * 60
    last = max(first, math.floor(end / 60) * 60)
    edges = [(math.floor(start), min(first, math.ceil(end))), (last, math.ceil(end))]
    rows = list(_rollups(profile, tier=60, start=first, end=last))
    for begin, stop in edges:
        if begin < stop:
            rows += _rollups(profile, tier=1, start=begin, end=stop)
    busy, held = _cost(rows, price_book())
    return CostTotals(busy=busy, held=held)


def unpriced(profile: Profile, *, now: float) -> list[str]:
    """Return the accelerators that the profile's replicas hold now and no price row covers, in order."""
    claims = open_replicas().filter(deployment__profile=profile).exclude(node=None).values_list("claim", flat=True)
    held = {str(claim["device_name"]) for claim in claims if claim.get("device_name")}
    book = price_book()
    return sorted(name for name in held if book.at(name, now) is None)


def verdict_row(
    *, profile: str, data: Mapping[str, Any] | None, promised: Mapping[str, float | None]
) -> dict[str, str]:
    """Return the verdict on a profile's last minute with the mark that it is drawn by, for frames and REST alike."""
    verdict = live_verdict(profile=profile, data=data, promises=promised)
    sign = mark(verdict.state)
    return {**asdict(verdict), "glyph": sign.glyph, "tone": sign.tone}


def promises(profile: Profile) -> dict[str, float | None]:
    """Return the P99 promised, in seconds, by chart name; of the deployed revision, else the newest."""
    deployment = getattr(profile, "deployment", None)
    revision = deployment.revision if deployment else next(iter(profile.revisions.all()), None)
    slo = revision.spec.get("slo", {}) if revision else {}
    return {name: _seconds(slo.get(f"{name}_p99_ms")) for name in ("ttft", "e2e")}


def _seconds(milliseconds: object) -> float | None:
    return float(milliseconds) / 1000.0 if isinstance(milliseconds, int | float) else None


def usage_records(
    *,
    viewer: Viewer,
    profile: str | None = None,
    outcome: str | None = None,
    since: datetime | None = None,
) -> QuerySet[UsageRecord]:
    """Return requests of the viewer's teams, newest first; those of no team only for a superuser."""
    rows = UsageRecord.objects.order_by("-at", "-id")
    if not viewer.is_superuser:
        rows = rows.filter(team__in=viewer.teams())
    if profile:
        rows = rows.filter(profile=profile)
    if outcome:
        rows = rows.filter(outcome=outcome)
    return rows.filter(at__gte=since.timestamp()) if since else rows


def usage_page(rows: QuerySet[UsageRecord], *, after: str | None, size: int) -> UsagePage:
    """Return a page by key, so that rows that arrive meanwhile move nothing; a broken key is the first page."""
    key = _usage_key(after)
    if key is not None:
        at, pk = key
        rows = rows.filter(Q(at__lt=at) | Q(at=at, id__lt=pk))
    found = list(rows[: size + 1])
    page = found[:size]
    more = len(found) > size
    return UsagePage(rows=page, next_key=f"{page[-1].at!r}~{page[-1].id}" if more else None)


def _usage_key(text: str | None) -> tuple[float, str] | None:
    at, separator, pk = (text or "").partition("~")
    try:
        return (float(at), pk) if separator else None
    except ValueError:
        return None
