"""The one writer of Replica's placement, phase and observed columns. Each move is a compare-and-set."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from profiles_app.models import Deployment, EngineInstall, Node, Replica, Transition
from profiles_app.states import TERMINAL, Reason, ReplicaPhase, may_move
from profiles_app.wakeups import wake_deployments, wake_gateway, wake_node

ROUTED = frozenset({ReplicaPhase.READY, ReplicaPhase.DRAINING, ReplicaPhase.NOT_READY})


def replica_create(deployment: Deployment, *, slot: int, now: datetime) -> Replica:
    """A new process lifetime for the slot, PENDING. The database refuses a second wanted one for the same slot."""
    with transaction.atomic():
        row = Replica.objects.create(
            deployment=deployment,
            revision_id=deployment.revision_id,
            slot=slot,
            generation=deployment.generation,
            marker=secrets.token_hex(16),
            api_key=secrets.token_urlsafe(24),
            phase=ReplicaPhase.PENDING,
            phase_since=now,
        )
        Transition.objects.create(replica=row, new=row.phase, reason=Reason.CREATED, at=now)
    return row


def replica_place(
    replica: Replica, *, node: Node, engine: EngineInstall, port: int, claim: Mapping[str, Any], now: datetime
) -> bool:
    """Give a pending replica its place. False when it moved meanwhile."""
    with transaction.atomic():
        won = Replica.objects.filter(pk=replica.pk, phase=ReplicaPhase.PENDING, node=None, wanted=True).update(
            node=node,
            engine=engine,
            port=port,
            claim=dict(claim),
            reason=Reason.PLACED,
            message=f"Placed on {node.name}, port {port}.",
            last_seen=now,
        )
        if won:
            wake_node(node.name)
    return bool(won)


def replica_unplaceable(replica: Replica, *, message: str, reason: Reason = Reason.UNPLACEABLE) -> None:
    """Say why a pending replica has no place."""
    Replica.objects.filter(pk=replica.pk, phase=ReplicaPhase.PENDING, node=None).exclude(message=message).update(
        reason=reason, message=message
    )


def replica_unwant(replica: Replica, *, reason: Reason) -> bool:
    """Wish the replica away; its node stops it, draining first where it serves."""
    with transaction.atomic():
        won = Replica.objects.filter(Replica.OPEN, pk=replica.pk, wanted=True).update(
            wanted=False, unwanted_reason=reason
        )
        if won and replica.node:
            wake_node(replica.node.name)
    return bool(won)


def replica_move(
    replica: Replica,
    *,
    old: ReplicaPhase,
    new: ReplicaPhase,
    reason: Reason,
    message: str,
    now: datetime,
    **columns: Any,
) -> bool:
    """Move ``old`` -> ``new`` if the row still stands at ``old``; the Transition is written with it.

    False is a normal answer: somebody else moved it first. Raises ValueError for a move the machine does not have.
    """
    if not may_move(old=old, new=new):
        raise ValueError(f"no transition from {old} to {new}")
    if new in TERMINAL:
        columns |= {"ended_at": now}
    with transaction.atomic():
        won = Replica.objects.filter(pk=replica.pk, phase=old).update(
            phase=new, reason=reason, message=message, phase_since=now, last_seen=now, **columns
        )
        if not won:
            return False
        Transition.objects.create(replica=replica, old=old, new=new, reason=reason, message=message, at=now)
        if ROUTED & {old, new}:
            wake_gateway()
        if new in TERMINAL:
            wake_deployments()
    replica.refresh_from_db()
    return True


def replica_drain(replica: Replica, *, reason: Reason, message: str, now: datetime) -> bool:
    """Take a serving replica out of the routing table and set the deadline of its drain."""
    deadline = now + timedelta(seconds=replica.deployment.drain_seconds)
    return replica_move(
        replica,
        old=ReplicaPhase(replica.phase),
        new=ReplicaPhase.DRAINING,
        reason=reason,
        message=message,
        now=now,
        drain_deadline=deadline,
        wanted=False,
        drain_report={},
    )


def drain_reported(replica: Replica, *, report: Mapping[str, Any]) -> None:
    """Write down what the gateways say of a draining replica: in_flight, oldest_age, gateways, waiting_for, drained."""
    Replica.objects.filter(pk=replica.pk, phase=ReplicaPhase.DRAINING).update(drain_report=dict(report))
    if report.get("drained") and replica.node:
        wake_node(replica.node.name)


def replica_observed(replica: Replica, *, now: datetime, **columns: Any) -> None:
    """Write observed columns (record, progress, pid, message) without a move."""
    Replica.objects.filter(Replica.OPEN, pk=replica.pk).update(last_seen=now, **columns)


def stop_signalled(replica: Replica, *, now: datetime) -> bool:
    """Note that SIGTERM is about to be sent, once: from here on nothing is routed to the process."""
    with transaction.atomic():
        won = Replica.objects.filter(pk=replica.pk, phase=ReplicaPhase.DRAINING, stop_signalled_at=None).update(
            stop_signalled_at=now
        )
        if won:
            wake_gateway()
    return bool(won)
