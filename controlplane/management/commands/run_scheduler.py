"""`manage.py run_scheduler`: start periodic work under a lease."""

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from controlplane import scheduler


class Command(BaseCommand):
    """Run the scheduler until a signal ends it."""

    help = "Start periodic work; of several schedulers only the one with the lease does."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        scheduler.run(stop.is_set)
