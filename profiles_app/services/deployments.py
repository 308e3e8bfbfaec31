"""Writes deployments: the desired columns. Each wish raises the generation and wakes the deployment pass."""

from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from profiles_app.errors import DomainError
from profiles_app.models import Deployment, Profile, Revision
from profiles_app.selectors.viewer import Viewer
from profiles_app.services.audit import audit_record
from profiles_app.wakeups import wake_deployments, wake_gateway

MAX_REPLICAS = 64
MAX_DRAIN_SECONDS = 3600


def deployment_deploy(
    viewer: Viewer, *, profile: Profile, revision: Revision, replicas: int, now: datetime, drain_seconds: int = 30
) -> Deployment:
    """Wish for ``replicas`` engines of the revision. Asked twice, it is one deployment. Raises DomainError."""
    viewer.require(profile.team.slug, "operator", what=f"Profile {profile.name}")
    _check_count(replicas)
    _check_drain(drain_seconds)
    if revision.profile_id != profile.pk:
        raise DomainError(
            "other_profile", f"{revision} is no revision of {profile.name}.", status=422, field="revision"
        )
    try:
        with transaction.atomic():
            row, created = Deployment.objects.get_or_create(
                profile=profile,
                defaults={
                    "team": profile.team,
                    "revision": revision,
                    "replicas_wanted": replicas,
                    "drain_seconds": drain_seconds,
                    "restarts_counted_from": now,
                    "created_by_id": viewer.user_id,
                },
            )
            if not created:
                _wish(row, now=now, revision=revision, replicas_wanted=replicas, drain_seconds=drain_seconds)
            audit_record(
                viewer,
                team=profile.team,
                action="deployment.deploy",
                target=profile.name,
                revision=revision.number,
                replicas=replicas,
            )
            wake_deployments()
            wake_gateway()
    except IntegrityError:
        row = Deployment.objects.get(profile=profile)
    row.refresh_from_db()
    return row


def _wish(row: Deployment, *, now: datetime, **columns: object) -> None:
    # Compared with what is stored now: the caller's row may be older than somebody else's wish.
    stored = Deployment.objects.select_for_update().select_related("revision").get(pk=row.pk)
    changed = any(getattr(stored, name) != value for name, value in columns.items())
    Deployment.objects.filter(pk=row.pk).update(
        **columns, restarts_counted_from=now, generation=F("generation") + (1 if changed else 0)
    )


def deployment_scale(viewer: Viewer, *, deployment: Deployment, replicas: int, now: datetime) -> Deployment:
    """Wish for another number of replicas; 0 drains and stops them all."""
    viewer.require(deployment.team.slug, "operator", what="Deployment")
    _check_count(replicas)
    with transaction.atomic():
        _wish(deployment, now=now, replicas_wanted=replicas)
        action = "deployment.scale" if replicas else "deployment.stop"
        audit_record(viewer, team=deployment.team, action=action, target=deployment.profile.name, replicas=replicas)
        wake_deployments()
    deployment.refresh_from_db()
    return deployment


def deployment_stop(
    viewer: Viewer, *, deployment: Deployment, now: datetime, drain_seconds: int | None = None
) -> Deployment:
    """Drain every replica within ``drain_seconds`` (default: the deployment's own) and stop it."""
    if drain_seconds is not None:
        _check_drain(drain_seconds)
        viewer.require(deployment.team.slug, "operator", what="Deployment")
        Deployment.objects.filter(pk=deployment.pk).update(drain_seconds=drain_seconds)
    return deployment_scale(viewer, deployment=deployment, replicas=0, now=now)


def deployment_retry(viewer: Viewer, *, deployment: Deployment, now: datetime) -> Deployment:
    """Forget failed starts, so that slots that were given up are tried again."""
    viewer.require(deployment.team.slug, "operator", what="Deployment")
    with transaction.atomic():
        Deployment.objects.filter(pk=deployment.pk).update(restarts_counted_from=now)
        audit_record(viewer, team=deployment.team, action="deployment.retry", target=deployment.profile.name)
        wake_deployments()
    deployment.refresh_from_db()
    return deployment


def deployment_observed(deployment: Deployment, *, generation: int) -> None:
    """Note that a pass has acted on this generation. It never falls."""
    Deployment.objects.filter(pk=deployment.pk, observed_generation__lt=generation).update(
        observed_generation=generation
    )


def _check_count(replicas: int) -> None:
    if not 0 <= replicas <= MAX_REPLICAS:
        raise DomainError(
            "invalid_replicas",
            f"Replicas must be from 0 to {MAX_REPLICAS}, not {replicas}.",
            status=422,
            field="replicas",
        )


def _check_drain(seconds: int) -> None:
    if not 0 <= seconds <= MAX_DRAIN_SECONDS:
        raise DomainError(
            "invalid_drain",
            f"A drain may take from 0 to {MAX_DRAIN_SECONDS} s, not {seconds}.",
            status=422,
            field="drain_seconds",
        )
