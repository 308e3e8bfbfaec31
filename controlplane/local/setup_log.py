"""How far the set-up is, as `run/setup.json`: the dashboard and the console both show this file."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controlplane.engine.findings import Finding
from controlplane.local.files import write_json

WRITE_PERIOD_SECONDS = 0.5


class SetupLog:
    """The steps with their states `waiting`, `running`, `done`, `failed`. Small moves are written twice a second."""

    def __init__(self, path: Path, steps: Sequence[tuple[str, str]]) -> None:
        self._path = path
        self._written = 0.0
        self._steps: dict[str, dict[str, Any]] = {
            step: {
                "id": step,
                "title": title,
                "state": "waiting",
                "detail": "",
                "fraction": None,
                "started_at": None,
                "ended_at": None,
                "fix": "",
            }
            for step, title in steps
        }
        self._write()

    def start(self, step: str) -> None:
        """The step begins."""
        self._steps[step].update(state="running", started_at=time.time(), fraction=0.0)
        self._write()

    def report(self, step: str, detail: str, fraction: float | None) -> None:
        """The step says what it does; a fraction of 0..1, or None while it is not known."""
        self._steps[step].update(detail=detail, fraction=fraction)
        if time.monotonic() - self._written >= WRITE_PERIOD_SECONDS:
            self._write()

    def done(self, step: str, detail: str = "") -> None:
        """The step has ended well."""
        row = self._steps[step]
        row.update(state="done", ended_at=time.time(), fraction=1.0, detail=detail or row["detail"])
        self._write()

    def failed(self, step: str, finding: Finding) -> None:
        """The step cannot go on; what comes after it waits for the next start."""
        row = self._steps[step]
        row.update(state="failed", ended_at=time.time(), detail=f"{finding.title}. {finding.detail}", fix=finding.fix)
        row["finding"] = finding.as_dict()
        self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        write_json(self._path, {"steps": list(self._steps.values())})
