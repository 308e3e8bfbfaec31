"""What is read of a host, and what is not known stays unknown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiles_app.hardware import nvml
from profiles_app.hardware.base import DeviceProcess, DeviceReading, Hardware
from profiles_app.hardware.cpu import CpuHardware, owner_and_command, read_boot_id
from profiles_app.hardware.local import LocalHardware, local_hardware
from profiles_app.hardware.nvml import NvmlDevices
from tests.fakes.fake_nvml import (
    ANSWERS,
    GIB,
    FakeDevice,
    FakeNvml,
    NVMLError,
    NVMLError_DriverNotLoaded,
    NVMLError_LibraryNotFound,
    entry,
)


def owner(pid: int) -> tuple[str | None, str | None]:
    return ("alice", "python train.py") if pid == 7 else (None, None)


def devices(library: FakeNvml) -> NvmlDevices:
    return NvmlDevices(library, owner=owner)


def test_a_device_is_read_in_bytes_watts_and_ratios() -> None:
    library = FakeNvml([FakeDevice(compute=[entry(7, 40 * GIB)])])
    assert devices(library).read() == (
        (
            DeviceReading(
                uuid="GPU-1",
                index=0,
                name="NVIDIA H200",
                memory_total_bytes=141 * GIB,
                memory_used_bytes=41 * GIB,
                memory_free_bytes=100 * GIB,
                utilization=0.25,
                power_watts=350.5,
                power_limit_watts=700.0,
                temperature_c=51.0,
                compute_capability="9.0",
                mig_mode=False,
                processes=(DeviceProcess(pid=7, memory_bytes=40 * GIB, user="alice", command="python train.py"),),
            ),
        ),
        (),
    )
    assert library.open == 0


def test_what_a_device_can_not_tell_is_unknown_and_not_zero() -> None:
    device = FakeDevice(unsupported=set(ANSWERS) - {"nvmlDeviceGetUUID"})
    (reading,), problems = devices(FakeNvml([device])).read()
    told = {name for name in DeviceReading.__dataclass_fields__ if getattr(reading, name) is not None}
    assert told == {"uuid", "index", "processes"}
    assert reading.processes == ()
    assert problems == ("GPU 0 doesn't tell which processes use it",)


@pytest.mark.parametrize("broken", [FakeDevice(lost=True), FakeDevice(unsupported={"nvmlDeviceGetUUID"})])
def test_one_failing_device_does_not_hide_the_others(broken: FakeDevice) -> None:
    found, problems = devices(FakeNvml([broken, FakeDevice(uuid=b"GPU-2", name=b"NVIDIA L4")])).read()
    assert [(reading.index, reading.uuid, reading.name) for reading in found] == [(1, "GPU-2", "NVIDIA L4")]
    assert len(problems) == 1
    assert problems[0].startswith("GPU 0 can't be read")


def test_a_process_counts_once_and_hidden_memory_is_unknown() -> None:
    device = FakeDevice(compute=[entry(9, None), entry(7, GIB)], graphics=[entry(7, GIB)])
    (reading,), _ = devices(FakeNvml([device])).read()
    assert [(process.pid, process.memory_bytes, process.user) for process in reading.processes] == [
        (7, GIB, "alice"),
        (9, None, None),
    ]


@pytest.mark.parametrize("error", [NVMLError_LibraryNotFound("no library"), NVMLError_DriverNotLoaded("no driver")])
def test_a_host_without_a_driver_has_no_devices_and_no_problem(error: NVMLError) -> None:
    assert devices(FakeNvml([], init_error=error)).read() == ((), ())


def test_a_driver_that_does_not_work_is_a_problem() -> None:
    assert devices(FakeNvml([], init_error=NVMLError("version mismatch"))).read() == (
        (),
        ("NVML can't be used: version mismatch",),
    )
    library = FakeNvml([], count_error=NVMLError("unknown"))
    assert devices(library).read() == ((), ("NVML can't count the devices: unknown",))
    assert library.open == 0


def test_a_host_with_a_device_is_of_kind_gpu() -> None:
    reading = LocalHardware(CpuHardware(), devices(FakeNvml([FakeDevice()]))).read()
    assert (reading.kind, len(reading.devices), reading.problems) == ("gpu", 1, ())


def test_a_host_whose_devices_can_not_be_read_is_not_taken_for_a_cpu_host() -> None:
    reading = LocalHardware(CpuHardware(), devices(FakeNvml([FakeDevice(lost=True)]))).read()
    assert (reading.kind, reading.devices, len(reading.problems)) == ("gpu", (), 1)


@pytest.mark.parametrize("found", [None, NvmlDevices(FakeNvml([]), owner=owner)])
def test_a_host_without_devices_is_of_kind_cpu(found: NvmlDevices | None) -> None:
    reading = LocalHardware(CpuHardware(), found).read()
    assert (reading.kind, reading.devices) == ("cpu", ())


def test_the_host_itself_is_read() -> None:
    reading = local_hardware().read()
    assert reading.cores == len(os.sched_getaffinity(0))
    assert reading.boot_id == read_boot_id()
    assert reading.memory_total_bytes is not None
    assert reading.memory_available_bytes is not None
    assert 0 < reading.memory_available_bytes <= reading.memory_total_bytes


def test_a_system_without_a_boot_id_has_none(tmp_path: Path) -> None:
    assert read_boot_id(tmp_path / "none") is None


def test_a_process_has_an_owner_and_a_command_as_far_as_it_can_be_seen() -> None:
    user, command = owner_and_command(os.getpid())
    assert user
    assert command is not None
    assert "python" in command
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert owner_and_command(ended.pid) == (None, None)


def test_the_binding_is_found_without_its_deprecation_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert hasattr(nvml.load_library(), "nvmlInit")


def test_a_host_without_the_binding_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    hardware: Hardware = local_hardware()
    assert hardware.read().kind == "cpu"
