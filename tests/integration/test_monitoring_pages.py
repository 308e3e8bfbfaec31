"""Series, cost, requests and prices as pages and REST show them, and that one team sees nothing of another."""

import dataclasses
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from django.core.cache import cache
from django.test import Client

from gateway.models import UsageRecord
from monitoring import ingest, selectors, services
from monitoring.exporter import ControlPlaneCollector
from monitoring.models import IngestCursor, Price
from monitoring.readers.usage import sample_of
from monitoring.rollups import MAX_POINTS, Bucket, Gauge, by_second
from profiles_app.errors import DomainError, NotFoundError
from profiles_app.models import AuditEntry
from tests.integration.monitoring_world import NOW, Valkey, entry, person, profile, replica, report, viewer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def store(*entries: dict[str, Any]) -> None:
    """Put requests into the database as the ingest does, without a broker."""
    fence = ingest.claim_fence()
    records = [UsageRecord(**one) for one in entries]
    UsageRecord.objects.bulk_create(records)
    ingest.merge_observations(by_second(s for r in records if (s := sample_of(r))), fence=fence)


def hold(start: float, seconds: int, *, name: str = "fast", busy: float = 0.5, accelerator: str = "cpu") -> None:
    """Two units held for so many seconds, busy for a share of them."""
    used = int(2_000_000 * busy)
    fine = {
        ((name, 3), int(start) + i): Bucket(
            held={accelerator: 2_000_000}, busy={accelerator: used}, running=Gauge(1, 3.0, 3.0)
        )
        for i in range(seconds)
    }
    ingest.merge_observations(fine, fence=ingest.claim_fence())


def price(usd: str, at: float, *, accelerator: str = "cpu") -> Price:
    moment = datetime.fromtimestamp(at, tz=UTC)
    return Price.objects.create(
        accelerator=accelerator, unit="core_hour", usd=Decimal(usd), source="t", as_of=moment.date(), valid_from=moment
    )


def signed_in(user: Any) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


# ---------- series


def test_each_step_has_the_percentiles_of_its_own_samples_and_a_gap_is_none() -> None:
    profile()
    raw = np.random.default_rng(5).lognormal(-1, 0.7, 400)
    store(*(entry(i, at=NOW - 100 - float(v), e2e=float(v)) for i, v in enumerate(raw)))
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=15, now=NOW)
    assert (series.step, len(series.times)) == (5, 180)
    at = next(i for i, start in enumerate(series.times) if start <= NOW - 100 < start + 5)
    for name, q in (("e2e_p50", 0.5), ("e2e_p95", 0.95), ("e2e_p99", 0.99)):
        exact = float(np.quantile(raw, q, method="inverted_cdf"))
        assert series.values[name][at] == pytest.approx(exact, rel=0.01)
        assert [value for i, value in enumerate(series.values[name]) if i != at] == [None] * 179
    assert series.values["e2e_count"][at] == 400
    assert series.values["requests_per_second"][at] == 80.0
    assert series.values["requests_peak"][at] == 400
    assert len(series.gaps) == 2


@pytest.mark.parametrize("minutes", [1, 5, 15, 60, 360, 1440, 10080])
def test_every_range_has_at_most_three_hundred_points_and_ends_now(minutes: int) -> None:
    profile()
    hold(NOW - 40, 40)
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=minutes, now=NOW)
    assert len(series.times) <= MAX_POINTS
    assert series.times[-1] + series.step > NOW - selectors.SETTLE_SECONDS
    assert series.values["running"][-1] == 3.0


def test_a_quiet_second_is_no_requests_and_no_latency() -> None:
    profile()
    hold(NOW - 30, 30)
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=5, now=NOW)
    assert series.values["requests_per_second"][-1] == 0
    assert series.values["ttft_p99"][-1] is None
    assert series.values["waiting"][-1] is None


