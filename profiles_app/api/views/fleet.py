"""Endpoints of nodes and engine installs."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import Api
from profiles_app.api.errors import READ, WRITE
from profiles_app.api.rows import node_row
from profiles_app.api.serializers.fleet import EngineOnNodeSerializer, NodeSerializer
from profiles_app.selectors import engine_installs, nodes
from profiles_app.selectors.lists import node_by_name
from profiles_app.services.nodes import node_cordon


class NodeList(Api):
    """All nodes."""

    serializer_class = NodeSerializer
    filter_backends = ()

    def get_queryset(self) -> Any:
        """Every node: hardware belongs to no team."""
        return nodes(self.viewer)

    @extend_schema(operation_id="nodes_list", responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List nodes with their devices and engines."""
        now = self.now
        return self.page(
            self.get_queryset(), NodeSerializer, prepare=lambda page: [node_row(row, now=now) for row in page]
        )


def detail(api: Api, name: str) -> Any:
    """One node as the API shows it."""
    return NodeSerializer(node_row(node_by_name(api.viewer, name), now=api.now)).data


class NodeDetail(Api):
    """One node."""

    serializer_class = NodeSerializer
    filter_backends = ()

    @extend_schema(operation_id="nodes_retrieve", responses={200: NodeSerializer, **READ})
    def get(self, request: Request, name: str) -> Response:
        """Show a node."""
        return Response(detail(self, name))


class NodeCordon(Api):
    """Whether new replicas may be placed on a node."""

    serializer_class = NodeSerializer
    filter_backends = ()

    @extend_schema(operation_id="nodes_cordon", request=None, responses={200: NodeSerializer, **WRITE})
    def post(self, request: Request, name: str) -> Response:
        """Place nothing new on the node. What runs goes on."""
        return self._set(name, cordoned=True)

    def _set(self, name: str, *, cordoned: bool) -> Response:
        node_cordon(self.viewer, node=node_by_name(self.viewer, name), cordoned=cordoned)
        return Response(detail(self, name))


class NodeUncordon(NodeCordon):
    """The end of a cordon."""

    @extend_schema(operation_id="nodes_uncordon", request=None, responses={200: NodeSerializer, **WRITE})
    def post(self, request: Request, name: str) -> Response:
        """Allow new replicas on the node again."""
        return self._set(name, cordoned=False)


class EngineList(Api):
    """All engine installs."""

    serializer_class = EngineOnNodeSerializer
    filter_backends = ()

    def get_queryset(self) -> Any:
        """Every install: hardware belongs to no team."""
        return engine_installs(self.viewer)

    @extend_schema(operation_id="engines_list", responses=EngineOnNodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List engine installs by node."""
        return self.page(self.get_queryset(), EngineOnNodeSerializer)
