"""What capacity cost: claims, busy time and the price row in force at that time. Money is Decimal.

The rule for a change of price: a span of time is priced with the row in force at its first second,
and rows take effect on whole minutes, so that every roll-up tier gives the same sum. Of two rows with the same
start the newer one counts: that is how a mistyped price is corrected without editing history.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

MICRO = 1_000_000
_MICRO_SECONDS_AN_HOUR = Decimal(3600 * MICRO)
CORE_HOUR = "core_hour"
GPU_HOUR = "gpu_hour"


@dataclass(frozen=True, slots=True)
class PriceRow:
    """A price: US dollars for one unit of an accelerator for an hour, from `valid_from` (epoch s)."""

    id: int
    accelerator: str
    usd: Decimal
    valid_from: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What a replica holds: `units` cores of "cpu", or that many GPUs of the named kind."""

    accelerator: str
    units: Decimal


def claim_of(stored: Mapping[str, object]) -> Claim | None:
    """Return the claim of a replica's stored form, or None when it holds nothing that can be priced.

    Stored form: `{"accelerator": "cpu", "cores": 1.0, "gpu_uuids": [...], "device_name": "cpu"}`. A GPU is priced
    by the name that its node reports.
    """
    accelerator = stored.get("accelerator")
    if not isinstance(accelerator, str) or not accelerator:
        return None
    gpus = stored.get("gpu_uuids")
    amount = stored.get("cores") if accelerator == "cpu" else len(gpus) if isinstance(gpus, Sequence) else None
    if not isinstance(amount, int | float) or amount <= 0:
        return None
    device = stored.get("device_name")
    return Claim(device if isinstance(device, str) and device else accelerator, Decimal(str(amount)))


def unit_seconds(claim: Claim, seconds: float) -> int:
    """Return micro-unit-seconds of holding a claim for that long, rounded to the nearest."""
    return int((claim.units * Decimal(str(seconds)) * MICRO).to_integral_value())


def unit_of(accelerator: str) -> str:
    """Return the unit in which an accelerator is priced."""
    return CORE_HOUR if accelerator == "cpu" else GPU_HOUR


class PriceBook:
    """The price rows, ordered once, asked often."""

    def __init__(self, rows: Iterable[PriceRow]) -> None:
        self._rows: dict[str, list[PriceRow]] = {}
        for row in sorted(rows, key=lambda row: (row.valid_from, row.id), reverse=True):
            self._rows.setdefault(row.accelerator, []).append(row)

    def at(self, accelerator: str, when: float) -> PriceRow | None:
        """Return the row in force at a time (epoch seconds), or None when there was none yet."""
        rows = self._rows.get(accelerator, [])
        return next((row for row in rows if row.valid_from <= when), None)

    def cost(self, amounts: Mapping[str, int], *, when: float) -> Decimal | None:
        """Return US dollars for micro-unit-seconds by accelerator, or None when a price is missing."""
        total = Decimal(0)
        for accelerator, amount in amounts.items():
            if amount == 0:
                continue
            row = self.at(accelerator, when)
            if row is None:
                return None
            total += row.usd * amount / _MICRO_SECONDS_AN_HOUR
        return total

    def priced(self, accelerators: Iterable[str], *, when: float) -> bool:
        """Say whether every accelerator has a price row in force."""
        return all(self.at(accelerator, when) is not None for accelerator in accelerators)


@dataclass(frozen=True, slots=True)
class Busy:
    """One gateway's report: when it was made (epoch s) and cumulative busy seconds by replica id."""

    at: float
    replicas: Mapping[str, float]


# How long a silent gateway's marks are kept: longer than its lease, so a missed report loses nothing.
_MARK_SECONDS = 60.0


@dataclass(slots=True)
class BusyMeter:
    """Turns the gateways' growing `busy_seconds` into busy time per replica and pass.

    A gateway never seen before is new and counts from 0: all it reports is new time, unless this is the
    meter's first pass, which only sets the marks. A figure that fell means a restart: it counts whole.
    Several gateways may be busy on one replica at once, so their sum is clamped to the time reported on.
    """

    _marks: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    _last: float | None = None

    def advance(self, reports: Mapping[str, Busy], *, now: float) -> dict[str, float]:
        """Return busy seconds per replica id since the pass before; `reports` is keyed by process id."""
        start = now if self._last is None else self._last
        grown: dict[str, float] = {}
        spans: dict[str, float] = {}
        for process, report in reports.items():
            for replica, seconds in report.replicas.items():
                before, since = self._marks.get((process, replica), (0.0, start))
                growth = seconds - before if seconds >= before else seconds
                grown[replica] = grown.get(replica, 0.0) + growth
                spans[replica] = max(spans.get(replica, 0.0), report.at - since)
                self._marks[(process, replica)] = (seconds, max(report.at, since))
        self._marks = {name: mark for name, mark in self._marks.items() if mark[1] > now - _MARK_SECONDS}
        self._last = now
        return {replica: min(seconds, spans[replica]) for replica, seconds in grown.items()}
