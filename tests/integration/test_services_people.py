"""The first administrator's link works once, roles are as given, and playground and client keys are kept as hashes."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model

from gateway.models import ApiKey
from gateway.selectors import key_by_id, keys
from gateway.services import hash_key, key_create, key_revoke, playground_key
from profiles_app.errors import DomainError, ForbiddenError, NotFoundError
from profiles_app.models import AuditEntry, Membership, SetupToken
from profiles_app.selectors import Viewer, system_viewer, viewer_for
from profiles_app.services.people import (
    first_administrator_create,
    membership_set,
    setup_token_create,
    setup_token_is_valid,
)
from tests.factories import NOW, make_profile, make_team, make_user, make_viewer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
PASSWORD = "tall-grey-otter-9"


def open_link() -> str:
    token = setup_token_create(now=NOW)
    assert token is not None
    return token


def test_the_first_administrators_link_works_once() -> None:
    token = open_link()
    assert setup_token_is_valid(token, now=NOW)
    user = first_administrator_create(token=token, username="ada", password=PASSWORD, now=NOW)
    assert user.is_superuser
    assert Membership.objects.get(user=user).role == "admin"
    assert not setup_token_is_valid(token, now=NOW)
    with pytest.raises(DomainError, match="was used or has expired") as caught:
        first_administrator_create(token=token, username="eve", password=PASSWORD, now=NOW)
    assert caught.value.status == 410
    assert get_user_model().objects.count() == 1


def test_only_the_hash_of_the_link_is_kept_and_a_new_one_ends_the_old() -> None:
    first = open_link()
    second = open_link()
    assert SetupToken.objects.get().token_hash not in (first, second)
    assert not setup_token_is_valid(first, now=NOW)
    assert setup_token_is_valid(second, now=NOW)


def test_the_link_expires() -> None:
    token, later = open_link(), NOW + timedelta(hours=24)
    assert not setup_token_is_valid(token, now=later)
    with pytest.raises(DomainError):
        first_administrator_create(token=token, username="ada", password=PASSWORD, now=later)
    assert not get_user_model().objects.exists()


def test_there_is_no_link_once_a_user_exists() -> None:
    token = open_link()
    make_user("olga")
    assert setup_token_create(now=NOW) is None
    with pytest.raises(DomainError):
        first_administrator_create(token=token, username="ada", password=PASSWORD, now=NOW)


@pytest.mark.parametrize(
    ("username", "password", "field"),
    [("ada", "short", "password"), ("not good!", PASSWORD, "username"), ("", PASSWORD, "username")],
)
def test_a_refused_choice_names_its_field_and_keeps_the_link(username: str, password: str, field: str) -> None:
    token = open_link()
    with pytest.raises(DomainError) as caught:
        first_administrator_create(token=token, username=username, password=password, now=NOW)
    assert caught.value.field == field
    assert setup_token_is_valid(token, now=NOW)


def test_a_member_has_one_role_a_team() -> None:
    user = make_user("olga", default="viewer")
    membership_set(user=user, team=make_team(), role="operator")
    viewer = viewer_for(user)
    assert viewer.roles == {"default": "operator"}
    assert viewer.can("default", "operator")
    assert not viewer.can("default", "admin")
    assert not viewer.can("other", "viewer")


def test_an_inactive_user_sees_nothing() -> None:
    user = make_user("olga", default="admin")
    user.is_active = False
    assert viewer_for(user) == Viewer(user_id=None)


def test_a_key_is_shown_once_and_only_its_hash_is_kept() -> None:
    row, key = key_create(make_viewer(), team=make_team(), name=" ci ", profiles=(), all_profiles=True, now=NOW)
    row.refresh_from_db()
    assert (row.name, row.key_hash) == ("ci", hash_key(key))
    secret = key.removeprefix(f"{row.prefix}_")
    assert len(secret) >= 40
    stored = [str(value) for value in ApiKey.objects.values_list().get()]
    assert not any(secret in value for value in stored)
    entry = AuditEntry.objects.get(action="key.create")
    assert secret not in f"{entry.target}{entry.detail}"


def test_no_two_keys_are_alike() -> None:
    made = {playground_key(system_viewer(), team=make_team(), now=NOW) for _ in range(20)}
    assert len(made) == 20


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "  "}, "name"),
        ({"name": "n" * 101}, "name"),
        ({"all_profiles": False}, "profiles"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"expires_at": NOW}, "expires_at"),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_its_field(change: dict[str, object], field: str) -> None:
    values = {"name": "ci", "profiles": (), "all_profiles": True, **change}
    with pytest.raises(DomainError) as caught:
        key_create(make_viewer(), team=make_team(), now=NOW, **values)  # type: ignore[arg-type] # one at a time is wrong
    assert (caught.value.field, caught.value.status) == (field, 422)
    assert not ApiKey.objects.exists()


def test_a_key_is_for_its_own_teams_profiles_only() -> None:
    other = make_profile("theirs", team="other")
    with pytest.raises(DomainError, match="own team's profiles"):
        key_create(make_viewer(), team=make_team(), name="ci", profiles=[other], now=NOW)


def test_a_viewer_makes_and_ends_no_key_and_a_stranger_finds_none() -> None:
    row, _ = key_create(make_viewer(), team=make_team(), name="ci", profiles=(), all_profiles=True, now=NOW)
    looker, stranger = make_viewer("vera", default="viewer"), make_viewer("sam", other="admin")
    assert key_by_id(looker, row.pk) == row
    with pytest.raises(ForbiddenError):
        key_create(looker, team=make_team(), name="ci", profiles=(), all_profiles=True, now=NOW)
    with pytest.raises(ForbiddenError):
        key_revoke(looker, key=row, now=NOW)
    for viewer in (stranger, Viewer(user_id=None)):
        with pytest.raises(NotFoundError):
            key_by_id(viewer, row.pk)
        with pytest.raises(NotFoundError):
            key_revoke(viewer, key=row, now=NOW)
        with pytest.raises(NotFoundError):
            playground_key(viewer, team=make_team(), now=NOW)
    row.refresh_from_db()
    assert row.revoked_at is None


def test_the_moment_of_a_revocation_stands() -> None:
    row, _ = key_create(make_viewer(), team=make_team(), name="ci", profiles=(), all_profiles=True, now=NOW)
    for minutes in (0, 5):
        key_revoke(system_viewer(), key=row, now=NOW + timedelta(minutes=minutes))
    row.refresh_from_db()
    assert row.revoked_at == NOW


def test_a_new_playground_key_ends_the_persons_old_one_and_nobody_elses() -> None:
    one, two = make_viewer("olga"), make_viewer("otto")
    first, other, second = (playground_key(viewer, team=make_team(), now=NOW) for viewer in (one, two, one))
    live = set(ApiKey.objects.filter(revoked_at=None).values_list("key_hash", flat=True))
    assert live == {hash_key(other), hash_key(second)}
    assert hash_key(first) not in live
    assert list(keys(one)) == []
