"""Buckets: what belongs where, how tiers merge, and that an empty window is no data."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.quantiles import sketch_of
from monitoring.rollups import (
    MAX_POINTS,
    RETENTION_SECONDS,
    STEPS,
    Bucket,
    Gauge,
    Sample,
    Trailing,
    by_second,
    coarser,
    merge_all,
    step_for,
    tier_for,
)

# A busy machine is slow to make examples; that says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def sample(**changes: object) -> Sample:
    base: dict[str, object] = {
        "profile": "fast",
        "revision": 3,
        "ended_at": 1000.5,
        "streamed": True,
        "status": 200,
        "outcome": "completed",
        "ttft": 0.1,
        "e2e": 0.9,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 20,
    }
    return Sample(**(base | changes))  # type: ignore[arg-type]


def busy_bucket() -> Bucket:
    bucket = Bucket(peak=4, engine_tokens=7, busy={"cpu": 5}, held={"cpu": 9})
    bucket.observe(sample())
    bucket.running.see(3.0)
    bucket.waiting.see(0.0)
    bucket.kv_usage.see(0.25)
    return bucket


def test_a_request_belongs_to_the_second_in_which_it_ended() -> None:
    buckets = by_second([sample(), sample(ended_at=1000.99), sample(ended_at=1001.0), sample(revision=4)])
    assert {place: bucket.requests for place, bucket in buckets.items()} == {
        (("fast", 3), 1000): 2,
        (("fast", 3), 1001): 1,
        (("fast", 4), 1000): 1,
    }


def test_only_completed_requests_have_a_whole_answer_to_time() -> None:
    bucket = Bucket()
    for outcome in ("completed", "cut", "client_gone", "upstream_error", "refused"):
        bucket.observe(sample(outcome=outcome, ttft=None if outcome == "refused" else 0.1))
    assert (bucket.e2e.total, bucket.ttft.total) == (1, 4)
    assert (bucket.requests, bucket.cut, bucket.refused, bucket.errors) == (5, 1, 1, 1)


def test_a_refusal_with_a_server_error_counts_as_an_error() -> None:
    bucket = Bucket()
    bucket.observe(sample(outcome="refused", status=503))
    bucket.observe(sample(outcome="refused", status=429))
    assert (bucket.errors, bucket.refused) == (1, 2)


def test_a_streamed_and_a_plain_request_count_the_same_tokens() -> None:
    streamed, plain = Bucket(), Bucket()
    streamed.observe(sample(streamed=True))
    plain.observe(sample(streamed=False, ttft=None))
    tokens = [(b.prompt_tokens, b.cached_tokens, b.completion_tokens) for b in (streamed, plain)]
    assert tokens == [(10, 4, 20)] * 2
    assert (streamed.streamed, plain.streamed) == (1, 0)


def test_a_bucket_comes_back_from_its_stored_form() -> None:
    bucket = busy_bucket()
    assert Bucket.decode(bucket.encode()) == bucket
    assert Bucket.decode(Bucket().encode()) == Bucket()


def test_another_version_of_the_stored_form_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Bucket.decode({"v": 2})


@unhurried
@given(
    st.lists(
        st.builds(sample, ended_at=st.floats(0, 200), e2e=st.floats(1e-4, 100), ttft=st.none() | st.floats(1e-4, 9)),
        max_size=60,
    )
)
def test_a_tier_holds_what_its_seconds_hold(samples: list[Sample]) -> None:
    fine = by_second(samples)
    minutes = coarser(fine, tier=60)
    tens = coarser(fine, tier=10)
    assert coarser(tens, tier=60) == minutes
    assert merge_all(minutes.values()) == merge_all(fine.values())
    assert all(start % 60 == 0 for _, start in minutes)


def test_percentiles_of_merged_seconds_are_those_of_the_raw_samples() -> None:
    raw = np.random.default_rng(7).lognormal(-1.0, 0.8, 3000)
    samples = [sample(ended_at=1000.0 + i % 60, e2e=float(value)) for i, value in enumerate(raw)]
    total = merge_all(by_second(samples).values())
    for q in (0.5, 0.95, 0.99):
        exact = float(np.quantile(raw, q, method="inverted_cdf"))
        assert total.e2e.quantile(q) == pytest.approx(exact, rel=0.01)


def test_merging_adds_counts_and_keeps_the_highest() -> None:
    first, second = busy_bucket(), busy_bucket()
    second.peak = 9
    second.running.see(1.0)
    first.merge(second)
    assert (first.requests, first.peak, first.engine_tokens) == (2, 9, 14)
    assert (first.busy, first.held) == ({"cpu": 10}, {"cpu": 18})
    assert (first.running.count, first.running.high) == (3, 3.0)


def test_merging_keeps_engine_tokens_unknown_until_one_side_knows() -> None:
    bucket = Bucket()
    bucket.merge(Bucket())
    assert bucket.engine_tokens is None
    bucket.merge(Bucket(engine_tokens=0))
    assert bucket.engine_tokens == 0


def test_a_gauge_that_saw_nothing_changes_nothing() -> None:
    gauge = Gauge()
    gauge.merge(Gauge())
    assert gauge == Gauge()
    gauge.merge(Gauge(count=1, total=-2.0, high=-2.0))
    assert gauge.high == -2.0


def test_every_range_is_shown_in_at_most_three_hundred_points() -> None:
    for minutes in (1, 5, 15, 60, 360, 1440, 10080, 40000):
        assert minutes * 60 / step_for(minutes * 60) <= MAX_POINTS
    assert step_for(300) == 1
    assert step_for(1e12) == STEPS[-1]


def test_a_step_is_read_from_the_coarsest_tier_that_fits_and_is_still_kept() -> None:
    assert tier_for(5, age=900) == 1
    assert tier_for(20, age=3600) == 10
    assert tier_for(120, age=3600) == 60
    assert tier_for(10, age=RETENTION_SECONDS[10] + 1) == 60


def test_the_window_holds_the_last_minute_and_late_records_join_their_second() -> None:
    window = Trailing(seconds=60)
    window.add(by_second([sample(ended_at=1000.0), sample(ended_at=1059.0)]))
    window.add(by_second([sample(ended_at=1000.5, revision=4), sample(profile="slow", ended_at=1010.0)]))
    assert window.merged("fast", now=1059.9).requests == 3
    assert window.merged("fast", now=1060.0).requests == 1
    assert window.profiles() == {"fast", "slow"}


def test_a_window_after_idle_time_holds_no_old_values() -> None:
    window = Trailing(seconds=60)
    window.add(by_second([sample(ended_at=1000.0)]))
    window.forget(now=1030.0)
    assert window.merged("fast", now=1030.0).requests == 1
    window.forget(now=1060.0)
    assert window.profiles() == set()
    assert window.merged("fast", now=1060.0).ttft.quantile(0.99) is None


def test_merging_does_not_change_what_was_merged() -> None:
    part = busy_bucket()
    before = part.encode()
    merge_all([part, busy_bucket()])
    assert part.encode() == before
    assert sketch_of([0.9]) == part.e2e
