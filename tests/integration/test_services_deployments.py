"""Deployments are wishes: asked twice they are one, and each real change raises the generation and wakes the pass."""

from datetime import timedelta

import pytest

from profiles_app.errors import DomainError, ForbiddenError, NotFoundError
from profiles_app.models import AuditEntry, Deployment
from profiles_app.selectors import deployment_by_id, system_viewer
from profiles_app.services.deployments import (
    MAX_DRAIN_SECONDS,
    MAX_REPLICAS,
    deployment_deploy,
    deployment_observed,
    deployment_retry,
    deployment_scale,
    deployment_stop,
)
from profiles_app.services.profiles import revision_create
from profiles_app.wakeups import DEPLOYMENT_PASS, GATEWAY_PUBLISH
from tests.factories import NOW, Wakeup, cpu_spec, first_revision, make_deployment, make_profile, make_viewer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
LATER = NOW + timedelta(seconds=60)


def test_a_deployment_asked_for_twice_is_one_and_changes_nothing() -> None:
    profile = make_profile()
    first = make_deployment(profile, replicas=2)
    again = make_deployment(profile, replicas=2)
    assert Deployment.objects.count() == 1
    assert again.pk == first.pk
    assert again.generation == first.generation == 1


def test_a_changed_wish_raises_the_generation_once() -> None:
    profile = make_profile()
    make_deployment(profile, replicas=1)
    second = revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_num_seqs": 2}))
    row = deployment_deploy(system_viewer(), profile=profile, revision=second, replicas=3, now=LATER, drain_seconds=5)
    assert (row.revision, row.replicas_wanted, row.drain_seconds, row.generation) == (second, 3, 5, 2)
    assert row.restarts_counted_from == LATER


def test_a_wish_against_an_old_copy_of_the_row_is_counted_as_the_change_that_it_is() -> None:
    stale = make_deployment(replicas=2)
    deployment_scale(system_viewer(), deployment=Deployment.objects.get(), replicas=5, now=NOW)
    row = deployment_scale(system_viewer(), deployment=stale, replicas=2, now=NOW)
    assert (row.replicas_wanted, row.generation) == (2, 3)


def test_a_revision_of_another_profile_cannot_be_deployed() -> None:
    profile, other = make_profile("fast"), make_profile("slow")
    with pytest.raises(DomainError, match="no revision of fast"):
        deployment_deploy(system_viewer(), profile=profile, revision=first_revision(other), replicas=1, now=NOW)
    assert not Deployment.objects.exists()


@pytest.mark.parametrize("replicas", [-1, MAX_REPLICAS + 1])
def test_a_count_out_of_bounds_is_refused(replicas: int) -> None:
    with pytest.raises(DomainError) as caught:
        make_deployment(replicas=replicas)
    assert (caught.value.code, caught.value.field) == ("invalid_replicas", "replicas")
    row = make_deployment(make_profile("other"))
    with pytest.raises(DomainError):
        deployment_scale(system_viewer(), deployment=row, replicas=replicas, now=NOW)


@pytest.mark.parametrize("seconds", [-1, MAX_DRAIN_SECONDS + 1])
def test_a_drain_out_of_bounds_is_refused(seconds: int) -> None:
    with pytest.raises(DomainError) as caught:
        make_deployment(drain_seconds=seconds)
    assert caught.value.field == "drain_seconds"
    row = make_deployment(make_profile("other"))
    with pytest.raises(DomainError):
        deployment_stop(system_viewer(), deployment=row, now=NOW, drain_seconds=seconds)
    row.refresh_from_db()
    assert row.replicas_wanted == 1


def test_a_stop_wants_no_replica_and_may_shorten_the_drain() -> None:
    row = deployment_stop(system_viewer(), deployment=make_deployment(replicas=2), now=NOW, drain_seconds=3)
    assert (row.replicas_wanted, row.drain_seconds, row.generation) == (0, 3, 2)
    assert AuditEntry.objects.filter(action="deployment.stop").count() == 1


def test_a_stop_without_a_time_keeps_the_deployments_own() -> None:
    assert deployment_stop(system_viewer(), deployment=make_deployment(drain_seconds=7), now=NOW).drain_seconds == 7


def test_a_retry_begins_the_count_of_failures_anew() -> None:
    row = deployment_retry(system_viewer(), deployment=make_deployment(), now=LATER)
    assert row.restarts_counted_from == LATER
    assert row.generation == 1


def test_the_observed_generation_never_falls() -> None:
    row = make_deployment()
    for seen, kept in ((3, 3), (2, 3), (4, 4)):
        deployment_observed(row, generation=seen)
        row.refresh_from_db()
        assert row.observed_generation == kept


def test_a_viewer_may_neither_deploy_nor_scale_nor_stop_nor_retry() -> None:
    profile = make_profile()
    row = make_deployment(profile)
    viewer = make_viewer("vera", default="viewer")
    assert deployment_by_id(viewer, row.pk) == row
    with pytest.raises(ForbiddenError):
        deployment_deploy(viewer, profile=profile, revision=first_revision(profile), replicas=2, now=NOW)
    with pytest.raises(ForbiddenError):
        deployment_scale(viewer, deployment=row, replicas=2, now=NOW)
    with pytest.raises(ForbiddenError):
        deployment_stop(viewer, deployment=row, now=NOW, drain_seconds=1)
    with pytest.raises(ForbiddenError):
        deployment_retry(viewer, deployment=row, now=NOW)
    row.refresh_from_db()
    assert (row.replicas_wanted, row.drain_seconds, row.generation) == (1, 30, 1)


def test_a_stranger_finds_no_deployment() -> None:
    profile = make_profile()
    row = make_deployment(profile)
    stranger = make_viewer("sam", other="admin")
    with pytest.raises(NotFoundError):
        deployment_by_id(stranger, row.pk)
    with pytest.raises(NotFoundError):
        deployment_deploy(stranger, profile=profile, revision=first_revision(profile), replicas=2, now=NOW)
    with pytest.raises(NotFoundError):
        deployment_scale(stranger, deployment=row, replicas=0, now=NOW)


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_a_wish_wakes_the_pass_and_the_gateway_after_its_commit(sent: list[Wakeup]) -> None:
    profile = make_profile()
    sent.clear()
    row = make_deployment(profile)
    assert sent == [Wakeup(DEPLOYMENT_PASS), Wakeup(GATEWAY_PUBLISH)]
    sent.clear()
    deployment_scale(system_viewer(), deployment=row, replicas=2, now=NOW)
    assert sent == [Wakeup(DEPLOYMENT_PASS)]


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_a_refused_wish_wakes_nobody(sent: list[Wakeup]) -> None:
    profile = make_profile()
    sent.clear()
    with pytest.raises(DomainError):
        make_deployment(profile, replicas=-1)
    assert sent == []
