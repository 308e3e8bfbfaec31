"""Profiles, revisions and models over REST."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from profiles_app.models import ModelVersion, Profile, Revision
from profiles_app.selectors import viewer_for
from profiles_app.services.profiles import revision_create

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
Clients = Callable[[Any], Any]


def test_a_profile_is_created_with_its_first_revision(as_user: Clients, operator_user: Any, spec: Any) -> None:
    answer = as_user(operator_user).post("/api/v1/profiles/", {"name": "fast", "spec": spec}, format="json")
    assert answer.status_code == 201
    assert (answer.json()["team"], answer.json()["revision"], answer.json()["state"]) == ("default", 1, "none")
    assert answer.json()["model"] == "tiny@v1"
    assert answer.json()["precision_note"] == "made up"
    assert answer.json()["spec"]["batching"]["max_num_seqs"] == 4


def test_a_bad_spec_is_refused_with_each_problem_at_its_field(as_user: Clients, operator_user: Any, spec: Any) -> None:
    spec["batching"] |= {"max_model_len": 1, "colour": "red"}
    answer = as_user(operator_user).post("/api/v1/profiles/", {"name": "fast", "spec": spec}, format="json")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "invalid_spec")
    assert {row["field"] for row in error["details"]} == {"batching.max_model_len", "batching.colour"}
    assert not Profile.objects.exists()


def test_a_body_of_the_wrong_shape_is_refused_in_the_one_error_shape(as_user: Clients, operator_user: Any) -> None:
    answer = as_user(operator_user).post("/api/v1/profiles/", {"spec": []}, format="json")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid"
    assert set(answer.json()["error"]["details"]) == {"name", "spec"}


def test_a_body_past_the_bound_is_refused_unread(as_user: Clients, operator_user: Any) -> None:
    body = {"name": "fast", "spec": {"note": "x" * 1_100_000}}
    answer = as_user(operator_user).post("/api/v1/profiles/", body, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_the_list_is_filtered_by_name_team_and_state(as_user: Clients, operator_user: Any, profile: Profile) -> None:
    client = as_user(operator_user)
    for query, names in [
        ("", ["standard"]),
        ("?name__contains=tand", ["standard"]),
        ("?name__contains=fast", []),
        ("?team=default", ["standard"]),
        ("?team=other", []),
        ("?state=none", ["standard"]),
        ("?state=ready", []),
    ]:
        rows = client.get(f"/api/v1/profiles/{query}").json()["results"]
        assert [row["name"] for row in rows] == names, query


def test_a_new_spec_becomes_the_next_revision_and_the_same_one_does_not(
    as_user: Clients, operator_user: Any, profile: Profile, spec: Any
) -> None:
    client = as_user(operator_user)
    url = "/api/v1/profiles/standard/revisions/"
    assert client.post(url, {"spec": spec}, format="json").status_code == 200
    spec["batching"]["max_num_seqs"] = 8
    answer = client.post(url, {"spec": spec, "note": "wider"}, format="json")
    assert (answer.status_code, answer.json()["number"], answer.json()["created_by"]) == (201, 2, "otto")
    assert [row["number"] for row in client.get(url).json()["results"]] == [2, 1]
    assert client.get(f"{url}1/").json()["spec"]["batching"]["max_num_seqs"] == 4
    assert client.get(f"{url}3/").status_code == 404


def test_a_diff_shows_the_fields_that_differ(as_user: Clients, operator_user: Any, profile: Profile, spec: Any) -> None:
    spec["batching"]["max_num_seqs"] = 8
    revision_create(viewer_for(operator_user), profile=profile, spec=spec)
    client = as_user(operator_user)
    url = "/api/v1/profiles/standard/revisions/2/diff/"
    changed = [{"path": "batching.max_num_seqs", "old": 4, "new": 8}]
    assert client.get(url).json()["changes"] == changed
    assert client.get(f"{url}?against=1").json()["changes"] == changed
    assert client.get(f"{url}?against=2").json()["changes"] == []
    assert client.get(f"{url}?against=x").status_code == 422


def test_the_command_is_shown_with_secrets_masked(as_user: Clients, viewer_user: Any, profile: Profile) -> None:
    body = as_user(viewer_user).get("/api/v1/profiles/standard/revisions/1/command/").json()
    assert body["engine"] is None
    assert body["argv"] == ["vllm", "serve", "--config", "config.yaml"]
    assert body["env"]["VLLM_API_KEY"] == "••••"
    config = yaml.safe_load(body["config_yaml"])
    assert (config["model"], config["port"]) == ("/models/tiny", "(chosen at the start)")
    assert "--max-num-seqs 4" in body["display"]


def test_an_export_applied_again_changes_nothing(as_user: Clients, operator_user: Any, profile: Profile) -> None:
    client = as_user(operator_user)
    exported = client.get("/api/v1/profiles/standard/yaml/")
    assert exported["Content-Type"].startswith("text/yaml")
    answer = client.post("/api/v1/profiles/apply/", exported.content, content_type="application/yaml")
    assert answer.status_code == 200
    assert answer.json() == {
        "profile": "standard",
        "revision": 1,
        "hash": Revision.objects.get().spec_hash,
        "created": False,
        "changed": False,
    }


def test_applying_a_document_creates_the_profile_and_then_its_next_revision(
    as_user: Clients, operator_user: Any, spec: Any
) -> None:
    client = as_user(operator_user)
    document = {"kind": "Profile", "name": "fast", "spec": spec}
    first = client.post("/api/v1/profiles/apply/", yaml.safe_dump(document), content_type="text/yaml")
    assert (first.status_code, first.json()["created"], first.json()["changed"]) == (201, True, True)
    spec["batching"]["max_num_seqs"] = 2
    second = client.post("/api/v1/profiles/apply/", document, format="json")
    assert (second.status_code, second.json()["revision"], second.json()["created"]) == (201, 2, False)


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("kind: [", 422, "invalid_yaml"),
        ("kind: Profile\nname: x", 422, "invalid_yaml"),
        ("a: &a [1]\nb: [*a, *a]", 422, "invalid_yaml"),
        ("#" * 70_000, 413, "body_too_large"),
        ("name: fast\nteam: nowhere\nspec: {}", 404, "not_found"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(
    as_user: Clients, operator_user: Any, text: str, status: int, code: str
) -> None:
    answer = as_user(operator_user).post("/api/v1/profiles/apply/", text, content_type="application/yaml")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_check_stores_nothing_and_shows_the_command(as_user: Clients, viewer_user: Any, spec: Any) -> None:
    client = as_user(viewer_user)
    good = client.post("/api/v1/profiles/check/", {"spec": spec, "name": "fast"}, format="json").json()
    assert (good["ok"], good["problems"]) == (True, [])
    assert "fast" in good["command"]["display"]
    spec["batching"]["max_model_len"] = 10_000
    bad = client.post("/api/v1/profiles/check/", {"spec": spec}, format="json").json()
    assert (bad["ok"], bad["command"]) == (False, None)
    assert [row["field"] for row in bad["problems"]] == ["batching.max_model_len"]
    assert not Profile.objects.exists()


def test_an_admin_registers_weights_whose_facts_come_from_their_folder(
    as_user: Clients, admin_user: Any, tmp_path: Any
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096, "torch_dtype": "float16"}))
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    body = {"name": "small", "version": "v2", "source": str(tmp_path)}
    answer = as_user(admin_user).post("/api/v1/models/", body, format="json")
    shown = answer.json()
    assert answer.status_code == 201
    assert (shown["weights_dtype"], shown["max_context"], shown["weights_bytes"]) == ("fp16", 4096, 100)
    listed = as_user(admin_user).get("/api/v1/models/").json()["results"]
    assert [(row["name"], row["version"]) for row in listed] == [("small", "v2")]


@pytest.mark.parametrize("source", ["relative", "/a/../b", "--flag", "owner/name/more", "owner/na me"])
def test_a_source_that_is_neither_folder_nor_repository_is_refused(
    as_user: Clients, admin_user: Any, source: str
) -> None:
    body = {"name": "small", "version": "v2", "source": source}
    answer = as_user(admin_user).post("/api/v1/models/", body, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_source")


def test_a_stored_version_keeps_its_source(as_user: Clients, admin_user: Any, model_version: ModelVersion) -> None:
    body = {"name": "tiny", "version": "v1", "source": "owner/name"}
    answer = as_user(admin_user).post("/api/v1/models/", body, format="json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "version_taken")
    model_version.refresh_from_db()
    assert model_version.source == "/models/tiny"
