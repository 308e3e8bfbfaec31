"""The profile editor: a form made from the schema, checked on the server while a person types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from profiles_app import selectors
from profiles_app.errors import DomainError
from profiles_app.models import ModelVersion, Profile, Revision, Team
from profiles_app.selectors import Viewer
from profiles_app.services.profiles import SpecError, profile_create, revision_create, spec_check
from profiles_app.specs.revision import diff
from profiles_app.specs.schema import Problem, Spec
from profiles_app.web.command import Command, command_of
from profiles_app.web.http import page
from profiles_app.web.numbers import whole
from profiles_app.web.specform import FormField, data_from_form, sections, unplaced

STARTING_KV_MIB = 256


@dataclass(frozen=True, slots=True)
class Draft:
    """What the form holds: the spec's data, and the words around it."""

    data: Mapping[str, Any]
    name: str = ""
    team: str = ""
    description: str = ""
    note: str = ""
    problems: list[Problem] = field(default_factory=list)
    name_error: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the server says of a draft: problems, differences from the stored revision, and the command."""

    problems: list[Problem]
    changed: int
    spec: Spec | None
    command: Command | None
    weights_note: str = ""

    @property
    def precision(self) -> str:
        """The precision of the weights, with what the model version says about their origin."""
        weights = self.spec.precision.weights if self.spec else ""
        return f"{weights}, {self.weights_note}" if weights and self.weights_note else weights


@require_http_methods(["GET", "POST"])
@page
def new(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Store a new profile; ``?copy=`` starts from another one."""
    viewer.require_somewhere("operator")
    if request.method != "POST":
        return _form(request, viewer, _first_draft(request, viewer), base=None)
    draft = _posted(request)
    try:
        team = _team(viewer, draft.team)
        _refuse(draft.problems)
        row = profile_create(
            viewer, team=team, name=draft.name, spec=draft.data, description=draft.description, note=draft.note
        )
    except DomainError as error:
        return _form(request, viewer, _with(draft, error), base=None, status=422)
    messages.success(request, f"Stored {row.name} r1. Nothing runs until you deploy it.")
    return redirect("profiles:profile", row.name)


@require_http_methods(["GET", "POST"])
@page
def edit(request: HttpRequest, viewer: Viewer, name: str) -> HttpResponse:
    """Store the next revision of a profile; ``?from=`` starts from an older one."""
    row = selectors.profile_by_name(viewer, name)
    viewer.require(row.team.slug, "operator", what=f"Profile {name}")
    newest = selectors.revision_of(row)
    if request.method != "POST":
        start = selectors.revision_of(row, whole(request.GET.get("from")))
        return _form(request, viewer, Draft(start.spec, name=name, team=row.team.slug), base=newest)
    draft = _posted(request, name=name)
    try:
        _refuse(draft.problems)
        revision = revision_create(viewer, profile=row, spec=draft.data, note=draft.note)
    except DomainError as error:
        return _form(request, viewer, _with(draft, error), base=newest, status=422)
    if revision.number == newest.number:
        messages.info(request, f"Nothing differs from r{newest.number}, so no revision was stored.")
    else:
        messages.success(request, f"Stored {name} r{revision.number}. What runs is unchanged until you deploy it.")
    return redirect("profiles:profile", name)


