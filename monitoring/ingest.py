"""Writes usage records, roll-ups and the cursor to the telemetry database, each request exactly once.

The only writer of UsageRecord, Rollup and IngestCursor. A batch, its roll-ups and the cursor are one
transaction: after a crash either all of it is there or none, and reading again adds nothing twice.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import redis
from django.db import transaction

from gateway.models import UsageRecord
from monitoring.models import IngestCursor, Rollup
from monitoring.readers import usage
from monitoring.rollups import RETENTION_SECONDS, TIERS, Bucket, Key, by_second, coarser

logger = logging.getLogger(__name__)

TELEMETRY = "telemetry"
CURSOR = "usage"
PRUNE_ROWS = 2000
# A record that claims to end later than this would be drawn in the future: its gateway's clock is wrong.
FUTURE_SECONDS = 60.0

type Fine = dict[tuple[Key, int], Bucket]


class StaleFenceError(RuntimeError):
    """Another monitor holds a newer lease: what this one wanted to write is refused."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one batch added: one-second buckets, and how many records were new, known or unreadable."""

    fine: Fine
    new: int
    duplicates: int
    malformed: int
    more: bool


def ingest_batch(client: redis.Redis, *, fence: int, now: float, count: int = usage.BATCH) -> Ingested:
    """Take the next batch of the usage stream into the database; returns what it added.

    Raises StaleFenceError, and redis or database errors: the caller tries again, nothing is lost.
    """
    start = position()
    batch = usage.read_batch(client, after=start, count=count)
    if batch is None:
        _rewind_if_stream_restarted(client, start, fence=fence, now=now)
        return Ingested(fine={}, new=0, duplicates=0, malformed=0, more=False)
    with transaction.atomic(using=TELEMETRY):
        cursor = _locked_cursor(fence)
        if cursor.position != start:
            return Ingested(fine={}, new=0, duplicates=0, malformed=0, more=True)
        fresh = _only_new(batch.records)
        UsageRecord.objects.bulk_create(fresh, ignore_conflicts=True)
        fine = by_second(sample for record in fresh if (sample := usage.sample_of(record)) is not None)
        fine = {place: bucket for place, bucket in fine.items() if place[1] <= now + FUTURE_SECONDS}
        _merge_rollups(fine)
        duplicates = len(batch.records) - len(fresh)
        cursor.position = batch.position
        cursor.ingested += len(fresh)
        cursor.duplicates += duplicates
        cursor.malformed += batch.malformed
        cursor.updated_at = now
        cursor.save()
    if batch.malformed:
        logger.warning("usage stream: %d malformed entries left out", batch.malformed)
    more = len(batch.records) + batch.malformed >= count
    return Ingested(fine=fine, new=len(fresh), duplicates=duplicates, malformed=batch.malformed, more=more)


def merge_observations(fine: Fine, *, fence: int) -> None:
    """Add one-second buckets of levels and money to the roll-ups. Raises StaleFenceError."""
    with transaction.atomic(using=TELEMETRY):
        _locked_cursor(fence)
        _merge_rollups(fine)


def claim_fence() -> int:
    """Return a new fence, higher than any before; whoever held an older one may write no more."""
    with transaction.atomic(using=TELEMETRY):
        IngestCursor.objects.get_or_create(pk=CURSOR)
        cursor = IngestCursor.objects.select_for_update().get(pk=CURSOR)
        cursor.fence += 1
        cursor.save(update_fields=["fence"])
    return cursor.fence


def position() -> str:
    """Return the stream position up to which everything is in the database."""
    row = IngestCursor.objects.filter(pk=CURSOR).first()
    return row.position if row else "0-0"


def _locked_cursor(fence: int) -> IngestCursor:
    """Return the cursor, locked for this transaction. Raises StaleFenceError unless the fence holds."""
    IngestCursor.objects.get_or_create(pk=CURSOR)
    cursor = IngestCursor.objects.select_for_update().get(pk=CURSOR)
    if cursor.fence != fence:
        message = f"fence {fence} does not hold, {cursor.fence} does"
        raise StaleFenceError(message)
    return cursor


def _rewind_if_stream_restarted(client: redis.Redis, reached: str, *, fence: int, now: float) -> None:
    """Begin at the start when the stream's ids fell behind the cursor: a clock set back, or a new broker."""
    newest = usage.newest_position(client)
    if newest is None or usage.position_order(newest) >= usage.position_order(reached):
        return
    logger.warning("usage stream begins again: cursor %s, newest entry %s", reached, newest)
    with transaction.atomic(using=TELEMETRY):
        cursor = _locked_cursor(fence)
        cursor.position = "0-0"
        cursor.updated_at = now
        cursor.save()


def _only_new(records: Iterable[UsageRecord]) -> list[UsageRecord]:
    """Return the records whose ids are not stored yet, the first of each id."""
    by_id: dict[str, UsageRecord] = {}
    for record in records:
        by_id.setdefault(record.id, record)
    known = set(UsageRecord.objects.filter(pk__in=list(by_id)).values_list("pk", flat=True))
    return [record for pk, record in by_id.items() if pk not in known]


def _merge_rollups(fine: Fine) -> None:
    """Add one-second buckets to all tiers; a late one goes into its own second and raises coarser peaks."""
    if not fine:
        return
    totals = _merge_tier(fine, tier=TIERS[0])
    for tier in TIERS[1:]:
        coarse = coarser(fine, tier=tier)
        for (key, second), total in totals.items():
            place = (key, second - second % tier)
            coarse[place].peak = max(coarse[place].peak, total.requests)
        _merge_tier(coarse, tier=tier)


def _merge_tier(added: Mapping[tuple[Key, int], Bucket], *, tier: int) -> Fine:
    """Merge buckets into one tier's rows; returns the rows' new totals."""
    totals = _stored(added, tier=tier)
    for place, bucket in added.items():
        total = totals.setdefault(place, Bucket())
        total.merge(bucket)
        if tier == TIERS[0]:
            total.peak = total.requests
    rows = [
        Rollup(profile=key[0], revision=key[1], tier=tier, start=start, payload=bucket.encode())
        for (key, start), bucket in totals.items()
    ]
    Rollup.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["profile", "tier", "start", "revision"],
        update_fields=["payload"],
        batch_size=500,
    )
    return totals


def _stored(places: Iterable[tuple[Key, int]], *, tier: int) -> Fine:
    """Return the stored buckets of exactly these places."""
    wanted = set(places)
    rows = Rollup.objects.filter(
        tier=tier,
        profile__in={key[0] for key, _ in wanted},
        start__in={start for _, start in wanted},
    )
    found = {((row.profile, row.revision), row.start): row.payload for row in rows.iterator()}
    return {place: Bucket.decode(payload) for place, payload in found.items() if place in wanted}


def prune(*, now: float, rows: int = PRUNE_ROWS) -> int:
    """Delete at most `rows` roll-ups past their tier's retention; returns how many."""
    deleted = 0
    for tier in TIERS:
        old = Rollup.objects.filter(tier=tier, start__lt=int(now - RETENTION_SECONDS[tier]))
        ids = list(old.order_by("start").values_list("pk", flat=True)[: rows - deleted])
        if ids:
            deleted += Rollup.objects.filter(pk__in=ids).delete()[0]
    return deleted


def recent(*, now: float, seconds: int) -> Fine:
    """Return the one-second buckets of the last seconds, to fill a new monitor's window."""
    rows = Rollup.objects.filter(tier=TIERS[0], start__gt=int(now) - seconds)
    return {((row.profile, row.revision), row.start): Bucket.decode(row.payload) for row in rows.iterator()}
