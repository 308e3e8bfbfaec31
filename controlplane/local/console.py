"""What `forebay up` says on the terminal: plain lines, one a fact."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from controlplane.local.files import read_json

FOLLOW_PERIOD_SECONDS = 0.5
REPEAT_SECONDS = 5.0


def say(text: str = "") -> None:
    """One line for the person at the terminal; a terminal that is gone is no reason to stop."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        return


def echo(name: str, line: str) -> None:
    """A line of a process's log, with its name."""
    say(f"{name:>14} | {line}")


class SetupFollower:
    """Shows the moves of `run/setup.json`: each change of state, and a running step each five seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shown: dict[str, tuple[str, str]] = {}
        self._said_at = 0.0

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            for line in self.news(time.monotonic()):
                say(line)
            await asyncio.sleep(FOLLOW_PERIOD_SECONDS)

    def news(self, now: float) -> list[str]:
        """Lines for what is new since the last call; `now` in seconds."""
        record = read_json(self._path) or {}
        lines = []
        for step in record.get("steps", []):
            before = self._shown.get(step["id"], ("waiting", ""))
            current = (step["state"], step["detail"])
            moved = current[0] != before[0]
            if moved or (current != before and now - self._said_at >= REPEAT_SECONDS):
                self._shown[step["id"]] = current
                self._said_at = now
                lines += describe(step)
        return lines


def describe(step: dict[str, Any]) -> list[str]:
    """One step of setup.json as lines."""
    fraction = step["fraction"]
    share = f" {fraction:4.0%}" if step["state"] == "running" and fraction is not None else ""
    detail = f": {step['detail']}" if step["detail"] else ""
    lines = [f"  {step['title']}{share} ({step['state']}){detail}"]
    if step["state"] == "failed":
        lines.append(f"    What to do: {step['fix']}")
    return lines