@require_POST
@page
def check(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """What the server says of the form as it stands; writes nothing."""
    name = request.POST.get("profile", "")
    row = selectors.profile_by_name(viewer, name) if name else None
    draft = _posted(request, name=name or request.POST.get("name", ""))
    base = selectors.revision_of(row) if row else None
    checked = _check(viewer, draft, base=base)
    fields = {form_field.path: _spoken(form_field) for form_field in _fields(viewer, draft, base, checked.problems)}
    context = {"checked": checked, "fields": fields, "unplaced": unplaced(checked.problems), "base": base}
    return render(request, "profiles_app/_check.html", context)


def _form(
    request: HttpRequest, viewer: Viewer, draft: Draft, *, base: Revision | None, status: int = 200
) -> HttpResponse:
    checked = _check(viewer, draft, base=base)
    problems = checked.problems if status == 422 else []
    context = {
        "draft": draft,
        "base": base,
        "sections": _sections(viewer, draft, base, problems),
        "checked": checked,
        "weights_note": checked.weights_note,
        "fields": {row.path: _spoken(row) for row in _fields(viewer, draft, base, checked.problems)},
        "unplaced": unplaced(checked.problems),
        "refused": status == 422,
        "teams": _teams(viewer),
    }
    return render(request, "profiles_app/editor.html", context, status=status)


def _spoken(row: FormField) -> dict[str, Any]:
    """What the page's script marks a field with."""
    return {"problems": list(row.problems), "was": row.was}


def _sections(viewer: Viewer, draft: Draft, base: Revision | None, problems: list[Problem]) -> Any:
    return sections(
        draft.data, base=base.spec if base else None, problems=problems, choices=_choices(viewer, draft.data)
    )


def _fields(viewer: Viewer, draft: Draft, base: Revision | None, problems: list[Problem]) -> list[FormField]:
    return [row for part in _sections(viewer, draft, base, problems) for row in part.fields]


def _choices(viewer: Viewer, data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Known models, and versions of the one that is chosen."""
    versions = list(selectors.model_versions(viewer))
    chosen = (data.get("model") or {}).get("name")
    return {
        "model.name": sorted({row.model.name for row in versions}),
        "model.version": [row.label for row in versions if not chosen or row.model.name == chosen],
    }


def _check(viewer: Viewer, draft: Draft, *, base: Revision | None) -> Checked:
    spec, found = spec_check(draft.data, is_admin=viewer.can(draft.team or "default", "admin"))
    problems = [*draft.problems, *found]
    if spec is None:
        return Checked(problems, 0, None, None)
    version = _version(viewer, spec)
    changed = len(diff(base.spec, spec.model_dump(mode="json"))) if base else 0
    command = _command(viewer, spec, version, name=draft.name, base=base) if version else None
    return Checked(problems, changed, None if problems else spec, command, version.weights_note if version else "")


def _command(viewer: Viewer, spec: Spec, version: ModelVersion, *, name: str, base: Revision | None) -> Command:
    if base is None:
        return command_of(viewer, spec, version, name=name)
    before = command_of(viewer, selectors.spec_of(base), base.model_version, name=name)
    return command_of(viewer, spec, version, name=name, base=before.lines)


def _version(viewer: Viewer, spec: Spec) -> ModelVersion | None:
    rows = selectors.model_versions(viewer)
    return rows.filter(model__name=spec.model.name, label=spec.model.version).first()


def _posted(request: HttpRequest, *, name: str | None = None) -> Draft:
    data, problems = data_from_form(request.POST)
    return Draft(
        data=data,
        name=request.POST.get("name", "").strip() if name is None else name,
        team=request.POST.get("team", ""),
        description=request.POST.get("description", "").strip(),
        note=request.POST.get("note", "").strip(),
        problems=problems,
    )


def _with(draft: Draft, error: DomainError) -> Draft:
    """The draft with the refusal at its field."""
    problems = list(draft.problems)
    if not isinstance(error, SpecError) and error.field != "name":
        problems = problems or [(error.field or "", error.message)]
    name_error = error.message if error.field == "name" else ""
    return Draft(draft.data, draft.name, draft.team, draft.description, draft.note, problems, name_error)


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise SpecError(problems)


def _first_draft(request: HttpRequest, viewer: Viewer) -> Draft:
    copied = request.GET.get("copy")
    if copied:
        source: Profile = selectors.profile_by_name(viewer, copied)
        return Draft(selectors.revision_of(source).spec, name=f"{source.name}-copy", description=source.description)
    version = selectors.model_versions(viewer).first()
    model = {"name": version.model.name, "version": version.label} if version else {"name": "", "version": ""}
    return Draft({"model": model, "batching": {"kv_cache_mib": STARTING_KV_MIB}})


def _teams(viewer: Viewer) -> list[Team]:
    return [team for team in Team.objects.filter(slug__in=viewer.teams()) if viewer.can(team.slug, "operator")]


def _team(viewer: Viewer, slug: str) -> Team:
    mine = _teams(viewer)
    team = next((row for row in mine if row.slug == slug), None)
    if team is None:
        raise DomainError("invalid_team", "Choose one of your teams.", status=422, field="team")
    return team
