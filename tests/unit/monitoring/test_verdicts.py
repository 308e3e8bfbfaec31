"""The live page's verdict: the worst true thing first."""

from typing import Any

from monitoring.verdicts import live_verdict
from monitoring.web.stats import busy_note, cost_text, stats_of


def data(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "window_seconds": 60,
        "ttft": {"p50": 0.1, "p95": 0.2, "p99": 0.3, "count": 90, "streamed_share": 0.9},
        "e2e": {"p50": 1.0, "p95": 2.0, "p99": 3.0, "count": 100},
        "requests": 100,
        "requests_per_second": 1.67,
        "tokens_per_second": 50.0,
        "errors_per_second": 0.0,
        "cost_per_minute": 0.1,
        "busy_share": 0.5,
        "replicas_ready": 1,
    }
    return base | changes


def verdict(found: dict[str, Any] | None, **promises: float | None) -> tuple[str, str, str, str]:
    given = live_verdict(profile="fast", data=found, promises=promises)
    return given.state, given.word, given.headline, given.why


def test_a_broken_promise_is_named_with_its_number_and_by_how_much() -> None:
    state, word, headline, why = verdict(data(), ttft=0.2, e2e=2.9)
    assert (state, word) == ("bad", "Promise broken")
    assert headline == "fast: 300 ms to the first token at P99, 50 % over its promise"
    assert "P99 rests on 100 samples." in why


def test_errors_are_named_when_no_promise_is_broken() -> None:
    assert verdict(data(errors_per_second=0.05), ttft=0.5)[:3] == (
        "warn",
        "Errors",
        "fast: 3 of 100 requests failed in the last minute",
    )


def test_all_well_is_a_verdict_too() -> None:
    assert verdict(data(), ttft=0.4)[:3] == ("ok", "Promise kept", "fast: 300 ms to the first token at P99")
    plain = data(ttft={"p99": None, "count": 0}, e2e={"p99": 3.0, "count": 900}, replicas_ready=2)
    state, word, headline, why = verdict(plain, ttft=None)
    assert (state, word, headline) == ("ok", "Well", "fast: 3 s to the whole answer at P99")
    assert why.endswith("on 2 replicas, over the last minute.")


def test_requests_without_an_answer_yet_have_no_percentile() -> None:
    empty = {"p99": None, "count": 0}
    assert verdict(data(ttft=empty, e2e=empty, requests=2), ttft=0.4)[2].endswith("none completed yet")


def test_no_traffic_no_replica_and_not_measured_are_different_words() -> None:
    assert verdict(data(requests=0))[1:3] == ("No traffic", "fast: no requests in the last minute")
    assert verdict(data(requests=0, replicas_ready=0))[2] == "fast: no replica is ready"
    assert verdict(None)[1] == "Not measured"


def test_every_percentile_shows_its_count_and_nothing_shows_words() -> None:
    shown = {stat.key: (stat.value, stat.note) for stat in stats_of(data())}
    assert shown["ttft.p99"] == ("300 ms", "of 90 samples")
    assert shown["cost_per_minute"] == ("$0.1", "50 % of the time busy")
    assert {stat.value for stat in stats_of(None)} == {"no data"}
    assert cost_text(data(cost_per_minute=None)) == "no price row"
    assert busy_note({}) == "nothing held"
