"""Endpoints of model versions."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import IDEMPOTENCY_KEY, Idempotent
from profiles_app.api.errors import WRITE
from profiles_app.api.serializers.profiles import ModelVersionSerializer, ModelVersionWriteSerializer
from profiles_app.selectors import model_versions
from profiles_app.services.weights import model_version_add


class ModelList(Idempotent):
    """Model versions that profiles can name."""

    serializer_class = ModelVersionSerializer
    filter_backends = ()

    def get_queryset(self) -> Any:
        """Every model version: models belong to no team."""
        return model_versions(self.viewer)

    @extend_schema(operation_id="models_list", responses=ModelVersionSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List model versions."""
        return self.page(self.get_queryset(), ModelVersionSerializer)

    @extend_schema(
        operation_id="models_create",
        request=ModelVersionWriteSerializer,
        responses={201: ModelVersionSerializer, **WRITE},
        parameters=[IDEMPOTENCY_KEY],
    )
    def post(self, request: Request) -> Response:
        """Register a model version by folder or repository id (admin)."""
        return self.create_once(self._create)

    def _create(self) -> Response:
        fields = self.read(ModelVersionWriteSerializer)
        row = model_version_add(self.viewer, label=fields.pop("version"), **fields)
        return Response(ModelVersionSerializer(row).data, status=201)
