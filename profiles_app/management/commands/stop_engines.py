"""`manage.py stop_engines`: drains and ends every replica of this node, before its control plane goes down."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from profiles_app.selectors import wanted_on_node
from profiles_app.services.nodes import node_stopping
from profiles_app.services.replicas import replica_unwant
from profiles_app.states import Reason


class Command(BaseCommand):
    """Wish every replica here away and wait until each is proven gone. The wishes of deployments stay."""

    help = "Drain and stop every replica of this node; deployments start again with the next start."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the longest wait."""
        parser.add_argument("--timeout", type=float, default=120.0)

    def handle(self, *args: Any, **options: Any) -> None:
        """Unwant, wait, and say what is left."""
        name = settings.FOREBAY.node_name
        node_stopping(name)
        deadline = time.monotonic() + options["timeout"]
        while rows := wanted_on_node(name):
            for row in rows:
                if row.wanted:
                    replica_unwant(row, reason=Reason.CONTROL_PLANE_STOPPED)
            if time.monotonic() > deadline:
                raise CommandError(f"{len(rows)} replicas have not ended: {', '.join(str(row.pk) for row in rows)}")
            time.sleep(0.2)
