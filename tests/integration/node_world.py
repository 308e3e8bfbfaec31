"""One node for tests of its pass: real engine processes, and a clock that a test may put forward."""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from profiles_app.models import EngineInstall, Node, Replica
from profiles_app.reconciler.node import Host, run_pass
from profiles_app.runtimes import process, procfs
from profiles_app.runtimes.base import Record
from profiles_app.states import ReplicaPhase as P
from tests.factories import make_deployment, make_engine, make_placed, make_profile


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_alive(pid: int) -> bool:
    """Whether the process runs: a zombie does not."""
    seen = procfs.process(pid)
    return seen is not None and seen.alive


@dataclass
class World:
    """One node with a clock that a test may put forward."""

    host: Host
    node: Node
    script: Path
    ahead: timedelta = field(default_factory=timedelta)

    def now(self) -> datetime:
        """The moment that passes are told."""
        return timezone.now() + self.ahead

    def forward(self, seconds: float) -> None:
        """Put the clock forward."""
        self.ahead += timedelta(seconds=seconds)

    def engine(self, **switches: object) -> EngineInstall:
        """The node's engine, which from now on starts with these switches."""
        self.script.write_text(json.dumps(switches))
        return make_engine(self.node, script=self.script)

    def pending(self, name: str = "fast", **switches: object) -> Replica:
        """A placed replica of a new deployment; its engine starts with these switches."""
        self.engine(**switches)
        return make_placed(make_deployment(make_profile(name)), node=self.node, port=free_port(), now=self.now())

    def started(self, name: str = "fast", **switches: object) -> Replica:
        """A replica whose engine process runs."""
        row = self.pending(name, **switches)
        self.run_until(row, P.STARTING)
        return row

    def ready(self, name: str = "fast", **switches: object) -> Replica:
        """A replica that is proven ready."""
        row = self.pending(name, **switches)
        self.run_until(row, P.READY)
        return row

    def run(self) -> None:
        """One pass."""
        run_pass(self.host, now=self.now)

    def run_until(self, row: Replica, phase: P, *, seconds: float = 20.0) -> None:
        """Run passes until the replica has the phase; other phases on the way are the business of the test."""

        def there() -> bool:
            self.run()
            row.refresh_from_db()
            return row.phase == phase

        assert eventually(there, seconds=seconds), f"{row.phase}: {row.message}"

    def record(self, row: Replica) -> Record:
        """The run record of a replica that was launched."""
        record = process.read_record(self.host.run_root / str(row.pk))
        assert record is not None
        return record


def eventually(condition: Callable[[], bool], *, seconds: float = 20.0) -> bool:
    """Wait for an outside process to do something; the condition, not the waiting, is what a test asserts."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.03)
    return condition()
