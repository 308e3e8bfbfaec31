"""Reads of nodes, devices and engine installs, and the wanted list that each node acts on."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from profiles_app.models import EngineInstall, Gpu, Node, Replica
from profiles_app.selectors.viewer import Viewer


def nodes(viewer: Viewer) -> QuerySet[Node]:
    """Every node with devices and engines: hardware belongs to no team, each member sees it."""
    rows = Node.objects.prefetch_related("gpus", "engines").order_by("name")
    return rows if viewer.can_somewhere("viewer") else rows.none()


def engine_installs(viewer: Viewer) -> QuerySet[EngineInstall]:
    """Every engine install, by node."""
    rows = EngineInstall.objects.select_related("node").order_by("node__name", "name")
    return rows if viewer.can_somewhere("viewer") else rows.none()


def known_flags() -> list[dict[str, Any]]:
    """Options that the parser of the newest enabled install knows; empty while none is installed."""
    row = EngineInstall.objects.filter(enabled=True).exclude(flags=[]).order_by("-created_at").first()
    return list(row.flags) if row else []


def nodes_for_planning(*, now: datetime) -> list[Node]:
    """Nodes whose lease holds and that are not cordoned, with engines and devices."""
    return list(
        Node.objects.filter(lease_until__gt=now, cordoned=False, stopping=False)
        .prefetch_related("gpus", "engines")
        .order_by("name")
    )


def present_gpus(node: Node) -> list[Gpu]:
    """Devices of the node that its last reading listed."""
    return [gpu for gpu in node.gpus.all() if gpu.missing_since is None]


def wanted_on_node(node_name: str) -> list[Replica]:
    """Every open replica placed on the node. A failed read raises: an empty list means "stop everything"."""
    return list(
        Replica.objects.filter(Replica.OPEN, node__name=node_name)
        .select_related("deployment__profile", "revision__model_version", "engine", "node")
        .order_by("created_at")
    )
