"""Writes profiles, revisions and model versions."""

from collections.abc import Mapping
from typing import Any

import yaml
from django.db import IntegrityError, transaction
from django.db.models import Max

from profiles_app.errors import DomainError, NotFoundError
from profiles_app.models import Model, ModelVersion, Profile, Revision, Team
from profiles_app.selectors.fleet import known_flags
from profiles_app.selectors.viewer import Viewer
from profiles_app.services.audit import audit_record
from profiles_app.specs.engine_args import DTYPES, QUANTIZATIONS, check_extra_args
from profiles_app.specs.revision import spec_hash
from profiles_app.specs.schema import Problem, Spec, parse, to_data
from profiles_app.wakeups import wake_gateway

NAME_RULE = "A profile's name has 1 to 63 lower-case letters, digits and single hyphens, and starts with a letter."


class SpecError(DomainError):
    """A spec that cannot be stored; ``problems`` holds one (field path, sentence) each."""

    def __init__(self, problems: list[Problem]) -> None:
        path, sentence = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__("invalid_spec", f"{path}: {sentence}{more}", status=422, field=path)
        self.problems = problems


def spec_check(data: Mapping[str, Any], *, is_admin: bool) -> tuple[Spec | None, list[Problem]]:
    """Read and judge a spec against its schema, the models and the installed engine. Writes nothing."""
    spec, problems = parse(data)
    if spec is None:
        return None, problems
    problems = [*_model_problems(spec), *check_extra_args(spec, known=known_flags(), is_admin=is_admin)]
    return (None, problems) if problems else (spec, [])


def _model_problems(spec: Spec) -> list[Problem]:
    version = _model_version(spec)
    if version is None:
        known = [f"{v.model.name}@{v.label}" for v in ModelVersion.objects.select_related("model")[:5]]
        hint = f"Known: {', '.join(known)}." if known else "No model is stored yet; add one first."
        return [("model.version", f"{spec.model.name}@{spec.model.version} is not a stored model version. {hint}")]
    problems = []
    weights = spec.precision.weights
    if weights not in DTYPES | QUANTIZATIONS and weights != version.weights_dtype:
        problems.append(
            ("precision.weights", f"The weights are {version.weights_dtype}; the engine cannot make {weights} of them.")
        )
    if spec.compute.accelerator == "cpu" and weights == "fp8":
        problems.append(("precision.weights", "The CPU engine has no fp8 kernels; use bf16 or fp32."))
    if version.max_context and spec.batching.max_model_len > version.max_context:
        problems.append(
            ("batching.max_model_len", f"The model has {version.max_context} positions; set at most that many.")
        )
    return problems


def _model_version(spec: Spec) -> ModelVersion | None:
    rows = ModelVersion.objects.filter(model__name=spec.model.name, label=spec.model.version)
    return rows.select_related("model").first()


def _name_is_good(name: str) -> bool:
    return (
        0 < len(name) <= 63
        and name[0].isascii()
        and name[0].islower()
        and not name.endswith("-")
        and "--" not in name
        and all(sign == "-" or (sign.isascii() and (sign.islower() or sign.isdigit())) for sign in name)
    )


def profile_create(
    viewer: Viewer, *, team: Team, name: str, spec: Mapping[str, Any], description: str = "", note: str = ""
) -> Profile:
    """Store a profile with its first revision. Raises SpecError, DomainError (name), ForbiddenError."""
    viewer.require(team.slug, "operator", what="Team")
    if not _name_is_good(name):
        raise DomainError("invalid_name", NAME_RULE, status=422, field="name")
    try:
        with transaction.atomic():
            profile = Profile.objects.create(team=team, name=name, description=description)
            _revision_store(viewer, profile, spec, note=note)
            audit_record(viewer, team=team, action="profile.create", target=name)
            wake_gateway()
    except IntegrityError as error:
        raise DomainError("name_taken", f"A profile named {name} exists; choose another name.", field="name") from error
    return profile


