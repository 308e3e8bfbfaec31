"""Endpoints of revisions: history, differences, and the command that each would run."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import IDEMPOTENCY_KEY, Api, Idempotent
from profiles_app.api.command import command_preview
from profiles_app.api.errors import READ, WRITE
from profiles_app.api.serializers.profiles import (
    CommandSerializer,
    DiffSerializer,
    RevisionDetailSerializer,
    RevisionSerializer,
    RevisionWriteSerializer,
)
from profiles_app.errors import DomainError
from profiles_app.models import Revision
from profiles_app.selectors import profile_by_name, revision_of, spec_of
from profiles_app.selectors.lists import newest_number, revisions_of
from profiles_app.services.profiles import revision_create
from profiles_app.specs.revision import diff


class RevisionList(Idempotent):
    """All revisions of a profile, and new ones."""

    serializer_class = RevisionSerializer
    filter_backends = ()
    queryset = Revision.objects.none()

    @extend_schema(operation_id="revisions_list", responses=RevisionSerializer(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List the profile's revisions, newest first."""
        return self.page(revisions_of(profile_by_name(self.viewer, name)), RevisionSerializer)

    @extend_schema(
        operation_id="revisions_create",
        request=RevisionWriteSerializer,
        responses={200: RevisionDetailSerializer, 201: RevisionDetailSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request, name: str) -> Response:
        """Store the next revision; 200 with the newest where the spec is the same."""
        return self.create_once(lambda: self._create(name))

    def _create(self, name: str) -> Response:
        fields = self.read(RevisionWriteSerializer)
        profile = profile_by_name(self.viewer, name)
        before = newest_number(name)
        row = revision_create(self.viewer, profile=profile, **fields)
        return Response(RevisionDetailSerializer(row).data, status=201 if row.number > before else 200)


class RevisionDetail(Api):
    """One revision."""

    serializer_class = RevisionDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="revisions_retrieve", responses={200: RevisionDetailSerializer, **READ})
    def get(self, request: Request, name: str, number: int) -> Response:
        """Show a revision with its spec."""
        return Response(RevisionDetailSerializer(revision_of(profile_by_name(self.viewer, name), number)).data)


class RevisionDiff(Api):
    """What changed between two revisions."""

    serializer_class = DiffSerializer
    filter_backends = ()

    @extend_schema(
        operation_id="revisions_diff",
        parameters=[OpenApiParameter("against", int, description="Older revision; default: the one before")],
        responses={200: DiffSerializer, **WRITE},
    )
    def get(self, request: Request, name: str, number: int) -> Response:
        """Show the fields that differ."""
        profile = profile_by_name(self.viewer, name)
        against = _against(request.query_params.get("against"), number=number)
        old, new = revision_of(profile, against), revision_of(profile, number)
        body: dict[str, Any] = {
            "profile": name,
            "against": against,
            "revision": number,
            "changes": diff(old.spec, new.spec),
        }
        return Response(DiffSerializer(body).data)


def _against(text: str | None, *, number: int) -> int:
    """The revision to compare with. The first one has none before it, so it is compared with itself."""
    if text is None:
        return max(1, number - 1)
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise DomainError("invalid", "against is the number of a revision.", status=422, field="against")
    return int(text)


class RevisionCommand(Api):
    """What a replica of a revision would run."""

    serializer_class = CommandSerializer
    filter_backends = ()

    @extend_schema(operation_id="revisions_command", responses={200: CommandSerializer, **READ})
    def get(self, request: Request, name: str, number: int) -> Response:
        """Show the exact command, its environment and its YAML, with secrets masked."""
        row = revision_of(profile_by_name(self.viewer, name), number)
        body = command_preview(self.viewer, spec_of(row), row.model_version, name=name)
        return Response(CommandSerializer(body).data)
