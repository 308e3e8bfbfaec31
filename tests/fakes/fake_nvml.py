"""An NVML binding with invented devices: the functions of pynvml that we call, with its errors and its quirks."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 1024**3


class NVMLError(Exception):
    """The binding's base error."""


class NVMLError_LibraryNotFound(NVMLError):
    """No driver library on this host."""


class NVMLError_DriverNotLoaded(NVMLError):
    """The library is there, the kernel module isn't."""


class NVMLError_NotSupported(NVMLError):
    """This device can't tell."""


class NVMLError_GpuIsLost(NVMLError):
    """The device fell off the bus."""


def entry(pid: int, used: int | None) -> SimpleNamespace:
    """A process as the binding lists it; memory is None where the driver hides it."""
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


@dataclass
class FakeDevice:
    """One device. A function named in `unsupported` raises NotSupported; a lost device raises at its handle."""

    uuid: str | bytes = "GPU-1"
    name: str | bytes = "NVIDIA H200"
    compute: list[SimpleNamespace] = field(default_factory=list)
    graphics: list[SimpleNamespace] = field(default_factory=list)
    unsupported: set[str] = field(default_factory=set)
    lost: bool = False


class FakeNvml:
    """The binding: initialised before use, shut down after."""

    NVML_TEMPERATURE_GPU = 0
    NVMLError = NVMLError
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = NVMLError_DriverNotLoaded

    def __init__(
        self, devices: list[FakeDevice], *, init_error: NVMLError | None = None, count_error: NVMLError | None = None
    ) -> None:
        self.devices = devices
        self.init_error = init_error
        self.count_error = count_error
        self.open = 0

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise self.init_error
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        if self.count_error is not None:
            raise self.count_error
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeDevice:
        if self.devices[index].lost:
            raise NVMLError_GpuIsLost("GPU is lost")
        return self.devices[index]

    def __getattr__(self, name: str) -> Any:
        answer = ANSWERS[name]

        def call(device: FakeDevice, *_: Any) -> Any:
            if name in device.unsupported:
                raise NVMLError_NotSupported("Not Supported")
            return answer(device)

        return call


ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetUUID": lambda device: device.uuid,
    "nvmlDeviceGetName": lambda device: device.name,
    "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=141 * GIB, used=41 * GIB, free=100 * GIB),
    "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=25, memory=10),
    "nvmlDeviceGetPowerUsage": lambda _: 350_500,
    "nvmlDeviceGetPowerManagementLimit": lambda _: 700_000,
    "nvmlDeviceGetTemperature": lambda _: 51,
    "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
    "nvmlDeviceGetMigMode": lambda _: (0, 0),
    "nvmlDeviceGetComputeRunningProcesses": lambda device: device.compute,
    "nvmlDeviceGetGraphicsRunningProcesses": lambda device: device.graphics,
}
