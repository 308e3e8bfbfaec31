"""The scheduler: starts periodic work under a lease, so that two of them never fire twice.

While the broker is down it does the work itself: a pass needs the database only.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import close_old_connections
from django.utils import timezone

from gateway.services import drain_reports_write, table_publish
from profiles_app.reconciler import deployment
from profiles_app.reconciler.timings import timings
from profiles_app.services.leases import lease_release, lease_take
from profiles_app.wakeups import DEPLOYMENT_PASS, GATEWAY_DRAIN_REPORT, GATEWAY_PUBLISH, send

logger = logging.getLogger(__name__)
LEASE = "scheduler"


@dataclass(frozen=True, slots=True)
class Entry:
    """Work that is due every ``period`` seconds: its task, and the same work done here."""

    task: str
    period: float
    inline: Callable[..., object]


def entries() -> tuple[Entry, ...]:
    """The timetable."""
    period = timings().deployment_pass_period
    return (
        Entry(DEPLOYMENT_PASS, period, deployment.run_pass),
        Entry(GATEWAY_PUBLISH, period, table_publish),
        Entry(GATEWAY_DRAIN_REPORT, period / 2, drain_reports_write),
    )


class Scheduler:
    """Fires what is due while it holds the lease."""

    def __init__(self, *, holder: str | None = None) -> None:
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}"
        self.table = entries()
        self._due = dict.fromkeys((entry.task for entry in self.table), 0.0)

    def tick(self, *, now: datetime, clock: float) -> list[str]:
        """Fire every entry that is due at monotonic ``clock``. Returns the tasks fired; none without the lease."""
        seconds = timings().scheduler_lease
        if lease_take(LEASE, holder=self.holder, seconds=seconds, now=now) is None:
            return []
        fired = []
        for entry in self.table:
            if self._due[entry.task] <= clock:
                self._due[entry.task] = clock + entry.period
                if not send(entry.task):
                    entry.inline(now=now)
                fired.append(entry.task)
        return fired

    def release(self, *, now: datetime) -> None:
        """Let another scheduler take over at once."""
        lease_release(LEASE, holder=self.holder, now=now)


def run(should_stop: Callable[[], bool]) -> None:
    """Tick until asked to stop."""
    scheduler = Scheduler()
    pause = min(entry.period for entry in scheduler.table) / 2
    while not should_stop():
        try:
            close_old_connections()
            scheduler.tick(now=timezone.now(), clock=time.monotonic())
        except Exception:
            logger.exception("a tick of the scheduler failed")
        time.sleep(pause)
    scheduler.release(now=timezone.now())
