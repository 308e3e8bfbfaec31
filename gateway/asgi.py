"""Process entry of the gateway: wires table feed, usage sink and reports to the proxy (`gateway.asgi:app`)."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn

from gateway.feed import TableFeed
from gateway.proxy.app import Gateway, GatewaySettings
from gateway.proxy.http import Receive, Scope, Send
from gateway.proxy.table import TableStore
from gateway.proxy.upstream import Upstream
from gateway.sink import StreamSink
from gateway.valkey import FAILURES, connect, report_key

logger = logging.getLogger(__name__)

# All in seconds, times FOREBAY_TIME_SCALE.
POLL_SECONDS = 1.0
REPORT_SECONDS = 1.0
LEASE_SECONDS = 5.0
FLUSH_SECONDS = 0.2
SWEEP_SECONDS = 0.1
TABLE_TTL_SECONDS = 30.0
FORGET_SECONDS = 60.0
COOL_SECONDS = 2.0
STOP_SECONDS = 30.0
# Not scaled: the wait for cancelled requests to leave their records.
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """What the environment says to a gateway process."""

    data_dir: Path
    valkey_url: str
    time_scale: float
    metrics_token: str | None
    host: str
    port: int

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "ProcessSettings":
        """Read the FOREBAY_ variables; raises ValueError for a number that is none."""
        data_dir = Path(env.get("FOREBAY_DATA_DIR") or ".forebay").absolute()
        return cls(
            data_dir=data_dir,
            valkey_url=env.get("FOREBAY_VALKEY_URL") or f"unix://{data_dir}/run/valkey.sock",
            time_scale=float(env.get("FOREBAY_TIME_SCALE") or 1),
            metrics_token=env.get("FOREBAY_METRICS_TOKEN") or None,
            host=env.get("FOREBAY_HOST") or "127.0.0.1",
            port=int(env.get("FOREBAY_GATEWAY_PORT") or 8400),
        )


class Process:
    """One running gateway. Make it inside the event loop, `start` it, and `stop` it in the end."""

    def __init__(self, settings: ProcessSettings) -> None:
        scale = settings.time_scale
        self._scale = scale
        process_id = f"{socket.gethostname()}-{os.getpid()}-{int(time.time())}"
        self._client = connect(settings.valkey_url)
        self._report_key = report_key(process_id)
        store = TableStore(ttl=TABLE_TTL_SECONDS * scale)
        self._feed = TableFeed(
            store,
            self._client,
            url=settings.valkey_url,
            file=settings.data_dir / "run" / "table.json",
            period_seconds=POLL_SECONDS * scale,
        )
        self._sink = StreamSink(self._client, directory=settings.data_dir / "spool", process_id=process_id)
        self._upstream = Upstream()
        self.gateway = Gateway(
            GatewaySettings(
                process_id=process_id,
                table_ttl=store.ttl,
                cool_seconds=COOL_SECONDS * scale,
                forget_seconds=FORGET_SECONDS * scale,
                metrics_token=settings.metrics_token,
            ),
            sink=self._sink,
            store=store,
            upstream=self._upstream,
            valkey_up=lambda: self._feed.valkey_up,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read a table if there is one, then start the loops."""
        await self._feed.poll()
        scale = self._scale
        loops: list[tuple[Callable[[], Awaitable[object]], float]] = [
            (self._feed.turn, 0.0),
            (self._feed.listen, POLL_SECONDS * scale),
            (self._sink.flush, FLUSH_SECONDS * scale),
            (self._report, REPORT_SECONDS * scale),
            (self._sweep, SWEEP_SECONDS * scale),
        ]
        self._tasks = [asyncio.create_task(_forever(step, seconds)) for step, seconds in loops]

    async def stop(self) -> None:
        """Let requests settle, stop the loops, store usage, take the report back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self.gateway.running:
                    await asyncio.sleep(SWEEP_SECONDS * self._scale)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sink.close()
        with suppress(*FAILURES):
            await self._client.delete(self._report_key)
        await self._client.aclose()
        await self._upstream.close()

    async def _report(self) -> None:
        report = msgspec.json.encode(self.gateway.report())
        # Without Valkey nobody hears the report, and the feed has said so already.
        with suppress(*FAILURES):
            await self._client.set(self._report_key, report, px=int(LEASE_SECONDS * self._scale * 1000))

    async def _sweep(self) -> None:
        self.gateway.sweep()


async def _forever(step: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Run a step again and again; an accident is logged and costs one turn."""
    while True:
        try:
            await step()
        except Exception:
            logger.exception("a loop of the gateway failed")
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(seconds)


class Application:
    """The ASGI application: the lifespan makes the process, requests go to its gateway."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._process: Process | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the lifespan or one connection."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._process is None:
            raise RuntimeError("the gateway needs a server that runs the ASGI lifespan")
        # The server cancels what is left at its stop bound. The request has then said its last
        # words and left its record, and the server would log the cancellation as a fault.
        with suppress(asyncio.CancelledError):
            await self._process.gateway(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        process = Process(ProcessSettings.from_env(self._env))
        await process.start()
        self._process = process
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await process.stop()
        await send({"type": "lifespan.shutdown.complete"})


app = Application(os.environ)


def main() -> None:
    """Serve on FOREBAY_HOST and FOREBAY_GATEWAY_PORT; SIGTERM finishes what runs, within a bound."""
    settings = ProcessSettings.from_env(os.environ)
    # uvicorn raises the signal again when it has stopped in order; that is an exit code of 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    uvicorn.run(
        "gateway.asgi:app",
        host=settings.host,
        port=settings.port,
        lifespan="on",
        ws="none",
        access_log=False,
        server_header=False,
        log_level="warning",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, int(STOP_SECONDS * settings.time_scale)),
    )


if __name__ == "__main__":
    main()
