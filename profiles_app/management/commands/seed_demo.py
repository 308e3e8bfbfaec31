"""`manage.py seed_demo`: the demo model and its profiles."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from profiles_app.selectors import system_viewer
from profiles_app.services.demo import demo_seed


class Command(BaseCommand):
    """Store the demo model and the profiles that are missing."""

    help = "Store the demo model and its three profiles."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the folder of the weights."""
        parser.add_argument("--model-path", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        """Read what the conversion noted beside the weights, and store."""
        folder = Path(options["model_path"]).resolve()
        note = folder / "forebay-model.json"
        facts = json.loads(note.read_text()) if note.exists() else {}
        weights = folder / "model.safetensors"
        if weights.exists():
            facts["weights_bytes"] = weights.stat().st_size
        made = demo_seed(system_viewer(), model_path=str(folder), facts=facts)
        self.stdout.write(f"{len(made)} profiles made")
