"""Reads of deployments, replicas and their history."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from profiles_app.errors import NotFoundError
from profiles_app.models import Deployment, Replica, Transition
from profiles_app.selectors.viewer import Viewer
from profiles_app.states import DeploymentStatus, Reason, ReplicaPhase


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """A deployment's status as computed at one moment, with the replicas that it was computed from."""

    status: DeploymentStatus
    ready: int
    wanted: int
    replicas: tuple[Replica, ...]
    failed_slots: int
    last_failure: Replica | None


def deployments(viewer: Viewer) -> QuerySet[Deployment]:
    """The viewer's deployments, open replicas fetched as ``open_rows``."""
    open_rows = Replica.objects.filter(Replica.OPEN).select_related("node", "revision").order_by("slot", "created_at")
    return (
        Deployment.objects.filter(team__slug__in=viewer.teams())
        .select_related("profile", "revision__model_version__model", "team")
        .prefetch_related(Prefetch("replicas", queryset=open_rows, to_attr="open_rows"))
        .order_by("profile__name")
    )


def deployment_by_id(viewer: Viewer, pk: UUID | str) -> Deployment:
    """One deployment. Raises NotFoundError."""
    row = deployments(viewer).filter(pk=pk).first()
    if row is None:
        raise NotFoundError("Deployment")
    return row


def failures_since_reset(deployment: Deployment) -> dict[int, int]:
    """Failed replicas per slot of the wanted revision since the count began: {slot: failures}.

    A taken port is not counted: no engine was started, and the next try takes another port.
    """
    rows = (
        Replica.objects.filter(
            deployment=deployment,
            revision_id=deployment.revision_id,
            phase=ReplicaPhase.FAILED,
            ended_at__gte=deployment.restarts_counted_from,
        )
        .exclude(reason=Reason.PORT_TAKEN)
        .values("slot")
        .annotate(n=Count("id"))
    )
    return {row["slot"]: row["n"] for row in rows}


def open_replicas() -> QuerySet[Replica]:
    """Every replica that is not terminal: for loops, never for a person."""
    return Replica.objects.filter(Replica.OPEN).select_related("deployment__profile__team", "revision", "node")


def routable_replicas() -> list[Replica]:
    """Replicas for the routing table: proven ready, or draining with requests left."""
    phases = Q(phase=ReplicaPhase.READY) | Q(phase=ReplicaPhase.DRAINING, stop_signalled_at=None)
    return list(open_replicas().filter(phases).exclude(port=None).order_by("created_at"))


def replica_by_id(viewer: Viewer, pk: UUID | str) -> Replica:
    """One replica, terminal or not. Raises NotFoundError."""
    row = (
        Replica.objects.filter(pk=pk, deployment__team__slug__in=viewer.teams())
        .select_related("deployment__profile", "deployment__team", "revision", "node", "engine")
        .first()
    )
    if row is None:
        raise NotFoundError("Replica")
    return row


def transitions_of(deployment: Deployment, *, limit: int = 200) -> list[Transition]:
    """The newest ``limit`` moves of the deployment's replicas, newest first."""
    rows = Transition.objects.filter(replica__deployment=deployment).select_related("replica")
    return list(rows.order_by("-at", "-id")[:limit])


def startup_seconds(*, profile_name: str) -> list[float]:
    """How long the last starts of the profile's engines took, launch to ready, newest first (at most 20)."""
    rows = Replica.objects.filter(deployment__profile__name=profile_name).exclude(ready_at=None)
    times: list[float] = []
    for row in rows.order_by("-ready_at")[:20]:
        launched = row.transitions.filter(reason=Reason.LAUNCHED).order_by("at").first()
        if launched and row.ready_at:
            times.append((row.ready_at - launched.at).total_seconds())
    return times
