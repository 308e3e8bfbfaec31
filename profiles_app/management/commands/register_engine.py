"""`manage.py register_engine`: stores an engine install of this node, with the options that its own parser knows."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from profiles_app.models import EngineInstall, Node
from profiles_app.runtimes import vllm
from profiles_app.services.nodes import engine_register


class Command(BaseCommand):
    """Register the engine that a forebay-engine.json describes."""

    help = "Store the engine that FILE describes, and the options that its parser knows."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the description; a program that has no vLLM parser is registered without options."""
        parser.add_argument("--file", required=True)
        parser.add_argument("--no-flags", action="store_true", help="Do not ask the engine for its options")
        parser.add_argument("--refresh", action="store_true", help="Ask the engine again although it is registered")

    def handle(self, *args: Any, **options: Any) -> None:
        """Read, ask, store."""
        data = json.loads(Path(options["file"]).read_text())
        if not options["refresh"] and _is_registered(data):
            self.stdout.write(f"{data['name']} is registered already")
            return
        flags: list[dict[str, Any]] = []
        if not options["no_flags"]:
            answer = vllm.read_known_flags(data["argv_prefix"], env=data.get("env", {}))
            if isinstance(answer, vllm.FlagsUnreadable):
                self.stderr.write(f"the engine did not tell its options: {answer.message}")
            else:
                flags = [asdict(flag) for flag in answer.flags]
        node, _ = Node.objects.get_or_create(name=settings.FOREBAY.node_name)
        row = engine_register(
            node=node,
            name=data["name"],
            version=data["version"],
            kind=data["kind"],
            interpreter=data["python"],
            interpreter_version=data.get("python_version", ""),
            argv_prefix=data["argv_prefix"],
            env=data.get("env", {}),
            flags=flags,
        )
        self.stdout.write(f"{row} ({len(flags)} options known)")


def _is_registered(data: dict[str, Any]) -> bool:
    """Whether this very install is stored with its options: asking it takes the time of importing vLLM."""
    rows = EngineInstall.objects.filter(
        node__name=settings.FOREBAY.node_name,
        name=data["name"],
        version=data["version"],
        interpreter=data["python"],
        argv_prefix=data["argv_prefix"],
        env=data.get("env", {}),
    )
    return rows.exclude(flags=[]).exists()