def test_cost_a_minute_is_busy_time_at_the_price_and_missing_without_one() -> None:
    profile()
    hold(NOW - 300, 300)
    ann = viewer("ann")
    without = selectors.live_series(viewer=ann, profile="fast", minutes=5, now=NOW)
    assert set(without.values["cost_per_minute"]) == {None}
    price("3.6", NOW - 86400)
    series = selectors.live_series(viewer=ann, profile="fast", minutes=5, now=NOW)
    assert series.values["cost_per_minute"][-1] == pytest.approx(0.06)
    assert series.values["idle_cost_per_minute"][-1] == pytest.approx(0.06)


def test_requests_served_while_nobody_measured_capacity_have_no_cost() -> None:
    profile()
    price("3.6", NOW - 86400)
    store(entry(1, at=NOW - 10))
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=5, now=NOW)
    assert set(series.values["cost_per_minute"]) == {None}


def test_a_new_revision_is_marked_where_it_begins() -> None:
    profile()
    hold(NOW - 200, 100)
    store(entry(1, at=NOW - 50, revision=4))
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=5, now=NOW)
    assert [name for _, name in series.marks] == ["r4"]


def test_the_last_minute_is_the_same_for_a_profile_and_in_the_summary() -> None:
    profile()
    profile("idle")
    store(*(entry(i, at=NOW - 20) for i in range(6)))
    ann = viewer("ann")
    summary = {row.profile: row.data for row in selectors.live_summary(viewer=ann, now=NOW)}
    assert summary["idle"] is None
    assert summary["fast"] == selectors.live_now(viewer=ann, profile="fast", now=NOW)
    assert (summary["fast"] or {})["requests"] == 6


# ---------- cost


def test_a_change_of_price_at_noon_leaves_the_time_before_at_the_old_price() -> None:
    profile()
    noon = NOW - NOW % 60
    hold(noon - 120, 240, busy=1.0)
    price("3.6", noon - 86400)
    price("7.2", noon)
    ann = viewer("ann")
    before = selectors.cost_since(viewer=ann, profile="fast", start=noon - 120, end=noon)
    whole = selectors.cost_since(viewer=ann, profile="fast", start=noon - 120, end=noon + 120)
    assert before.busy == before.held == Decimal("0.24")
    assert whole.busy == Decimal("0.72")
    edges = selectors.cost_since(viewer=ann, profile="fast", start=noon - 30, end=noon + 30)
    assert edges.busy == Decimal("0.18")
    inside = selectors.cost_since(viewer=ann, profile="fast", start=noon + 10, end=noon + 20)
    assert inside.busy == Decimal("0.04")


def test_a_correction_changes_the_sum_and_keeps_the_mistyped_row() -> None:
    profile()
    start = NOW - NOW % 60 - 60
    hold(start, 60, busy=1.0)
    boss = viewer("boss", role="admin")
    moment = datetime.fromtimestamp(start - 3600, tz=UTC)
    terms: dict[str, Any] = {"accelerator": "cpu", "source": "contract", "as_of": moment.date(), "valid_from": moment}
    for usd, expected in (("360", "12"), ("3.6", "0.12")):
        services.price_create(boss, usd=Decimal(usd), **terms)
        total = selectors.cost_since(viewer=boss, profile="fast", start=start, end=start + 60)
        assert total.busy == Decimal(expected)
    assert Price.objects.count() == 2
    assert AuditEntry.objects.filter(action="price.create").count() == 2


def test_held_capacity_without_a_price_row_is_unknown_cost() -> None:
    profile()
    start = NOW - NOW % 60 - 60
    hold(start, 60, accelerator="L4")
    total = selectors.cost_since(viewer=viewer("ann"), profile="fast", start=start, end=start + 60)
    assert (total.busy, total.held) == (None, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"usd": Decimal(-1)}, "usd"),
        ({"usd": Decimal("NaN")}, "usd"),
        ({"accelerator": " "}, "accelerator"),
        ({"source": ""}, "source"),
    ],
)
def test_a_price_row_that_makes_no_sense_is_refused_with_its_field(changes: dict[str, Any], field: str) -> None:
    moment = datetime.fromtimestamp(NOW + 17, tz=UTC)
    terms: dict[str, Any] = {
        "accelerator": "cpu",
        "usd": Decimal(1),
        "source": "x",
        "as_of": moment.date(),
        "valid_from": moment,
    }
    with pytest.raises(DomainError) as refusal:
        services.price_create(viewer("boss", role="admin"), **(terms | changes))
    assert (refusal.value.status, refusal.value.field) == (422, field)


