"""Django's admin is read-only break-glass, and its actions call the services."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from gateway.models import ApiKey
from gateway.services import hash_key, key_create
from profiles_app.models import AuditEntry, Node, Profile, Replica
from profiles_app.selectors import system_viewer
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.replicas import replica_create

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
OWN = [model for model in admin.site._registry if model._meta.app_label in {"profiles_app", "gateway", "monitoring"}]


@pytest.fixture
def chief(db: None, client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("chief", password="unused-here"))
    return client


def changelist(model: Any) -> str:
    return f"/django-admin/{model._meta.app_label}/{model._meta.model_name}/"


@pytest.mark.parametrize("model", OWN, ids=lambda model: model._meta.label)
def test_every_table_can_be_read_and_none_written(chief: Client, model: Any) -> None:
    assert chief.get(changelist(model)).status_code == 200
    assert chief.get(f"{changelist(model)}add/").status_code == 403


def test_bulk_delete_does_not_exist(chief: Client) -> None:
    node = Node.objects.create(name="a")
    body = {"action": "delete_selected", "_selected_action": [node.pk], "post": "yes"}
    chief.post(changelist(Node), body)
    assert Node.objects.filter(pk=node.pk).exists()


def test_an_action_goes_through_the_service_and_its_audit(chief: Client) -> None:
    node = Node.objects.create(name="a")
    chief.post(changelist(Node), {"action": "cordon", "_selected_action": [node.pk]})
    node.refresh_from_db()
    assert node.cordoned
    assert AuditEntry.objects.get().action == "node.cordon"


def test_no_secret_is_shown(chief: Client, profile: Profile) -> None:
    now = timezone.now()
    revision = profile.revisions.get()
    deployment = deployment_deploy(system_viewer(), profile=profile, revision=revision, replicas=1, now=now)
    replica = replica_create(deployment, slot=0, now=now)
    row, key = key_create(system_viewer(), team=profile.team, name="k", profiles=[profile], now=now)
    page = chief.get(f"{changelist(Replica)}{replica.pk}/change/").content.decode()
    assert replica.api_key not in page
    assert replica.marker not in page
    page = chief.get(f"{changelist(ApiKey)}{row.pk}/change/").content.decode()
    assert hash_key(key) not in page


def test_the_kept_prefix_holds_nothing_of_the_secret(profile: Profile) -> None:
    for _ in range(20):
        row, key = key_create(system_viewer(), team=profile.team, name="k", profiles=[profile], now=timezone.now())
        assert row.prefix == "_".join(key.split("_", 2)[:2])
        assert len(row.prefix) == len("fb_") + 8
