"""Prices, claims and busy time: corrections, changes and resets."""

from decimal import Decimal

import pytest

from monitoring.ledger import (
    CORE_HOUR,
    GPU_HOUR,
    Busy,
    BusyMeter,
    Claim,
    PriceBook,
    PriceRow,
    claim_of,
    unit_of,
    unit_seconds,
)

NOON = 12 * 3600.0
HOUR = 3600 * 1_000_000


def book() -> PriceBook:
    return PriceBook(
        [
            PriceRow(1, "cpu", Decimal("0.04"), 0.0),
            PriceRow(2, "cpu", Decimal("0.08"), NOON),
            PriceRow(3, "H100", Decimal("4.50"), NOON),
        ]
    )


def test_before_noon_the_old_price_holds_and_from_noon_the_new_one() -> None:
    assert book().cost({"cpu": HOUR}, when=NOON - 1) == Decimal("0.04")
    assert book().cost({"cpu": HOUR}, when=NOON) == Decimal("0.08")


def test_a_correction_is_a_newer_row_with_the_same_start() -> None:
    rows = [PriceRow(1, "cpu", Decimal(400), 0.0), PriceRow(2, "cpu", Decimal("0.04"), 0.0)]
    assert PriceBook(rows).cost({"cpu": HOUR}, when=5.0) == Decimal("0.04")
    assert PriceBook(reversed(rows)).at("cpu", 5.0) == rows[1]


def test_without_a_price_row_there_is_no_cost_and_not_a_cost_of_nothing() -> None:
    assert book().cost({"H100": HOUR}, when=NOON - 1) is None
    assert book().cost({"cpu": HOUR, "L4": 1}, when=NOON) is None
    assert book().cost({"L4": 0}, when=NOON) == 0
    assert not book().priced(["cpu", "L4"], when=NOON)
    assert book().priced(["cpu", "H100"], when=NOON)


def test_two_gpus_for_half_an_hour_cost_one_gpu_hour() -> None:
    held = unit_seconds(Claim("H100", Decimal(2)), 1800.0)
    assert book().cost({"H100": held}, when=NOON) == Decimal("4.50")


def test_parts_of_a_span_add_up_to_the_span_to_the_cent() -> None:
    claim = Claim("cpu", Decimal("1.5"))
    parts = sum(unit_seconds(claim, 0.1) for _ in range(36_000))
    assert parts == unit_seconds(claim, 3600.0)


def test_claims_are_priced_by_cores_or_by_gpus() -> None:
    assert claim_of({"accelerator": "cpu", "cores": 1.5, "gpu_uuids": []}) == Claim("cpu", Decimal("1.5"))
    assert claim_of({"accelerator": "H100", "cores": 8, "gpu_uuids": ["a", "b"]}) == Claim("H100", Decimal(2))
    placed = {"accelerator": "gpu", "cores": 0, "gpu_uuids": ["a"], "device_name": "NVIDIA L40S"}
    assert claim_of(placed) == Claim("NVIDIA L40S", Decimal(1))
    assert (unit_of("cpu"), unit_of("H100")) == (CORE_HOUR, GPU_HOUR)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"accelerator": ""},
        {"accelerator": 7},
        {"accelerator": "cpu"},
        {"accelerator": "cpu", "cores": 0},
        {"accelerator": "H100", "gpu_uuids": []},
        {"accelerator": "H100", "gpu_uuids": 2},
    ],
)
def test_a_claim_that_holds_nothing_is_none(stored: dict[str, object]) -> None:
    assert claim_of(stored) is None


def report(at: float, **seconds: float) -> Busy:
    return Busy(at=at, replicas=seconds)


def test_the_first_pass_only_sets_the_marks() -> None:
    meter = BusyMeter()
    assert meter.advance({"g": report(100.0, a=812.4)}, now=100.0) == {"a": 0.0}
    assert meter.advance({"g": report(101.0, a=813.0)}, now=101.0) == {"a": pytest.approx(0.6)}


def test_a_restarted_gateway_loses_nothing_and_gives_no_spike() -> None:
    meter = BusyMeter()
    meter.advance({"g1": report(100.0, a=500.0)}, now=100.0)
    assert meter.advance({"g2": report(101.0, a=0.4)}, now=101.0) == {"a": pytest.approx(0.4)}
    assert meter.advance({"g2": report(102.0, a=0.1)}, now=102.0) == {"a": pytest.approx(0.1)}


def test_a_missed_report_is_caught_up_and_a_repeated_one_counts_once() -> None:
    meter = BusyMeter()
    meter.advance({"g": report(100.0, a=10.0)}, now=100.0)
    assert meter.advance({}, now=101.0) == {}
    assert meter.advance({"g": report(102.0, a=12.0)}, now=102.0) == {"a": pytest.approx(2.0)}
    assert meter.advance({"g": report(102.0, a=12.0)}, now=103.0) == {"a": 0.0}


def test_two_gateways_busy_at_once_are_not_twice_the_time() -> None:
    meter = BusyMeter()
    meter.advance({"g": report(100.0, a=0.0), "h": report(100.0, a=0.0)}, now=100.0)
    busy = meter.advance({"g": report(101.0, a=0.9), "h": report(101.0, a=0.8)}, now=101.0)
    assert busy == {"a": pytest.approx(1.0)}


def test_marks_of_gateways_that_are_gone_are_forgotten() -> None:
    meter = BusyMeter()
    meter.advance({"g": report(100.0, a=50.0)}, now=100.0)
    meter.advance({}, now=200.0)
    assert meter.advance({"g": report(201.0, a=51.0)}, now=201.0) == {"a": pytest.approx(1.0)}
    assert list(meter._marks) == [("g", "a")]