def test_a_price_takes_effect_on_a_whole_minute() -> None:
    moment = datetime.fromtimestamp(NOW - NOW % 60 + 17, tz=UTC)
    row = services.price_create(
        viewer("boss", role="admin"),
        accelerator="H100",
        usd=Decimal("4.5"),
        source="list",
        as_of=moment.date(),
        valid_from=moment,
    )
    assert (row.valid_from.second, row.unit) == (0, "gpu_hour")


# ---------- who sees what


def test_a_profile_of_another_team_is_like_one_that_does_not_exist() -> None:
    profile("secret", slug="rivals")
    now = time.time()
    store(entry(1, profile="secret", team="rivals", at=now - 5))
    ann = person("ann")
    browser = signed_in(ann)
    for name in ("secret", "missing"):
        for address in (f"/api/v1/live/{name}/", f"/live/{name}/"):
            assert browser.get(address).status_code == 404
    assert browser.get("/api/v1/usage/").json()["results"] == []
    assert browser.get("/api/v1/usage/", {"profile": "secret"}).json()["results"] == []
    for address in ("/live/", "/requests/", "/requests/?profile=secret"):
        assert "secret" not in browser.get(address).content.decode().replace("profile=secret", "")
    with pytest.raises(NotFoundError):
        selectors.cost_since(viewer=viewer("bob"), profile="secret", start=0, end=1)


def test_without_a_session_every_address_asks_for_one() -> None:
    for address in ("/live/", "/live/fast/", "/prices/", "/requests/"):
        assert Client().get(address).status_code == 302
    for address in ("/api/v1/live/fast/", "/api/v1/usage/", "/api/v1/prices/"):
        assert Client().get(address).status_code == 401


def test_refused_requests_of_no_team_are_seen_by_the_superuser_only() -> None:
    store(
        entry(
            1,
            team=None,
            profile=None,
            outcome="refused",
            status=401,
            ttft=None,
            prompt_tokens=None,
            completion_tokens=None,
        )
    )
    assert signed_in(person("ann")).get("/api/v1/usage/").json()["results"] == []
    root = signed_in(person("root", superuser=True))
    assert len(root.get("/api/v1/usage/").json()["results"]) == 1
    page = root.get("/requests/").content.decode()
    assert "none reached" in page
    assert "none counted" in page


# ---------- REST


def test_a_live_answer_has_series_figures_and_a_verdict_and_tables_where_asked() -> None:
    profile(slo={"ttft_p99_ms": 50})
    now = time.time()
    store(*(entry(i, at=now - 20 - i % 5) for i in range(20)))
    answer = signed_in(person("ann")).get("/api/v1/live/fast/", {"minutes": 5, "tables": "ttft,odd"}).json()
    assert (answer["profile"], answer["step"], len(answer["times"])) == ("fast", 1, 300)
    assert {len(values) for values in answer["series"].values()} == {300}
    assert answer["now"]["ttft"]["count"] == 20
    assert (answer["verdict"]["word"], answer["verdict"]["tone"]) == ("Promise broken", "bad")
    tables = {panel["name"]: panel["table"] for panel in answer["panels"]}
    assert [name for name, table in tables.items() if table] == ["ttft"]
    assert len(tables["ttft"]["rows"]) == 300


def test_a_range_out_of_bounds_is_refused() -> None:
    profile()
    browser = signed_in(person("ann"))
    for minutes in ("0", "x", "999999999"):
        assert browser.get("/api/v1/live/fast/", {"minutes": minutes}).status_code == 400


