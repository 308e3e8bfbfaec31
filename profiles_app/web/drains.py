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
    oldest_age: float | None
    seconds_left: float | None
    limit: float | None
    used: str
    gateways: list[Any]
    waiting_for: list[Any]
    drained: bool
    signalled: bool


def drain_view(replica: Replica, *, now: datetime) -> DrainView:
    """Read a draining replica's deadline and the gateways' merged report."""
    report: dict[str, Any] = replica.drain_report or {}
    deadline = replica.drain_deadline
    left = max(0.0, (deadline - now).total_seconds()) if deadline else None
    limit = (deadline - replica.phase_since).total_seconds() if deadline else None
    used = 100.0 if not limit or left is None else min(100.0, max(0.0, (limit - left) / limit * 100))
    waiting = report.get("waiting_for") or []
    return DrainView(
        replica=replica,
        in_flight=report.get("in_flight"),
        oldest_age=report.get("oldest_age"),
        seconds_left=left,
        limit=limit,
        used=f"{used:.1f}%",
        gateways=_gateways(report.get("gateways")),
        waiting_for=waiting if isinstance(waiting, list) else [waiting],
        drained=bool(report.get("drained")),
        signalled=replica.stop_signalled_at is not None,
    )


def _gateways(found: Any) -> list[Any]:
    """Gateways as rows with process_id and in_flight, whether the report holds a mapping or a list."""
    if isinstance(found, dict):
        rows = [row if isinstance(row, dict) else {"in_flight": row} for row in found.values()]
        return [{"process_id": name, **row} for name, row in zip(found, rows, strict=True)]
    return [row if isinstance(row, dict) else {"process_id": row} for row in found or []]
