"""The replica machine: phases, reasons, legal moves, and the status of a deployment computed from its replicas."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ReplicaPhase(StrEnum):
    """Where one engine process stands, from decision to exit. A Replica row is one process lifetime."""

    PENDING = "pending"
    STARTING = "starting"
    READY = "ready"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a replica is in its phase. The message beside it is for people."""

    CREATED = "Created"
    PLACED = "Placed"
    UNPLACEABLE = "Unplaceable"
    ENGINE_MISSING = "EngineMissing"
    LAUNCHED = "Launched"
    ADOPTED = "Adopted"
    PROVEN = "Proven"
    READINESS_FAILED = "ReadinessFailed"
    STARTUP_TIMEOUT = "StartupTimeout"
    STARTUP_FAILED = "StartupFailed"
    PROCESS_EXITED = "ProcessExited"
    PROCESS_LOST = "ProcessLost"
    IDENTITY_MISMATCH = "IdentityMismatch"
    PORT_TAKEN = "PortTaken"
    SCALED_DOWN = "ScaledDown"
    DEPLOYMENT_STOPPED = "DeploymentStopped"
    SPEC_CHANGED = "SpecChanged"
    CONTROL_PLANE_STOPPED = "ControlPlaneStopped"
    DRAINED = "Drained"
    DRAIN_DEADLINE = "DrainDeadline"


P = ReplicaPhase
TERMINAL = frozenset({P.STOPPED, P.FAILED})
LIVE = frozenset({P.STARTING, P.READY, P.NOT_READY, P.DRAINING})
TRANSITIONS: dict[ReplicaPhase, frozenset[ReplicaPhase]] = {
    P.PENDING: frozenset({P.STARTING, P.STOPPED, P.FAILED}),
    P.STARTING: frozenset({P.READY, P.DRAINING, P.STOPPED, P.FAILED}),
    P.READY: frozenset({P.NOT_READY, P.DRAINING, P.FAILED}),
    P.NOT_READY: frozenset({P.READY, P.DRAINING, P.FAILED}),
    P.DRAINING: frozenset({P.STOPPED, P.FAILED}),
    P.STOPPED: frozenset(),
    P.FAILED: frozenset(),
}


def may_move(*, old: ReplicaPhase, new: ReplicaPhase) -> bool:
    """Whether the machine has an arrow from ``old`` to ``new``."""
    return new in TRANSITIONS[old]


class DeploymentStatus(StrEnum):
    """What a person reads of a deployment. Computed, never stored."""

    READY = "ready"
    STARTING = "starting"
    DEGRADED = "degraded"
    DRAINING = "draining"
    QUEUED = "queued"
    FAILED = "failed"
    UNKNOWN = "unknown"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What the status needs to know of one replica. ``unreachable``: its node's lease has run out."""

    phase: ReplicaPhase
    wanted: bool
    unreachable: bool = False


def deployment_status(*, replicas: Iterable[ReplicaView], wanted: int, failed_slots: int) -> DeploymentStatus:
    """Status of a deployment that wants ``wanted`` replicas.

    ``replicas`` are the non-terminal ones; ``failed_slots`` counts slots given up after too many restarts.
    """
    rows = tuple(replicas)
    if any(row.unreachable and row.phase in LIVE for row in rows):
        return DeploymentStatus.UNKNOWN
    if wanted == 0:
        return DeploymentStatus.DRAINING if rows else DeploymentStatus.STOPPED
    ready = sum(row.phase is P.READY and row.wanted for row in rows)
    if ready >= wanted:
        return DeploymentStatus.READY
    if failed_slots:
        return DeploymentStatus.DEGRADED if ready else DeploymentStatus.FAILED
    return _below_strength(rows, ready=ready)


def _below_strength(rows: tuple[ReplicaView, ...], *, ready: int) -> DeploymentStatus:
    if ready or any(row.phase is P.NOT_READY and row.wanted for row in rows):
        return DeploymentStatus.DEGRADED
    if any(row.phase is P.STARTING and row.wanted for row in rows):
        return DeploymentStatus.STARTING
    if any(row.phase is P.DRAINING for row in rows):
        return DeploymentStatus.DRAINING
    return DeploymentStatus.QUEUED
