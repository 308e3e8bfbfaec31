"""Waits for a deployment to be as it was wished, telling each change once."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

POLL_SECONDS = 1.0

type Deployment = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the wait ended: ``ok``, the sentence for a person, and the deployment as it was last seen."""

    ok: bool
    message: str
    deployment: Deployment


def judge_start(deployment: Deployment) -> tuple[bool, str] | None:
    """(ok, sentence) once the wished replicas serve or cannot; None while it is open. Pure."""
    name = deployment["profile"]
    if deployment["generation"] != deployment["observed_generation"]:
        return None
    if deployment["status"] == "failed":
        return False, f"{name} failed: {_why(deployment)}"
    serving = [row for row in deployment["replicas"] if row["wanted"] and row["phase"] == "ready"]
    current = sum(row["revision"] == deployment["revision"] for row in serving)
    if deployment["status"] == "ready" and current >= deployment["wanted"]:
        return True, f"{name} is ready: {deployment['ready']} of {deployment['wanted']}."
    if deployment["status"] == "stopped" and deployment["wanted"] == 0:
        return True, f"{name} is stopped."
    return None


def judge_drain(deployment: Deployment) -> tuple[bool, str] | None:
    """(ok, sentence) once nothing runs any more; None while it is open. Pure."""
    if deployment["wanted"] > 0:
        return False, f"{deployment['profile']} was deployed again while it drained."
    return (True, f"{deployment['profile']} is stopped.") if deployment["status"] == "stopped" else None


def progress(deployment: Deployment) -> str:
    """What to tell while waiting. Pure."""
    lines = [f"{deployment['profile']}: {deployment['status']}, {deployment['ready']} of {deployment['wanted']} ready"]
    for row in deployment["replicas"]:
        lines.append(f"  #{row['slot']} {row['phase']} ({row['reason']}) {row['message']}".rstrip() + _drain(row))
    return "\n".join(lines)


def _drain(row: Mapping[str, Any]) -> str:
    drain = row["drain"]
    if not drain or row["phase"] != "draining":
        return ""
    in_flight = "in flight unknown" if drain["in_flight"] is None else f"{drain['in_flight']} in flight"
    waiting = f", waiting for {', '.join(drain['waiting_for'])}" if drain["waiting_for"] else ""
    return f" [{in_flight}{waiting}]"


def _why(deployment: Deployment) -> str:
    failure = deployment["last_failure"] or {}
    said = " ".join(filter(None, (failure.get("message"), failure.get("fix"))))
    return said or "no replica says why; look at `forebay logs`."


def wait_for(
    fetch: Callable[[], Deployment],
    judge: Callable[[Deployment], tuple[bool, str] | None],
    *,
    tell: Callable[[str], None],
    timeout_seconds: float,
    poll_seconds: float = POLL_SECONDS,
) -> Outcome:
    """Fetch until ``judge`` has an answer or ``timeout_seconds`` have passed."""
    deadline = time.monotonic() + timeout_seconds
    told = ""
    while True:
        deployment = fetch()
        verdict = judge(deployment)
        if verdict is not None:
            return Outcome(*verdict, deployment)
        if (now := progress(deployment)) != told:
            told = now
            tell(now)
        left = deadline - time.monotonic()
        if left <= 0:
            where = f"{deployment['profile']} is still {deployment['status']}"
            message = f"{where} after {timeout_seconds:g} s; only the waiting ends."
            return Outcome(False, message, deployment)
        time.sleep(min(poll_seconds, left))
