"""How far a drain is: requests in flight, time left, and what each gateway still holds."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from profiles_app.models import Replica


@dataclass(frozen=True, slots=True)
class DrainView:
    """One draining replica. ``in_flight`` None: no gateway has reported yet. ``used`` is percent of the limit."""

    replica: Replica
    in_flight: int | None
    completed: int | None
    cut: int | None
    oldest_age: float | None
    seconds_left: float | None
    limit: float | None
    used: str
    gateways: int | None
    waiting_for: list[str]
    unknown: str
    drained: bool
    signalled: bool


def drain_view(replica: Replica, *, now: datetime) -> DrainView:
    """Read a draining replica's deadline and the gateways' merged report."""
    report: dict[str, Any] = replica.drain_report or {}
    deadline = replica.drain_deadline
    left = max(0.0, (deadline - now).total_seconds()) if deadline else None
    limit = (deadline - replica.phase_since).total_seconds() if deadline else None
    used = 100.0 if not limit or left is None else min(100.0, max(0.0, (limit - left) / limit * 100))
    return DrainView(
        replica=replica,
        in_flight=report.get("in_flight"),
        completed=report.get("completed"),
        cut=report.get("cut"),
        oldest_age=report.get("oldest_age"),
        seconds_left=left,
        limit=limit,
        used=f"{used:.1f}%",
        gateways=report.get("gateways"),
        waiting_for=list(report.get("waiting_for") or []),
        unknown=str(report.get("unknown") or ""),
        drained=bool(report.get("drained")),
        signalled=replica.stop_signalled_at is not None,
    )
