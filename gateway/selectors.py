"""Reads of keys and of what the gateway processes report."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import redis
from django.db.models import QuerySet

from gateway.models import ApiKey
from profiles_app.errors import NotFoundError
from profiles_app.selectors import Viewer

REPORT_KEYS = "forebay:gateway:*"
SEEN_KEY = "forebay:gateways:seen"


def keys(viewer: Viewer) -> QuerySet[ApiKey]:
    """The viewer's keys, revoked ones included, Forebay's own left out."""
    return (
        ApiKey.objects.filter(team__slug__in=viewer.teams(), internal=False)
        .select_related("team")
        .prefetch_related("profiles")
        .order_by("team__slug", "name", "created_at")
    )


def key_by_id(viewer: Viewer, pk: UUID | str) -> ApiKey:
    """One key. Raises NotFoundError."""
    row = keys(viewer).filter(pk=pk).first()
    if row is None:
        raise NotFoundError("Key")
    return row


def gateway_reports(connection: redis.Redis) -> list[dict[str, Any]]:
    """Reports of every gateway process with a live lease. Raises redis.RedisError."""
    names = list(connection.scan_iter(REPORT_KEYS, count=100))
    values: Iterable[Any] = connection.mget(names) if names else ()
    return [json.loads(value) for value in values if value]


def merge_drain(
    reports: Iterable[Mapping[str, Any]], *, replica_id: str, version: int, silent: Iterable[str] = ()
) -> dict[str, Any]:
    """One report for a draining replica from all gateways. Pure.

    ``drained`` only when each gateway uses a table of at least ``version``, none is ``silent`` (its lease ran out
    without a goodbye, so it may still route), and nothing is in flight.
    """
    rows = list(reports)
    mine = [report["replicas"].get(replica_id, {}) for report in rows]
    behind = [r["process_id"] for r in rows if r["table_version"] is None or r["table_version"] < version]
    waiting = sorted([*behind, *silent])
    in_flight = sum(row.get("in_flight", 0) for row in mine)
    ages = [row["oldest_age"] for row in mine if row.get("oldest_age") is not None]
    return {
        "gateways": len(rows),
        "waiting_for": waiting,
        "in_flight": in_flight,
        "oldest_age": max(ages, default=None),
        "total": sum(row.get("completed", 0) for row in mine),
        "cut": sum(row.get("cut", 0) for row in mine),
        "cut_ids": [request for row in mine for request in row.get("cut_ids", [])][:100],
        "drained": not waiting and in_flight == 0,
        "version": version,
    }
