"""What answers show of rows together with what is computed from them: states, drains, reachability."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from profiles_app.models import Deployment, Node, Profile, Replica, Revision, Transition
from profiles_app.selectors.lists import deployment_states, deployments_of, is_unreachable, moves_of
from profiles_app.selectors.replicas import DeploymentState, transitions_of
from profiles_app.selectors.viewer import Viewer
from profiles_app.states import ReplicaPhase


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A replica, whether its node is silent, and how far its drain is."""

    row: Replica
    unreachable: bool
    drain: Mapping[str, Any] | None
    transitions: tuple[Transition, ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """A deployment and its state at one moment."""

    row: Deployment
    state: DeploymentState
    replicas: tuple[ReplicaRow, ...] = ()
    last_failure: ReplicaRow | None = None
    transitions: tuple[Transition, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A profile, its newest revision and its deployment. None: it has none."""

    profile: Profile
    newest: Revision | None
    deployment: DeploymentRow | None

    @property
    def state(self) -> str:
        """Status of the deployment, or ``none``."""
        return self.deployment.state.status.value if self.deployment else "none"

    @property
    def model(self) -> str | None:
        """Model and version in one word."""
        return str(self.newest.model_version) if self.newest else None

    @property
    def precision(self) -> str | None:
        """Number format that the weights are computed with."""
        return self.newest.spec.get("precision", {}).get("weights") if self.newest else None

    @property
    def precision_note(self) -> str | None:
        """Where the weights come from, if that limits what the precision means."""
        return self.newest.model_version.weights_note if self.newest else None

    @property
    def revision(self) -> int | None:
        """Number of the newest revision."""
        return self.newest.number if self.newest else None

    @property
    def revision_hash(self) -> str | None:
        """Hash of the newest revision's spec."""
        return self.newest.spec_hash if self.newest else None

    @property
    def spec(self) -> Mapping[str, Any] | None:
        """The newest revision's spec."""
        return self.newest.spec if self.newest else None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node and whether its agent's lease holds."""

    row: Node
    reachable: bool


def profile_rows(viewer: Viewer, profiles: Iterable[Profile], *, now: datetime) -> list[ProfileRow]:
    """Rows for profiles that ``selectors.profiles`` fetched."""
    listed = list(profiles)
    states = {row.row.profile_id: row for row in deployment_rows(deployments_of(viewer, listed), now=now)}
    return [
        ProfileRow(profile=profile, newest=next(iter(profile.revisions.all()), None), deployment=states.get(profile.pk))
        for profile in listed
    ]


def deployment_rows(deployments: Iterable[Deployment], *, now: datetime) -> list[DeploymentRow]:
    """Rows for deployments that ``selectors.deployments`` fetched, without their replicas."""
    listed = list(deployments)
    states = deployment_states(listed, now=now)
    return [DeploymentRow(row=row, state=states[row.pk]) for row in listed]


def deployment_detail(deployment: Deployment, *, now: datetime) -> DeploymentRow:
    """A deployment with its open replicas, its last failure and its newest moves."""
    state = deployment_states([deployment], now=now)[deployment.pk]
    failure = state.last_failure
    return DeploymentRow(
        row=deployment,
        state=state,
        replicas=tuple(replica_row(row, now=now) for row in state.replicas),
        last_failure=replica_row(failure, now=now) if failure else None,
        transitions=tuple(transitions_of(deployment)),
    )


def replica_row(row: Replica, *, now: datetime) -> ReplicaRow:
    """A replica without its moves."""
    return ReplicaRow(row=row, unreachable=_silent(row, now=now), drain=drain_of(row, now=now))


def replica_detail(row: Replica, *, now: datetime) -> ReplicaRow:
    """A replica with its moves."""
    return ReplicaRow(
        row=row, unreachable=_silent(row, now=now), drain=drain_of(row, now=now), transitions=tuple(moves_of(row))
    )


def _silent(row: Replica, *, now: datetime) -> bool:
    return row.ended_at is None and is_unreachable(row.node, now=now)


def drain_of(row: Replica, *, now: datetime) -> dict[str, Any] | None:
    """How far the replica's drain is, or how it went; None where it never drained."""
    if row.drain_deadline is None:
        return None
    report = row.drain_report
    draining = row.phase == ReplicaPhase.DRAINING
    left = max(0.0, (row.drain_deadline - now).total_seconds()) if draining else None
    return {
        "in_flight": report.get("in_flight"),
        "oldest_age": report.get("oldest_age"),
        "completed": report.get("completed"),
        "cut": report.get("cut"),
        "cut_ids": report.get("cut_ids", []),
        "deadline": row.drain_deadline,
        "seconds_left": left,
        "waiting_for": report.get("waiting_for", []),
        "drained": bool(report.get("drained")),
        "message": report.get("unknown", ""),
    }


def node_row(row: Node, *, now: datetime) -> NodeRow:
    """A node as it stands now."""
    return NodeRow(row=row, reachable=not is_unreachable(row, now=now))
