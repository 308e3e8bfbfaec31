"""Reads NVIDIA devices through NVML: the only importer of pynvml."""

import warnings
from collections.abc import Callable
from typing import Any

from profiles_app.hardware.base import DeviceProcess, DeviceReading


def load_library() -> Any | None:
    """The NVML binding; None where it isn't installed. Its name is deprecated, which it says at each import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import pynvml
        except ImportError:
            return None
    return pynvml


class NvmlDevices:
    """All NVIDIA devices of this host, by an NVML binding (pynvml, or what behaves like it)."""

    def __init__(self, library: Any, *, owner: Callable[[int], tuple[str | None, str | None]]) -> None:
        self._nvml = library
        self._owner = owner

    def read(self) -> tuple[tuple[DeviceReading, ...], tuple[str, ...]]:
        """Devices and problems. A device that fails is named as a problem, and the others are still read.

        A host without the NVIDIA driver is a host without devices, and no problem.
        """
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            absent = isinstance(error, (self._nvml.NVMLError_LibraryNotFound, self._nvml.NVMLError_DriverNotLoaded))
            return (), () if absent else (f"NVML can't be used: {error}",)
        try:
            return self._read_all()
        finally:
            self._nvml.nvmlShutdown()

    def _read_all(self) -> tuple[tuple[DeviceReading, ...], tuple[str, ...]]:
        devices: list[DeviceReading] = []
        problems: list[str] = []
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            return (), (f"NVML can't count the devices: {error}",)
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                processes = self._processes(handle)
                devices.append(self._device(handle, index=index, processes=processes or ()))
            except self._nvml.NVMLError as error:
                problems.append(f"GPU {index} can't be read: {error}")
                continue
            if processes is None:
                problems.append(f"GPU {index} doesn't tell which processes use it")
        return tuple(devices), tuple(problems)

    def _device(self, handle: Any, *, index: int, processes: tuple[DeviceProcess, ...]) -> DeviceReading:
        """One device. Without a UUID it can't be told from another, so that question may raise NVMLError."""
        nvml = self._nvml
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        limit = self._ask(nvml.nvmlDeviceGetPowerManagementLimit, handle)
        temperature = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        capability = self._ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
        mig = self._ask(nvml.nvmlDeviceGetMigMode, handle)
        return DeviceReading(
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            index=index,
            name=_optional(_text, self._ask(nvml.nvmlDeviceGetName, handle)),
            memory_total_bytes=_optional(lambda info: int(info.total), memory),
            memory_used_bytes=_optional(lambda info: int(info.used), memory),
            memory_free_bytes=_optional(lambda info: int(info.free), memory),
            utilization=_optional(lambda info: info.gpu / 100, rates),
            power_watts=_optional(lambda milliwatts: milliwatts / 1000, power),
            power_limit_watts=_optional(lambda milliwatts: milliwatts / 1000, limit),
            temperature_c=_optional(float, temperature),
            compute_capability=_optional(lambda pair: f"{pair[0]}.{pair[1]}", capability),
            mig_mode=_optional(lambda pair: bool(pair[0]), mig),
            processes=processes,
        )

    def _processes(self, handle: Any) -> tuple[DeviceProcess, ...] | None:
        """Compute and graphics processes; a process that is both counts once."""
        nvml = self._nvml
        answers = [
            self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle),
            self._ask(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle),
        ]
        known = [answer for answer in answers if answer is not None]
        if not known:
            return None
        found = {int(entry.pid): entry for answer in known for entry in answer}
        return tuple(self._process(entry) for _, entry in sorted(found.items()))

    def _process(self, entry: Any) -> DeviceProcess:
        user, command = self._owner(int(entry.pid))
        used = entry.usedGpuMemory
        return DeviceProcess(
            pid=int(entry.pid), memory_bytes=None if used is None else int(used), user=user, command=command
        )

    def _ask[T](self, call: Callable[..., T], *arguments: Any) -> T | None:
        """One question; None when this device, driver or user can't have the answer."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError:
            return None


def _optional[T](convert: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else convert(value)


def _text(value: str | bytes) -> str:
    """Old bindings answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
