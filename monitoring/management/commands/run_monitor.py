"""Runs the monitor until it is told to stop."""

import signal
import threading
import time
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand

from monitoring.monitor import Monitor, new_generation
from monitoring.readers.vllm import VllmReader

SCRAPE_SECONDS = 0.8
# At a small time scale a real engine still needs some time to answer.
SHORTEST_SCRAPE_SECONDS = 0.3


class Command(BaseCommand):
    """`manage.py run_monitor`: one of any number of monitors, of which one at a time holds the lease."""

    help = "Ingests usage, scrapes engines and publishes live frames, once a second, while it holds the lease."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or SIGINT."""
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        environment = settings.FOREBAY
        client = redis.Redis.from_url(settings.FOREBAY_DATA_URL, socket_timeout=5, socket_connect_timeout=2)
        reader = VllmReader(timeout_seconds=max(environment.seconds(SCRAPE_SECONDS), SHORTEST_SCRAPE_SECONDS))
        monitor = Monitor(
            client=client,
            reader=reader,
            generation=new_generation(now=time.time()),
            time_scale=environment.time_scale,
        )
        try:
            monitor.run(stop)
        finally:
            reader.close()
            client.close()
