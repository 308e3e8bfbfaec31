"""Run as a program in a new data directory: migrates it, and stores an administrator, a model and the fake engine."""

import json
import os
import sys
from pathlib import Path

import django

FAKE_ENGINE = Path(__file__).parents[1] / "fakes" / "fake_engine.py"
USER, PASSWORD = "root", "correct horse battery staple"
MODEL = {"name": "Fake-1B", "version": "v1"}


def main() -> None:
    """Do it in one process: the start of Django costs most of it."""
    from controlplane.local import prepare

    prepare.main()
    from django.core.management import call_command

    from profiles_app.services.people import first_administrator_create, setup_token_create
    from profiles_app.services.profiles import model_version_register

    now = django.utils.timezone.now()
    token = setup_token_create(now=now)
    first_administrator_create(token=token or "", username=USER, password=PASSWORD, now=now)
    model_version_register(
        name=MODEL["name"], label=MODEL["version"], source="fake/model", licence="Apache-2.0", weights_dtype="bf16"
    )
    note = Path(os.environ["FOREBAY_DATA_DIR"]) / "forebay-engine.json"
    engine = {
        "name": "fake",
        "version": "0.32.0",
        "kind": "cpu",
        "python": sys.executable,
        "argv_prefix": [sys.executable, str(FAKE_ENGINE)],
        # An engine runs in <data>/replicas/<id>, so that each copy of this installation has a script of its own.
        "env": {"FAKE_ENGINE_SCRIPT": "../../script.json"},
    }
    note.write_text(json.dumps(engine))
    call_command("register_engine", file=str(note), no_flags=True)


if __name__ == "__main__":
    main()
