"""The values that placement works on."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU that could be claimed. ``memory_free_bytes`` is None where the device gives no figure."""

    uuid: str
    index: int
    memory_total_bytes: int | None
    memory_free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A node that is reachable and not cordoned. ``engines`` maps engine id to its kind (cpu or cuda)."""

    name: str
    cores: float | None
    memory_total_bytes: int | None
    engines: Mapping[str, str]
    devices: tuple[Device, ...] = ()
    claimed_cores: float = 0.0
    claimed_memory_bytes: int = 0
    claimed_gpus: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one replica asks for."""

    accelerator: str
    accelerators: int
    cores: float
    memory_bytes: int
    gpu_memory_share: float


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one node cannot take the replica: a reason word and a sentence."""

    host: str
    reason: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the replica goes."""

    host: str
    engine: str
    gpu_uuids: tuple[str, ...]
