"""The gateway as a real process: start, serving while Valkey is down, clients that leave, and its stop."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.proxy.table import encode_table
from tests.unit.gateway_feed.valkey import ValkeyServer
from tests.unit.gateway_proxy.harness import (
    DONE,
    KEY,
    WHOLE,
    Engine,
    Handler,
    answers,
    chat,
    delta,
    hashed,
    key,
    profile,
    replica,
    streams,
    table,
    until,
)

pytestmark = pytest.mark.asyncio
TIME_SCALE = 0.1


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    """One gateway process, its Valkey, its engine, and a client of it."""

    def __init__(self, place: Path, engine: Engine, session: aiohttp.ClientSession) -> None:
        self.data = place
        (place / "run").mkdir()
        self.valkey = ValkeyServer(place / "run")
        self.engine = engine
        self.session = session
        self.url = f"http://127.0.0.1:{free_port()}"
        self._process: asyncio.subprocess.Process | None = None

    def publish(self, *, version: int = 1, **changes: Any) -> None:
        """Write the table file, as the control plane does beside Valkey."""
        rows = table(
            version=version,
            profiles={"fast": profile(max_concurrency=None)},
            replicas={"r1": replica(self.engine.url, **changes)},
            keys={hashed(KEY): key()},
        )
        fresh = self.data / "run" / "fresh"
        fresh.write_bytes(encode_table(rows))
        fresh.rename(self.data / "run" / "table.json")

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        env = {
            "PATH": os.environ["PATH"],
            "FOREBAY_DATA_DIR": str(self.data),
            "FOREBAY_VALKEY_URL": self.valkey.url,
            "FOREBAY_TIME_SCALE": str(TIME_SCALE),
            "FOREBAY_GATEWAY_PORT": self.url.rpartition(":")[2],
        }
        command = (sys.executable, "-m", "gateway.asgi")
        self._process = await asyncio.create_subprocess_exec(*command, env=env, cwd=Path(__file__).parents[2])
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with self.session.get(f"{self.url}/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def ask(self, **changes: Any) -> Any:
        """One chat request, as a context manager of its response."""
        headers = {"Authorization": f"Bearer {KEY}"}
        return self.session.post(f"{self.url}/v1/chat/completions", json=chat(**changes), headers=headers)

    def terminate(self) -> None:
        """Ask the process to stop."""
        os.kill(self.pid, signal.SIGTERM)

    async def ended(self) -> int:
        """Its exit code."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), 20)

    def reports(self) -> list[dict[str, Any]]:
        """Reports in Valkey."""
        client = self.valkey.client
        return [json.loads(client.get(name)) for name in client.keys("forebay:gateway:*")]

    async def close(self) -> None:
        """End what still runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self.valkey.kill()
        self.valkey.client.close()


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """A ready gateway with an engine that answers, fed by the table file."""
    place = Path(tempfile.mkdtemp(prefix="fb-"))
    engine = Engine(answers(WHOLE))
    app = web.Application()
    app.router.add_post("/{path:.*}", engine.serve)
    server = TestServer(app)
    await server.start_server()
    engine.url = str(server.make_url("")).rstrip("/")
    async with aiohttp.ClientSession() as session:
        gateway = Gateway(place, engine, session)
        gateway.valkey.start()
        gateway.publish()
        try:
            await gateway.start()
            yield gateway
        finally:
            await gateway.close()
            await server.close()
            shutil.rmtree(place)


async def test_it_serves_accounts_and_reports(gateway: Gateway) -> None:
    async with gateway.ask() as response:
        assert await response.json() == WHOLE
        request_id = response.headers["x-request-id"]
    await until(lambda: gateway.valkey.usage_ids() == [request_id])
    await until(lambda: any(row["replicas"] for row in gateway.reports()))
    (report,) = gateway.reports()
    assert (report["table_version"], report["valkey"]) == (1, True)
    assert report["replicas"]["r1"]["completed"] == 1
    name = f"forebay:gateway:{report['process_id']}"
    assert 0 < gateway.valkey.client.pttl(name) <= 500
    async with gateway.session.get(f"{gateway.url}/metrics") as response:
        assert 'forebay_gateway_requests_total{outcome="completed"' in await response.text()


async def test_a_client_that_hangs_up_frees_the_engine_within_a_second(gateway: Gateway) -> None:
    gateway.engine.handler = streams(delta(content="a"), asyncio.Event())
    async with gateway.ask(stream=True) as response:
        await response.content.readany()
        assert gateway.engine.running == 1
        response.close()
    async with asyncio.timeout(1):
        await until(lambda: gateway.engine.running == 0)
    await until(lambda: len(gateway.valkey.usage_ids()) == 1)


async def test_with_valkey_killed_it_serves_by_the_file_and_loses_no_usage(gateway: Gateway) -> None:
    gateway.valkey.kill()
    ids = []
    for version in range(2, 6):
        gateway.publish(version=version)
        async with gateway.ask() as response:
            assert response.status == 200
            ids.append(response.headers["x-request-id"])
    spools = gateway.data / "spool"
    await until(lambda: spools.exists() and sum(len(p.read_bytes().splitlines()) for p in spools.iterdir()) == 4)
    # Far past the table's time to live (3 s): the file is a source that can be read.
    async with asyncio.timeout(10):
        while True:
            async with gateway.session.get(f"{gateway.url}/metrics") as response:
                text = await response.text()
            if "forebay_gateway_table_version 5.0" in text and "forebay_gateway_valkey_up 0.0" in text:
                break
            await asyncio.sleep(0.05)
    gateway.valkey.start()
    await until(lambda: sorted(gateway.valkey.usage_ids()) == sorted(ids))
    await until(lambda: not list(spools.iterdir()))


async def test_with_no_source_at_all_it_serves_for_the_time_to_live_and_then_says_so(gateway: Gateway) -> None:
    gateway.valkey.kill()
    (gateway.data / "run" / "table.json").unlink()
    async with gateway.ask() as response:
        assert response.status == 200
    async with asyncio.timeout(20):
        while True:
            async with gateway.ask() as response:
                body = await response.json()
                if response.status == 503:
                    break
            await asyncio.sleep(0.1)
    assert (body["error"]["code"], response.headers["retry-after"]) == ("table_stale", "5")


async def test_a_drain_deadline_in_the_table_ends_a_hanging_stream(gateway: Gateway) -> None:
    gateway.engine.handler = streams(delta(content="a"), asyncio.Event())
    async with gateway.ask(stream=True) as response:
        await response.content.readany()
        request_id = response.headers["x-request-id"]
        gateway.publish(version=2, state="draining", drain_deadline=1.0)
        rest = await asyncio.wait_for(response.content.read(), 5)
    assert b'"replica_drained"' in rest
    await until(lambda: any(row["replicas"]["r1"]["cut_ids"] == [request_id] for row in gateway.reports()))


async def asked_to_stop_with_a_stream(gateway: Gateway, script: Handler) -> bytes:
    gateway.engine.handler = script
    async with gateway.ask(stream=True) as response:
        first = await response.content.readany()
        gateway.terminate()
        rest = await asyncio.wait_for(response.content.read(), 15)
    assert await gateway.ended() == 0
    return bytes(first + rest)


async def test_asked_to_stop_it_finishes_what_runs_and_stores_its_usage(gateway: Gateway) -> None:
    body = await asked_to_stop_with_a_stream(gateway, streams(delta(content="a"), 0.5, delta(content="b"), DONE))
    assert body == delta(content="a") + delta(content="b") + DONE
    assert len(gateway.valkey.usage_ids()) == 1
    assert gateway.reports() == []


async def test_asked_to_stop_it_ends_a_hanging_stream_at_its_bound_with_an_error_event(gateway: Gateway) -> None:
    body = await asked_to_stop_with_a_stream(gateway, streams(delta(content="a"), asyncio.Event()))
    assert body.startswith(delta(content="a"))
    assert b'"gateway_stopping"' in body
    assert len(gateway.valkey.usage_ids()) == 1


async def test_usage_of_a_killed_process_reaches_the_stream_through_the_next_one(gateway: Gateway) -> None:
    gateway.valkey.kill()
    async with gateway.ask() as response:
        request_id = response.headers["x-request-id"]
    spools = gateway.data / "spool"
    await until(lambda: spools.exists() and any(path.stat().st_size for path in spools.iterdir()))
    os.kill(gateway.pid, signal.SIGKILL)
    await gateway.ended()
    gateway.valkey.start()
    await gateway.start()
    await until(lambda: gateway.valkey.usage_ids() == [request_id])
