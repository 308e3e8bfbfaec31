"""Deployments: the list, and one with its replicas, drain, timeline and log."""

from datetime import datetime
from statistics import median
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from profiles_app import selectors
from profiles_app.errors import DomainError
from profiles_app.models import Deployment, Replica
from profiles_app.selectors import Viewer
from profiles_app.selectors.lists import deployment_states
from profiles_app.selectors.replicas import startup_seconds
from profiles_app.services.deployments import deployment_retry, deployment_scale, deployment_stop
from profiles_app.states import ReplicaPhase
from profiles_app.web.drains import drain_view
from profiles_app.web.http import may, page
from profiles_app.web.numbers import whole
from profiles_app.web.rows import profile_row, profile_rows
from profiles_app.web.timeline import timeline
from profiles_app.web.verdicts import deployment_verdict

MOST_REPLICAS_IN_LOG = 12


@require_safe
@page
def deployment_list(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """All deployments of the viewer, worst first."""
    now = timezone.now()
    rows = [row for row in profile_rows(viewer, now=now) if row.deployment_id]
    context = {"rows": rows, "operate": viewer.can_somewhere("operator")}
    return render(request, "profiles_app/deployments.html", context)


@require_safe
@page
def deployment(request: HttpRequest, viewer: Viewer, pk: str) -> HttpResponse:
    """One deployment, or only its changing part for htmx."""
    row = selectors.deployment_by_id(viewer, pk)
    context = _context(viewer, row, now=timezone.now())
    part = "#live" if request.headers.get("HX-Request") else ""
    return render(request, f"profiles_app/deployment.html{part}", context)


def _context(viewer: Viewer, row: Deployment, *, now: datetime) -> dict[str, Any]:
    profile = selectors.profile_by_name(viewer, row.profile.name)
    summary = profile_row(viewer, profile, now=now)
    state = deployment_states([row], now=now)[row.pk]
    moves = selectors.transitions_of(row)
    starts = startup_seconds(profile_name=row.profile.name)
    recent = _recent(row)
    return {
        "deployment": row,
        "row": summary,
        "failed_slots": state.failed_slots,
        "verdict": deployment_verdict(summary, generation_behind=row.observed_generation < row.generation),
        "replicas": [replica for replica in recent if replica.phase not in ("stopped", "failed")],
        "ended": [replica for replica in recent if replica.phase in ("stopped", "failed")],
        "logs": recent,
        "drains": [
            drain_view(replica, now=now) for replica in state.replicas if replica.phase == ReplicaPhase.DRAINING
        ],
        "timeline": timeline(_histories(moves, recent), now=now, usual_start=median(starts) if starts else None),
        "starts": len(starts),
        "revisions": list(profile.revisions.all()),
        "now": now,
        **may(viewer, row.team.slug),
    }


def _recent(row: Deployment) -> list[Replica]:
    """The newest replicas, open ones first: those whose log a person may want."""
    rows = list(row.replicas.select_related("node", "revision").order_by("-created_at")[:MOST_REPLICAS_IN_LOG])
    return sorted(rows, key=lambda replica: replica.phase in ("stopped", "failed"))


def _histories(moves: list[Any], recent: list[Replica]) -> list[tuple[str, list[Any]]]:
    """Moves in order of time, by replica; the newest replicas only."""
    by_replica: dict[Any, list[Any]] = {}
    for move in reversed(moves):
        by_replica.setdefault(move.replica_id, []).append(move)
    return [
        (f"#{replica.slot} {str(replica.id)[:8]}", by_replica[replica.id])
        for replica in recent
        if replica.id in by_replica
    ]


@require_POST
@page
def scale(request: HttpRequest, viewer: Viewer, pk: str) -> HttpResponse:
    """Wish for another number of replicas."""
    row = selectors.deployment_by_id(viewer, pk)
    replicas = whole(request.POST.get("replicas"))
    if replicas is None:
        raise DomainError("invalid_number", "Replicas must be a whole number.", status=422, field="replicas")
    deployment_scale(viewer, deployment=row, replicas=replicas, now=timezone.now())
    messages.success(request, f"{row.profile.name} is to have {replicas} replicas.")
    return redirect("profiles:deployment", row.id)


@require_POST
@page
def stop(request: HttpRequest, viewer: Viewer, pk: str) -> HttpResponse:
    """Drain and stop every replica; 0 seconds cut what is in flight."""
    row = selectors.deployment_by_id(viewer, pk)
    seconds = whole(request.POST.get("drain_seconds"))
    if seconds is None:
        raise DomainError("invalid_number", "Seconds must be a whole number.", status=422, field="drain_seconds")
    deployment_stop(viewer, deployment=row, drain_seconds=seconds, now=timezone.now())
    messages.success(request, f"{row.profile.name} drains for at most {seconds} s and stops.")
    return redirect("profiles:deployment", row.id)


@require_POST
@page
def retry(request: HttpRequest, viewer: Viewer, pk: str) -> HttpResponse:
    """Try slots again that were given up."""
    row = selectors.deployment_by_id(viewer, pk)
    deployment_retry(viewer, deployment=row, now=timezone.now())
    messages.success(request, f"{row.profile.name} is tried again.")
    return redirect("profiles:deployment", row.id)
