"""The fleet: every node as what it is, its devices, engines and replicas."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from profiles_app import selectors
from profiles_app.models import Gpu, Node, Replica
from profiles_app.selectors import Viewer
from profiles_app.services.nodes import node_cordon
from profiles_app.web.http import page

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU on the map. Levels are percent texts from the top or as heights; a gone device has none."""

    gpu: Gpu
    gone: bool
    level: str
    foreign_top: str
    foreign: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node with what runs on it. Shares are percent texts for SVG; None means that it is not known."""

    node: Node
    state: str
    replicas: list[Replica]
    others: int
    cores_claimed: float
    cores_share: str | None
    memory_used_bytes: int | None
    memory_share: str | None
    foreign: list[dict[str, Any]]
    cells: list[Cell]


@require_safe
@page
def fleet(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Every node, or only the changing part for htmx."""
    now = timezone.now()
    placed = list(selectors.open_replicas().exclude(node=None))
    teams = viewer.teams()
    views = [
        _view(node, [row for row in placed if row.node_id == node.pk], teams=teams, now=now)
        for node in selectors.nodes(viewer)
    ]
    context = {
        "views": views,
        "installs": selectors.engine_installs(viewer),
        "verdict": _verdict(views),
        "now": now,
        "operate": viewer.can_somewhere("operator"),
    }
    part = "#live" if request.headers.get("HX-Request") else ""
    return render(request, f"profiles_app/fleet.html{part}", context)


def _view(node: Node, replicas: list[Replica], *, teams: tuple[str, ...], now: datetime) -> NodeView:
    alive = node.lease_until is not None and node.lease_until > now
    claimed = sum(float(row.claim.get("cores") or 0) for row in replicas)
    total, free = node.memory_total_bytes, node.memory_available_bytes
    used = total - free if total is not None and free is not None else None
    return NodeView(
        node=node,
        state=("cordoned" if node.cordoned else "ready") if alive else "unreachable",
        replicas=[row for row in replicas if row.deployment.team.slug in teams],
        others=sum(row.deployment.team.slug not in teams for row in replicas),
        cores_claimed=claimed,
        cores_share=_share(claimed, node.cores),
        memory_used_bytes=used,
        memory_share=_share(used, total),
        foreign=(foreign := _foreign(node, replicas)),
        cells=[_cell(gpu, foreign, alive=alive) for gpu in node.gpus.all()],
    )


def _cell(gpu: Gpu, foreign: list[dict[str, Any]], *, alive: bool) -> Cell:
    """A GPU's cell: memory in use as a level, what foreign processes hold hatched from the floor."""
    total = gpu.memory_total_bytes
    taken = sum(int(row.get("memory_bytes") or 0) for row in foreign if row["gpu"] == gpu.index)
    used = gpu.memory_used_bytes
    return Cell(
        gpu=gpu,
        gone=not alive or gpu.missing_since is not None or used is None or not total,
        level=_share((total or 0) - (used or 0), total) or "100%",
        foreign_top=_share((total or 0) - taken, total) or "100%",
        foreign=_share(taken, total) or "0%",
    )


def _foreign(node: Node, replicas: list[Replica]) -> list[dict[str, Any]]:
    """Processes on devices that no replica claims, each with its GPU's index."""
    claimed = {uuid for row in replicas for uuid in row.claim.get("gpu_uuids") or ()}
    return [
        {**process, "gpu": gpu.index}
        for gpu in node.gpus.all()
        if gpu.uuid not in claimed
        for process in gpu.processes or ()
    ]


def _share(part: float | None, whole: float | None) -> str | None:
    return f"{min(100.0, part / whole * 100):.1f}%" if part is not None and whole else None


def _verdict(views: list[NodeView]) -> dict[str, str]:
    """The worst true thing of the fleet."""
    gone = [view.node.name for view in views if view.state == "unreachable"]
    if not views:
        return {"state": "none", "headline": "No node has joined yet", "why": "A node joins when its agent starts."}
    if gone:
        why = "Its engines keep what they had. Look whether the agent runs: forebay doctor."
        return {"state": "unknown", "headline": f"{', '.join(gone)} does not answer", "why": why}
    gpus = sum(len(view.node.gpus.all()) for view in views)
    devices = f"{gpus} GPUs" if gpus else "no GPU: engines run on the CPU"
    noun = "node answers" if len(views) == 1 else "nodes answer"
    return {"state": "ready", "headline": f"{len(views)} {noun}, {devices}", "why": ""}


@require_POST
@page
def cordon(request: HttpRequest, viewer: Viewer, name: str) -> HttpResponse:
    """Place nothing new on the node, or allow it again."""
    viewer.require_somewhere("operator")
    node = get_object_or_404(Node, name=name)
    cordoned = request.POST.get("cordoned") == "true"
    node_cordon(viewer, node=node, cordoned=cordoned)
    said = "Nothing new is placed on" if cordoned else "Replicas may be placed again on"
    messages.success(request, f"{said} {name}.")
    return redirect("profiles:fleet")
