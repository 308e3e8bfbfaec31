"""Profiles: the list, one profile with its revisions and command, deploying it, and YAML in and out."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from profiles_app import selectors
from profiles_app.errors import DomainError
from profiles_app.models import Profile, Revision
from profiles_app.selectors import Viewer
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.profiles import profile_apply, profile_document, profile_export
from profiles_app.specs.revision import Change, diff
from profiles_app.web.command import command_of
from profiles_app.web.http import may, page
from profiles_app.web.numbers import whole
from profiles_app.web.rows import precision_text, profile_row, profile_rows
from profiles_app.web.specform import sections

MAX_YAML_BYTES = 200_000


@require_safe
@page
def profile_list(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """All profiles of the viewer, worst first; ``?state=`` shows one state only."""
    now = timezone.now()
    rows = profile_rows(viewer, now=now)
    wanted = request.GET.get("state", "")
    context = {
        "rows": [row for row in rows if not wanted or row.state == wanted],
        "total": len(rows),
        "wanted": wanted,
        "operate": viewer.can_somewhere("operator"),
    }
    return render(request, "profiles_app/profiles.html", context)


@require_safe
@page
def profile(request: HttpRequest, viewer: Viewer, name: str) -> HttpResponse:
    """One profile: its newest revision (or ``?revision=``) by part, the command, and the history."""
    row = selectors.profile_by_name(viewer, name)
    return render(request, "profiles_app/profile.html", _profile_context(request, viewer, row))


def _profile_context(request: HttpRequest, viewer: Viewer, row: Profile) -> dict[str, Any]:
    number = whole(request.GET.get("revision"))
    shown = selectors.revision_of(row, number)
    revisions = list(row.revisions.all())
    return {
        "profile": row,
        "row": profile_row(viewer, row, now=timezone.now()),
        "shown": shown,
        "newest": revisions[0],
        "precision": precision_text(shown),
        "sections": sections(shown.spec),
        "history": [(revision, _changes(revision, revisions)) for revision in revisions],
        "command": command_of(viewer, selectors.spec_of(shown), shown.model_version, name=row.name),
        "deployment": getattr(row, "deployment", None),
        **may(viewer, row.team.slug),
    }


def _changes(revision: Revision, revisions: list[Revision]) -> tuple[Change, ...]:
    """What the revision changed against the one before it; nothing for the first."""
    before = next((other for other in revisions if other.number == revision.number - 1), None)
    return diff(before.spec, revision.spec) if before else ()


@require_POST
@page
def deploy(request: HttpRequest, viewer: Viewer, name: str) -> HttpResponse:
    """Wish for replicas of one revision."""
    row = selectors.profile_by_name(viewer, name)
    revision = selectors.revision_of(row, whole(request.POST.get("revision")))
    replicas = whole(request.POST.get("replicas"))
    drain = whole(request.POST.get("drain_seconds"))
    if replicas is None or drain is None:
        raise DomainError("invalid_number", "Replicas and seconds of a drain must be whole numbers.", status=422)
    deployment = deployment_deploy(
        viewer, profile=row, revision=revision, replicas=replicas, drain_seconds=drain, now=timezone.now()
    )
    return redirect("profiles:deployment", deployment.id)


@require_safe
@page
def export(request: HttpRequest, viewer: Viewer, name: str) -> HttpResponse:
    """The profile as a YAML file."""
    row = selectors.profile_by_name(viewer, name)
    text = profile_export(row, selectors.revision_of(row, whole(request.GET.get("revision"))))
    headers = {"Content-Disposition": f'attachment; filename="{row.name}.yaml"'}
    return HttpResponse(text, content_type="application/yaml; charset=utf-8", headers=headers)


@require_http_methods(["GET", "POST"])
@page
def import_yaml(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Store a profile, or the next revision of it, from YAML."""
    viewer.require_somewhere("operator")
    error: DomainError | None = None
    text = ""
    if request.method == "POST":
        try:
            text = _posted_yaml(request)
            row, revision, created = profile_apply(viewer, document=profile_document(text), note="from YAML")
        except DomainError as refused:
            error = refused
        else:
            what = "Stored the profile" if created else f"Stored revision r{revision.number} of"
            messages.success(request, f"{what} {row.name}.")
            return redirect("profiles:profile", row.name)
    context = {"error": error, "text": text}
    return render(request, "profiles_app/import.html", context, status=422 if error else 200)


def _posted_yaml(request: HttpRequest) -> str:
    upload = request.FILES.get("file")
    if upload is None or isinstance(upload, list):
        return request.POST.get("yaml", "")
    if upload.size is None or upload.size > MAX_YAML_BYTES:
        raise DomainError("too_large", "A profile's YAML is at most 200 kB.", status=422, field="yaml")
    try:
        return str(upload.read().decode())
    except UnicodeDecodeError as error:
        raise DomainError("invalid_yaml", "The file is not UTF-8 text.", status=422, field="yaml") from error
