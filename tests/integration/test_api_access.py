"""Who may do what over REST: the role matrix, tokens, idempotency, and the schema."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import include, path
from django.utils import timezone
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from gateway.models import ApiKey
from gateway.services import hash_key, key_create
from profiles_app.errors import DomainError
from profiles_app.models import Deployment, IdempotencyKey, Node, Profile, Replica, Team
from profiles_app.selectors import viewer_for
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.idempotency import idempotency_begin
from profiles_app.services.profiles import profile_create
from profiles_app.services.replicas import replica_create
from tests.integration.conftest import PASSWORD

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
Clients = Callable[[Any], Any]
BUDGET: dict[str, int] = json.loads((Path(__file__).parent.parent / "query_counts.json").read_text())["api"]

# method, address, body, least role (None: anyone who is logged in), whether it belongs to the team
MATRIX: list[tuple[str, str, Any, str | None, bool]] = [
    ("get", "me/", None, None, False),
    ("get", "status/", None, "viewer", False),
    ("get", "models/", None, "viewer", False),
    ("post", "models/", {"name": "m", "version": "1", "source": "owner/name"}, "admin", False),
    ("get", "profiles/", None, "viewer", False),
    ("post", "profiles/", {"name": "fast", "team": "default", "spec": "SPEC"}, "operator", True),
    ("post", "profiles/apply/", {"name": "applied", "spec": "SPEC"}, "operator", True),
    ("post", "profiles/check/", {"team": "default", "spec": "SPEC"}, "viewer", True),
    ("get", "profiles/standard/", None, "viewer", True),
    ("get", "profiles/standard/yaml/", None, "viewer", True),
    ("get", "profiles/standard/revisions/", None, "viewer", True),
    ("post", "profiles/standard/revisions/", {"spec": "SPEC"}, "operator", True),
    ("get", "profiles/standard/revisions/1/", None, "viewer", True),
    ("get", "profiles/standard/revisions/1/diff/", None, "viewer", True),
    ("get", "profiles/standard/revisions/1/command/", None, "viewer", True),
    ("get", "deployments/", None, "viewer", False),
    ("post", "deployments/", {"profile": "standard"}, "operator", True),
    ("get", "deployments/DEPLOYMENT/", None, "viewer", True),
    ("patch", "deployments/DEPLOYMENT/", {"replicas": 2}, "operator", True),
    ("post", "deployments/DEPLOYMENT/drain/", {}, "operator", True),
    ("post", "deployments/DEPLOYMENT/retry/", {}, "operator", True),
    ("get", "replicas/REPLICA/", None, "viewer", True),
    ("get", "replicas/REPLICA/log/", None, "viewer", True),
    ("get", "replicas/REPLICA/log/download/", None, "viewer", True),
    ("get", "nodes/", None, "viewer", False),
    ("get", "nodes/node-a/", None, "viewer", False),
    ("post", "nodes/node-a/cordon/", {}, "operator", False),
    ("post", "nodes/node-a/uncordon/", {}, "operator", False),
    ("get", "engines/", None, "viewer", False),
    ("get", "keys/", None, "viewer", False),
    ("post", "keys/", {"name": "ci", "team": "default", "profiles": ["*"]}, "operator", True),
    ("get", "keys/KEY/", None, "viewer", True),
    ("delete", "keys/KEY/", None, "operator", True),
]
RANK = ["viewer", "operator", "admin"]


@pytest.fixture
def world(profile: Profile, operator_user: Any, team: Team, spec: Any) -> dict[str, Any]:
    """One of everything, by the word that stands for it in an address or a body."""
    now = timezone.now()
    viewer = viewer_for(operator_user)
    Node.objects.create(name=settings.FOREBAY.node_name)
    deployment = deployment_deploy(viewer, profile=profile, revision=profile.revisions.get(), replicas=1, now=now)
    replica = replica_create(deployment, slot=0, now=now)
    key, _ = key_create(viewer, team=team, name="one", profiles=[profile], now=now)
    return {"DEPLOYMENT": str(deployment.pk), "REPLICA": str(replica.pk), "KEY": str(key.pk), "SPEC": spec}


def call(client: Any, world: dict[str, Any], method: str, address: str, body: Any) -> Any:
    """Send one row of the matrix."""
    for word in ("DEPLOYMENT", "REPLICA", "KEY"):
        address = address.replace(word, world[word])
    if body is not None:
        body = {name: world["SPEC"] if value == "SPEC" else value for name, value in body.items()}
    return getattr(client, method)(f"/api/v1/{address}", body, format="json")


@pytest.mark.parametrize(("method", "address", "body", "least", "owned"), MATRIX)
@pytest.mark.parametrize("role", RANK)
def test_a_member_may_do_what_the_role_says(
    request: pytest.FixtureRequest,
    as_user: Clients,
    world: dict[str, Any],
    role: str,
    method: str,
    address: str,
    body: Any,
    least: str | None,
    owned: bool,
) -> None:
    user = request.getfixturevalue(f"{role}_user")
    answer = call(as_user(user), world, method, address, body)
    if least is None or RANK.index(role) >= RANK.index(least):
        assert answer.status_code in {200, 201, 204}, answer.content
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("method", "address", "body"), [row[:3] for row in MATRIX if row[4]], ids=[f"{r[0]} {r[1]}" for r in MATRIX if r[4]]
)
def test_another_teams_objects_look_like_missing_ones(
    as_user: Clients, stranger: Any, world: dict[str, Any], method: str, address: str, body: Any
) -> None:
    answer = call(as_user(stranger), world, method, address, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("address", ["profiles/", "deployments/", "keys/"])
def test_another_teams_objects_are_in_no_list(
    as_user: Clients, stranger: Any, world: dict[str, Any], address: str
) -> None:
    assert as_user(stranger).get(f"/api/v1/{address}").json()["results"] == []


@pytest.mark.parametrize(("method", "address", "body"), [row[:3] for row in MATRIX])
def test_nothing_is_shown_without_a_log_in(world: dict[str, Any], method: str, address: str, body: Any) -> None:
    answer = call(APIClient(), world, method, address, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_authenticated")


@pytest.mark.parametrize("address", sorted(BUDGET))
def test_a_list_of_many_takes_no_more_queries_than_its_budget(
    as_user: Clients,
    admin_user: Any,
    world: dict[str, Any],
    team: Team,
    spec: Any,
    address: str,
    django_assert_max_num_queries: Any,
) -> None:
    viewer, now = viewer_for(admin_user), timezone.now()
    for number in range(8):
        more = profile_create(viewer, team=team, name=f"more-{number}", spec=spec)
        row = deployment_deploy(viewer, profile=more, revision=more.revisions.get(), replicas=1, now=now)
        replica = replica_create(row, slot=0, now=now)
        Replica.objects.filter(pk=replica.pk).update(phase="failed", ended_at=timezone.now())
        Deployment.objects.filter(pk=row.pk).update(max_restarts=0)
        key_create(viewer, team=team, name=f"key {number}", profiles=[more], now=now)
        node = Node.objects.create(name=f"node-{number}")
        node.engines.create(name="vllm", version="1", kind="cpu", interpreter="py", argv_prefix=["vllm"])
    client = as_user(admin_user)
    with django_assert_max_num_queries(BUDGET[address]):
        answer = client.get(f"/api/v1/{address}")
    assert answer.json()["count"] >= 1


def test_pages_have_a_bound(as_user: Clients, viewer_user: Any, world: dict[str, Any]) -> None:
    body = as_user(viewer_user).get("/api/v1/profiles/?page_size=1").json()
    assert (body["count"], len(body["results"]), body["next"], body["previous"]) == (1, 1, None, None)
    assert as_user(viewer_user).get("/api/v1/profiles/?page=2").status_code == 404


def test_the_caller_sees_their_roles(as_user: Clients, operator_user: Any) -> None:
    body = as_user(operator_user).get("/api/v1/me/").json()
    assert (body["username"], body["roles"], body["teams"]) == ("otto", {"default": "operator"}, ["default"])


def test_a_password_gets_the_token_that_then_opens_the_api(operator_user: Any) -> None:
    client = APIClient()
    answer = client.post("/api/v1/tokens/", {"username": "otto", "password": PASSWORD}, format="json")
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    client.credentials(HTTP_AUTHORIZATION=f"Token {answer.json()['token']}")
    assert client.get("/api/v1/me/").json()["username"] == "otto"
    again = client.post("/api/v1/tokens/", {}, format="json")
    assert again.json()["token"] == answer.json()["token"]
    rotated = client.post("/api/v1/tokens/", {"rotate": True}, format="json")
    assert rotated.json()["token"] != answer.json()["token"]
    assert client.get("/api/v1/me/").status_code == 401
    assert Token.objects.count() == 1


@pytest.mark.parametrize("body", [{"username": "otto", "password": "wrong"}, {"username": "nobody"}, {}])
def test_a_wrong_password_gets_no_token(operator_user: Any, body: Any) -> None:
    answer = APIClient().post("/api/v1/tokens/", body, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_credentials")
    assert not Token.objects.exists()


def test_passwords_cannot_be_tried_without_end(operator_user: Any) -> None:
    client = APIClient()
    for _ in range(10):
        client.post("/api/v1/tokens/", {"username": "otto", "password": "wrong"}, format="json")
    answer = client.post("/api/v1/tokens/", {"username": "otto", "password": PASSWORD}, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "throttled")
    assert int(answer["Retry-After"]) > 0
    elsewhere = APIClient(REMOTE_ADDR="10.1.2.3")
    assert elsewhere.post("/api/v1/tokens/", {"username": "OTTO"}, format="json").status_code == 429
    assert elsewhere.post("/api/v1/tokens/", {"username": "vera"}, format="json").status_code == 401


def test_a_session_needs_the_csrf_token(operator_user: Any) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(operator_user)
    answer = client.post("/api/v1/tokens/", {}, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_denied")


def test_a_create_sent_twice_with_one_key_is_done_once(as_user: Clients, operator_user: Any, spec: Any) -> None:
    client = as_user(operator_user)
    body = {"name": "fast", "spec": spec}
    first = client.post("/api/v1/profiles/", body, format="json", headers={"Idempotency-Key": "k1"})
    again = client.post("/api/v1/profiles/", body, format="json", headers={"Idempotency-Key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first
    assert Profile.objects.count() == 1
    other = client.post("/api/v1/profiles/", {**body, "name": "slow"}, format="json", headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")


def test_a_refused_create_may_be_sent_again_with_its_key(as_user: Clients, operator_user: Any, spec: Any) -> None:
    client = as_user(operator_user)
    headers = {"Idempotency-Key": "k1"}
    bad = client.post("/api/v1/profiles/", {"name": "No Name", "spec": spec}, format="json", headers=headers)
    assert bad.status_code == 422
    good = client.post("/api/v1/profiles/", {"name": "fast", "spec": spec}, format="json", headers=headers)
    assert good.status_code == 201


def test_a_second_call_while_the_first_runs_is_told_to_wait(operator_user: Any) -> None:
    now = timezone.now()
    claim = {"user_id": operator_user.pk, "key": "k1", "request_hash": "h"}
    assert idempotency_begin(**claim, now=now) is None
    with pytest.raises(DomainError) as refused:
        idempotency_begin(**claim, now=now)
    assert (refused.value.status, refused.value.code) == (409, "in_progress")
    assert idempotency_begin(**claim, now=now + timedelta(minutes=6)) is None


def test_keys_are_forgotten_after_a_day(operator_user: Any) -> None:
    now = timezone.now()
    idempotency_begin(user_id=operator_user.pk, key="old", request_hash="h", now=now)
    idempotency_begin(user_id=operator_user.pk, key="new", request_hash="h", now=now + timedelta(hours=25))
    assert not IdempotencyKey.objects.filter(key="old").exists()


def test_an_idempotency_key_of_a_wrong_form_is_refused(as_user: Clients, operator_user: Any, spec: Any) -> None:
    answer = as_user(operator_user).post(
        "/api/v1/profiles/", {"name": "fast", "spec": spec}, format="json", headers={"Idempotency-Key": "k" * 201}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_idempotency_key")


def test_the_secret_of_a_key_is_shown_once_and_stored_nowhere(
    as_user: Clients, operator_user: Any, profile: Profile
) -> None:
    client = as_user(operator_user)
    body = {"name": "ci", "profiles": ["standard"], "max_concurrency": 2}
    first = client.post("/api/v1/keys/", body, format="json", headers={"Idempotency-Key": "k1"})
    secret = first.json()["key"]
    assert first.status_code == 201
    assert ApiKey.objects.get().key_hash == hash_key(secret)
    again = client.post("/api/v1/keys/", body, format="json", headers={"Idempotency-Key": "k1"}).json()
    assert again["key"] is None
    assert "shown once" in again["message"]
    assert again["id"] == first.json()["id"]
    assert secret not in str(list(IdempotencyKey.objects.values()))
    assert secret not in client.get("/api/v1/keys/").content.decode()


def test_a_revoked_key_stays_listed_as_revoked(as_user: Clients, operator_user: Any, world: dict[str, Any]) -> None:
    client = as_user(operator_user)
    url = f"/api/v1/keys/{world['KEY']}/"
    assert client.delete(url).status_code == 204
    assert client.get(url).json()["revoked_at"] is not None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"profiles": []}, 422, "no_profiles"),
        ({"profiles": ["missing"]}, 404, "not_found"),
        ({"profiles": ["*"], "expires_at": "2020-01-01T00:00:00Z"}, 422, "expired"),
        ({"profiles": "*"}, 400, "invalid"),
    ],
)
def test_a_key_that_cannot_be_is_refused(
    as_user: Clients, operator_user: Any, profile: Profile, body: Any, status: int, code: str
) -> None:
    answer = as_user(operator_user).post("/api/v1/keys/", {"name": "ci", **body}, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_the_schema_of_these_endpoints_is_complete() -> None:
    GENERATOR_STATS.reset()
    schema = SchemaGenerator(
        patterns=[path("api/v1/", include("profiles_app.api.urls")), path("api/v1/", include("gateway.api.urls"))]
    ).get_schema(public=True)
    assert not GENERATOR_STATS._warn_cache
    assert not GENERATOR_STATS._error_cache
    operations = [operation for item in schema["paths"].values() for operation in item.values()]
    assert len(operations) == len(MATRIX) + 1
    assert all(operation["description"] for operation in operations)
    assert Deployment.objects.count() == 0
