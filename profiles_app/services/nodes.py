"""Writes nodes, devices and engine installs, as each node's agent reports them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from profiles_app.hardware.base import DeviceReading, HostReading
from profiles_app.models import EngineInstall, Gpu, Node
from profiles_app.selectors.viewer import Viewer
from profiles_app.services.audit import audit_record
from profiles_app.wakeups import wake_deployments

GPU_COLUMNS = (
    "index",
    "memory_total_bytes",
    "memory_used_bytes",
    "utilization",
    "power_watts",
    "power_limit_watts",
    "temperature_c",
)


def node_join(name: str, *, now: datetime) -> Node:
    """The node's row, made at its agent's first start; a start ends the mark that its control plane is going down."""
    row, _ = Node.objects.get_or_create(name=name)
    Node.objects.filter(pk=row.pk).update(stopping=False, last_seen=now)
    wake_deployments()
    return row


def node_lease_renew(name: str, *, seconds: float, now: datetime) -> None:
    """The agent lives: straight to the database, so that a silent broker makes no node unreachable."""
    Node.objects.filter(name=name).update(lease_until=now + timedelta(seconds=seconds), last_seen=now)


def node_reported(name: str, *, reading: HostReading, now: datetime) -> None:
    """Store one inventory reading. A device that the reading lacks is missing since now, never deleted."""
    with transaction.atomic():
        node = Node.objects.get(name=name)
        Node.objects.filter(pk=node.pk).update(
            kind=reading.kind,
            cores=reading.cores,
            memory_total_bytes=reading.memory_total_bytes,
            memory_available_bytes=reading.memory_available_bytes,
            boot_id=reading.boot_id or "",
            problems=list(reading.problems),
        )
        for device in reading.devices:
            _device_store(node, device, now=now)
        seen = [device.uuid for device in reading.devices]
        node.gpus.filter(missing_since=None).exclude(uuid__in=seen).update(missing_since=now)


def _device_store(node: Node, device: DeviceReading, *, now: datetime) -> None:
    columns: dict[str, Any] = {name: getattr(device, name) for name in GPU_COLUMNS}
    Gpu.objects.update_or_create(
        node=node,
        uuid=device.uuid,
        defaults=columns
        | {
            "name": device.name or "",
            "compute_capability": device.compute_capability or "",
            "processes": [asdict(process) for process in device.processes],
            "last_seen": now,
            "missing_since": None,
        },
    )


def node_cordon(viewer: Viewer, *, node: Node, cordoned: bool) -> None:
    """Place nothing new on the node (or allow it again). What runs goes on."""
    viewer.require_somewhere("operator")
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(cordoned=cordoned)
        audit_record(viewer, team=None, action="node.cordon" if cordoned else "node.uncordon", target=node.name)
        wake_deployments()


def node_stopping(name: str) -> None:
    """The control plane of the node goes down: nothing new is placed there until its agent starts again."""
    Node.objects.filter(name=name).update(stopping=True)


def engine_register(
    *,
    node: Node,
    name: str,
    version: str,
    kind: str,
    interpreter: str,
    argv_prefix: Iterable[str],
    env: Mapping[str, str],
    flags: Iterable[Mapping[str, Any]] = (),
    interpreter_version: str = "",
) -> EngineInstall:
    """Store an engine that is installed on the node, or refresh what is known of it."""
    row, _ = EngineInstall.objects.update_or_create(
        node=node,
        name=name,
        defaults={
            "version": version,
            "kind": kind,
            "interpreter": interpreter,
            "argv_prefix": list(argv_prefix),
            "env": dict(env),
            "flags": [dict(flag) for flag in flags],
            "interpreter_version": interpreter_version,
        },
    )
    wake_deployments()
    return row
