"""The command that a replica of a spec would run, with secrets masked."""

import re
from typing import Any

from profiles_app.models import ModelVersion
from profiles_app.selectors import Viewer, engine_installs
from profiles_app.specs.engine_args import Endpoint, display_command, engine_command
from profiles_app.specs.schema import Spec

KIND_OF = {"cpu": "cpu", "gpu": "cuda"}
MASK = "••••"
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
CHOSEN_LATER = "(chosen at the start)"


def command_preview(viewer: Viewer, spec: Spec, version: ModelVersion, *, name: str) -> dict[str, Any]:
    """argv, environment and YAML of one replica on the newest fitting install; ``engine`` None: none is installed."""
    fitting = engine_installs(viewer).filter(enabled=True, kind=KIND_OF[spec.compute.accelerator])
    install = fitting.order_by("-created_at").first()
    prefix = install.argv_prefix if install else ["vllm"]
    endpoint = Endpoint(host="127.0.0.1", port=0, served_name=name or "profile-name", identity="(replica id)")
    command = engine_command(spec, model_source=version.source, endpoint=endpoint, config_path="config.yaml")
    environment = {**(install.env if install else {}), **command.env, "VLLM_API_KEY": MASK}
    return {
        "engine": str(install) if install else None,
        "argv": [*prefix, *command.argv],
        "env": {key: MASK if SECRET_NAME.search(key) else str(value) for key, value in sorted(environment.items())},
        "config_yaml": command.config_yaml.replace("port: 0\n", f"port: {CHOSEN_LATER}\n"),
        "display": display_command(command, argv_prefix=prefix).replace("--port 0", f"--port {CHOSEN_LATER}"),
    }
