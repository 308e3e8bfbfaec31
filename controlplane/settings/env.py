"""Reads Forebay's environment variables into one frozen value, with errors that name the variable."""

import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class EnvironmentVariableError(ValueError):
    """A variable holds what Forebay cannot read; the text says which, and what it should hold."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything that Forebay takes from its environment. ``time_scale`` multiplies every period and grace time."""

    data_dir: Path
    valkey_url: str
    time_scale: float
    engine_home: Path
    node_name: str
    host: str
    port: int
    gateway_port: int
    engine_ports: tuple[int, int]
    allowed_hosts: tuple[str, ...]
    metrics_token: str | None

    def seconds(self, base: float) -> float:
        """``base`` seconds at this environment's time scale."""
        return base * self.time_scale


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Parse ``environ`` (default: the process's). Raises EnvironmentVariableError."""
    env = os.environ if environ is None else environ
    data_dir = Path(env.get("FOREBAY_DATA_DIR", ".forebay")).absolute()
    host = env.get("FOREBAY_HOST", "127.0.0.1")
    return Environment(
        data_dir=data_dir,
        valkey_url=env.get("FOREBAY_VALKEY_URL", f"unix://{data_dir}/run/valkey.sock"),
        time_scale=_positive(env, "FOREBAY_TIME_SCALE", "1"),
        engine_home=Path(env.get("FOREBAY_ENGINE_HOME") or data_dir / "engines"),
        node_name=env.get("FOREBAY_NODE_NAME") or platform.node().split(".")[0] or "node",
        host=host,
        port=_port(env, "FOREBAY_PORT", "8300"),
        gateway_port=_port(env, "FOREBAY_GATEWAY_PORT", "8400"),
        engine_ports=_range(env, "FOREBAY_ENGINE_PORTS", "18000-18999"),
        allowed_hosts=_names(env.get("FOREBAY_ALLOWED_HOSTS", f"127.0.0.1,localhost,{host}")),
        metrics_token=env.get("FOREBAY_METRICS_TOKEN") or None,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _positive(env: Mapping[str, str], name: str, default: str) -> float:
    text = env.get(name, default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value > 0):
        raise EnvironmentVariableError(f"{name} is {text!r}; it must be a number above 0, for example 1.")
    return value


def _is_number(text: str) -> bool:
    # str.isdigit alone also takes superscripts, which int() cannot read.
    return text.isascii() and text.isdigit()


def _port(env: Mapping[str, str], name: str, default: str) -> int:
    text = env.get(name, default)
    if not _is_number(text) or not 0 < int(text) < 65536:
        raise EnvironmentVariableError(f"{name} is {text!r}; it must be a port from 1 to 65535, for example {default}.")
    return int(text)


def _range(env: Mapping[str, str], name: str, default: str) -> tuple[int, int]:
    text = env.get(name, default)
    first, _, last = text.partition("-")
    if not (_is_number(first) and _is_number(last) and 0 < int(first) <= int(last) < 65536):
        raise EnvironmentVariableError(f"{name} is {text!r}; it must be two ports, for example {default}.")
    return int(first), int(last)