def test_many_screens_on_one_profile_are_computed_once_a_second(django_assert_max_num_queries: Any) -> None:
    profile()
    browser = signed_in(person("ann"))
    browser.get("/api/v1/live/fast/")
    with django_assert_max_num_queries(14):
        browser.get("/api/v1/live/fast/")


def test_usage_is_paged_by_key_and_filtered() -> None:
    profile()
    store(*(entry(i, at=NOW - i, outcome="cut" if i % 2 else "completed") for i in range(30)))
    browser = signed_in(person("ann"))
    first = browser.get("/api/v1/usage/", {"page_size": 20}).json()
    store(entry(99, at=NOW + 5))
    second = browser.get(first["next"]).json()
    ids = [row["id"] for row in (*first["results"], *second["results"])]
    assert ids == [f"req_{i:08d}" for i in range(30)]
    assert len(browser.get("/api/v1/usage/", {"outcome": "cut", "page_size": 500}).json()["results"]) == 15
    since = datetime.fromtimestamp(NOW - 4.5, tz=UTC).isoformat()
    assert len(browser.get("/api/v1/usage/", {"since": since}).json()["results"]) == 6
    assert browser.get("/api/v1/usage/", {"outcome": "odd"}).status_code == 400


BODY = {
    "accelerator": "cpu",
    "usd": "0.04",
    "source": "bill",
    "as_of": "2026-11-01",
    "valid_from": "2026-11-01T00:00:00Z",
}


def test_an_admin_adds_a_price_and_everybody_else_only_reads_it() -> None:
    boss, ann = signed_in(person("boss", role="admin")), signed_in(person("ann", role="operator"))
    assert ann.post("/api/v1/prices/", BODY, content_type="application/json").status_code == 403
    made = boss.post("/api/v1/prices/", BODY, content_type="application/json")
    assert (made.status_code, made.json()["unit"], made.json()["usd"]) == (201, "core_hour", "0.040000")
    bad = boss.post("/api/v1/prices/", BODY | {"usd": "-1"}, content_type="application/json")
    assert bad.status_code == 422
    (row,) = ann.get("/api/v1/prices/").json()["results"]
    assert row["id"] == made.json()["id"]
    assert boss.delete("/api/v1/prices/").status_code == 405


def test_an_empty_source_is_refused_by_shape() -> None:
    boss = signed_in(person("boss", role="admin"))
    assert boss.post("/api/v1/prices/", BODY | {"source": ""}, content_type="application/json").status_code == 400


# ---------- pages


def test_the_live_page_says_the_verdict_and_each_chart_has_its_table() -> None:
    profile(slo={"e2e_p99_ms": 100})
    profile("other")
    store(*(entry(i, at=time.time() - 10) for i in range(5)))
    page = signed_in(person("ann")).get("/live/fast/?minutes=60").content.decode()
    assert re.search(r"<h1>fast: 90\d ms to the whole answer at P99, 80\d % over its promise</h1>", page)
    assert page.count('role="group" aria-labelledby="c-') == page.count("View as table") == 6
    assert 'data-minutes="60"' in page
    assert "of 5 samples" in page
    assert " style=" not in page


def test_the_comparison_lists_profiles_with_what_is_not_measured_in_words() -> None:
    profile()
    profile("idle")
    browser = signed_in(person("ann"))
    now = time.time()
    store(entry(1, at=now - 5, outcome="upstream_error", status=502), entry(2, at=now - 5))
    page = browser.get("/live/").content.decode()
    assert page.index(">fast<") < page.index(">idle<")
    assert "Errors" in page
    assert "Not measured" in page
    assert 'data-topics="profile:fast,profile:idle"' in page