def revision_create(viewer: Viewer, *, profile: Profile, spec: Mapping[str, Any], note: str = "") -> Revision:
    """Store the profile's next revision, or return the newest where the spec is the same. Raises SpecError."""
    viewer.require(profile.team.slug, "operator", what=f"Profile {profile.name}")
    with transaction.atomic():
        known = set(profile.revisions.values_list("pk", flat=True))
        revision = _revision_store(viewer, profile, spec, note=note)
        if revision.pk not in known:
            audit_record(viewer, team=profile.team, action="revision.create", target=str(revision))
    return revision


def _revision_store(viewer: Viewer, profile: Profile, data: Mapping[str, Any], *, note: str) -> Revision:
    spec, problems = spec_check(data, is_admin=viewer.can(profile.team.slug, "admin"))
    version = _model_version(spec) if spec else None
    if spec is None or version is None:
        raise SpecError(problems or [("model.version", "The model version was removed meanwhile.")])
    stored = to_data(spec)
    digest = spec_hash(stored)
    newest = profile.revisions.order_by("-number").first()
    if newest and newest.spec_hash == digest:
        return newest
    last = profile.revisions.aggregate(last=Max("number"))["last"] or 0
    return Revision.objects.create(
        profile=profile,
        number=last + 1,
        spec=stored,
        spec_hash=digest,
        model_version=version,
        note=note,
        created_by_id=viewer.user_id,
    )


def profile_export(profile: Profile, revision: Revision) -> str:
    """The profile as YAML, which `profile_import` reads back to the same revision hash."""
    document = {
        "kind": "Profile",
        "name": profile.name,
        "team": profile.team.slug,
        "description": profile.description,
        "spec": revision.spec,
    }
    readable = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    # Written as they are, Unicode's own line breaks (NEL, LS, PS) do not read back; then every such sign is escaped.
    return readable if yaml.safe_load(readable) == document else yaml.safe_dump(document, sort_keys=False)


def profile_document(text: str) -> dict[str, Any]:
    """Read a profile's YAML. Raises DomainError with the line where the text is wrong."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise DomainError("invalid_yaml", f"This is not YAML{where}: {error}", status=422, field="yaml") from error
    if not isinstance(document, dict) or document.get("kind", "Profile") != "Profile":
        raise DomainError(
            "invalid_yaml", "A profile's YAML has kind: Profile, name and spec.", status=422, field="yaml"
        )
    if not isinstance(document.get("name"), str) or not isinstance(document.get("spec"), dict):
        raise DomainError("invalid_yaml", "A profile's YAML needs a name and a spec.", status=422, field="yaml")
    return document


def profile_apply(viewer: Viewer, *, document: Mapping[str, Any], note: str = "") -> tuple[Profile, Revision, bool]:
    """Create the profile or its next revision from an exported document. Returns (profile, revision, created)."""
    team_slug = str(document.get("team") or "default")
    viewer.require(team_slug, "operator", what=f"Team {team_slug}")
    name = str(document["name"])
    profile = Profile.objects.filter(name=name).select_related("team").first()
    if profile is None:
        team = Team.objects.filter(slug=team_slug).first()
        if team is None:
            raise NotFoundError(f"Team {team_slug}")
        description = str(document.get("description") or "")
        profile = profile_create(
            viewer, team=team, name=name, spec=document["spec"], description=description, note=note
        )
        return profile, profile.revisions.get(), True
    revision = revision_create(viewer, profile=profile, spec=document["spec"], note=note)
    return profile, revision, False


def model_version_register(
    *,
    name: str,
    label: str,
    source: str,
    licence: str = "",
    weights_dtype: str = "bf16",
    weights_note: str = "",
    max_context: int | None = None,
    weights_bytes: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> ModelVersion:
    """Store a model version, or return the one that is stored (its source may move with the data directory)."""
    model, _ = Model.objects.get_or_create(name=name, defaults={"licence": licence})
    row, _ = ModelVersion.objects.update_or_create(
        model=model,
        label=label,
        defaults={
            "source": source,
            "weights_dtype": weights_dtype,
            "weights_note": weights_note,
            "max_context": max_context,
            "weights_bytes": weights_bytes,
            "facts": dict(facts or {}),
        },
    )
    return row
