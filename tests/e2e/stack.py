"""Starts the whole of Forebay in a directory of its own, and speaks to it as people and applications do."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import celery
import httpx
import redis

from tests.e2e import procs
from tests.e2e.procs import wait_for
from tests.e2e.seed import MODEL, PASSWORD, USER

REPOSITORY = Path(__file__).parents[2]
SCALE = 0.1
ENGINE_PORTS = 100
START_SECONDS = 60.0
STOP_SECONDS = 60.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_range() -> int:
    """The first of a row of ports below the ephemeral ones, most of them free."""
    for first in range(20_000 + os.getpid() % 100 * 100, 32_000, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", first))
            return first
    raise AssertionError("no free ports")


def base_environment(place: Path) -> dict[str, str]:
    """What every process of a stack gets, and nothing of the test run's own settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "FOREBAY_DATA_DIR": str(place),
        "FOREBAY_NODE_NAME": "e2e",
        "FOREBAY_TIME_SCALE": str(SCALE),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
    }


def make_template() -> Path:
    """A data directory with everything stored that each stack begins with."""
    # In /tmp: a socket's path must be short.
    place = Path(tempfile.mkdtemp(prefix="fb-", dir="/tmp"))
    environment = base_environment(place) | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.seed"],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return place


class Stack:
    """One installation. `start` and `stop` may be called again and again; `close` ends and checks everything."""

    def __init__(self, template: Path) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="fb-", dir="/tmp"))
        shutil.copytree(template, self.place, dirs_exist_ok=True)
        self.port, self.gateway_port, self.first_engine_port = free_port(), free_port(), free_range()
        self.script()
        self._up: subprocess.Popen[bytes] | None = None
        self.api = httpx.Client(base_url=f"http://127.0.0.1:{self.port}/api/v1/", timeout=20, trust_env=False)
        self.gateway = f"http://127.0.0.1:{self.gateway_port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of `forebay up`, and of any process that is started beside it."""
        last = self.first_engine_port + ENGINE_PORTS - 1
        return base_environment(self.place) | {"FOREBAY_ENGINE_PORTS": f"{self.first_engine_port}-{last}"}

    @property
    def socket(self) -> Path:
        """Valkey's socket."""
        return self.place / "run" / "valkey.sock"

    def script(self, **switches: Any) -> None:
        """How engines that start from now on behave."""
        fresh = self.place / "script.new"
        fresh.write_text(json.dumps(switches))
        fresh.rename(self.place / "script.json")

    # The whole of it

    def start(self, *options: str) -> None:
        """Run `forebay up` and wait until it serves and its agent reports."""
        command = [sys.executable, "-m", "controlplane.cli", "up", "--no-engine", *options]
        words = ("--port", str(self.port), "--gateway-port", str(self.gateway_port))
        with (self.place / "up.log").open("ab") as log:
            self._up = subprocess.Popen(
                [*command, *words], env=self.environment, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True
            )
        wait_for(self.serves, START_SECONDS, "forebay up serves")

    def serves(self) -> bool:
        """Whether everything runs, the pages answer, and the agent has reported."""
        assert self._up is not None
        assert self._up.poll() is None, (self.place / "up.log").read_text()[-3000:]
        with contextlib.suppress(httpx.TransportError, OSError, ValueError):
            running = {row["name"] for row in self.status()["processes"] if row["state"] == "running"}
            if not {"web", "gateway", "agent", "monitor", "scheduler", "control-worker"} <= running:
                return False
            self._sign_in()
            return any(node["reachable"] for node in self.get("nodes/")["results"])
        return False

    def _sign_in(self) -> None:
        if "Authorization" not in self.api.headers:
            token = self.post("tokens/", username=USER, password=PASSWORD)["token"]
            self.api.headers["Authorization"] = f"Token {token}"

    def interrupt(self) -> None:
        """Ctrl-C."""
        assert self._up is not None
        self._up.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """The exit code of `forebay up`."""
        assert self._up is not None
        code = self._up.wait(STOP_SECONDS)
        self._up = None
        return code

    def kill_everything(self) -> None:
        """SIGKILL to the supervisor and all that it runs; engines are left alone."""
        assert self._up is not None
        # The supervisor first: it would start the others again.
        self._up.kill()
        self._up.wait()
        self._up = None
        for row in self.status()["processes"]:
            if row["pid"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(row["pid"], signal.SIGKILL)

    def status(self) -> dict[str, Any]:
        """What the supervisor wrote last."""
        data: dict[str, Any] = json.loads((self.place / "run" / "status.json").read_text())
        return data

    def pid(self, name: str) -> int:
        """The number of one of the supervised processes, which must run."""
        return int(next(row["pid"] for row in self.status()["processes"] if row["name"] == name))

    def kill(self, name: str) -> int:
        """SIGKILL one supervised process and its children; returns its number once it is dead."""
        pid = self.pid(name)
        os.killpg(pid, signal.SIGKILL)
        wait_for(lambda: not procs.alive(pid), 5, f"{name} is dead")
        return pid

    @contextlib.contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """SIGSTOP these (`up` is the supervisor) for the block."""
        assert self._up is not None
        stopped = [self._up.pid if name == "up" else self.pid(name) for name in names]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def restarted(self, *names: str) -> None:
        """Wait until the supervisor has all of these running again."""

        def running() -> bool:
            rows = {row["name"]: row for row in self.status()["processes"]}
            return all(rows[name]["state"] == "running" and procs.alive(rows[name]["pid"]) for name in names)

        wait_for(running, 30, f"{names} run again")

    def close(self) -> None:
        """End what still runs by its number, and insist that nothing of this directory is left."""
        self.api.close()
        left: dict[int, str] = {}
        if self._up is not None:
            self.interrupt()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.ended()
            left = procs.using(self.place)
        else:
            self._end(procs.using(self.place))
        self._end(left)
        shutil.rmtree(self.place, ignore_errors=True)
        assert not left, f"processes were left: {left}"

    def _end(self, left: Mapping[int, str]) -> None:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # The API

    def get(self, path: str) -> Any:
        """GET, which must succeed."""
        answer = self.api.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, **body: Any) -> Any:
        """POST, which must succeed."""
        answer = self.api.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def profile(self, name: str, **compute: Any) -> None:
        """Store a small profile."""
        spec = {
            "model": MODEL,
            "compute": {"accelerator": "cpu", "cores": 0.1, "memory_gib": 0.1, "max_concurrency": 64, **compute},
            "batching": {"max_num_seqs": 64, "max_model_len": 2048, "kv_cache_mib": 16},
        }
        self.post("profiles/", name=name, spec=spec)

    def deploy(self, name: str, *, replicas: int = 1, drain_seconds: int = 10) -> str:
        """Store a profile, deploy it, and return the deployment's id once it is ready and routed."""
        self.profile(name)
        body = {"profile": name, "replicas": replicas, "drain_seconds": drain_seconds}
        deployment = str(self.post("deployments/", **body)["id"])
        self.until(deployment, "ready")
        self.routed(name, replicas)
        return deployment

    def routed(self, name: str, replicas: int) -> None:
        """Wait until the gateway routes a profile to all its ready replicas, which must be so many."""
        wait_for(lambda: self._routed(name, replicas), 30, f"{replicas} replicas of {name} are routed to")

    def _routed(self, name: str, replicas: int) -> bool:
        rows = self.deployment(self.deployment_of(name))["replicas"]
        ready = sorted(row["id"] for row in rows if row["phase"] == "ready")
        table = json.loads((self.place / "run" / "table.json").read_text())
        listed = sorted(table["profiles"].get(name, {}).get("replicas", ()))
        with self.valkey() as client:
            reports = [json.loads(client.get(key) or "{}") for key in client.keys("forebay:gateway:*")]
        known = bool(reports) and all((row.get("table_version") or 0) >= table["version"] for row in reports)
        return known and listed == ready and len(ready) == replicas

    def deployment(self, pk: str) -> Any:
        """One deployment with its replicas."""
        return self.get(f"deployments/{pk}/")

    def until(self, pk: str, status: str, seconds: float = 40) -> Any:
        """Wait for a deployment's status."""

        def look() -> Any:
            row = self.deployment(pk)
            self._last = row
            return row if row["status"] == status else None

        try:
            return wait_for(look, seconds, f"status {status}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps(self._last)[:3000]}") from None

    def deployment_of(self, profile: str) -> str:
        """The id of a profile's deployment."""
        rows = self.get("deployments/")["results"]
        return str(next(row["id"] for row in rows if row["profile"] == profile))

    def drain(self, pk: str, **body: Any) -> None:
        """Ask for the end of a deployment."""
        self.post(f"deployments/{pk}/drain/", **body)

    def remove(self, pk: str) -> None:
        """End a deployment without waiting for its requests."""
        self.drain(pk, drain_seconds=0)
        self.until(pk, "stopped")

    def replica(self, pk: str) -> Any:
        """One replica, ended or not."""
        return self.get(f"replicas/{pk}/")

    def replicas_of(self, pk: str) -> list[Any]:
        """Every replica that a deployment has had, the oldest first."""
        ids = dict.fromkeys(move["replica"] for move in reversed(self.deployment(pk)["transitions"]))
        return [self.replica(one) for one in ids]

    def record(self, replica: str) -> Any:
        """The run record of a replica."""
        return json.loads((self.place / "replicas" / replica / "run.json").read_text())

    def key(self, **fields: Any) -> str:
        """A new key for the gateway, usable at once."""
        secret = str(self.post("keys/", name="e2e", **({"profiles": ["*"]} | fields))["key"])
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=self.gateway, headers=headers, trust_env=False) as client:
            wait_for(lambda: client.get("/v1/models").status_code == 200, 10, "the key is known")
        return secret

    # What is stored

    def usage(self) -> dict[str, dict[str, Any]]:
        """Every usage record of the telemetry database, by request id."""
        return {row["id"]: dict(row) for row in self._read("telemetry", "select * from gateway_usagerecord")}

    def position(self) -> str:
        """Up to which entry of the stream usage is stored."""
        rows = self._read("telemetry", "select position from monitoring_ingestcursor")
        return str(rows[0][0]) if rows else ""

    def control(self, query: str) -> list[sqlite3.Row]:
        """Rows of the control database."""
        return self._read("control", query)

    def _read(self, database: str, query: str) -> list[sqlite3.Row]:
        path = f"file:{self.place}/{database}.sqlite3?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True, timeout=20)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query).fetchall()

    @contextlib.contextmanager
    def valkey(self) -> Iterator[redis.Redis]:
        """Forebay's own data in Valkey."""
        with contextlib.closing(redis.Redis(unix_socket_path=str(self.socket), db=3)) as client:
            yield client

    def send_twice(self, task: str, *args: str, queue: str) -> str:
        """Put one Celery message on its queue two times, as a broker that delivers twice does. Returns its id."""
        name = f"twice-{uuid.uuid4()}"
        with celery.Celery(broker=f"redis+socket://{self.socket}?virtual_host=0") as app:
            for _ in range(2):
                app.send_task(task, args=args, queue=queue, task_id=name)
        return name

    def task_done(self, name: str, queue: str) -> None:
        """Wait until a task was taken from its queue and is done, each time that it was sent."""
        with contextlib.closing(redis.Redis(unix_socket_path=str(self.socket), db=0)) as client:
            wait_for(
                lambda: (
                    not any(
                        name.encode() in message for message in [*client.lrange(queue, 0, -1), *client.hvals("unacked")]
                    )
                ),
                30,
                f"{name} is done",
            )
