"""Endpoints of deployments."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import IDEMPOTENCY_KEY, Api, Idempotent
from profiles_app.api.errors import READ, WRITE
from profiles_app.api.filters import DeploymentFilter
from profiles_app.api.rows import deployment_detail, deployment_rows
from profiles_app.api.serializers.deployments import (
    DeploymentDetailSerializer,
    DeploymentSerializer,
    DeploymentWriteSerializer,
    DrainWriteSerializer,
    ScaleSerializer,
)
from profiles_app.models import Deployment
from profiles_app.selectors import deployment_by_id, deployments, profile_by_name, revision_of
from profiles_app.services.deployments import (
    deployment_deploy,
    deployment_retry,
    deployment_scale,
    deployment_stop,
)

DRAIN_SECONDS = 30
ACCEPTED: dict[int, Any] = {200: DeploymentDetailSerializer, **WRITE}


def detail(api: Api, pk: UUID) -> Any:
    """One deployment as the API shows it."""
    return DeploymentDetailSerializer(deployment_detail(deployment_by_id(api.viewer, pk), now=api.now)).data


class DeploymentList(Idempotent):
    """All deployments, and new wishes."""

    filterset_class = DeploymentFilter
    serializer_class = DeploymentSerializer

    def get_queryset(self) -> Any:
        """The viewer's deployments."""
        return deployments(self.viewer)

    @extend_schema(operation_id="deployments_list", responses=DeploymentSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List deployments by profile, each with its status computed now."""
        rows = self.filter_queryset(self.get_queryset())
        return self.page(rows, DeploymentSerializer, prepare=lambda page: list(deployment_rows(page, now=self.now)))

    @extend_schema(
        operation_id="deployments_create",
        request=DeploymentWriteSerializer,
        responses={200: DeploymentDetailSerializer, 201: DeploymentDetailSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Deploy a profile; 200 where it was deployed already and the wish was changed."""
        return self.create_once(self._deploy)

    def _deploy(self) -> Response:
        fields = self.read(DeploymentWriteSerializer)
        profile = profile_by_name(self.viewer, fields["profile"])
        current: Deployment | None = getattr(profile, "deployment", None)
        row = deployment_deploy(
            self.viewer,
            profile=profile,
            revision=revision_of(profile, fields.get("revision")),
            replicas=fields.get("replicas", max(1, current.replicas_wanted) if current else 1),
            drain_seconds=fields.get("drain_seconds", current.drain_seconds if current else DRAIN_SECONDS),
            now=self.now,
        )
        return Response(detail(self, row.pk), status=200 if current else 201)


class DeploymentDetail(Api):
    """One deployment."""

    serializer_class = DeploymentDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="deployments_retrieve", responses={200: DeploymentDetailSerializer, **READ})
    def get(self, request: Request, pk: UUID) -> Response:
        """Show a deployment with its replicas and moves."""
        return Response(detail(self, pk))

    @extend_schema(operation_id="deployments_scale", request=ScaleSerializer, responses=ACCEPTED)
    def patch(self, request: Request, pk: UUID) -> Response:
        """Wish for another number of replicas; 0 drains and stops them all."""
        row = deployment_by_id(self.viewer, pk)
        deployment_scale(self.viewer, deployment=row, replicas=self.read(ScaleSerializer)["replicas"], now=self.now)
        return Response(detail(self, pk))


class DeploymentDrain(Api):
    """The end of a deployment."""

    serializer_class = DeploymentDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="deployments_drain", request=DrainWriteSerializer, responses=ACCEPTED)
    def post(self, request: Request, pk: UUID) -> Response:
        """Drain every replica and stop it."""
        row = deployment_by_id(self.viewer, pk)
        seconds = self.read(DrainWriteSerializer).get("drain_seconds")
        deployment_stop(self.viewer, deployment=row, drain_seconds=seconds, now=self.now)
        return Response(detail(self, pk))


class DeploymentRetry(Api):
    """Another try after failed starts."""

    serializer_class = DeploymentDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="deployments_retry", request=None, responses=ACCEPTED)
    def post(self, request: Request, pk: UUID) -> Response:
        """Forget failed starts, so that slots that were given up are tried again."""
        deployment_retry(self.viewer, deployment=deployment_by_id(self.viewer, pk), now=self.now)
        return Response(detail(self, pk))
