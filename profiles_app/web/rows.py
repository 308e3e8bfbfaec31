"""What the pages show of profiles and deployments: rows and sentences made from what the selectors return."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from profiles_app import selectors
from profiles_app.models import Deployment, Profile, Replica, Revision
from profiles_app.selectors import Viewer
from profiles_app.selectors.lists import deployment_states, deployments_of
from profiles_app.selectors.replicas import DeploymentState
from profiles_app.states import DeploymentStatus

ORDER = ("failed", "unknown", "degraded", "starting", "draining", "queued", "ready", "stopped", "none")


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One profile in a list: what it serves, and how its deployment stands."""

    name: str
    description: str
    team: str
    model: str
    precision: str
    revision: int | None
    deployed_revision: int | None
    state: str
    ready: int
    wanted: int
    deployment_id: str
    promise_ms: float | None
    message: str

    @property
    def behind(self) -> bool:
        """Whether a newer revision is stored than the one that is deployed."""
        return self.deployed_revision is not None and self.deployed_revision != self.revision


def precision_text(revision: Revision) -> str:
    """The precision of the weights, with what the model version says about their origin."""
    weights = str(revision.spec.get("precision", {}).get("weights", "")) or "unknown"
    note = revision.model_version.weights_note
    return f"{weights}, {note}" if note else weights


def profile_rows(viewer: Viewer, *, now: datetime) -> list[ProfileRow]:
    """Every profile of the viewer, the one that needs a person most first. As many queries for one as for all."""
    return worst_first(_rows(viewer, list(selectors.profiles(viewer)), now=now))


def profile_row(viewer: Viewer, profile: Profile, *, now: datetime) -> ProfileRow:
    """The row of one profile that ``selectors`` fetched."""
    return _rows(viewer, [profile], now=now)[0]


def _rows(viewer: Viewer, profiles: list[Profile], *, now: datetime) -> list[ProfileRow]:
    deployments = deployments_of(viewer, profiles)
    states = deployment_states(deployments, now=now)
    placed = {row.profile_id: row for row in deployments}
    return [_row(profile, placed.get(profile.pk), states) for profile in profiles]


def _row(profile: Profile, deployment: Deployment | None, states: Mapping[UUID, DeploymentState]) -> ProfileRow:
    revision = next(iter(profile.revisions.all()), None)
    state = states[deployment.pk] if deployment else None
    slo: dict[str, Any] = revision.spec.get("slo", {}) if revision else {}
    return ProfileRow(
        name=profile.name,
        description=profile.description,
        team=profile.team.slug,
        model=revision.model_version.model.name if revision else "no revision",
        precision=precision_text(revision) if revision else "unknown",
        revision=revision.number if revision else None,
        deployed_revision=deployment.revision.number if deployment else None,
        state=state.status.value if state else "none",
        ready=state.ready if state else 0,
        wanted=state.wanted if state else 0,
        deployment_id=str(deployment.id) if deployment else "",
        promise_ms=slo.get("ttft_p99_ms"),
        message=said_by(state) if state else "",
    )


def said_by(state: DeploymentState) -> str:
    """The sentence that explains a deployment that is not well; empty where it is."""
    if state.status in {DeploymentStatus.READY, DeploymentStatus.STOPPED}:
        return ""
    speaking = [row for row in state.replicas if row.message]
    if state.status in {DeploymentStatus.FAILED, DeploymentStatus.DEGRADED} and state.last_failure:
        return with_fix(state.last_failure)
    return with_fix(speaking[0]) if speaking else ""


def with_fix(replica: Replica) -> str:
    """What a replica says, and what to do about it."""
    return " ".join(part for part in (replica.message, replica.fix) if part)


def worst_first(rows: list[ProfileRow]) -> list[ProfileRow]:
    """Rows by how much they need a person, then by name."""
    return sorted(rows, key=lambda row: (ORDER.index(row.state) if row.state in ORDER else 0, row.name))
