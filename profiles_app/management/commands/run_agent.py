"""`manage.py run_agent`: be this node's agent."""

from typing import Any

from celery import current_app
from django.core.management.base import BaseCommand

from profiles_app import agent


class Command(BaseCommand):
    """Run the node agent until a signal ends it."""

    help = "Run the agent of this node: its timer, and the Celery worker on its own queue."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run."""
        agent.run(current_app)
