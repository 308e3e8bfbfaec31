"""`manage.py setup_link`: the path of the one-time link for the first administrator."""

from typing import Any

from django.core.management.base import BaseCommand
from django.urls import reverse
from django.utils import timezone

from profiles_app.services.people import setup_token_create


class Command(BaseCommand):
    """Print the path, or nothing once a user exists."""

    help = "Print the path of the one-time link that makes the first administrator (nothing once there is a user)."

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the token and print the path that holds it."""
        token = setup_token_create(now=timezone.now())
        if token is not None:
            self.stdout.write(reverse("profiles:setup", args=[token]))
