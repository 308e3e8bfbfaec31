"""The deployment pass: count, placement, and the end of what is no longer wanted. One at a time."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError
from django.db.models import Q

from profiles_app.models import Deployment, EngineInstall, Node, Replica
from profiles_app.planner.plan import place
from profiles_app.planner.types import Device, Host, Need, Place, Rejection
from profiles_app.reconciler.diff import backoff_seconds
from profiles_app.reconciler.lease import exclusive
from profiles_app.reconciler.timings import Timings, timings
from profiles_app.selectors.fleet import nodes_for_planning, present_gpus
from profiles_app.selectors.profiles import spec_of
from profiles_app.selectors.replicas import failures_since_reset
from profiles_app.services import replicas as write
from profiles_app.services.deployments import deployment_observed
from profiles_app.specs.schema import GIB, Spec
from profiles_app.states import Reason, ReplicaPhase

logger = logging.getLogger(__name__)


def run_pass(*, now: datetime) -> bool:
    """Look at every deployment once. False when another pass is running: its result is as good."""
    times = timings()
    with exclusive("deployment-pass", seconds=times.deployment_lock) as mine:
        if not mine:
            return False
        for deployment in Deployment.objects.select_related("revision", "profile").order_by("created_at"):
            try:
                _reconcile(deployment, times=times, now=now)
            except Exception:
                logger.exception("deployment pass failed for %s", deployment.profile.name)
        _place_pending(now=now, times=times)
    return True


def _reconcile(deployment: Deployment, *, times: Timings, now: datetime) -> None:
    generation = deployment.generation
    rows = list(Replica.objects.filter(Replica.OPEN, deployment=deployment).select_related("node", "deployment"))
    for row in rows:
        if row.wanted and (reason := _unwanted(row, deployment)):
            write.replica_unwant(row, reason=reason)
    occupied = {row.slot for row in rows}
    failures = failures_since_reset(deployment)
    for slot in range(deployment.replicas_wanted):
        if slot not in occupied and _may_start(deployment, slot, failures.get(slot, 0), times=times, now=now):
            _create(deployment, slot, now=now)
    deployment_observed(deployment, generation=generation)


def _unwanted(row: Replica, deployment: Deployment) -> Reason | None:
    if deployment.replicas_wanted == 0:
        return Reason.DEPLOYMENT_STOPPED
    if row.slot >= deployment.replicas_wanted:
        return Reason.SCALED_DOWN
    if row.revision_id != deployment.revision_id:
        return Reason.SPEC_CHANGED
    return None


def _may_start(deployment: Deployment, slot: int, failures: int, *, times: Timings, now: datetime) -> bool:
    if failures > deployment.max_restarts:
        return False
    due = next_try_at(deployment, slot, failures, times=times)
    return due is None or due <= now


def next_try_at(deployment: Deployment, slot: int, failures: int, *, times: Timings) -> datetime | None:
    """When the slot's next start is due after its failures; None when it has none."""
    if failures == 0:
        return None
    last = (
        Replica.objects.filter(deployment=deployment, slot=slot, phase=ReplicaPhase.FAILED)
        .order_by("-ended_at")
        .values_list("ended_at", flat=True)
        .first()
    )
    wait = backoff_seconds(failures, first=times.backoff_first, cap=times.backoff_cap)
    return None if last is None else last + timedelta(seconds=wait)


def _create(deployment: Deployment, slot: int, *, now: datetime) -> None:
    try:
        write.replica_create(deployment, slot=slot, now=now)
    except IntegrityError:
        logger.info("slot %s of %s was filled by another pass", slot, deployment.profile.name)


def _place_pending(*, now: datetime, times: Timings) -> None:
    pending = Replica.objects.filter(phase=ReplicaPhase.PENDING, node=None).select_related("deployment", "revision")
    rows = list(pending.order_by("created_at"))
    if not rows:
        return
    nodes = {node.name: node for node in nodes_for_planning(now=now)}
    for row in rows:
        try:
            _place_or_end(row, nodes=nodes, now=now, times=times)
        except Exception:
            logger.exception("replica %s could not be placed", row.pk)


