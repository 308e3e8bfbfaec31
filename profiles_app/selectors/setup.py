"""Reads of what `forebay up` reports on the host: set-up steps, processes, whether an administrator is due."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def setup_steps() -> list[dict[str, Any]]:
    """Steps of the set-up in order: id, title, state, detail, fraction, started_at, ended_at, fix. Empty: none ran."""
    return list(_read(settings.FOREBAY.data_dir / "run" / "setup.json").get("steps", []))


def processes() -> list[dict[str, Any]]:
    """The supervised processes: name, pid, state, since, restarts, last_exit. Empty where nothing supervises."""
    return list(_read(settings.FOREBAY.data_dir / "run" / "status.json").get("processes", []))


def setup_is_open() -> bool:
    """Whether no user exists yet, so that the one-time link may make the first administrator."""
    return not get_user_model().objects.exists()
