"""Pages of monitoring: live comparison, live profile, prices, requests."""

import time
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods, require_safe

from monitoring import selectors, services
from monitoring.catalog import CHARTS
from monitoring.live import MOST_SOCKET_TOPICS
from monitoring.verdicts import live_verdict
from monitoring.web.forms import PriceForm
from monitoring.web.rows import live_rows, usage_row
from monitoring.web.stats import stats_of
from profiles_app.errors import DomainError
from profiles_app.selectors import Viewer, profile_by_name, profiles
from profiles_app.web.http import page

RANGES = ((5, "5 min"), (15, "15 min"), (60, "1 h"), (360, "6 h"), (1440, "24 h"), (10080, "7 d"))
USAGE_PAGE = 50
OUTCOMES = ("completed", "cut", "client_gone", "upstream_error", "refused")


@require_safe
@page
def live_index(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """All profiles that the viewer sees, side by side over the last minute."""
    rows = live_rows(selectors.live_summary(viewer=viewer, now=time.time()))
    watched = [row.profile for row in rows[:MOST_SOCKET_TOPICS]]
    return render(request, "monitoring/live_index.html", {"rows": rows, "topics": _topics(watched)})


@require_safe
@page
def live_profile(request: HttpRequest, viewer: Viewer, profile: str) -> HttpResponse:
    """One profile: verdict, figures, charts. The charts are filled from REST by the page's script."""
    row = profile_by_name(viewer, profile)
    now = time.time()
    data = selectors.live_now(viewer=viewer, profile=profile, now=now)
    promised = selectors.promises(row)
    context = {
        "profile": row,
        "others": live_rows(selectors.live_summary(viewer=viewer, now=now)),
        "minutes": _minutes(request),
        "ranges": RANGES,
        "charts": CHARTS,
        "stats": stats_of(data),
        "topics": _topics([profile]),
        "api_url": reverse("api-live", args=[profile]),
        "verdict": live_verdict(profile=profile, data=data, promises=promised),
        "promised": promised,
        "unpriced": selectors.unpriced(row, now=now),
    }
    return render(request, "monitoring/live_profile.html", context)


def _minutes(request: HttpRequest) -> int:
    asked = request.GET.get("minutes", "")
    offered = {str(minutes): minutes for minutes, _ in RANGES}
    return offered.get(asked, 15)


def _topics(names: list[str]) -> str:
    return ",".join(f"profile:{name}" for name in names)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def prices(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Price rows, and a form that adds one for those who may."""
    may_add = viewer.can_somewhere("admin")
    form = PriceForm(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        viewer.require_somewhere("admin")
        if form.is_valid() and _price_added(viewer, form):
            return redirect("monitoring:prices")
    rows = Paginator(selectors.prices(viewer), 50).get_page(request.GET.get("page"))
    status = 422 if form.is_bound else 200
    return render(request, "monitoring/prices.html", {"page": rows, "form": form, "may_add": may_add}, status=status)


def _price_added(viewer: Viewer, form: PriceForm) -> bool:
    try:
        services.price_create(viewer, **form.cleaned_data)
    except DomainError as error:
        form.add_error(error.field, error.message)
        return False
    return True


@require_safe
@page
def requests(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Requests of the viewer's teams, newest first; filters and page are in the address."""
    filters: dict[str, Any] = {
        "profile": request.GET.get("profile") or None,
        "outcome": request.GET.get("outcome") if request.GET.get("outcome") in OUTCOMES else None,
        "since": _moment(request.GET.get("since")),
    }
    rows = selectors.usage_records(viewer=viewer, **filters)
    found = selectors.usage_page(rows, after=request.GET.get("after"), size=USAGE_PAGE)
    kept = {name: request.GET[name] for name in filters if request.GET.get(name)}
    context = {
        "rows": [usage_row(row) for row in found.rows],
        "next_query": urlencode({**kept, "after": found.next_key}) if found.next_key else "",
        "first_query": urlencode(kept),
        "is_first": not request.GET.get("after"),
        "filters": filters,
        "outcomes": OUTCOMES,
        "profiles": list(profiles(viewer).values_list("name", flat=True)),
        "since": request.GET.get("since", ""),
        "filtered": bool(kept),
    }
    return render(request, "monitoring/requests.html", context)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = parse_datetime(text or "")
    except ValueError:
        return None
    return timezone.make_aware(moment) if moment and timezone.is_naive(moment) else moment
