"""Deployments, replicas, logs and nodes over REST."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from profiles_app.models import Deployment, Node, Profile, Replica
from profiles_app.selectors import viewer_for
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.replicas import drain_reported, replica_create, replica_drain, replica_move, replica_place
from profiles_app.states import Reason, ReplicaPhase

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
Clients = Callable[[Any], Any]
P = ReplicaPhase


@pytest.fixture
def deployment(profile: Profile, operator_user: Any) -> Deployment:
    """One replica of the profile is wanted."""
    return deployment_deploy(
        viewer_for(operator_user), profile=profile, revision=profile.revisions.get(), replicas=1, now=timezone.now()
    )


@pytest.fixture
def node(db: None) -> Node:
    """This host, with an engine."""
    lease = timezone.now() + timedelta(minutes=5)
    node = Node.objects.create(name=settings.FOREBAY.node_name, lease_until=lease, cores=2)
    node.engines.create(
        name="vllm", version="1", kind="cpu", interpreter="py", argv_prefix=["vllm"], env={"HF_TOKEN": "hidden"}
    )
    return node


@pytest.fixture
def replica(deployment: Deployment, node: Node) -> Replica:
    """A ready replica on this host."""
    now = timezone.now()
    row = replica_create(deployment, slot=0, now=now)
    replica_place(row, node=node, engine=node.engines.get(), port=18001, claim={}, now=now)
    replica_move(row, old=P.PENDING, new=P.STARTING, reason=Reason.LAUNCHED, message="", now=now)
    replica_move(row, old=P.STARTING, new=P.READY, reason=Reason.PROVEN, message="", now=now, ready_at=now)
    return row


def log_of(replica: Replica) -> Path:
    """Where the engine of the replica writes."""
    path: Path = settings.FOREBAY.data_dir / "replicas" / str(replica.pk) / "engine.log"
    path.parent.mkdir(parents=True)
    return path


def test_deploying_twice_is_one_deployment(as_user: Clients, operator_user: Any, profile: Profile) -> None:
    client = as_user(operator_user)
    first = client.post("/api/v1/deployments/", {"profile": "standard"}, format="json")
    again = client.post("/api/v1/deployments/", {"profile": "standard", "replicas": 2}, format="json")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert (first.json()["wanted"], again.json()["wanted"], again.json()["generation"]) == (1, 2, 2)
    assert first.json()["status"] == "queued"


def test_what_a_new_wish_leaves_out_stays_as_it_was(as_user: Clients, operator_user: Any, profile: Profile) -> None:
    client = as_user(operator_user)
    url = "/api/v1/deployments/"
    client.post(url, {"profile": "standard", "replicas": 3, "drain_seconds": 7}, format="json")
    again = client.post(url, {"profile": "standard"}, format="json").json()
    assert (again["wanted"], again["drain_seconds"], again["generation"]) == (3, 7, 1)
    client.patch(f"{url}{again['id']}/", {"replicas": 0}, format="json")
    assert client.post(url, {"profile": "standard"}, format="json").json()["wanted"] == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"profile": "missing"}, 404, "not_found"),
        ({"profile": "standard", "revision": 9}, 404, "not_found"),
        ({"profile": "standard", "replicas": 65}, 422, "invalid_replicas"),
        ({"profile": "standard", "drain_seconds": 3601}, 422, "invalid_drain"),
        ({"profile": "standard", "replicas": -1}, 400, "invalid"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(
    as_user: Clients, operator_user: Any, profile: Profile, body: Any, status: int, code: str
) -> None:
    answer = as_user(operator_user).post("/api/v1/deployments/", body, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_deployment_shows_its_replicas_and_moves(
    as_user: Clients, viewer_user: Any, deployment: Deployment, replica: Replica
) -> None:
    body = as_user(viewer_user).get(f"/api/v1/deployments/{deployment.pk}/").json()
    assert (body["status"], body["ready"], body["wanted"]) == ("ready", 1, 1)
    assert [row["new"] for row in body["transitions"]] == ["ready", "starting", "pending"]
    shown = body["replicas"][0]
    assert (shown["phase"], shown["node"], shown["port"], shown["drain"]) == ("ready", "node-a", 18001, None)
    assert replica.api_key not in str(body)
    assert replica.marker not in str(body)


def test_a_replica_on_a_silent_node_is_unreachable_and_its_deployment_unknown(
    as_user: Clients, viewer_user: Any, deployment: Deployment, replica: Replica, node: Node
) -> None:
    Node.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    client = as_user(viewer_user)
    body = client.get(f"/api/v1/deployments/{deployment.pk}/").json()
    assert (body["status"], body["replicas"][0]["unreachable"]) == ("unknown", True)
    assert client.get("/api/v1/nodes/").json()["results"][0]["reachable"] is False


def test_lists_are_filtered_by_computed_status(
    as_user: Clients, viewer_user: Any, deployment: Deployment, replica: Replica
) -> None:
    client = as_user(viewer_user)
    assert client.get("/api/v1/deployments/?status=ready&profile=standard").json()["count"] == 1
    assert client.get("/api/v1/deployments/?status=failed").json()["count"] == 0
    assert client.get("/api/v1/deployments/?profile=other").json()["count"] == 0
    assert client.get("/api/v1/profiles/?state=ready").json()["results"][0]["deployment"]["ready"] == 1
    assert client.get("/api/v1/deployments/?status=fine").status_code == 400


def test_scaling_to_zero_is_a_wish_that_is_seen_at_once(
    as_user: Clients, operator_user: Any, deployment: Deployment, replica: Replica
) -> None:
    url = f"/api/v1/deployments/{deployment.pk}/"
    answer = as_user(operator_user).patch(url, {"replicas": 0}, format="json")
    assert (answer.status_code, answer.json()["wanted"], answer.json()["status"]) == (200, 0, "draining")


def test_a_drain_shows_what_is_in_flight_and_how_long_it_may_take(
    as_user: Clients, operator_user: Any, deployment: Deployment, replica: Replica
) -> None:
    client = as_user(operator_user)
    url = f"/api/v1/deployments/{deployment.pk}/"
    answer = client.post(f"{url}drain/", {"drain_seconds": 20}, format="json")
    assert (answer.status_code, answer.json()["wanted"], answer.json()["drain_seconds"]) == (200, 0, 20)
    replica.refresh_from_db()
    replica_drain(replica, reason=Reason.DEPLOYMENT_STOPPED, message="", now=timezone.now())
    drain = client.get(url).json()["replicas"][0]["drain"]
    assert (drain["in_flight"], drain["drained"]) == (None, False)
    drain_reported(replica, report={"in_flight": 3, "oldest_age": 1.5, "waiting_for": ["gw-1"], "drained": False})
    drain = client.get(url).json()["replicas"][0]["drain"]
    assert (drain["in_flight"], drain["waiting_for"]) == (3, ["gw-1"])
    assert 15 < drain["seconds_left"] <= 20


def test_a_retry_forgets_failed_starts(
    as_user: Clients, operator_user: Any, deployment: Deployment, replica: Replica
) -> None:
    now = timezone.now()
    for _ in range(deployment.max_restarts + 1):
        row = Replica.objects.filter(wanted=True).exclude(phase="failed").first() or replica_create(
            deployment, slot=0, now=now
        )
        Replica.objects.filter(pk=row.pk).update(phase="failed", ended_at=now, message="It crashed.", fix="Mend it.")
    client = as_user(operator_user)
    url = f"/api/v1/deployments/{deployment.pk}/"
    body = client.get(url).json()
    assert (body["status"], body["failed_slots"]) == ("failed", 1)
    assert (body["last_failure"]["message"], body["last_failure"]["fix"]) == ("It crashed.", "Mend it.")
    assert client.post(f"{url}retry/").json()["status"] == "queued"


def test_a_replica_shows_its_moves_after_its_end(as_user: Clients, viewer_user: Any, replica: Replica) -> None:
    now = timezone.now()
    replica_move(replica, old=P.READY, new=P.FAILED, reason=Reason.PROCESS_EXITED, message="Gone.", now=now)
    body = as_user(viewer_user).get(f"/api/v1/replicas/{replica.pk}/").json()
    assert (body["phase"], body["profile"], body["unreachable"]) == ("failed", "standard", False)
    assert [row["new"] for row in body["transitions"]] == ["pending", "starting", "ready", "failed"]


def test_a_log_is_followed_by_offset_until_its_end(as_user: Clients, viewer_user: Any, replica: Replica) -> None:
    client = as_user(viewer_user)
    url = f"/api/v1/replicas/{replica.pk}/log/"
    assert client.get(url).json() == {
        "offset": 0,
        "next_offset": 0,
        "size": 0,
        "text": "",
        "rotated": False,
        "ended": False,
    }
    path = log_of(replica)
    path.write_text("größer\nsecond\n")
    first = client.get(url, {"limit": 4}).json()
    assert (first["text"], first["next_offset"]) == ("grö", 4)
    second = client.get(url, {"offset": 4}).json()
    assert (second["text"], second["next_offset"], second["ended"]) == ("ßer\nsecond\n", 16, False)
    replica_move(replica, old=P.READY, new=P.FAILED, reason=Reason.PROCESS_EXITED, message="", now=timezone.now())
    assert client.get(url, {"offset": 16}).json()["ended"] is True
    path.write_text("new\n")
    rotated = client.get(url, {"offset": 16}).json()
    assert (rotated["rotated"], rotated["text"], rotated["offset"]) == (True, "new\n", 0)


def test_a_tail_starts_with_a_whole_line_and_no_call_passes_the_bound(
    as_user: Clients, viewer_user: Any, replica: Replica
) -> None:
    log_of(replica).write_text("".join(f"line {n:07d}\n" for n in range(40_000)))
    client = as_user(viewer_user)
    url = f"/api/v1/replicas/{replica.pk}/log/"
    assert client.get(url, {"tail": 30}).json()["text"] == "line 0039998\nline 0039999\n"
    assert len(client.get(url, {"limit": 10_000_000}).json()["text"]) == 256 * 1024
    assert len(client.get(url, {"tail": 10_000_000}).json()["text"]) <= 256 * 1024
    assert client.get(url, {"offset": -1}).status_code == 400


def test_the_engines_key_is_masked_in_its_log(as_user: Clients, viewer_user: Any, replica: Replica) -> None:
    log_of(replica).write_text(f"args: {replica.api_key}\n")
    client = as_user(viewer_user)
    url = f"/api/v1/replicas/{replica.pk}/log/"
    assert client.get(url).json()["text"] == "args: ••••\n"
    download = client.get(f"{url}download/")
    assert download.content.decode() == "args: ••••\n"
    assert 'filename="standard-0-' in download["Content-Disposition"]


def test_the_log_of_another_node_is_refused_with_its_place(
    as_user: Clients, viewer_user: Any, replica: Replica
) -> None:
    Node.objects.update(name="node-b")
    for path in ("log/", "log/download/"):
        answer = as_user(viewer_user).get(f"/api/v1/replicas/{replica.pk}/{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "log_elsewhere")
        assert "node-b" in answer.json()["error"]["message"]


def test_a_node_is_cordoned_and_uncordoned(as_user: Clients, operator_user: Any, node: Node) -> None:
    client = as_user(operator_user)
    assert client.post(f"/api/v1/nodes/{node.name}/cordon/").json()["cordoned"] is True
    assert client.get(f"/api/v1/nodes/{node.name}/").json()["cordoned"] is True
    assert client.post(f"/api/v1/nodes/{node.name}/uncordon/").json()["cordoned"] is False
    assert client.get("/api/v1/nodes/missing/").status_code == 404


def test_engines_are_listed_without_their_environment(as_user: Clients, viewer_user: Any, node: Node) -> None:
    answer = as_user(viewer_user).get("/api/v1/engines/")
    assert [(row["name"], row["node"]) for row in answer.json()["results"]] == [("vllm", "node-a")]
    assert "hidden" not in answer.content.decode()


def test_the_command_masks_the_environment_of_the_install(
    as_user: Clients, viewer_user: Any, profile: Profile, node: Node
) -> None:
    body = as_user(viewer_user).get("/api/v1/profiles/standard/revisions/1/command/").json()
    assert body["engine"] == "vllm 1 on node-a"
    assert body["env"]["HF_TOKEN"] == "••••"
