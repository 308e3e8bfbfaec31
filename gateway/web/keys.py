"""API keys: the list, making one (shown once), ending one."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from gateway.models import ApiKey
from gateway.selectors import key_by_id, keys
from gateway.services import key_create, key_revoke
from profiles_app import selectors
from profiles_app.errors import DomainError
from profiles_app.models import Team
from profiles_app.selectors import Viewer
from profiles_app.web.http import page
from profiles_app.web.numbers import whole

LIFETIMES = (("", "never"), ("7", "in 7 days"), ("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year"))


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What was typed into the form for a new key."""

    name: str = ""
    team: str = ""
    scope: str = "all"
    profiles: list[str] = field(default_factory=list)
    concurrency: str = ""
    days: str = "90"


@never_cache
@require_http_methods(["GET", "POST"])
@page
def key_page(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The viewer's keys, and the form for a new one; the answer to a POST shows the key this once."""
    if request.method != "POST":
        return _render(request, viewer, KeyForm())
    form = _posted(request)
    try:
        row, key = _create(viewer, form, now=timezone.now())
    except DomainError as error:
        return _render(request, viewer, form, error=error)
    return _render(request, viewer, KeyForm(), made=row, key=key)


def _posted(request: HttpRequest) -> KeyForm:
    return KeyForm(
        name=request.POST.get("name", ""),
        team=request.POST.get("team", ""),
        scope=request.POST.get("scope", "all"),
        profiles=request.POST.getlist("profiles"),
        concurrency=request.POST.get("max_concurrency", "").strip(),
        days=request.POST.get("days", ""),
    )


def _create(viewer: Viewer, form: KeyForm, *, now: datetime) -> tuple[ApiKey, str]:
    team = Team.objects.filter(slug=form.team, slug__in=viewer.teams()).first()
    if team is None:
        raise DomainError("invalid_team", "Choose one of your teams.", status=422, field="team")
    concurrency = whole(form.concurrency)
    if form.concurrency and concurrency is None:
        sentence = "Requests at once must be a whole number, or empty."
        raise DomainError("invalid_number", sentence, status=422, field="max_concurrency")
    days = whole(form.days)
    chosen = [row for row in selectors.profiles(viewer).filter(name__in=form.profiles)] if form.scope != "all" else []
    return key_create(
        viewer,
        team=team,
        name=form.name,
        profiles=chosen,
        all_profiles=form.scope == "all",
        max_concurrency=concurrency,
        expires_at=now + timedelta(days=days) if days else None,
        now=now,
    )


def _render(
    request: HttpRequest,
    viewer: Viewer,
    form: KeyForm,
    *,
    error: DomainError | None = None,
    made: ApiKey | None = None,
    key: str = "",
) -> HttpResponse:
    now = timezone.now()
    rows = [(row, _state(row, now=now), viewer.can(row.team.slug, "operator")) for row in keys(viewer)]
    mine = Team.objects.filter(slug__in=viewer.teams())
    context = {
        "rows": rows,
        "active": sum(state == "active" for _, state, _ in rows),
        "form": form,
        "error": error,
        "made": made,
        "key": key,
        "teams": [team for team in mine if viewer.can(team.slug, "operator")],
        "profiles": selectors.profiles(viewer),
        "lifetimes": LIFETIMES,
        "gateway": gateway_address(request),
    }
    return render(request, "gateway/keys.html", context, status=error.status if error else 200)


def gateway_address(request: HttpRequest) -> str:
    """Where clients of this installation send requests, as far as the page's own address tells."""
    return f"http://{request.get_host().rpartition(':')[0] or request.get_host()}:{settings.FOREBAY.gateway_port}"


def _state(row: ApiKey, *, now: datetime) -> str:
    if row.revoked_at:
        return "revoked"
    return "expired" if row.expires_at and row.expires_at <= now else "active"


@require_POST
@page
def revoke(request: HttpRequest, viewer: Viewer, pk: str) -> HttpResponse:
    """End a key."""
    row = key_by_id(viewer, pk)
    key_revoke(viewer, key=row, now=timezone.now())
    messages.success(request, f"{row.name} is revoked. Gateways refuse it within a second or two.")
    return redirect("gateway:keys")
