"""What a reading of one host looks like, whatever it was read with. None is "unknown", and never 0."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """A process that holds memory of a device; whose it is may be hidden from this user or container."""

    pid: int
    memory_bytes: int | None
    user: str | None
    command: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReading:
    """One accelerator at one moment. Bytes, watts, degrees Celsius; `utilization` is 0..1 over the last sample period.

    `mig_mode` says whether the device is divided into MIG instances. A device that doesn't tell its processes lists
    none, and the reading of its host has that as a problem.
    """

    uuid: str
    index: int
    name: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    utilization: float | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_c: float | None
    compute_capability: str | None
    mig_mode: bool | None
    processes: tuple[DeviceProcess, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """One host at one moment. `problems` are sentences about what could not be read."""

    kind: Literal["cpu", "gpu"]
    cores: int | None
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    boot_id: str | None
    devices: tuple[DeviceReading, ...]
    problems: tuple[str, ...]


class Hardware(Protocol):
    """A way to read this host."""

    def read(self) -> HostReading:
        """The host now. What can't be read is None or a problem; it doesn't raise for a device that fails."""
