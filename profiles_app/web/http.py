"""From a request to a viewer, and from a refusal to a page."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from profiles_app.errors import DomainError
from profiles_app.selectors import Viewer, viewer_for

type Page = Callable[..., HttpResponseBase]


def page(view: Page) -> Page:
    """Log-in is needed; the view gets (request, viewer, ...); a refusal that it lets through becomes a page."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        viewer = viewer_for(request.user)
        try:
            return view(request, viewer, *args, **kwargs)
        except DomainError as error:
            return refusal(request, error)

    return login_required(inner)


def refusal(request: HttpRequest, error: DomainError) -> HttpResponse:
    """The page of a refusal, with its own status."""
    if error.status == 404:
        return render(request, "404.html", status=404)
    if error.status == 403:
        return render(request, "403.html", {"message": error.message}, status=403)
    context = {"headline": error.message, "back": request.headers.get("Referer", "/")}
    return render(request, "message.html", context, status=error.status)


def may(viewer: Viewer, team_slug: str) -> dict[str, bool]:
    """What the viewer may do in the team, for templates that hide what would be refused."""
    return {"operate": viewer.can(team_slug, "operator"), "administer": viewer.can(team_slug, "admin")}