def _place_or_end(row: Replica, *, nodes: dict[str, Node], now: datetime, times: Timings) -> None:
    if row.wanted:
        _place_one(row, nodes=nodes, now=now, times=times)
        return
    write.replica_move(
        row,
        old=ReplicaPhase.PENDING,
        new=ReplicaPhase.STOPPED,
        reason=Reason(row.unwanted_reason or Reason.SCALED_DOWN),
        message="Ended before it had a place.",
        now=now,
    )


def _place_one(row: Replica, *, nodes: dict[str, Node], now: datetime, times: Timings) -> None:
    spec = spec_of(row.revision)
    answer = place(need_of(spec), hosts=[_host(node) for node in nodes.values()])
    if not isinstance(answer, Place):
        write.replica_unplaceable(row, message=explain_rejections(answer))
        return
    node = nodes[answer.host]
    port = _free_port(node, now=now, times=times)
    if port is None:
        first, last = settings.FOREBAY.engine_ports
        write.replica_unplaceable(row, message=f"{node.name}: every port from {first} to {last} is taken.")
        return
    claim = {
        "accelerator": spec.compute.accelerator,
        "cores": spec.compute.cores if spec.compute.accelerator == "cpu" else 0.0,
        "memory_bytes": int(spec.compute.memory_gib * GIB) if spec.compute.accelerator == "cpu" else 0,
        "gpu_uuids": list(answer.gpu_uuids),
        "device_name": _device_name(node, answer.gpu_uuids),
    }
    engine = EngineInstall.objects.get(pk=answer.engine)
    write.replica_place(row, node=node, engine=engine, port=port, claim=claim, now=now)


def _device_name(node: Node, uuids: tuple[str, ...]) -> str:
    return next((gpu.name for gpu in node.gpus.all() if gpu.uuid in uuids), "cpu")


def need_of(spec: Spec) -> Need:
    """What a replica of the spec claims."""
    return Need(
        accelerator=spec.compute.accelerator,
        accelerators=spec.compute.accelerators,
        cores=spec.compute.cores,
        memory_bytes=int(spec.compute.memory_gib * GIB),
        gpu_memory_share=spec.compute.gpu_memory_utilization,
    )


def explain_rejections(rejections: Iterable[Rejection]) -> str:
    """One sentence a node, or what to do when there is none."""
    sentences = [f"{r.host}: {r.sentence}" for r in rejections]
    if not sentences:
        return "No node can be reached and is open for new replicas; start its agent or uncordon it."
    return "; ".join(sentences) + "."


def _host(node: Node) -> Host:
    claims = [row.claim for row in Replica.objects.filter(Replica.OPEN, node=node).only("claim")]
    return Host(
        name=node.name,
        cores=node.cores,
        memory_total_bytes=node.memory_total_bytes,
        engines={str(engine.pk): engine.kind for engine in node.engines.all() if engine.enabled},
        devices=tuple(
            Device(
                uuid=gpu.uuid,
                index=gpu.index,
                memory_total_bytes=gpu.memory_total_bytes,
                memory_free_bytes=None
                if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None
                else gpu.memory_total_bytes - gpu.memory_used_bytes,
            )
            for gpu in present_gpus(node)
        ),
        claimed_cores=sum(claim.get("cores", 0.0) for claim in claims),
        claimed_memory_bytes=sum(claim.get("memory_bytes", 0) for claim in claims),
        claimed_gpus=frozenset(uuid for claim in claims for uuid in claim.get("gpu_uuids", [])),
    )


def _free_port(node: Node, *, now: datetime, times: Timings) -> int | None:
    """A port that no open replica has, nor one that ended so lately that a gateway might still know it."""
    first, last = settings.FOREBAY.engine_ports
    recent = Q(ended_at__gt=now - timedelta(seconds=times.port_quarantine))
    taken = set(
        Replica.objects.filter(Replica.OPEN | recent, node=node).exclude(port=None).values_list("port", flat=True)
    )
    return next((port for port in range(first, last + 1) if port not in taken), None)
