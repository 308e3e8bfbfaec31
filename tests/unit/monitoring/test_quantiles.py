"""Sketches against numpy's nearest-rank percentiles (P6)."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitoring.quantiles import (
    BUCKETS,
    FLOOR_SECONDS,
    GAMMA,
    Sketch,
    bucket_of,
    decode,
    encode,
    sketch_of,
    value_of,
)

# A busy machine is slow to make examples; that says nothing about the code.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

durations = st.lists(st.floats(min_value=FLOOR_SECONDS, max_value=3600.0), min_size=1, max_size=200)
quantiles = st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0])


@unhurried
@given(values=durations, q=quantiles)
def test_a_quantile_is_within_one_percent_of_the_nearest_rank_one(values: list[float], q: float) -> None:
    exact = float(np.quantile(np.array(values), q, method="inverted_cdf"))
    shown = sketch_of(values).quantile(q)
    assert shown is not None
    assert abs(shown - exact) <= 0.01 * exact


def test_the_rank_is_numpys_for_every_number_of_samples() -> None:
    for n in range(1, 1200):
        values = np.arange(1, n + 1)
        for q in (0.5, 0.95, 0.99):
            rank = max(1, math.ceil(q * n))
            assert rank == np.quantile(values, q, method="inverted_cdf")


@unhurried
@given(values=durations, cut=st.integers(min_value=0, max_value=200))
def test_merging_parts_in_any_order_gives_the_sketch_of_the_whole(values: list[float], cut: int) -> None:
    first, second = sketch_of(values[:cut]), sketch_of(values[cut:])
    other = sketch_of(values[cut:])
    first.merge(second)
    other.merge(sketch_of(values[:cut]))
    assert first == other == sketch_of(values)
    assert first.total == len(values)


@unhurried
@given(values=durations)
def test_the_sparse_form_gives_the_same_sketch_back(values: list[float]) -> None:
    sketch = sketch_of(values)
    again = decode(encode(sketch))
    assert again == sketch
    assert again.total == sketch.total


def test_no_samples_is_no_quantile() -> None:
    assert Sketch().quantile(0.99) is None
    assert Sketch().quantiles([0.5, 0.95]) == [None, None]


def test_several_quantiles_are_the_single_ones() -> None:
    sketch = sketch_of([0.1] * 90 + [1.0] * 10)
    assert sketch.quantiles([0.5, 0.9, 0.91]) == [sketch.quantile(q) for q in (0.5, 0.9, 0.91)]


def test_what_is_shorter_than_the_floor_or_longer_than_an_hour_stays_in_the_outer_buckets() -> None:
    assert bucket_of(0.0) == bucket_of(FLOOR_SECONDS) == 0
    assert bucket_of(1e9) == BUCKETS - 1
    assert value_of(BUCKETS - 1) == pytest.approx(3600.0, rel=0.02)


def test_each_bucket_holds_the_value_that_stands_for_it() -> None:
    assert all(bucket_of(value_of(bucket)) == bucket for bucket in range(BUCKETS))
    assert value_of(1) / value_of(0) == pytest.approx(GAMMA)


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
def test_what_is_no_duration_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        Sketch().add(value)


@pytest.mark.parametrize("numbers", [[1], [BUCKETS, 1], [-1, 1], [3, 0]])
def test_a_sparse_form_that_no_sketch_has_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match=r"sparse sketch|out of range"):
        decode(numbers)


def test_a_sketch_says_its_size_and_equals_only_sketches() -> None:
    assert repr(sketch_of([0.1, 0.1, 0.2])) == "Sketch(total=3, buckets=2)"
    assert sketch_of([0.1]) != {0: 1}
