"""Endpoints of profiles and of documents that describe them."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import IDEMPOTENCY_KEY, Api, Idempotent
from profiles_app.api.command import command_preview
from profiles_app.api.errors import READ, WRITE
from profiles_app.api.filters import ProfileFilter
from profiles_app.api.parsers import TextYamlParser, YamlParser, YamlTextRenderer
from profiles_app.api.rows import profile_rows
from profiles_app.api.serializers.profiles import (
    AppliedSerializer,
    CheckSerializer,
    CheckWriteSerializer,
    DocumentSerializer,
    ProfileDetailSerializer,
    ProfileSerializer,
    ProfileWriteSerializer,
)
from profiles_app.selectors import profile_by_name, profiles, revision_of
from profiles_app.selectors.lists import model_version_named, newest_number, team_by_slug
from profiles_app.services.profiles import profile_apply, profile_create, profile_export, spec_check
from profiles_app.specs.schema import to_data


class ProfileList(Idempotent):
    """All profiles, and new ones."""

    filterset_class = ProfileFilter
    serializer_class = ProfileSerializer

    def get_queryset(self) -> Any:
        """The viewer's profiles."""
        return profiles(self.viewer)

    @extend_schema(operation_id="profiles_list", responses=ProfileSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List profiles by name."""
        rows = self.filter_queryset(self.get_queryset())
        return self.page(rows, ProfileSerializer, prepare=lambda page: profile_rows(self.viewer, page, now=self.now))

    @extend_schema(
        operation_id="profiles_create",
        request=ProfileWriteSerializer,
        responses={201: ProfileDetailSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Create a profile with its first revision."""
        return self.create_once(self._create)

    def _create(self) -> Response:
        fields = self.read(ProfileWriteSerializer)
        team = team_by_slug(self.viewer, fields.pop("team", None))
        profile = profile_create(self.viewer, team=team, **fields)
        return Response(detail(self, profile.name), status=201)


def detail(api: Api, name: str) -> Any:
    """One profile as the API shows it."""
    row = profile_rows(api.viewer, [profile_by_name(api.viewer, name)], now=api.now)[0]
    return ProfileDetailSerializer(row).data


class ProfileDetail(Api):
    """One profile."""

    serializer_class = ProfileDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="profiles_retrieve", responses={200: ProfileDetailSerializer, **READ})
    def get(self, request: Request, name: str) -> Response:
        """Show a profile with its newest spec and how it is deployed."""
        return Response(detail(self, name))


class ProfileYaml(Api):
    """A profile as a document."""

    serializer_class = None
    filter_backends = ()
    renderer_classes = (YamlTextRenderer, JSONRenderer)

    def handle_exception(self, exc: Exception) -> Response:
        """Errors are JSON, whatever was asked for."""
        self.request.accepted_renderer = JSONRenderer()
        self.request.accepted_media_type = JSONRenderer.media_type
        return super().handle_exception(exc)

    @extend_schema(
        operation_id="profiles_export",
        responses={(200, "text/yaml"): OpenApiResponse(OpenApiTypes.STR), **READ},
    )
    def get(self, request: Request, name: str) -> Response:
        """Export the newest revision as YAML that apply reads back."""
        profile = profile_by_name(self.viewer, name)
        text = profile_export(profile, revision_of(profile))
        return Response(text, content_type="text/yaml; charset=utf-8")


class ProfileApply(Idempotent):
    """Profiles from documents."""

    serializer_class = DocumentSerializer
    filter_backends = ()
    parser_classes = (JSONParser, YamlParser, TextYamlParser)

    @extend_schema(
        operation_id="profiles_apply",
        request={"application/json": DocumentSerializer, "application/yaml": DocumentSerializer},
        responses={200: AppliedSerializer, 201: AppliedSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Create the profile, or its next revision where the spec differs from the newest."""
        return self.create_once(self._apply)

    def _apply(self) -> Response:
        document = self.read(DocumentSerializer)
        team_by_slug(self.viewer, document.get("team", "default"))
        before = newest_number(document["name"])
        profile, revision, created = profile_apply(self.viewer, document=document, note=document.get("note", ""))
        changed = revision.number > before
        body = {
            "profile": profile.name,
            "revision": revision.number,
            "hash": revision.spec_hash,
            "created": created,
            "changed": changed,
        }
        return Response(AppliedSerializer(body).data, status=201 if changed else 200)


class ProfileCheck(Api):
    """Judgement of specs."""

    serializer_class = CheckSerializer
    filter_backends = ()

    @extend_schema(
        operation_id="profiles_check", request=CheckWriteSerializer, responses={200: CheckSerializer, **WRITE}
    )
    def post(self, request: Request) -> Response:
        """Say what is wrong with a spec, or what it would run. Nothing is stored."""
        fields = self.read(CheckWriteSerializer)
        team = team_by_slug(self.viewer, fields.get("team"))
        spec, problems = spec_check(fields["spec"], is_admin=self.viewer.can(team.slug, "admin"))
        version = model_version_named(name=spec.model.name, label=spec.model.version) if spec else None
        command = None
        if spec and version:
            command = command_preview(self.viewer, spec, version, name=fields.get("name", ""))
        body = {
            "ok": spec is not None,
            "problems": [{"field": path, "message": sentence} for path, sentence in problems],
            "spec": to_data(spec) if spec else None,
            "command": command,
        }
        return Response(CheckSerializer(body).data)
