"""`forebay up`: starts the whole of one machine, keeps it running, and stops it in order."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.local import lock, ports, stack, valkey
from controlplane.local.console import SetupFollower, echo, say
from controlplane.local.identity import identify
from controlplane.local.options import Setup, UpOptions, django_argv, resolve
from controlplane.settings.env import EnvironmentVariableError
from controlplane.supervisor import Supervisor

__all__ = ["UpOptions", "run"]

PREPARE = "prepare"
VALKEY_START_SECONDS = 20.0
SERVING_START_SECONDS = 60.0


class StartError(RuntimeError):
    """The start cannot go on; the text says why and what to do."""


def run(options: UpOptions) -> int:
    """Run in the foreground until SIGINT or SIGTERM; 0 after an orderly stop, 1 when it could not start."""
    try:
        setup = resolve(options)
        setup.paths.make()
        with lock.held(setup.paths):
            return asyncio.run(Machine(setup).run())
    except (EnvironmentVariableError, lock.AlreadyRunningError, PermissionError, StartError) as error:
        say(f"forebay: {error}")
        return 1


class Machine:
    """One run of everything on this machine, from the first process to the last."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._began = time.time()
        self._state = "starting"
        self._signals: asyncio.Queue[None] = asyncio.Queue()
        server = None if setup.valkey_url else valkey.binary()
        if server is None and not setup.valkey_url:
            raise StartError("No Valkey was found. Run `make install` again, or name a server in FOREBAY_VALKEY_URL.")
        self._embedded = server is not None
        self._supervisor = Supervisor(
            stack.process_specs(setup, server=server),
            log_dir=setup.paths.logs,
            status_path=setup.paths.status,
            time_scale=setup.time_scale,
            facts=self._facts,
            echo=echo if setup.verbose else None,
        )

    async def run(self) -> int:
        """Start, wait for a signal, stop. Raises StartError, with everything stopped again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._signals.put_nowait, None)
        self._setup.paths.setup.unlink(missing_ok=True)
        follower = asyncio.create_task(SetupFollower(self._setup.paths.setup).follow())
        try:
            if await self._or_signal(self._start()):
                await self._signals.get()
            await self._stop_in_order()
        finally:
            follower.cancel()
            await self._supervisor.close()
        return 0

    async def _or_signal(self, starting: Any) -> bool:
        """Run the start; False when a signal cut it short."""
        start = asyncio.ensure_future(starting)
        asked = asyncio.ensure_future(self._signals.get())
        await asyncio.wait({start, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            await asyncio.wait({start})
            return False
        asked.cancel()
        start.result()
        return True

    async def _start(self) -> None:
        setup = self._setup
        say(f"forebay: starting on {setup.paths.root}")
        for name in lock.end_strays(setup.paths):
            say(f"forebay: ended {name}, left behind by a run that was killed")
        self._check_ports()
        if self._embedded:
            self._supervisor.start([stack.VALKEY])
        link = await self._prepare()
        if self._embedded and await self._supervisor.wait_ready([stack.VALKEY], seconds=VALKEY_START_SECONDS):
            raise StartError(self._why_not(stack.VALKEY))
        self._supervisor.start(stack.SERVING)
        missing = await self._supervisor.wait_ready(stack.SERVING, seconds=SERVING_START_SECONDS)
        if missing:
            raise StartError(self._why_not(missing[0]))
        # After the pages: on a small host the loops' start-up would delay them by seconds.
        self._supervisor.start(stack.LOOPS)
        self._state = "running"
        self._welcome(link)
        if setup.engine:
            self._supervisor.start([stack.SETUP])

    def _check_ports(self) -> None:
        setup = self._setup
        for port, option in ((setup.port, "--port"), (setup.gateway_port, "--gateway-port")):
            if not ports.free(setup.host, port):
                raise StartError(
                    f"Port {port} is taken by {ports.owner(port)}. Stop it, or choose another with {option}."
                )

    async def _prepare(self) -> str | None:
        """Migrations, static files and the first administrator's link, in one child."""
        environment = {**os.environ, **self._setup.environment()}
        code, lines = await run_child(
            (django_argv()[0], "-m", "controlplane.local.prepare"),
            environment,
            self._setup.paths.logs / f"{PREPARE}.log",
        )
        if code != 0:
            raise StartError("The database could not be prepared:\n  " + "\n  ".join(lines[-6:]))
        link: str | None = json.loads(lines[-1])["setup_link"]
        return link

    def _welcome(self, link: str | None) -> None:
        say(f"forebay: ready after {time.time() - self._began:.1f} s")
        say()
        say(f"  Pages    {self._setup.address}/")
        say(f"  Gateway  {self._setup.gateway_address}/v1")
        if link:
            target = link if link.startswith("http") else f"{self._setup.address}{link}"
            say(f"  Make the first administrator here, once:  {target}")
        say("  Ctrl-C stops everything in order." + (" Engines stay." if self._setup.leave_engines else ""))
        say()

    def _why_not(self, name: str) -> str:
        tail = "\n  ".join(self._supervisor.tail(name)) or "(it said nothing)"
        return f"{name} did not start. Its log, {self._setup.paths.logs / name}.log, ends with:\n  {tail}"

    async def _stop_in_order(self) -> None:
        self._state = "stopping"
        self._supervisor.write_status()
        await self._supervisor.stop([stack.SETUP])
        if self._setup.leave_engines:
            say("forebay: leaving the engines to the next start")
        else:
            await self._drain_engines()
        for name in stack.STOP_ORDER:
            if name in {row["name"] for row in self._supervisor.processes()}:
                await self._supervisor.stop([name])
        say("forebay: stopped")

    async def _drain_engines(self) -> None:
        """Drain and stop the engines of this node; a second signal leaves them running."""
        say("forebay: draining and stopping the engines (Ctrl-C again leaves them running)")
        environment = {**os.environ, **self._setup.environment()}
        log = self._setup.paths.logs / "stop-engines.log"
        draining = asyncio.create_task(run_child(django_argv("stop_engines"), environment, log))
        asked = asyncio.create_task(self._signals.get())
        await asyncio.wait({draining, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not draining.done():
            draining.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await draining
            say("forebay: the engines are left running; the next start adopts them")
            return
        code, lines = draining.result()
        if code != 0:
            say("forebay: not every engine stopped in order: " + (lines[-1] if lines else f"exit code {code}"))

    def _facts(self) -> Mapping[str, Any]:
        own = identify(os.getpid())
        return {
            "supervisor": own.as_dict() if own else None,
            "state": self._state,
            "since": self._began,
            "data_dir": str(self._setup.paths.root),
            "address": self._setup.address,
            "gateway": self._setup.gateway_address,
            "engine_home": str(self._setup.engine_home),
            "models_dir": str(self._setup.models_dir),
        }


async def run_child(argv: tuple[str, ...], environment: Mapping[str, str], log: Path) -> tuple[int, list[str]]:
    """Run a command with its output in `log`; returns exit code and last lines. Cancelling ends it."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        raise
    return code, log.read_text(errors="replace").splitlines()[-30:]
