"""What costs an unknown amount is named, with the way to make it known."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.test import Client

from monitoring import selectors
from monitoring.models import Price
from tests.integration.monitoring_world import NOW, person, profile, replica

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


def cpu_price(usd: str) -> None:
    moment = datetime.fromtimestamp(NOW - 60, tz=UTC)
    Price.objects.create(
        accelerator="cpu", unit="core_hour", usd=Decimal(usd), source="t", as_of=moment.date(), valid_from=moment
    )


def test_what_is_held_without_a_price_row_is_named_until_there_is_one() -> None:
    row = profile()
    assert selectors.unpriced(row, now=NOW) == []
    replica(row)
    assert selectors.unpriced(row, now=NOW) == ["cpu"]
    cpu_price("0.04")
    assert selectors.unpriced(row, now=NOW) == []


def test_the_live_page_says_which_price_is_missing(client: Client) -> None:
    replica(profile())
    client.force_login(person("ann"))
    assert "No price row covers cpu" in client.get("/live/fast/").content.decode()
    cpu_price("0.04")
    assert "No price row covers" not in client.get("/live/fast/").content.decode()


def test_a_price_row_without_a_start_begins_now(client: Client) -> None:
    client.force_login(person("boss", role="admin"))
    body = {"accelerator": "cpu", "usd": "0.04", "source": "bill", "as_of": "2026-12-01"}
    answer = client.post("/api/v1/prices/", body, content_type="application/json")
    assert answer.status_code == 201, answer.content
    assert datetime.fromisoformat(answer.json()["valid_from"]) <= datetime.now(tz=UTC)
