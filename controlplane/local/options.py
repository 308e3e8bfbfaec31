"""What `forebay up` was asked to do, joined with the environment into one value that every part reads."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.paths import DataPaths
from controlplane.settings.env import read_environment


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """The options of `forebay up`; None means: from the environment, else the default."""

    data_dir: Path | None = None
    host: str | None = None
    port: int | None = None
    gateway_port: int | None = None
    demo: bool = True
    engine: bool = True
    leave_engines: bool = False
    engine_python: Path | None = None
    verbose: bool = False


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything that the start of one machine needs to know."""

    paths: DataPaths
    host: str
    port: int
    gateway_port: int
    node_name: str
    time_scale: float
    engine_home: Path
    models_dir: Path
    valkey_url: str | None
    demo: bool
    engine: bool
    leave_engines: bool
    engine_python: Path | None
    verbose: bool

    @property
    def address(self) -> str:
        """Where a person opens the pages."""
        return f"http://{reachable(self.host)}:{self.port}"

    @property
    def gateway_address(self) -> str:
        """Where applications send their requests."""
        return f"http://{reachable(self.host)}:{self.gateway_port}"

    def environment(self) -> dict[str, str]:
        """The variables that every process of ours gets."""
        url = self.valkey_url or f"unix://{self.paths.socket}"
        return {
            "FOREBAY_DATA_DIR": str(self.paths.root),
            "FOREBAY_VALKEY_URL": url,
            "FOREBAY_TIME_SCALE": str(self.time_scale),
            "FOREBAY_ENGINE_HOME": str(self.engine_home),
            "FOREBAY_MODELS_HOME": str(self.models_dir),
            "FOREBAY_NODE_NAME": self.node_name,
            "FOREBAY_HOST": self.host,
            "FOREBAY_PORT": str(self.port),
            "FOREBAY_GATEWAY_PORT": str(self.gateway_port),
            "FOREBAY_LEAVE_ENGINES": "1" if self.leave_engines else "0",
            "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod"),
            "PYTHONUNBUFFERED": "1",
        }


def django_argv(*words: str) -> tuple[str, ...]:
    """A management command in an interpreter like ours; works from a checkout and from an installed wheel."""
    return (sys.executable, "-m", "django", *words)


def reachable(host: str) -> str:
    """An address to connect to for an address to listen on."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 -- compared, not bound


def resolve(options: UpOptions, *, environ: Mapping[str, str] | None = None) -> Setup:
    """Join options with the environment. Raises EnvironmentVariableError."""
    source = dict(os.environ if environ is None else environ)
    given = {
        "FOREBAY_DATA_DIR": options.data_dir,
        "FOREBAY_HOST": options.host,
        "FOREBAY_PORT": options.port,
        "FOREBAY_GATEWAY_PORT": options.gateway_port,
    }
    source.update({name: str(value) for name, value in given.items() if value is not None})
    env = read_environment(source)
    models = source.get("FOREBAY_MODELS_HOME")
    return Setup(
        paths=DataPaths(env.data_dir.absolute()),
        host=env.host,
        port=env.port,
        gateway_port=env.gateway_port,
        node_name=env.node_name,
        time_scale=env.time_scale,
        engine_home=env.engine_home.absolute(),
        models_dir=Path(models).absolute() if models else env.data_dir.absolute() / "models",
        valkey_url=source.get("FOREBAY_VALKEY_URL") or None,
        demo=options.demo,
        engine=options.engine,
        leave_engines=options.leave_engines or source.get("FOREBAY_LEAVE_ENGINES") == "1",
        engine_python=options.engine_python,
        verbose=options.verbose,
    )
