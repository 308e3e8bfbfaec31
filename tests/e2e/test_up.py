"""`forebay up` with its real processes: the address, the one-time link, a second start, a crash, and the end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.local.identity import alive, known
from controlplane.local.paths import DataPaths
from controlplane.status import read_status

LIMIT_SECONDS = 90.0
FOREBAY = (sys.executable, "-m", "controlplane.cli")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


class Running:
    """One `forebay up` on a data directory and free ports of its own, and the commands that look at it."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.paths = DataPaths(folder / "data")
        self.ports = (port or free_port(), free_port())
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith(("FOREBAY_", "DJANGO_", "COV_"))
        }
        self.environ = {**environ, "FOREBAY_TIME_SCALE": "0.2"}
        self.output = folder / "output"
        words = ("--port", str(self.ports[0]), "--gateway-port", str(self.ports[1]), "--no-engine")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*FOREBAY, "up", "--data-dir", str(self.paths.root), *words],
                stdout=output,
                stderr=output,
                env=self.environ,
            )

    def said(self) -> str:
        return self.output.read_text()

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [*FOREBAY, *words, "--data-dir", str(self.paths.root)]
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=self.environ, timeout=LIMIT_SECONDS
        )

    def row(self, name: str) -> dict[str, Any]:
        rows = read_status(self.paths, now=time.time())["processes"]
        return next((row for row in rows if row["name"] == name), {"state": None, "pid": None})


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    machine = Running(tmp_path)
    try:
        yield machine
    finally:
        if machine.process.poll() is None:
            machine.process.terminate()
            machine.process.wait(LIMIT_SECONDS)


def test_one_command_starts_everything_keeps_it_running_and_stops_it_whole(running: Running) -> None:
    until(lambda: "Ctrl-C" in running.said() or running.process.poll() is not None)
    link = re.search(r"http://\S+/setup/\S+", running.said())
    assert link is not None, running.said()
    assert httpx.get(link[0]).status_code == 200

    second = running.command("up")
    assert second.returncode == 1
    assert f"process {running.process.pid}" in second.stdout

    until(lambda: all(running.row(name)["state"] == "running" for name in ("gateway", "agent", "monitor", "scheduler")))
    first = running.row("gateway")
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: running.row("gateway")["state"] == "running" and running.row("gateway")["pid"] != first["pid"])
    assert running.row("gateway")["restarts"] == 1
    status = running.command("status", "--json")
    assert status.returncode == 0
    rows = json.loads(status.stdout)["processes"]

    assert running.command("down").returncode == 0
    assert running.process.wait(LIMIT_SECONDS) == 0
    assert [row["name"] for row in rows if (process := known(row)) is not None and alive(process)] == []
    assert {row["state"] for row in read_status(running.paths, now=time.time())["processes"]} <= {"stopped", "waiting"}
    assert running.command("status").returncode == 3


def test_a_taken_port_ends_the_start_with_its_owner_and_leaves_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        machine = Running(tmp_path, port=port)
        assert machine.process.wait(LIMIT_SECONDS) == 1
    assert f"Port {port} is taken by" in machine.said()
    assert f"(process {os.getpid()})" in machine.said()
    assert read_status(machine.paths, now=time.time())["state"] == "stopped"
