"""Which processes one machine runs, how each is started and stopped, and in what order."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from controlplane.local import valkey
from controlplane.local.options import Setup, django_argv, reachable
from controlplane.supervisor import ProcessSpec

SETUP = "setup"
VALKEY = "valkey"
SERVING = ("web", "gateway")
LOOPS = ("control-worker", "scheduler", "agent", "monitor")
STOP_ORDER = (SETUP, "gateway", "web", "monitor", "scheduler", "control-worker", "agent", VALKEY)
"""The data plane first, so that nothing new comes in; the broker last, since all others still write to it."""

CONNECT_SECONDS = 1.0
CELERY_QUIT_SECONDS = 5.0


def process_specs(setup: Setup, *, server: Path | None) -> list[ProcessSpec]:
    """Every process of one machine. `server` is Valkey's binary; None with a Valkey that somebody else runs."""
    env = setup.environment()
    specs = [] if server is None else [_valkey(setup, server)]
    specs += [
        ProcessSpec(
            name="web",
            argv=_uvicorn("controlplane.asgi:application", setup.host, setup.port),
            env=env,
            ready=_listening(setup.host, setup.port),
        ),
        ProcessSpec(
            name="gateway",
            argv=(sys.executable, "-m", "gateway.asgi"),
            env=env,
            ready=_listening(setup.host, setup.gateway_port),
            # The gateway bounds its own stop at 30 s and then ends what is left with a clean error; only after that
            # may it be killed, or the records of those requests are lost.
            stop_seconds=max(8.0, 35.0 * setup.time_scale),
        ),
        ProcessSpec(
            name="control-worker",
            argv=_celery("control"),
            env=env,
            stop_seconds=15.0,
            quit_seconds=CELERY_QUIT_SECONDS,
        ),
        ProcessSpec(name="scheduler", argv=django_argv("run_scheduler"), env=env),
        ProcessSpec(
            name="agent", argv=django_argv("run_agent"), env=env, stop_seconds=15.0, quit_seconds=CELERY_QUIT_SECONDS
        ),
        ProcessSpec(name="monitor", argv=django_argv("run_monitor"), env=env),
        ProcessSpec(name=SETUP, argv=_setup_argv(setup), env=env, restart=False, stop_seconds=5.0),
    ]
    return specs


def _valkey(setup: Setup, server: Path) -> ProcessSpec:
    async def ready(pid: int) -> bool:
        return await valkey.is_ours(pid, setup.paths)

    return ProcessSpec(name=VALKEY, argv=valkey.argv(server, setup.paths), env=setup.environment(), ready=ready)


def _uvicorn(application: str, host: str, port: int) -> tuple[str, ...]:
    words = ("--host", host, "--port", str(port), "--lifespan", "off", "--no-access-log", "--log-level", "info")
    return (sys.executable, "-m", "uvicorn", application, *words)


def _celery(queue: str) -> tuple[str, ...]:
    words = ("-Q", queue, "-c", "1", "-n", f"{queue}@%h", "--without-mingle", "--without-gossip", "--loglevel", "INFO")
    return (sys.executable, "-m", "celery", "-A", "controlplane", "worker", *words)


def _setup_argv(setup: Setup) -> tuple[str, ...]:
    words = [sys.executable, "-m", "controlplane.local.setup", "--data-dir", str(setup.paths.root)]
    if not setup.demo:
        words.append("--no-demo")
    if setup.engine_python is not None:
        words += ["--engine-python", str(setup.engine_python)]
    return tuple(words)


def _listening(host: str, port: int) -> Callable[[int], Awaitable[bool]]:
    async def ready(pid: int) -> bool:
        return await accepts(host, port)

    return ready


async def accepts(host: str, port: int) -> bool:
    """Whether something accepts a connection there."""
    try:
        opening = asyncio.open_connection(reachable(host).strip("[]"), port)
        _, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
