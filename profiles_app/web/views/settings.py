"""Settings and doctor: what the host reports of its own processes, set-up and problems."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from profiles_app import selectors
from profiles_app.selectors import Viewer
from profiles_app.web.findings import findings
from profiles_app.web.http import page


@require_safe
@page
def settings_page(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Processes, set-up steps and findings."""
    steps, processes = selectors.setup_steps(), selectors.processes()
    problems = {node.name: list(node.problems) for node in selectors.nodes(viewer)}
    context = {
        "steps": steps,
        "processes": processes,
        "findings": findings(steps=steps, processes=processes, nodes=problems),
        "installs": selectors.engine_installs(viewer),
    }
    return render(request, "profiles_app/settings.html", context)
