"""Endpoints of replicas and their engines' logs."""

from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from profiles_app.api.base import Api
from profiles_app.api.command import MASK
from profiles_app.api.errors import READ, WRITE
from profiles_app.api.logs import MOST_BYTES, end_of, piece_at, piece_tail
from profiles_app.api.rows import replica_detail
from profiles_app.api.serializers.deployments import LogQuerySerializer, LogSerializer, ReplicaDetailSerializer
from profiles_app.errors import DomainError
from profiles_app.models import Replica
from profiles_app.selectors import replica_by_id


class ReplicaDetail(Api):
    """One replica."""

    serializer_class = ReplicaDetailSerializer
    filter_backends = ()

    @extend_schema(operation_id="replicas_retrieve", responses={200: ReplicaDetailSerializer, **READ})
    def get(self, request: Request, pk: UUID) -> Response:
        """Show a replica, ended or not, with its moves."""
        row = replica_detail(replica_by_id(self.viewer, pk), now=self.now)
        return Response(ReplicaDetailSerializer(row).data)


def log_path(row: Replica) -> Path:
    """The replica's log on this host. Raises DomainError where another host has it."""
    if row.node is not None and row.node.name != settings.FOREBAY.node_name:
        raise DomainError(
            "log_elsewhere",
            f"The log is on node {row.node.name}, and this is {settings.FOREBAY.node_name}; read it there, in "
            f"replicas/{row.pk}/engine.log of its data directory.",
        )
    path: Path = settings.FOREBAY.data_dir / "replicas" / str(row.pk) / "engine.log"
    return path


class ReplicaLog(Api):
    """The engine's log, piece by piece."""

    serializer_class = LogSerializer
    filter_backends = ()

    @extend_schema(
        operation_id="replicas_log", parameters=[LogQuerySerializer], responses={200: LogSerializer, **WRITE}
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """Read part of the log by byte offset, or its end."""
        query = self.read(LogQuerySerializer, request.query_params)
        row = replica_by_id(self.viewer, pk)
        path, limit = log_path(row), min(query.get("limit", MOST_BYTES), MOST_BYTES)
        if "tail" in query:
            piece = piece_tail(path, tail=min(query["tail"], MOST_BYTES))
        else:
            piece = piece_at(path, offset=query["offset"], limit=limit)
        body: dict[str, Any] = {
            "offset": piece.offset,
            "next_offset": piece.next_offset,
            "size": piece.size,
            "text": _masked(piece.text, row),
            "rotated": piece.rotated,
            "ended": row.ended_at is not None and piece.next_offset >= piece.size,
        }
        return Response(LogSerializer(body).data)


def _masked(text: str, row: Replica) -> str:
    """The log without the engine's own key, should the engine ever write it."""
    return text.replace(row.api_key, MASK) if row.api_key else text


class ReplicaLogDownload(Api):
    """The engine's log as a file."""

    serializer_class = None
    filter_backends = ()

    @extend_schema(
        operation_id="replicas_log_download",
        responses={(200, "text/plain"): OpenApiResponse(OpenApiTypes.STR), **READ},
    )
    def get(self, request: Request, pk: UUID) -> HttpResponse:
        """Download the log; of a long one, its last 16 MiB."""
        row = replica_by_id(self.viewer, pk)
        data, skipped = end_of(log_path(row))
        note = f"[{skipped} bytes before this are left out]\n" if skipped else ""
        text = note + _masked(data.decode("utf-8", "replace"), row)
        name = f"{row.deployment.profile.name}-{row.slot}-{str(row.pk)[:8]}.log"
        return HttpResponse(
            text,
            content_type="text/plain; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )
