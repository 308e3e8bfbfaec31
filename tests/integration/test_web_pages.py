"""Every page: who may open it, what it says, what it never does."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from profiles_app.models import Deployment, Node, Profile, Replica, Team
from profiles_app.selectors import viewer_for
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.profiles import profile_create
from profiles_app.services.replicas import replica_create, replica_drain, replica_move, replica_place
from profiles_app.states import Reason, ReplicaPhase

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
P = ReplicaPhase
Login = Callable[[Any], Client]


@pytest.fixture
def login() -> Login:
    """A browser in which the user is logged in."""

    def made(user: Any) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return made


@pytest.fixture
def deployment(profile: Profile, operator_user: Any) -> Deployment:
    """The profile is deployed with one replica."""
    return deployment_deploy(
        viewer_for(operator_user), profile=profile, revision=profile.revisions.get(), replicas=1, now=timezone.now()
    )


@pytest.fixture
def replica(deployment: Deployment) -> Replica:
    """A ready replica on a node that answers."""
    now = timezone.now()
    node = Node.objects.create(name="node-a", lease_until=now + timedelta(minutes=5), last_seen=now, cores=2)
    engine = node.engines.create(name="cpu", version="1.2", kind="cpu", interpreter="python", argv_prefix=["vllm"])
    row = replica_create(deployment, slot=0, now=now)
    replica_place(row, node=node, engine=engine, port=18001, claim={"cores": 1.0}, now=now)
    replica_move(row, old=P.PENDING, new=P.STARTING, reason=Reason.LAUNCHED, message="Started.", now=now)
    replica_move(row, old=P.STARTING, new=P.READY, reason=Reason.PROVEN, message="Answers.", now=now, ready_at=now)
    return row


def paths(deployment: Deployment) -> list[str]:
    """Every page that a viewer may open."""
    return [
        "/",
        "/profiles/",
        "/profiles/standard/",
        "/deployments/",
        f"/deployments/{deployment.pk}/",
        "/fleet/",
        "/keys/",
        "/playground/",
        "/settings/",
    ]


def test_each_page_opens_for_a_viewer_under_the_strict_policy(login: Login, viewer_user: Any, replica: Replica) -> None:
    for path in paths(replica.deployment):
        response = login(viewer_user).get(path)
        text = response.content.decode()
        assert response.status_code == 200, path
        assert "unsafe" not in response.headers["Content-Security-Policy"], path
        assert len(re.findall("<h1", text)) == 1, path
        assert not re.search(r"\s(style|onclick|onload)=", text), path
        assert all("nonce=" in tag for tag in re.findall(r"<script src[^>]*>", text)), path


def test_no_page_opens_without_a_log_in(replica: Replica) -> None:
    for path in paths(replica.deployment):
        response = Client().get(path)
        assert response.status_code == 302, path
        assert response.headers["Location"].startswith("/login/"), path


def test_another_team_sees_nothing_of_it(login: Login, stranger: Any, replica: Replica) -> None:
    client = login(stranger)
    for path in ("/profiles/standard/", f"/deployments/{replica.deployment.pk}/", "/profiles/standard/export/"):
        assert client.get(path).status_code == 404, path
    for path in ("/", "/profiles/", "/deployments/", "/fleet/", "/playground/", "/keys/"):
        assert "standard" not in client.get(path).content.decode(), path


def test_a_viewer_is_offered_nothing_that_would_be_refused(login: Login, viewer_user: Any, replica: Replica) -> None:
    client = login(viewer_user)
    page = client.get(f"/deployments/{replica.deployment.pk}/").content.decode()
    assert "Stop now" not in page
    assert "Deploy r1" not in client.get("/profiles/standard/").content.decode()


def test_a_viewer_who_posts_all_the_same_is_refused(login: Login, viewer_user: Any, replica: Replica) -> None:
    client = login(viewer_user)
    row = replica.deployment
    for path, data in (
        (f"/deployments/{row.pk}/scale/", {"replicas": "2"}),
        (f"/deployments/{row.pk}/stop/", {"drain_seconds": "5"}),
        (f"/deployments/{row.pk}/retry/", {}),
        ("/profiles/standard/deploy/", {"revision": "1", "replicas": "2", "drain_seconds": "30"}),
        ("/profiles/standard/edit/", {}),
        ("/profiles/new/", {"name": "mine"}),
        ("/profiles/import/", {"yaml": ""}),
        ("/fleet/node-a/cordon/", {"cordoned": "true"}),
    ):
        assert client.post(path, data).status_code == 403, path
    row.refresh_from_db()
    assert (row.replicas_wanted, row.generation) == (1, 1)


def test_the_overview_says_the_worst_first(
    login: Login, viewer_user: Any, replica: Replica, profile: Profile, spec: dict[str, Any], operator_user: Any
) -> None:
    profile_create(viewer_for(operator_user), team=profile.team, name="alpha", spec=spec)
    assert "standard is ready on 1 of 1 replicas" in login(viewer_user).get("/").content.decode()
    replica_move(
        replica, old=P.READY, new=P.FAILED, reason=Reason.PROCESS_EXITED, message="It ran out of memory.",
        now=timezone.now(), fix="Give it more.",
    )  # fmt: skip
    Deployment.objects.update(max_restarts=0)
    text = login(viewer_user).get("/").content.decode()
    assert "standard has failed" in text
    assert "It ran out of memory. Give it more." in text
    assert text.index('data-profile="standard"') < text.index('data-profile="alpha"')


def test_the_precision_is_never_said_without_its_origin(login: Login, viewer_user: Any, replica: Replica) -> None:
    for path in ("/", "/profiles/", "/profiles/standard/", "/deployments/", "/playground/"):
        assert "bf16, made up" in login(viewer_user).get(path).content.decode(), path


def test_the_part_that_htmx_asks_for_is_only_the_part(login: Login, viewer_user: Any, replica: Replica) -> None:
    for path in ("/", f"/deployments/{replica.deployment.pk}/", "/fleet/"):
        text = login(viewer_user).get(path, headers={"HX-Request": "true"}).content.decode()
        assert "<html" not in text, path
        assert "<h1" in text, path


def test_lists_read_no_more_for_many_than_for_one(
    login: Login, operator_user: Any, replica: Replica, spec: dict[str, Any], team: Team
) -> None:
    client, viewer, now = login(operator_user), viewer_for(operator_user), timezone.now()

    def queries(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            client.get(path)
        return len(found)

    watched = ("/", "/profiles/", "/deployments/", "/playground/")
    before = [queries(path) for path in watched]
    for name in ("one", "two", "three"):
        row = profile_create(viewer, team=team, name=name, spec=spec)
        deployment_deploy(viewer, profile=row, revision=row.revisions.get(), replicas=1, now=now)
    assert [queries(path) for path in watched] == before


def test_a_drain_shows_what_is_in_flight_and_how_long_is_left(login: Login, viewer_user: Any, replica: Replica) -> None:
    replica_drain(replica, reason=Reason.SCALED_DOWN, message="Drains.", now=timezone.now())
    report = {"in_flight": 7, "completed": 34, "cut": 0, "gateways": 1, "waiting_for": [], "drained": False}
    Replica.objects.filter(pk=replica.pk).update(drain_report=report)
    text = login(viewer_user).get(f"/deployments/{replica.deployment.pk}/").content.decode()
    assert "<dd>7</dd>" in text
    assert "left of 30 s" in text
    assert "<b>34</b>" in text


def test_a_drain_that_no_gateway_reported_is_not_shown_as_zero(
    login: Login, viewer_user: Any, replica: Replica
) -> None:
    replica_drain(replica, reason=Reason.SCALED_DOWN, message="Drains.", now=timezone.now())
    text = login(viewer_user).get(f"/deployments/{replica.deployment.pk}/").content.decode()
    assert "<dd>?</dd>" in text
    assert "No gateway has reported on this drain yet." in text


def test_deploy_scale_stop_and_retry_write_the_wish(login: Login, operator_user: Any, profile: Profile) -> None:
    client = login(operator_user)
    made = client.post("/profiles/standard/deploy/", {"revision": "1", "replicas": "2", "drain_seconds": "45"})
    row = Deployment.objects.get(profile=profile)
    assert made.headers["Location"] == f"/deployments/{row.pk}/"
    assert (row.replicas_wanted, row.drain_seconds) == (2, 45)
    client.post(f"/deployments/{row.pk}/scale/", {"replicas": "3"})
    row.refresh_from_db()
    assert row.replicas_wanted == 3
    client.post(f"/deployments/{row.pk}/stop/", {"drain_seconds": "7"})
    row.refresh_from_db()
    assert (row.replicas_wanted, row.drain_seconds) == (0, 7)
    assert client.post(f"/deployments/{row.pk}/retry/").status_code == 302


def test_a_number_that_is_none_is_refused_with_a_sentence(login: Login, operator_user: Any, replica: Replica) -> None:
    response = login(operator_user).post(f"/deployments/{replica.deployment.pk}/scale/", {"replicas": "many"})
    assert response.status_code == 422
    assert "whole number" in response.content.decode()


def test_a_cordoned_node_says_so(login: Login, operator_user: Any, replica: Replica) -> None:
    client = login(operator_user)
    assert client.post("/fleet/node-a/cordon/", {"cordoned": "true"}).status_code == 302
    assert "Cordoned" in client.get("/fleet/").content.decode()


def test_a_silent_node_is_unreachable_and_its_devices_unknown(login: Login, viewer_user: Any, replica: Replica) -> None:
    past = timezone.now() - timedelta(minutes=5)
    Node.objects.update(lease_until=past, last_seen=past, kind="gpu")
    Node.objects.get().gpus.create(uuid="GPU-1", index=0, name="card", memory_total_bytes=8, memory_used_bytes=4)
    text = login(viewer_user).get("/fleet/").content.decode()
    assert "node-a does not answer" in text
    assert "card: unknown" in text
    assert 'class="gpu gone"' in text


def test_a_foreign_process_is_named_with_its_owner(login: Login, viewer_user: Any, replica: Replica) -> None:
    Node.objects.update(kind="gpu")
    process = {"pid": 4821, "memory_bytes": 2**30, "user": "u1007", "command": "train"}
    Node.objects.get().gpus.create(
        uuid="GPU-1", index=0, name="card", memory_total_bytes=2**33, memory_used_bytes=2**31, processes=[process]
    )
    text = login(viewer_user).get("/fleet/").content.decode()
    assert "pid 4821, user u1007, train" in text
    assert "1.00 GiB" in text


def test_a_node_without_gpus_is_shown_as_what_it_is(login: Login, viewer_user: Any, replica: Replica) -> None:
    text = login(viewer_user).get("/fleet/").content.decode()
    assert "CPU only, 2 cores" in text
    assert 'class="gpu' not in text
