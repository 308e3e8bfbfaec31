"""Reads for whole lists, in a number of queries that does not grow with the list."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import F, QuerySet

from profiles_app.errors import NotFoundError
from profiles_app.models import Deployment, ModelVersion, Node, Profile, Replica, Revision, Team, Transition
from profiles_app.selectors.fleet import nodes
from profiles_app.selectors.replicas import DeploymentState, deployments
from profiles_app.selectors.viewer import Viewer
from profiles_app.states import Reason, ReplicaPhase, ReplicaView, deployment_status


def is_unreachable(node: Node | None, *, now: datetime) -> bool:
    """Whether the node's lease has run out, so that what is known of its replicas is old."""
    return node is not None and (node.lease_until is None or node.lease_until < now)


def deployment_states(rows: Iterable[Deployment], *, now: datetime) -> dict[UUID, DeploymentState]:
    """States of deployments that ``selectors.deployments`` fetched, by id. One query for all their failures."""
    listed = list(rows)
    failures = _failures(listed)
    return {row.pk: _state(row, failures[row.pk], now=now) for row in listed}


def _failures(rows: list[Deployment]) -> dict[UUID, list[Replica]]:
    """Failed replicas of each deployment's wanted revision since its count began, newest first."""
    found = Replica.objects.filter(
        deployment__in=rows,
        phase=ReplicaPhase.FAILED,
        revision=F("deployment__revision"),
        ended_at__gte=F("deployment__restarts_counted_from"),
    )
    result: dict[UUID, list[Replica]] = defaultdict(list)
    for row in found.select_related("node", "revision").order_by("-ended_at"):
        result[row.deployment_id].append(row)
    return result


def _state(row: Deployment, failed: list[Replica], *, now: datetime) -> DeploymentState:
    # The failures were read later: a replica that failed in between is one of them, and open no more.
    ended = {replica.pk for replica in failed}
    open_rows: tuple[Replica, ...] = tuple(
        replica
        for replica in row.open_rows  # type: ignore[attr-defined] # Prefetch(to_attr) adds it
        if replica.pk not in ended
    )
    slots: dict[int, int] = defaultdict(int)
    for replica in failed:
        # As failures_since_reset counts them: a taken port is shown, but no start failed.
        slots[replica.slot] += replica.reason != Reason.PORT_TAKEN
    given_up = sum(n > row.max_restarts and slot < row.replicas_wanted for slot, n in slots.items())
    views = [
        ReplicaView(
            phase=ReplicaPhase(replica.phase),
            wanted=replica.wanted,
            unreachable=is_unreachable(replica.node, now=now),
        )
        for replica in open_rows
    ]
    return DeploymentState(
        status=deployment_status(replicas=views, wanted=row.replicas_wanted, failed_slots=given_up),
        ready=sum(replica.phase == ReplicaPhase.READY for replica in open_rows),
        wanted=row.replicas_wanted,
        replicas=open_rows,
        failed_slots=given_up,
        last_failure=failed[0] if failed else None,
    )


def deployments_of(viewer: Viewer, profiles: Iterable[Profile]) -> list[Deployment]:
    """Deployments of the profiles, open replicas fetched."""
    return list(deployments(viewer).filter(profile__in=list(profiles)))


def revisions_of(profile: Profile) -> QuerySet[Revision]:
    """The profile's revisions with their authors, newest first."""
    return profile.revisions.select_related("model_version__model", "created_by").order_by("-number")


def newest_number(name: str) -> int:
    """Number of the newest revision of the profile with this name; 0 where there is none."""
    row = Revision.objects.filter(profile__name=name).order_by("-number").first()
    return row.number if row else 0


def model_version_named(*, name: str, label: str) -> ModelVersion | None:
    """The stored model version that a spec names, if there is one."""
    return ModelVersion.objects.filter(model__name=name, label=label).select_related("model").first()


def team_by_slug(viewer: Viewer, slug: str | None) -> Team:
    """The team by slug; None means the viewer's only team, else ``default``. Raises NotFoundError."""
    if slug is None:
        slug = next(iter(viewer.roles)) if len(viewer.roles) == 1 else "default"
    row = Team.objects.filter(slug=slug).first()
    if row is None or not viewer.can(slug, "viewer"):
        raise NotFoundError(f"Team {slug}")
    return row


def node_by_name(viewer: Viewer, name: str) -> Node:
    """One node with devices and engines. Raises NotFoundError."""
    row = nodes(viewer).filter(name=name).first()
    if row is None:
        raise NotFoundError(f"Node {name}")
    return row


def moves_of(replica: Replica) -> list[Transition]:
    """Every move of one replica, oldest first: there are at most as many as the machine has arrows in a row."""
    return list(replica.transitions.order_by("at", "id")[:200])
