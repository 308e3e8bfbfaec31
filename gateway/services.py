"""Writes keys, publishes the table, and writes drain reports down."""

import hashlib
import json
import logging
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

from gateway import snapshot
from gateway.models import ApiKey
from gateway.selectors import SEEN_KEY, gateway_reports, merge_drain
from profiles_app.errors import DomainError
from profiles_app.models import Profile, Replica, Team
from profiles_app.selectors import Viewer, open_replicas
from profiles_app.services import replicas as replica_services
from profiles_app.services.audit import audit_record
from profiles_app.states import ReplicaPhase
from profiles_app.wakeups import wake_gateway

logger = logging.getLogger(__name__)

PREFIX = "fb"
MAX_NAME = 100
TABLE_TTL_SECONDS = 30


def new_key() -> str:
    """A fresh key: prefix, public part, 256 random bits."""
    return f"{PREFIX}_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"


def hash_key(key: str) -> str:
    """What is kept of a key. A slow hash is for passwords; this secret is random."""
    return hashlib.sha256(key.encode()).hexdigest()


def key_create(
    viewer: Viewer,
    *,
    team: Team,
    name: str,
    profiles: Sequence[Profile],
    all_profiles: bool = False,
    max_concurrency: int | None = None,
    expires_at: datetime | None = None,
    now: datetime,
) -> tuple[ApiKey, str]:
    """Make a key. Returns the row and the key itself, which is shown this once. Raises DomainError."""
    viewer.require(team.slug, "operator", what="Team")
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME:
        raise DomainError("invalid_name", f"A key needs a name of at most {MAX_NAME} signs.", status=422, field="name")
    if not all_profiles and not profiles:
        raise DomainError(
            "no_profiles", "Choose the profiles that the key may use, or all of the team.", status=422, field="profiles"
        )
    if any(profile.team_id != team.pk for profile in profiles):
        raise DomainError("other_team", "A key can use its own team's profiles only.", status=422, field="profiles")
    if max_concurrency is not None and max_concurrency < 1:
        raise DomainError(
            "invalid_concurrency",
            "Set at least 1 request at once, or leave it empty.",
            status=422,
            field="max_concurrency",
        )
    if expires_at is not None and expires_at <= now:
        raise DomainError("expired", "The end lies in the past; choose a later one.", status=422, field="expires_at")
    return _key_store(
        viewer,
        team=team,
        name=name,
        profiles=profiles,
        all_profiles=all_profiles,
        max_concurrency=max_concurrency,
        expires_at=expires_at,
    )


def _key_store(
    viewer: Viewer, *, team: Team, name: str, profiles: Sequence[Profile], internal: bool = False, **columns: Any
) -> tuple[ApiKey, str]:
    key = new_key()
    with transaction.atomic():
        row = ApiKey.objects.create(
            team=team,
            name=name,
            prefix="_".join(key.split("_")[:2]),
            key_hash=hash_key(key),
            internal=internal,
            created_by_id=viewer.user_id,
            **columns,
        )
        row.profiles.set(profiles)
        audit_record(viewer, team=team, action="key.create", target=row.prefix, name=name)
        wake_gateway()
    return row, key


def key_revoke(viewer: Viewer, *, key: ApiKey, now: datetime) -> None:
    """End the key. Gateways refuse it as soon as they have the next table."""
    viewer.require(key.team.slug, "operator", what="Key")
    with transaction.atomic():
        ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now)
        audit_record(viewer, team=key.team, action="key.revoke", target=key.prefix, name=key.name)
        wake_gateway()


def playground_key(viewer: Viewer, *, team: Team, now: datetime) -> str:
    """A key for one person's use of the playground in the team: made anew for each session, the old one ends.

    It goes through the gateway like any client's, so that playground traffic is counted like any other.
    """
    viewer.require(team.slug, "operator", what="Team")
    with transaction.atomic():
        ApiKey.objects.filter(team=team, internal=True, created_by_id=viewer.user_id, revoked_at=None).update(
            revoked_at=now
        )
        _, key = _key_store(
            viewer,
            team=team,
            name=f"playground of {viewer.username or 'system'}",
            profiles=(),
            internal=True,
            all_profiles=True,
        )
    return key


def table_publish(*, now: datetime) -> int:
    """Publish the routing table if anything in it changed. Returns the current version."""
    return snapshot.publish(now=now)


def drain_reports_write(*, now: datetime) -> int:
    """Write what the gateways say of each draining replica. Returns how many replicas drain.

    With Valkey down nothing is known, so nothing is written but the reason: the drain waits for its deadline.
    """
    draining = list(open_replicas().filter(phase=ReplicaPhase.DRAINING, stop_signalled_at=None))
    if not draining:
        return 0
    version = snapshot.publish(now=now)
    try:
        connection = snapshot.connect()
        reports = gateway_reports(connection)
        silent = _silent_gateways(connection, reports, now=now)
    except (redis.RedisError, OSError) as error:
        logger.warning("gateways cannot be asked: %s", error)
        for row in draining:
            replica_services.drain_reported(
                row,
                report=row.drain_report | {"drained": False, "unknown": "Valkey is down; waiting for the deadline."},
            )
        return len(draining)
    for row in draining:
        report = merge_drain(reports, replica_id=str(row.pk), version=version, silent=silent)
        replica_services.drain_reported(row, report=_since_start(row, report))
    return len(draining)


def _since_start(row: Replica, report: dict[str, Any]) -> dict[str, Any]:
    """Count what was completed since the drain began: the first report is the base."""
    base = row.drain_report.get("base_total", report["total"])
    return report | {"base_total": base, "completed": max(0, report["total"] - base)}


def _silent_gateways(connection: redis.Redis, reports: list[dict[str, Any]], *, now: datetime) -> list[str]:
    """Gateways whose lease ran out without a goodbye so lately that they may still route by an old table."""
    live = {report["process_id"] for report in reports}
    moment = now.timestamp()
    if live:
        connection.hset(SEEN_KEY, mapping={name: json.dumps(moment) for name in live})
    bound = TABLE_TTL_SECONDS * settings.FOREBAY.time_scale
    silent = []
    seen: Any = connection.hgetall(SEEN_KEY)
    for raw, at in seen.items():
        name = raw.decode()
        if name in live:
            continue
        if moment - float(at) > bound:
            connection.hdel(SEEN_KEY, name)
        else:
            silent.append(name)
    return silent
