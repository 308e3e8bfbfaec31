"""Endpoints of API keys."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gateway.api.serializers import ALL, KeyCreatedSerializer, KeySerializer, KeyWriteSerializer
from gateway.selectors import key_by_id, keys
from gateway.services import key_create, key_revoke
from profiles_app.api.base import IDEMPOTENCY_KEY, Api, Idempotent
from profiles_app.api.errors import READ, WRITE
from profiles_app.errors import NotFoundError
from profiles_app.models import Profile
from profiles_app.selectors import profiles
from profiles_app.selectors.lists import team_by_slug

SHOWN_BEFORE = "The key was shown once, in the first answer; revoke it and make another if it is lost."


class KeyList(Idempotent):
    """All keys, and new ones."""

    serializer_class = KeySerializer
    filter_backends = ()

    def get_queryset(self) -> Any:
        """The viewer's keys, revoked ones included."""
        return keys(self.viewer)

    @extend_schema(operation_id="keys_list", responses=KeySerializer(many=True))
    def get(self, request: Request) -> Response:
        """List keys by team and name, without their secrets."""
        return self.page(self.get_queryset(), KeySerializer)

    @extend_schema(
        operation_id="keys_create",
        request=KeyWriteSerializer,
        responses={201: KeyCreatedSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Make a key. Its secret is in this answer only; a repeated call has null in its place."""
        return self.create_once(self._create)

    def _create(self) -> Response:
        fields = self.read(KeyWriteSerializer)
        names = fields.pop("profiles")
        everything = names == [ALL]
        row, secret = key_create(
            self.viewer,
            team=team_by_slug(self.viewer, fields.pop("team", None)),
            profiles=[] if everything else self._named(names),
            all_profiles=everything,
            now=self.now,
            **fields,
        )
        body = KeyCreatedSerializer((row, secret)).data
        return Response(body, status=201, headers={"Cache-Control": "no-store"})

    def _named(self, names: Sequence[str]) -> list[Profile]:
        found = list(profiles(self.viewer).filter(name__in=names))
        for missing in set(names) - {profile.name for profile in found}:
            raise NotFoundError(f"Profile {missing}")
        return found

    def kept_body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer without the secret."""
        return {**body, "key": None, "message": SHOWN_BEFORE}


class KeyDetail(Api):
    """One key."""

    serializer_class = KeySerializer
    filter_backends = ()

    @extend_schema(operation_id="keys_retrieve", responses={200: KeySerializer, **READ})
    def get(self, request: Request, pk: UUID) -> Response:
        """Show a key without its secret."""
        return Response(KeySerializer(key_by_id(self.viewer, pk)).data)

    @extend_schema(operation_id="keys_revoke", responses={204: None, **WRITE})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Revoke a key: gateways refuse it as soon as they have the next table."""
        key_revoke(self.viewer, key=key_by_id(self.viewer, pk), now=self.now)
        return Response(status=204)
