"""`manage.py stop_engines`: drains and ends every replica of this node, before its control plane goes down."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from profiles_app.models import Replica
from profiles_app.reconciler.timings import timings
from profiles_app.selectors import wanted_on_node
from profiles_app.services.nodes import node_stopping
from profiles_app.services.replicas import replica_unwant
from profiles_app.states import Reason

LEEWAY_SECONDS = 15


class Command(BaseCommand):
    """Wish every replica here away and wait until each is proven gone. The wishes of deployments stay."""

    help = "Drain and stop every replica of this node; deployments start again with the next start."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the longest wait."""
        parser.add_argument(
            "--timeout", type=float, help="Seconds; the longest drain and the stop after it if left out"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Unwant, wait, and say what is left."""
        name = settings.FOREBAY.node_name
        node_stopping(name)
        asked: float | None = options["timeout"]
        deadline = time.monotonic() + (longest_stop(wanted_on_node(name)) if asked is None else asked)
        while rows := wanted_on_node(name):
            for row in rows:
                if row.wanted:
                    replica_unwant(row, reason=Reason.CONTROL_PLANE_STOPPED)
            if time.monotonic() > deadline:
                raise CommandError(f"{len(rows)} replicas have not ended: {', '.join(str(row.pk) for row in rows)}")
            time.sleep(0.2)


def longest_stop(rows: list[Replica]) -> float:
    """Seconds that the drain of these replicas and their stop may take, each within its own bounds."""
    times = timings()
    drain = max((row.deployment.drain_seconds for row in rows), default=0)
    return drain + times.drain_margin + times.term_grace + LEEWAY_SECONDS
