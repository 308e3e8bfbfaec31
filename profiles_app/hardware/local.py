"""Reads this host with whatever it has: NVIDIA devices where there are some, and the host itself always."""

from dataclasses import dataclass, replace

from profiles_app.hardware import nvml
from profiles_app.hardware.base import Hardware, HostReading
from profiles_app.hardware.cpu import CpuHardware, owner_and_command
from profiles_app.hardware.nvml import NvmlDevices


@dataclass(frozen=True, slots=True)
class LocalHardware:
    """The host, and its devices if there is a binding to read them with."""

    host: CpuHardware
    devices: NvmlDevices | None

    def read(self) -> HostReading:
        """The host now; of kind "gpu" when a device is there, or is known to be there and can't be read."""
        reading = self.host.read()
        if self.devices is None:
            return reading
        devices, problems = self.devices.read()
        return replace(
            reading, kind="gpu" if devices or problems else "cpu", devices=devices, problems=reading.problems + problems
        )


def local_hardware() -> Hardware:
    """The reader for the host that this process runs on."""
    library = nvml.load_library()
    devices = None if library is None else NvmlDevices(library, owner=owner_and_command)
    return LocalHardware(CpuHardware(), devices)
