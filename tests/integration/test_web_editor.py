"""The editor: what a form becomes, what is refused where, and YAML in and out."""

import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from profiles_app.models import Profile

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


@pytest.fixture
def client(operator_user: Any) -> Client:
    """A browser of somebody who may operate."""
    made = Client()
    made.force_login(operator_user)
    return made


@pytest.fixture
def form(spec: dict[str, Any]) -> dict[str, str]:
    """The fields of a good profile, as the page posts them."""
    return {
        "name": "quick",
        "team": "default",
        "description": "Short answers",
        "model.name": spec["model"]["name"],
        "model.version": spec["model"]["version"],
        "batching.kv_cache_mib": "1,024",
        "slo.ttft_p99_ms": "400",
        "engine.enforce_eager": "true",
    }


def said(response: Any) -> dict[str, Any]:
    """What the check says of each field."""
    found = re.search(r'<script id="check-data" type="application/json">(.*?)</script>', response.content.decode())
    assert found
    result: dict[str, Any] = json.loads(found[1])
    return result


def test_a_form_becomes_a_profile_and_separators_are_read(client: Client, form: dict[str, str]) -> None:
    response = client.post("/profiles/new/", form)
    row = Profile.objects.get(name="quick")
    spec = row.revisions.get().spec
    assert response.headers["Location"] == "/profiles/quick/"
    assert (spec["batching"]["kv_cache_mib"], spec["slo"]["ttft_p99_ms"]) == (1024, 400.0)


def test_a_bad_name_is_refused_at_the_name(client: Client, form: dict[str, str]) -> None:
    response = client.post("/profiles/new/", form | {"name": "Not Good"})
    assert response.status_code == 422
    assert 'id="f-name-e"' in response.content.decode()
    assert not Profile.objects.exists()


def test_a_taken_name_keeps_what_was_typed(client: Client, form: dict[str, str]) -> None:
    client.post("/profiles/new/", form)
    response = client.post("/profiles/new/", form | {"slo.ttft_p99_ms": "123"})
    assert response.status_code == 422
    assert "A profile named quick exists" in response.content.decode()
    assert 'value="123"' in response.content.decode()


def test_each_problem_stands_at_its_field(client: Client, form: dict[str, str]) -> None:
    fields = said(client.post("/profiles/check/", form | {"batching.max_num_seqs": "abc"}))
    assert fields["batching.max_num_seqs"]["problems"]
    assert not fields["batching.max_model_len"]["problems"]


def test_text_that_is_no_yaml_stands_at_the_engine_options(client: Client, form: dict[str, str]) -> None:
    fields = said(client.post("/profiles/check/", form | {"engine.extra_args": "a: [1"}))
    assert "not YAML" in fields["engine.extra_args"]["problems"][0]


def test_the_check_marks_what_differs_from_the_stored_revision(
    client: Client, profile: Profile, form: dict[str, str]
) -> None:
    posted = form | {"profile": "standard", "batching.kv_cache_mib": "256", "batching.max_num_seqs": "4"}
    response = client.post("/profiles/check/", posted)
    fields = said(response)
    assert fields["batching.kv_cache_mib"]["was"] == "128"
    assert fields["batching.max_num_seqs"]["was"] is None
    assert '<span class="l ch">  --kv-cache-memory-bytes 268435456' in response.content.decode()
    assert profile.revisions.count() == 1


def test_the_command_is_the_engines_own_with_secrets_masked(client: Client, profile: Profile) -> None:
    text = client.get("/profiles/standard/").content.decode()
    assert "serve /models/tiny" in text
    assert "--max-num-seqs 4" in text
    assert "VLLM_API_KEY=••••" in text


def test_the_next_revision_is_stored_and_nothing_is_deployed(
    client: Client, profile: Profile, form: dict[str, str]
) -> None:
    response = client.post("/profiles/standard/edit/", form | {"note": "more room"})
    assert response.headers["Location"] == "/profiles/standard/"
    assert list(profile.revisions.values_list("number", "note")) == [(2, "more room"), (1, "")]
    assert not hasattr(profile, "deployment")


def test_the_same_spec_stores_no_revision(client: Client, profile: Profile, form: dict[str, str]) -> None:
    same = {"batching.kv_cache_mib": "128", "batching.max_num_seqs": "4", "slo.ttft_p99_ms": ""}
    response = client.post("/profiles/standard/edit/", form | same, follow=True)
    assert "Nothing differs from r1" in response.content.decode()
    assert profile.revisions.count() == 1


def test_an_unticked_box_is_false(client: Client, form: dict[str, str]) -> None:
    client.post("/profiles/new/", form | {"engine.enforce_eager": "false"})
    assert Profile.objects.get(name="quick").revisions.get().spec["engine"]["enforce_eager"] is False


def test_a_setting_without_effect_is_shown_disabled_with_its_reason(client: Client, profile: Profile) -> None:
    text = client.get("/profiles/standard/edit/").content.decode()
    assert re.search(r'name="limits.requests_per_minute"[^>]* disabled', text)
    assert "Rate limits are not enforced yet" in text


def test_a_copy_starts_from_the_other_profile(client: Client, profile: Profile) -> None:
    text = client.get("/profiles/new/?copy=standard").content.decode()
    assert 'value="standard-copy"' in text
    assert 'name="batching.kv_cache_mib" value="128"' in text


def test_exported_yaml_is_read_back_to_the_same_revision(client: Client, profile: Profile) -> None:
    exported = client.get("/profiles/standard/export/")
    assert exported.headers["Content-Disposition"] == 'attachment; filename="standard.yaml"'
    client.post("/profiles/import/", {"yaml": exported.content.decode()})
    assert profile.revisions.count() == 1
    renamed = exported.content.replace(b"name: standard", b"name: twin", 1)
    client.post("/profiles/import/", {"file": SimpleUploadedFile("twin.yaml", renamed)})
    assert Profile.objects.get(name="twin").revisions.get().spec_hash == profile.revisions.get().spec_hash


@pytest.mark.parametrize(("text", "sentence"), [("a: [", "not YAML in line"), ("name: x", "needs a name and a spec")])
def test_wrong_yaml_is_refused_with_a_sentence(client: Client, text: str, sentence: str) -> None:
    response = client.post("/profiles/import/", {"yaml": text})
    assert response.status_code == 422
    assert sentence in response.content.decode()


@pytest.mark.parametrize(("content", "sentence"), [(b"x" * 200_001, "at most 200 kB"), (b"\xff\xfe\xfa", "not UTF-8")])
def test_a_file_that_cannot_be_yaml_is_refused(client: Client, content: bytes, sentence: str) -> None:
    response = client.post("/profiles/import/", {"file": SimpleUploadedFile("x.yaml", content)})
    assert response.status_code == 422
    assert sentence in response.content.decode()
