"""Two databases: each table is in one of them, and nothing relates across."""

import itertools

import pytest
from django.apps import apps
from django.db import connections, models, router

from controlplane.settings.routers import TELEMETRY_MODELS
from gateway.models import ApiKey, UsageRecord
from monitoring.models import TELEMETRY_MODELS as MONITORED
from monitoring.models import Rollup
from profiles_app.models import Profile

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])
ALIASES = ("default", "telemetry")


def tables(alias: str) -> set[str]:
    return set(connections[alias].introspection.table_names())


def managed_models() -> list[type[models.Model]]:
    return [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]


def is_telemetry(model: type[models.Model]) -> bool:
    return (model._meta.app_label, model._meta.model_name) in TELEMETRY_MODELS


def test_each_table_is_in_the_database_of_its_model_and_in_no_other() -> None:
    for model in managed_models():
        home = "telemetry" if is_telemetry(model) else "default"
        found = [alias for alias in ALIASES if model._meta.db_table in tables(alias)]
        assert found == [home], model._meta.label


def test_the_telemetry_database_holds_telemetry_and_djangos_own_book_only() -> None:
    wanted = {model._meta.db_table for model in managed_models() if is_telemetry(model)}
    assert tables("telemetry") == wanted | {"django_migrations"}


def test_the_router_and_monitoring_agree_on_what_is_telemetry() -> None:
    assert {tuple(name.lower().split(".")) for name in MONITORED} <= TELEMETRY_MODELS
    assert {apps.get_model(label, name) for label, name in TELEMETRY_MODELS} >= {UsageRecord, Rollup}


def test_no_field_of_a_model_points_into_the_other_database() -> None:
    for model in managed_models():
        for field in model._meta.get_fields():
            if field.is_relation and isinstance(field.related_model, type):
                assert is_telemetry(model) == is_telemetry(field.related_model), field


def test_a_relation_across_the_databases_is_refused() -> None:
    control, telemetry = (Profile(), ApiKey()), (UsageRecord(), Rollup())
    for one, two in itertools.product(control, telemetry):
        assert not router.allow_relation(one, two)
        assert not router.allow_relation(two, one)
    assert router.allow_relation(*control)
    assert router.allow_relation(*telemetry)


def test_rows_are_written_to_and_read_from_the_database_of_their_model() -> None:
    assert UsageRecord.objects.db == Rollup.objects.db == "telemetry"
    assert Profile.objects.db == ApiKey.objects.db == "default"
    Rollup.objects.create(profile="fast", revision=1, tier=1, start=0, payload={})
    with connections["telemetry"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM monitoring_rollup")
        assert cursor.fetchone() == (1,)
