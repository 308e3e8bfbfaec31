"""The first administrator's link, and the theme."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from profiles_app.services.people import setup_token_create

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
GOOD = {"username": "ada", "password": "a long good phrase", "again": "a long good phrase"}


def test_the_link_makes_one_administrator_and_logs_them_in() -> None:
    token = setup_token_create(now=timezone.now())
    client = Client()
    assert client.get(f"/setup/{token}/").status_code == 200
    assert client.post(f"/setup/{token}/", GOOD).headers["Location"] == "/"
    assert client.get("/").status_code == 200
    user = get_user_model().objects.get()
    assert (user.username, user.is_superuser) == ("ada", True)


def test_the_link_is_gone_after_its_use() -> None:
    token = setup_token_create(now=timezone.now())
    Client().post(f"/setup/{token}/", GOOD)
    assert Client().get(f"/setup/{token}/").status_code == 410
    assert Client().post(f"/setup/{token}/", GOOD | {"username": "eve"}).status_code == 410
    assert get_user_model().objects.count() == 1


def test_a_guessed_link_opens_nothing(db: None) -> None:
    setup_token_create(now=timezone.now())
    assert Client().post("/setup/guess/", GOOD).status_code == 410


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"again": "something else"}, "The two passwords differ."),
        ({"password": "short", "again": "short"}, "at least 12"),
        ({"username": "not good!"}, "valid username"),
    ],
)
def test_a_bad_choice_keeps_the_link_open(change: dict[str, str], sentence: str) -> None:
    token = setup_token_create(now=timezone.now())
    response = Client().post(f"/setup/{token}/", GOOD | change)
    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert Client().get(f"/setup/{token}/").status_code == 200


def test_the_theme_is_kept_and_drawn_by_the_server(viewer_user: Any) -> None:
    client = Client()
    client.force_login(viewer_user)
    assert client.post("/theme/", {"theme": "dark", "next": "/profiles/"}).headers["Location"] == "/profiles/"
    assert '<html lang="en" data-theme="dark">' in client.get("/").content.decode()


def test_a_theme_that_does_not_exist_and_a_foreign_address_are_ignored(viewer_user: Any) -> None:
    client = Client()
    client.force_login(viewer_user)
    response = client.post("/theme/", {"theme": 'x" onload="', "next": "https://elsewhere.example/"})
    assert response.headers["Location"] == "/"
    assert "theme" not in response.cookies
