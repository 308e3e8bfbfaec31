"""What `forebay doctor` says about engines and the demo weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.engine.findings import Finding
from controlplane.engine.install import default_home, device_kind
from controlplane.engine.spec import installs
from controlplane.engine.weights import MODEL_NAME, read_model

SETUP_AGAIN = "Run `forebay up` (or `forebay setup` while it runs)."


def engine_findings(*, engine_home: Path, setup: Mapping[str, Any]) -> list[Finding]:
    """FB010 missing, FB011 broken, or what stopped the last install; `setup` is the content of setup.json."""
    stopped = recorded_finding(setup, "engine")
    if stopped is not None:
        return [stopped]
    found = installs(engine_home)
    if found:
        return [
            Finding(id="FB010", level="ok", title="Engine", detail=f"vLLM {spec.version} ({spec.kind}): {spec.python}")
            for spec in found
        ]
    home = default_home(engine_home, device_kind())
    if step_state(setup, "engine") == "running":
        return [Finding(id="FB010", level="info", title="The engine is being installed", detail=str(home))]
    if home.exists():
        return [
            Finding(
                id="FB011",
                level="error",
                title="The engine install is not whole",
                detail=f"{home} has no marker, or its interpreter is gone.",
                fix=SETUP_AGAIN,
            )
        ]
    return [
        Finding(
            id="FB010",
            level="error",
            title="No engine is installed",
            detail=f"Nothing in {engine_home}.",
            fix=SETUP_AGAIN,
        )
    ]


def weights_findings(*, models_dir: Path, setup: Mapping[str, Any]) -> list[Finding]:
    """FB015: the demo model is missing, or could not be made."""
    stopped = recorded_finding(setup, "weights")
    if stopped is not None:
        return [stopped]
    folder = models_dir / MODEL_NAME
    if read_model(folder) is not None:
        return [Finding(id="FB015", level="ok", title="Demo model", detail=str(folder))]
    return [
        Finding(
            id="FB015",
            level="warning",
            title="No demo model",
            detail=f"{folder} is missing or not whole.",
            fix=SETUP_AGAIN,
        )
    ]


def step_state(setup: Mapping[str, Any], step: str) -> str | None:
    """The state of one step of setup.json."""
    for row in setup.get("steps", []):
        if row["id"] == step:
            return str(row["state"])
    return None


def recorded_finding(setup: Mapping[str, Any], step: str) -> Finding | None:
    """The finding with which a step of the last set-up failed."""
    for row in setup.get("steps", []):
        if row["id"] == step and row["state"] == "failed" and "finding" in row:
            return Finding(**row["finding"])
    return None
