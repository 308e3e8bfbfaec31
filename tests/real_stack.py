"""Runs the real stack with the real engine for a test session, as `make run` does, in a folder of its own."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
USER, PASSWORD = "ada", "tall-grey-otter-9"
START_SECONDS = 120.0
SETUP_SECONDS = 420.0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for[T](what: str, look: Callable[[], T | None], *, seconds: float, pause: float = 0.2) -> T:
    """The first true answer of ``look``; an AssertionError that names ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(pause)


class RealStack:
    """One `forebay up` with the shared engine install and demo weights."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.log = root / "up.log"
        self.port, self.gateway_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.gateway_url = f"http://127.0.0.1:{self.gateway_port}/v1"
        self.process: subprocess.Popen[bytes] | None = None
        self.started_in = 0.0

    def start(self) -> None:
        """Start, and wait until the pages answer."""
        env = {name: value for name, value in os.environ.items() if name not in {"DJANGO_SETTINGS_MODULE"}}
        env = {name: value for name, value in env.items() if name not in {"FOREBAY_SECRET_KEY", "FOREBAY_DATA_DIR"}}
        env |= {
            "FOREBAY_ENGINE_HOME": os.environ.get("FOREBAY_ENGINE_HOME", str(ROOT / ".forebay" / "engines")),
            "FOREBAY_MODELS_HOME": os.environ.get("FOREBAY_MODELS_HOME", str(ROOT / ".forebay" / "models")),
            "FOREBAY_ENGINE_PORTS": "19100-19199",
        }
        argv = [sys.executable, "-m", "controlplane.cli", "up", "--data-dir", str(self.data)]
        argv += ["--port", str(self.port), "--gateway-port", str(self.gateway_port)]
        began = time.monotonic()
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT)
        wait_for("the stack to be ready", self._is_ready, seconds=START_SECONDS)
        self.started_in = time.monotonic() - began

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"forebay up ended:\n{self.text()}"
        return "ready after" in self.text()

    def text(self) -> str:
        """What `forebay up` has printed."""
        return self.log.read_text(errors="replace")

    def setup_link(self) -> str:
        """The one-time link of the first administrator."""
        found = re.search(r"once:\s+(http\S+)", self.text())
        assert found, self.text()
        return found.group(1)

    def wait_for_setup(self) -> None:
        """Until the engine is registered and the demo profiles are stored."""
        path = self.data / "run" / "setup.json"

        def done() -> bool:
            steps = json.loads(path.read_text())["steps"] if path.exists() else []
            failed = [step for step in steps if step["state"] == "failed"]
            assert not failed, failed
            return bool(steps) and all(step["state"] == "done" for step in steps)

        wait_for("the set-up", done, seconds=SETUP_SECONDS, pause=0.5)

    def client(self, token: str) -> httpx.Client:
        """The REST API with a token."""
        return httpx.Client(
            base_url=f"{self.url}/api/v1/", headers={"Authorization": f"Token {token}"}, timeout=30, trust_env=False
        )

    def token(self) -> str:
        """A token of the administrator."""
        answer = httpx.post(f"{self.url}/api/v1/tokens/", json={"username": USER, "password": PASSWORD}, timeout=30)
        answer.raise_for_status()
        token: str = answer.json()["token"]
        return token

    def make_administrator(self) -> None:
        """Use the one-time link as a person would, without a browser."""
        link = self.setup_link()
        with httpx.Client(headers={"Referer": f"{self.url}/"}, follow_redirects=True, timeout=30) as client:
            client.get(link)
            form = {"username": USER, "password": PASSWORD, "again": PASSWORD}
            answer = client.post(link, data=form | {"csrfmiddlewaretoken": client.cookies["csrftoken"]})
            assert answer.status_code == 200, answer.text

    def stop(self) -> int:
        """Ctrl-C, and wait: engines are drained. Returns the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=120)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def leftovers(self) -> list[str]:
        """Command lines of processes that still carry this stack's data folder: there must be none."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environ = (folder / "environ").read_bytes()
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.data).encode() in environ and int(folder.name) != os.getpid():
                found.append(f"{folder.name} {line}")
        return found


def new_root() -> Path:
    """A short folder: a unix socket's path must stay under 100 bytes."""
    return Path(tempfile.mkdtemp(prefix="fb-", dir="/tmp"))


def deployment_until(client: httpx.Client, pk: str, status: str, *, seconds: float) -> dict[str, Any]:
    """The deployment once it has the status; fails at once when it has failed instead."""
    data: dict[str, Any] = {}

    def look() -> bool:
        data.update(client.get(f"deployments/{pk}/").raise_for_status().json())
        assert data["status"] == status or data["status"] != "failed", data
        return bool(data["status"] == status)

    try:
        wait_for(f"deployment {status}", look, seconds=seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; last seen: {data}") from error
    return data
