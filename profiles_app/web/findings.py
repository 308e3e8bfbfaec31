"""What is wrong on the host, gathered from what its parts report: one finding each, with its fix. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

WELL = frozenset({"running", "starting", "waiting", "done", "stopping"})
RESTARTED = "It is started again with a growing delay; its log says why it ended."


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. ``state`` names a mark."""

    state: str
    what: str
    detail: str
    fix: str


def findings(
    *, steps: Iterable[Mapping[str, Any]], processes: Iterable[Mapping[str, Any]], nodes: Mapping[str, Iterable[str]]
) -> list[Finding]:
    """Findings, worst first. ``nodes`` maps a node's name to the problems that its agent reports."""
    found = [
        Finding("error", str(step.get("title", "A step failed")), str(step.get("detail", "")), str(step.get("fix", "")))
        for step in steps
        if step.get("state") == "failed"
    ]
    found += [
        Finding("error", f"{row.get('name')} does not run", _exit(row.get("last_exit")), RESTARTED)
        for row in processes
        if row.get("state") not in WELL
    ]
    return found + [Finding("warning", name, str(text), "") for name, texts in nodes.items() for text in texts]


def _exit(last: Any) -> str:
    """What the supervisor noted of the process's last end."""
    code = last.get("code") if isinstance(last, Mapping) else last
    return "" if code is None else f"Its last exit was {code}."
