"""What all gateways say together of one draining replica: drained only when nobody can still route to it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.selectors import merge_drain


def report(name: str, *, version: int | None = 7, **mine: Any) -> dict[str, Any]:
    return {"process_id": name, "table_version": version, "replicas": {"r": mine} if mine else {}}


def merged(*reports: dict[str, Any], silent: tuple[str, ...] = ()) -> dict[str, Any]:
    return merge_drain(reports, replica_id="r", version=7, silent=silent)


def test_nothing_in_flight_on_new_tables_is_drained() -> None:
    found = merged(report("g1", in_flight=0, completed=4), report("g2", version=8))
    assert found["drained"]
    assert (found["gateways"], found["in_flight"], found["total"]) == (2, 0, 4)
    assert found["oldest_age"] is None
    assert found["waiting_for"] == []


def test_a_request_in_flight_anywhere_keeps_it_from_being_drained() -> None:
    found = merged(report("g1", in_flight=0, oldest_age=None), report("g2", in_flight=3, oldest_age=2.5))
    assert not found["drained"]
    assert (found["in_flight"], found["oldest_age"]) == (3, 2.5)


def test_the_oldest_request_of_all_gateways_is_the_oldest() -> None:
    found = merged(report("g1", in_flight=1, oldest_age=9.0), report("g2", in_flight=1, oldest_age=2.0))
    assert found["oldest_age"] == 9.0


def test_a_gateway_with_an_older_table_is_waited_for_by_name() -> None:
    found = merged(report("g2", version=6), report("g1"), report("g0", version=None))
    assert not found["drained"]
    assert found["waiting_for"] == ["g0", "g2"]


def test_a_gateway_that_fell_silent_is_waited_for() -> None:
    found = merged(report("g2", version=6), silent=("g1",))
    assert not found["drained"]
    assert found["waiting_for"] == ["g1", "g2"]


def test_without_any_gateway_nothing_can_be_in_flight() -> None:
    assert merged()["drained"]


def test_another_replicas_requests_do_not_count() -> None:
    other = {"process_id": "g", "table_version": 7, "replicas": {"s": {"in_flight": 5}}}
    assert merged(other)["drained"]


def test_cut_requests_are_summed_and_their_ids_are_bounded() -> None:
    one = report("g1", cut=70, cut_ids=[f"a{i}" for i in range(70)])
    two = report("g2", cut=60, cut_ids=[f"b{i}" for i in range(60)])
    found = merged(one, two)
    assert found["cut"] == 130
    assert len(found["cut_ids"]) == 100


@given(st.lists(st.tuples(st.none() | st.integers(5, 9), st.integers(0, 2)), max_size=5), st.integers(0, 2))
def test_drained_means_every_gateway_is_idle_and_up_to_date(rows: list[tuple[int | None, int]], silent: int) -> None:
    reports = [report(f"g{i}", version=version, in_flight=n) for i, (version, n) in enumerate(rows)]
    found = merged(*reports, silent=tuple(f"s{i}" for i in range(silent)))
    safe = all(version is not None and version >= 7 and n == 0 for version, n in rows) and not silent
    assert found["drained"] == safe
