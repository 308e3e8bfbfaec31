"""Places one replica: the first node in the order of free cores that can take it, or one rejection a node."""

from collections.abc import Iterable

from profiles_app.planner.types import Device, Host, Need, Place, Rejection

GIB = 2**30
ENGINE_KIND = {"cpu": "cpu", "gpu": "cuda"}


def place(need: Need, *, hosts: Iterable[Host]) -> Place | tuple[Rejection, ...]:
    """The place for a replica, or why each node rejects it. The order of ``hosts`` does not matter."""
    rejections = []
    for host in sorted(hosts, key=lambda h: (-(free_cores(h) or 0.0), h.name)):
        answer = _try(need, host)
        if isinstance(answer, Place):
            return answer
        rejections.append(answer)
    return tuple(sorted(rejections, key=lambda r: r.host))


def free_cores(host: Host) -> float | None:
    """Cores that no claim holds; None where the node does not say how many it has."""
    return None if host.cores is None else host.cores - host.claimed_cores


def _try(need: Need, host: Host) -> Place | Rejection:
    kind = ENGINE_KIND[need.accelerator]
    engine = next((name for name, k in sorted(host.engines.items()) if k == kind), None)
    if engine is None:
        return Rejection(host.name, "EngineMissing", f"no {kind} engine is installed")
    if need.accelerator == "gpu":
        return _try_gpus(need, host, engine)
    cores = free_cores(host)
    if cores is not None and cores < need.cores:
        return Rejection(
            host.name,
            "InsufficientCores",
            f"{cores:g} of {host.cores:g} cores are unclaimed, {need.cores:g} are needed",
        )
    if host.memory_total_bytes is None:
        return Rejection(host.name, "UnknownMemory", "the node does not say how much memory it has")
    free = host.memory_total_bytes - host.claimed_memory_bytes
    if free < need.memory_bytes:
        return Rejection(
            host.name,
            "InsufficientMemory",
            f"{free / GIB:.1f} of {host.memory_total_bytes / GIB:.1f} GiB are unclaimed, "
            f"{need.memory_bytes / GIB:.1f} GiB are needed",
        )
    return Place(host=host.name, engine=engine, gpu_uuids=())


def _try_gpus(need: Need, host: Host, engine: str) -> Place | Rejection:
    if not host.devices:
        return Rejection(host.name, "NoGpu", "the node has no GPU")
    usable = [device for device in host.devices if _fits(device, need, host)]
    if len(usable) < need.accelerators:
        return Rejection(
            host.name,
            "InsufficientGpuMemory",
            f"{len(usable)} of {len(host.devices)} GPUs are unclaimed with enough free memory, "
            f"{need.accelerators} are needed",
        )
    chosen = sorted(usable, key=lambda device: device.index)[: need.accelerators]
    return Place(host=host.name, engine=engine, gpu_uuids=tuple(device.uuid for device in chosen))


def _fits(device: Device, need: Need, host: Host) -> bool:
    """A GPU is claimed whole, and the engine refuses to start below its share of the total."""
    if device.uuid in host.claimed_gpus or device.memory_total_bytes is None or device.memory_free_bytes is None:
        return False
    return device.memory_free_bytes >= device.memory_total_bytes * need.gpu_memory_share
