"""The router keeps telemetry in its own database, and every relation inside one."""

from typing import Any

import pytest

from controlplane.settings.routers import TELEMETRY_MODELS, TelemetryRouter, is_telemetry


class Meta:
    """What the router looks at of a model."""

    def __init__(self, app_label: str, model_name: str) -> None:
        self.app_label = app_label
        self.model_name = model_name


def table(app_label: str, model_name: str) -> Any:
    """A stand-in for a model class."""
    return type("Table", (), {"_meta": Meta(app_label, model_name)})


ROUTER = TelemetryRouter()
USAGE, ROLLUP = table("gateway", "usagerecord"), table("monitoring", "rollup")
KEY, PRICE = table("gateway", "apikey"), table("monitoring", "price")


@pytest.mark.parametrize(("model", "alias"), [(USAGE, "telemetry"), (ROLLUP, "telemetry"), (KEY, "default")])
def test_reads_and_writes_go_to_the_models_own_database(model: Any, alias: str) -> None:
    assert ROUTER.db_for_read(model) == ROUTER.db_for_write(model) == alias


def test_a_relation_stays_inside_one_database() -> None:
    assert ROUTER.allow_relation(USAGE, ROLLUP)
    assert ROUTER.allow_relation(KEY, PRICE)
    assert not ROUTER.allow_relation(USAGE, KEY)
    assert not ROUTER.allow_relation(PRICE, ROLLUP)


def test_a_table_is_made_in_one_database_only() -> None:
    for app_label, name in [*TELEMETRY_MODELS, ("gateway", "apikey"), ("auth", "user")]:
        made_in = [db for db in ("default", "telemetry") if ROUTER.allow_migrate(db, app_label, name)]
        assert made_in == ["telemetry" if (app_label, name) in TELEMETRY_MODELS else "default"]


def test_names_are_compared_without_case_and_a_missing_one_is_no_telemetry() -> None:
    assert is_telemetry("gateway", "UsageRecord")
    assert not is_telemetry("gateway", None)
