"""Endpoints of the caller, their token, and the host's own state."""

from importlib.metadata import version
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import Api
from profiles_app.api.errors import READ, WRITE, ErrorAnswerSerializer
from profiles_app.api.serializers.people import (
    MeSerializer,
    StatusSerializer,
    TokenSerializer,
    TokenWriteSerializer,
)
from profiles_app.api.throttles import LoginByAddress, LoginByName
from profiles_app.errors import DomainError
from profiles_app.selectors import processes, setup_steps
from profiles_app.services.tokens import token_issue


class Me(Api):
    """The caller."""

    serializer_class = MeSerializer
    filter_backends = ()

    @extend_schema(operation_id="me_retrieve", responses={200: MeSerializer, **READ})
    def get(self, request: Request) -> Response:
        """Show who asks, and their roles."""
        viewer = self.viewer
        body = {
            "user_id": viewer.user_id,
            "username": viewer.username,
            "is_superuser": viewer.is_superuser,
            "roles": dict(viewer.roles),
            "teams": viewer.teams(),
        }
        return Response(MeSerializer(body).data)


class Tokens(Api):
    """The caller's API token."""

    serializer_class = TokenSerializer
    filter_backends = ()
    permission_classes = (AllowAny,)
    throttle_classes = (LoginByAddress, LoginByName)

    @extend_schema(
        operation_id="tokens_create",
        request=TokenWriteSerializer,
        responses={201: TokenSerializer, **WRITE, 429: ErrorAnswerSerializer},
    )
    def post(self, request: Request) -> Response:
        """Get the API token, by name and password or by a session; ``rotate`` ends the current one."""
        fields = self.read(TokenWriteSerializer)
        user = self._caller(fields)
        token = token_issue(user, rotate=fields["rotate"])
        body = TokenSerializer({"token": token, "username": user.get_username()}).data
        return Response(body, status=201, headers={"Cache-Control": "no-store"})

    def _caller(self, fields: dict[str, Any]) -> Any:
        if "username" not in fields and self.request.user.is_authenticated:
            return self.request.user
        user = authenticate(self.request, username=fields.get("username", ""), password=fields.get("password", ""))
        if user is None:
            raise DomainError(
                "invalid_credentials", "The user name or the password is wrong; correct it and try again.", status=401
            )
        return user


class Status(Api):
    """The host that answers."""

    serializer_class = StatusSerializer
    filter_backends = ()

    @extend_schema(operation_id="status_retrieve", responses={200: StatusSerializer, **READ})
    def get(self, request: Request) -> Response:
        """Show the set-up and the processes."""
        self.viewer.require_somewhere("viewer")
        body = {
            "version": version("forebay"),
            "node": settings.FOREBAY.node_name,
            "setup": setup_steps(),
            "processes": processes(),
        }
        return Response(StatusSerializer(body).data)
