"""The overview: what is worst, how the profiles stand, and how far the set-up is."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from profiles_app import selectors
from profiles_app.selectors import Viewer
from profiles_app.web.http import page
from profiles_app.web.rows import profile_rows
from profiles_app.web.verdicts import census, overview_verdict


@require_safe
@page
def overview(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The page, or only its changing part for htmx."""
    now = timezone.now()
    rows = profile_rows(viewer, now=now)
    steps = selectors.setup_steps()
    context = {
        "rows": rows,
        "verdict": overview_verdict(rows, steps),
        "census": census(rows, base=reverse("profiles:list")),
        "steps": steps if any(step.get("state") != "done" for step in steps) else [],
        "processes": selectors.processes(),
        "nodes": selectors.nodes(viewer),
        "replicas": f"{sum(row.ready for row in rows)} of {sum(row.wanted for row in rows)} replicas ready",
        "now": now,
        "operate": viewer.can_somewhere("operator"),
    }
    part = "#live" if request.headers.get("HX-Request") else ""
    return render(request, f"profiles_app/overview.html{part}", context)
