"""The node's long-lived process: its own timer for lease, inventory and node pass, and beside it a Celery worker.

The timer writes straight to the database, so that a silent broker makes no node unreachable and hides no crash.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from celery import Celery, shared_task
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from profiles_app.hardware.local import local_hardware
from profiles_app.reconciler import node as node_pass
from profiles_app.reconciler.timings import timings
from profiles_app.runtimes import process
from profiles_app.services.nodes import node_join, node_lease_renew, node_reported
from profiles_app.wakeups import NODE_PASS, node_queue

logger = logging.getLogger(__name__)


def this_host() -> node_pass.Host:
    """The node that this process runs on."""
    root: Path = settings.FOREBAY.data_dir / "replicas"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return node_pass.Host(name=settings.FOREBAY.node_name, runtime=process, run_root=root, times=timings())


class PassGate:
    """Runs one node pass at a time. A call during a pass makes it run once more, so that no wake-up is lost."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._running = threading.Lock()
        self._again = threading.Event()

    def run(self) -> bool:
        """Run a pass now, or leave word for the running one. False in the second case."""
        self._again.set()
        ran = False
        # Looked at again after the release: word left between the last look and the release would be lost.
        while self._again.is_set() and self._running.acquire(blocking=False):
            ran = True
            try:
                while self._again.is_set():
                    self._again.clear()
                    self._work()
            finally:
                self._running.release()
        return ran


def run_node_pass() -> None:
    """One node pass over this host."""
    node_pass.run_pass(this_host(), now=timezone.now)


GATE = PassGate(run_node_pass)


@shared_task(name=NODE_PASS)
def node_pass_task(node_name: str) -> None:
    """Look at this node now instead of at the next timer. Only the agent's own worker reads the node's queue."""
    GATE.run()


class Timer(threading.Thread):
    """Renews the lease, reads the hardware and runs the node pass, each at its period, until stopped."""

    def __init__(self) -> None:
        super().__init__(name="node-timer", daemon=True)
        self._stop_asked = threading.Event()

    def stop(self) -> None:
        """Ask the timer to end after its current round."""
        self._stop_asked.set()

    def run(self) -> None:
        """Go on until stopped; one failing round is logged and the next one tries again."""
        times = timings()
        next_inventory = 0.0
        while not self._stop_asked.is_set():
            started = time.monotonic()
            try:
                close_old_connections()
                node_lease_renew(settings.FOREBAY.node_name, seconds=times.node_lease, now=timezone.now())
                if started >= next_inventory:
                    report_inventory()
                    next_inventory = started + times.inventory_period
                GATE.run()
            except Exception:
                logger.exception("a round of the node's timer failed")
            self._stop_asked.wait(max(0.05, times.node_pass_period - (time.monotonic() - started)))


def report_inventory() -> None:
    """Read this host's hardware and store it."""
    node_reported(settings.FOREBAY.node_name, reading=local_hardware().read(), now=timezone.now())


def run(celery_app: Celery) -> None:
    """Be the agent of this node until a signal ends it. Engines go on: the next agent adopts them."""
    name = settings.FOREBAY.node_name
    node_join(name, now=timezone.now())
    report_inventory()
    timer = Timer()
    timer.start()
    try:
        celery_app.worker_main(
            [
                "worker",
                "--pool=threads",
                "--concurrency=2",
                f"--queues={node_queue(name)}",
                "--loglevel=INFO",
                f"--hostname=agent@{name}",
                "--without-mingle",
                "--without-gossip",
            ]
        )
    finally:
        timer.stop()
        timer.join(timeout=30)