def test_the_request_list_pages_and_filters_in_the_address() -> None:
    profile()
    store(
        *(
            entry(i, at=NOW - i, client_request_id=f"c{i}", streamed=bool(i % 2), ttft=0.1 if i % 2 else None)
            for i in range(60)
        )
    )
    browser = signed_in(person("ann"))
    page = browser.get("/requests/?profile=fast&outcome=completed&since=2026-01-01T00:00").content.decode()
    assert page.count('class="mono xs">req_') == 50
    assert "not measured" in page
    older = re.search(r'href="\?([^"]+)">Older', page)
    assert older
    rest = browser.get("/requests/?" + older[1].replace("&amp;", "&")).content.decode()
    assert rest.count('class="mono xs">req_') == 10
    assert "Newest" in rest
    assert "No request matches" in browser.get("/requests/?outcome=cut").content.decode()
    for broken in ("after=x", "after=x~y", "since=2026-99-99T00:00", "outcome=odd"):
        assert browser.get(f"/requests/?{broken}").status_code == 200


def test_the_price_page_adds_a_row_for_an_admin_and_shows_what_is_wrong() -> None:
    boss, ann = signed_in(person("boss", role="admin")), signed_in(person("ann"))
    form = BODY | {"valid_from": "2026-11-01T00:00"}
    assert "Add a row" not in ann.get("/prices/").content.decode()
    assert ann.post("/prices/", form).status_code == 403
    assert "so no cost is shown" in boss.get("/prices/").content.decode()
    wrong = boss.post("/prices/", form | {"source": "  ", "usd": "5000000"})
    assert wrong.status_code == 422
    assert boss.post("/prices/", form | {"usd": "5000000"}).status_code == 422
    assert boss.post("/prices/", form).status_code == 302
    page = ann.get("/prices/").content.decode()
    assert "1 price row" in page
    assert "$0.040000" in page


# ---------- own metrics


def test_own_metrics_need_the_token_or_a_superuser(settings: Any) -> None:
    replica(profile())
    assert Client().get("/metrics").status_code == 403
    assert signed_in(person("ann", role="admin")).get("/metrics").status_code == 403
    answer = signed_in(person("root", superuser=True)).get("/metrics")
    assert answer.status_code == 200
    text = answer.content.decode()
    assert 'forebay_replicas{phase="ready"} 1.0' in text
    assert "forebay_broker_up 0.0" in text
    assert "forebay_ingest_lag_seconds" not in text
    settings.FOREBAY = dataclasses.replace(settings.FOREBAY, metrics_token="scrape-me")
    assert Client().get("/metrics", headers={"authorization": "Bearer wrong"}).status_code == 403
    assert Client().get("/metrics", headers={"authorization": "Bearer scrape-me"}).status_code == 200


def test_metrics_of_the_broker_are_read_where_it_answers() -> None:
    valkey = Valkey()
    client = valkey.client()
    IngestCursor.objects.create(name="usage", ingested=7)
    report(client, at=NOW, a=1.0)
    client.set("forebay:monitor:status", '{"lag_seconds": 1.5, "at": %f}' % (NOW - 2))
    found = {
        sample.name: sample.value
        for metric in ControlPlaneCollector(client=client, now=NOW).collect()
        for sample in metric.samples
    }
    client.close()
    valkey.close()
    assert found["forebay_usage_ingested_total"] == 7
    assert (found["forebay_ingest_lag_seconds"], found["forebay_monitor_age_seconds"]) == (1.5, 2.0)
    assert (found["forebay_gateways"], found["forebay_usage_dropped"], found["forebay_usage_queued"]) == (1, 1, 2)
    assert (found["forebay_monitor_up"], found["forebay_broker_up"]) == (1, 1)


def test_a_day_of_seconds_is_read_from_a_coarser_tier() -> None:
    profile()
    hold(NOW - 3600, 120)
    series = selectors.live_series(viewer=viewer("ann"), profile="fast", minutes=1440, now=NOW)
    covered = [value for value in series.values["running"] if value is not None]
    assert (series.step, covered[0]) == (300, 3.0)
    assert timedelta(seconds=sum(end - start for start, end in series.gaps)) > timedelta(hours=23)
