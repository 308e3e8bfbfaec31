"""`forebay status` and `forebay down`: what the supervisor wrote, checked against what lives; its orderly end."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from controlplane.local.console import say
from controlplane.local.files import read_json
from controlplane.local.identity import alive, known
from controlplane.local.lock import holder
from controlplane.local.options import UpOptions, resolve
from controlplane.local.paths import DataPaths

DOWN_SECONDS = 180.0
POLL_SECONDS = 0.2


def read_status(paths: DataPaths, *, now: float) -> dict[str, Any]:
    """The state of one data directory; a process that status.json calls running but that is gone is `dead`."""
    record = read_json(paths.status) or {"processes": []}
    running = holder(paths)
    rows = []
    for row in record["processes"]:
        process = known(row)
        gone = process is not None and not alive(process)
        rows.append({**row, "state": "dead" if gone else row["state"], "seconds": max(0.0, now - row["since"])})
    setup = read_json(paths.setup) or {"steps": []}
    state = record.get("state", "running") if running else "stopped"
    age = now - record["at"] if "at" in record else None
    return {**record, "state": state, "pid": running.pid if running else None, "age": age, "processes": rows, **setup}


def show(*, data_dir: Path | None = None, as_json: bool = False) -> int:
    """Print the state; 0 when everything runs, 3 when nothing does, 1 in between."""
    facts = read_status(resolve(UpOptions(data_dir=data_dir)).paths, now=time.time())
    if as_json:
        say(json.dumps(facts, indent=2))
    else:
        _print(facts)
    if facts["state"] == "stopped":
        return 3
    return 0 if all(row["state"] in {"running", "done", "waiting"} for row in facts["processes"]) else 1


def _print(facts: dict[str, Any]) -> None:
    if facts["state"] == "stopped":
        say("Forebay is not running here. Start it with `forebay up`.")
        return
    say(f"Forebay is {facts['state']} (process {facts['pid']}): {facts['address']}, gateway {facts['gateway']}")
    table = Table(box=None, pad_edge=False)
    for title in ("process", "state", "pid", "for", "restarts", "last exit"):
        table.add_column(title)
    for row in facts["processes"]:
        last = row["last_exit"]
        ended = "" if last is None else f"{last['code']}{'' if last['clean'] else ' (not clean)'}"
        table.add_row(
            row["name"], row["state"], str(row["pid"] or ""), f"{row['seconds']:.0f} s", str(row["restarts"]), ended
        )
    Console().print(table)
    for step in facts["steps"]:
        share = "" if step["fraction"] is None else f" {step['fraction']:.0%}"
        say(f"{step['title']}: {step['state']}{share} {step['detail']}")


def down(*, data_dir: Path | None = None, timeout_seconds: float = DOWN_SECONDS) -> int:
    """Ask the running `forebay up` to stop and wait for it; 0 when nothing runs any more, 1 when it still does."""
    paths = resolve(UpOptions(data_dir=data_dir)).paths
    process = holder(paths)
    if process is None:
        say("Forebay is not running here.")
        return 0
    say(f"Stopping Forebay (process {process.pid}); engines are drained first.")
    os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    while alive(process):
        if time.monotonic() > deadline:
            say(f"It still runs after {timeout_seconds:.0f} s; look into {paths.logs}.")
            return 1
        time.sleep(POLL_SECONDS)
    say("Stopped.")
    return 0
