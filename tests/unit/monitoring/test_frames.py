"""One second's observations and one live frame."""

from decimal import Decimal

import pytest

from monitoring.frames import Holder, Watched, engine_levels, observations, window_data
from monitoring.ledger import Claim, PriceBook, PriceRow
from monitoring.readers.base import EngineReading
from monitoring.rollups import Bucket, Sample

CPU = Claim("cpu", Decimal(2))


def reading(*, at: float = 1000.0, **values: float | None) -> EngineReading:
    base: dict[str, float | None] = dict.fromkeys(
        ("running", "waiting", "kv_usage", "generation_tokens", "prompt_tokens", "preemptions")
    )
    return EngineReading(at=at, **(base | values))


def holder(name: str, *, profile: str = "fast", claim: Claim | None = CPU) -> Holder:
    return Holder(id=name, profile=profile, revision=3, claim=claim, ready=True)


def observe(**changes: object) -> dict[tuple[tuple[str, int], int], Bucket]:
    base: dict[str, object] = {
        "watched": [Watched(name="fast", team="default", revision=3)],
        "holders": [holder("a"), holder("b")],
        "busy": {"a": 0.5},
        "readings": {},
        "grown": {},
        "elapsed": 1.0,
        "now": 1000.7,
    }
    return observations(**(base | changes))  # type: ignore[arg-type]


def test_held_and_busy_time_are_in_units_of_the_claim() -> None:
    bucket = observe(elapsed=0.5)[(("fast", 3), 1000)]
    assert (bucket.held, bucket.busy) == ({"cpu": 2_000_000}, {"cpu": 1_000_000})


def test_a_late_tick_is_booked_into_the_seconds_it_spans_and_no_more_than_each_holds() -> None:
    buckets = observe(elapsed=2.4, busy={"a": 2.4})
    held = {second: bucket.held["cpu"] for (_, second), bucket in buckets.items()}
    assert held == pytest.approx({998: 2_800_000, 999: 4_000_000, 1000: 2_800_000}, abs=2)
    assert sum(held.values()) == 9_600_000
    assert sum(bucket.busy["cpu"] for bucket in buckets.values()) == 4_800_000


def test_rounding_loses_no_unit_second() -> None:
    for elapsed in (0.1, 0.333, 1.0, 1.777, 2.999):
        buckets = observe(elapsed=elapsed, busy={"a": elapsed / 3})
        assert sum(bucket.held["cpu"] for bucket in buckets.values()) == 2 * round(elapsed * 2_000_000)


def test_no_time_passed_holds_nothing() -> None:
    bucket = observe(elapsed=0.0)[(("fast", 3), 1000)]
    assert (bucket.held, bucket.busy) == ({"cpu": 0}, {"cpu": 0})


def test_nothing_is_busier_than_it_was_held() -> None:
    bucket = observe(busy={"a": 9.0, "b": 9.0})[(("fast", 3), 1000)]
    assert bucket.busy == bucket.held


def test_a_profile_without_replicas_is_measured_and_empty() -> None:
    assert observe(holders=[])[(("fast", 3), 1000)] == Bucket()


def test_levels_are_summed_over_engines_and_the_fullest_cache_counts() -> None:
    readings = {"a": reading(running=2, waiting=0, kv_usage=0.2), "b": reading(running=3, waiting=1, kv_usage=0.7)}
    bucket = observe(readings=readings, grown={"a": 5.0, "b": None})[(("fast", 3), 1000)]
    assert (bucket.running.high, bucket.waiting.high, bucket.kv_usage.high) == (5.0, 1.0, 0.7)
    assert bucket.engine_tokens == 5


def test_an_engine_that_did_not_answer_leaves_a_hole() -> None:
    bucket = observe(holders=[holder("a", claim=None)])[(("fast", 3), 1000)]
    assert bucket.running.count == 0
    assert bucket.held == {}
    assert engine_levels([reading()]) == {"running": None, "waiting": None, "kv_usage": None}


def window(bucket: Bucket, **changes: object) -> dict[str, object]:
    prices = PriceBook([PriceRow(1, "cpu", Decimal("3.6"), 0.0)])
    base: dict[str, object] = {"prices": prices, "readings": [], "replicas_ready": 1, "now": 1000.0}
    return window_data(bucket, **(base | changes))  # type: ignore[arg-type]


def test_an_empty_window_is_no_data_and_no_zero() -> None:
    data = window(Bucket())
    assert data["ttft"] == {"p50": None, "p95": None, "p99": None, "count": 0, "streamed_share": None}
    assert data["busy_share"] is None
    assert data["engine"] == {"running": None, "waiting": None, "kv_usage": None, "age": None}


def test_a_frame_has_rates_share_and_dollars_a_minute() -> None:
    bucket = Bucket(held={"cpu": 120_000_000}, busy={"cpu": 60_000_000})
    for streamed in (True, False):
        bucket.observe(
            Sample(
                profile="fast",
                revision=3,
                ended_at=999.0,
                streamed=streamed,
                status=200,
                outcome="completed",
                ttft=0.2 if streamed else None,
                e2e=1.0,
                prompt_tokens=1,
                cached_tokens=0,
                completion_tokens=30,
            )
        )
    data = window(bucket, readings=[reading(at=990.0, running=1.0), reading(at=100.0, running=50.0)])
    assert data["ttft"]["streamed_share"] == 0.5  # type: ignore[index]
    assert data["ttft"]["p99"] == pytest.approx(0.2, rel=0.01)  # type: ignore[index]
    assert data["tokens_per_second"] == 1.0
    assert (data["cost_per_minute"], data["held_cost_per_minute"]) == (pytest.approx(0.06), pytest.approx(0.12))
    assert data["busy_share"] == 0.5
    assert data["engine"] == {"running": 1.0, "waiting": None, "kv_usage": None, "age": 10.0}


def test_what_is_held_without_a_price_row_has_no_cost_even_while_idle() -> None:
    assert window(Bucket(held={"L4": 1}, busy={"L4": 0}))["cost_per_minute"] is None
    assert window(Bucket(held={"cpu": 1}, busy={"cpu": 0}))["cost_per_minute"] == 0.0
