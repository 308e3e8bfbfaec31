"""The page of keys: shown once, ended for good, never another team's."""

import re
from typing import Any

import pytest
from django.test import Client

from gateway.models import ApiKey
from gateway.services import hash_key
from profiles_app.models import Profile

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
FORM = {"name": "ci", "team": "default", "scope": "all", "days": "30"}


def browser(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def shown(text: str) -> str:
    found = re.search(r'id="key-once">([^<]+)<', text)
    assert found
    return found[1]


def test_a_key_is_shown_once_and_only_its_hash_is_kept(operator_user: Any) -> None:
    client = browser(operator_user)
    response = client.post("/keys/", FORM)
    key = shown(response.content.decode())
    assert "no-store" in response.headers["Cache-Control"]
    assert ApiKey.objects.get().key_hash == hash_key(key)
    assert key not in client.get("/keys/").content.decode()


def test_a_key_can_be_for_some_profiles_only(operator_user: Any, profile: Profile) -> None:
    posted = FORM | {"scope": "some", "profiles": ["standard"], "max_concurrency": "4", "days": ""}
    browser(operator_user).post("/keys/", posted)
    row = ApiKey.objects.get()
    assert (row.all_profiles, row.max_concurrency, row.expires_at) == (False, 4, None)
    assert [found.name for found in row.profiles.all()] == ["standard"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": " "}, "needs a name"),
        ({"scope": "some"}, "Choose the profiles"),
        ({"max_concurrency": "few"}, "whole number"),
        ({"team": "nowhere"}, "Choose one of your teams."),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_a_sentence(
    operator_user: Any, change: dict[str, str], sentence: str
) -> None:
    response = browser(operator_user).post("/keys/", FORM | change)
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert not ApiKey.objects.exists()


def test_a_viewer_makes_no_key(viewer_user: Any) -> None:
    assert browser(viewer_user).post("/keys/", FORM).status_code == 403
    assert not ApiKey.objects.exists()


def test_a_revoked_key_says_so(operator_user: Any) -> None:
    client = browser(operator_user)
    client.post("/keys/", FORM)
    row = ApiKey.objects.get()
    assert client.post(f"/keys/{row.pk}/revoke/").status_code == 302
    row.refresh_from_db()
    assert row.revoked_at is not None
    assert "Revoked" in client.get("/keys/").content.decode()


def test_another_team_can_neither_see_nor_end_it(operator_user: Any, stranger: Any) -> None:
    browser(operator_user).post("/keys/", FORM)
    row = ApiKey.objects.get()
    assert row.prefix not in browser(stranger).get("/keys/").content.decode()
    assert browser(stranger).post(f"/keys/{row.pk}/revoke/").status_code == 404
    row.refresh_from_db()
    assert row.revoked_at is None
