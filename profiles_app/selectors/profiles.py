"""Reads of profiles, revisions and model versions."""

from django.db.models import Prefetch, QuerySet

from profiles_app.errors import NotFoundError
from profiles_app.models import ModelVersion, Profile, Revision
from profiles_app.selectors.viewer import Viewer
from profiles_app.specs.schema import Spec


def profiles(viewer: Viewer) -> QuerySet[Profile]:
    """The viewer's profiles, with team, deployment and revisions (newest first) fetched."""
    newest = Revision.objects.select_related("model_version__model").order_by("-number")
    return (
        Profile.objects.filter(team__slug__in=viewer.teams())
        .select_related("team", "deployment__revision")
        .prefetch_related(Prefetch("revisions", queryset=newest))
        .order_by("name")
    )


def all_profiles() -> QuerySet[Profile]:
    """Every profile with its team: for the routing table and the monitor, never for a person."""
    return Profile.objects.select_related("team").order_by("name")


def profile_by_name(viewer: Viewer, name: str) -> Profile:
    """One profile. Raises NotFoundError, the same for a missing one and for another team's."""
    profile = profiles(viewer).filter(name=name).first()
    if profile is None:
        raise NotFoundError(f"Profile {name}")
    return profile


def revision_of(profile: Profile, number: int | None = None) -> Revision:
    """Revision ``number`` of the profile, or its newest."""
    rows = profile.revisions.select_related("model_version__model", "profile").order_by("-number")
    row = (rows if number is None else rows.filter(number=number)).first()
    if row is None:
        raise NotFoundError(f"Revision {number or ''} of {profile.name}".replace("  ", " "))
    return row


def spec_of(revision: Revision) -> Spec:
    """The frozen spec of a stored revision."""
    return Spec.model_validate(revision.spec)


def model_versions(viewer: Viewer) -> QuerySet[ModelVersion]:
    """All model versions: models belong to no team."""
    return ModelVersion.objects.select_related("model").order_by("model__name", "label")
