"""A fake engine on loopback, an in-process ASGI client, and a gateway between the two."""

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.proxy.accounting import UsageRecord
from gateway.proxy.app import Gateway, GatewaySettings
from gateway.proxy.table import Table, TableKey, TableProfile, TableReplica, TableStore
from gateway.proxy.upstream import Upstream

KEY = "fb-test-key"
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 8}}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def sse(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(**values: Any) -> bytes:
    """One chat chunk as an event."""
    return sse({"id": "x", "choices": [{"index": 0, "delta": values, "finish_reason": None}]})


ROLE = delta(role="assistant", content="")
DONE = sse(b"[DONE]")
USAGE_EVENT = sse({"id": "x", "choices": [], "usage": USAGE})
WHOLE = {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris"}}], "usage": USAGE}


@dataclass
class Engine:
    """A scripted engine: `handler` answers, `bodies` and `headers` are what came in."""

    handler: Handler
    url: str = ""
    running: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Note a request and run the script."""
        self.bodies.append(await request.json())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.running += 1
        try:
            return await self.handler(request)
        finally:
            self.running -= 1


def answers(value: Any, status: int = 200) -> Handler:
    """A script that answers with one JSON value."""

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(value, status=status)

    return handler


def streams(*steps: bytes | float | asyncio.Event, cut: bool = False) -> Handler:
    """A script that writes bytes, sleeps seconds and waits for events; `cut` drops the connection at the end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for step in steps:
            if isinstance(step, bytes):
                await response.write(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await asyncio.sleep(step)
        if cut:
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    return handler


@dataclass
class Reply:
    """What an ASGI client saw."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a body in OpenAI's shape."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


@dataclass
class Client:
    """Drives an ASGI app in process. `leave` is the client hanging up; `on_piece` sees each body message."""

    app: Any
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    on_piece: Callable[[bytes], Awaitable[None]] | None = None
    reply: Reply = field(default_factory=Reply)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = KEY,
        headers: dict[str, str] | None = None,
        messages: list[dict[str, Any]] | None = None,
        peer: tuple[str, int] | None = ("127.0.0.1", 1),
    ) -> Reply:
        """One request; `body` may be raw bytes, `messages` replaces it by raw ASGI messages."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if key is None else {"authorization": f"Bearer {key}"}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in {**sent, **(headers or {})}.items()],
            "client": peer,
        }
        queue = [{"type": "http.request", "body": raw, "more_body": False}] if messages is None else list(messages)

        async def receive() -> dict[str, Any]:
            if queue:
                return queue.pop(0)
            await self.leave.wait()
            return {"type": "http.disconnect"}

        await self.app(scope, receive, self._send)
        return self.reply

    async def _send(self, message: dict[str, Any]) -> None:
        reply = self.reply
        if message["type"] == "http.response.start":
            assert not reply.status
            reply.status = message["status"]
            reply.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            return
        assert reply.status and not reply.ended
        reply.pieces.append(message.get("body", b""))
        reply.ended = not message.get("more_body", False)
        if self.on_piece is not None:
            await self.on_piece(message.get("body", b""))


@dataclass
class Sink:
    """Keeps records."""

    records: list[UsageRecord] = field(default_factory=list)
    queued: int = 0
    dropped: int = 0

    def put(self, record: UsageRecord) -> None:
        """Keep one."""
        self.records.append(record)


@dataclass
class Clock:
    """The real clocks, moved on at will."""

    ahead: float = 0.0

    def wall(self) -> float:
        """Epoch seconds."""
        return time.time() + self.ahead

    def monotonic(self) -> float:
        """Monotonic seconds."""
        return time.monotonic() + self.ahead


def profile(**changes: Any) -> TableProfile:
    """The profile of most tests."""
    values: dict[str, Any] = {
        "profile_id": "p1",
        "team": "default",
        "revision": 3,
        "revision_hash": "abc",
        "model": "SmolLM2-135M-Instruct",
        "precision": "bf16",
        "max_model_len": 2048,
        "max_concurrency": 8,
        "output_cap": None,
        "replicas": ("r1",),
    }
    return TableProfile(**{**values, **changes})


def replica(url: str = "http://127.0.0.1:9", **changes: Any) -> TableReplica:
    """A ready replica."""
    values: dict[str, Any] = {"profile": "fast", "revision": 3, "url": url, "api_key": "engine-key", "state": "ready"}
    return TableReplica(**{**values, **changes})


def key(**changes: Any) -> TableKey:
    """The key of most tests."""
    return TableKey(**{"id": "k1", "name": "ci", "team": "default", "profiles": ("*",), **changes})


def hashed(token: str) -> str:
    """How a table files a key."""
    return hashlib.sha256(token.encode()).hexdigest()


def table(**changes: Any) -> Table:
    """A table with one profile, one replica, one key."""
    values: dict[str, Any] = {
        "schema": 1,
        "version": 1,
        "published_at": 100.0,
        "profiles": {"fast": profile()},
        "replicas": {"r1": replica()},
        "keys": {hashed(KEY): key()},
    }
    return Table(**{**values, **changes})


class World:
    """A gateway, its clock and sink, and the engines behind it."""

    def __init__(self, settings: GatewaySettings, upstream: Upstream) -> None:
        self.clock = Clock()
        self.sink = Sink()
        self.store = TableStore(ttl=settings.table_ttl)
        self.upstream = upstream
        self.engines: dict[str, Engine] = {}
        self._servers: list[TestServer] = []
        self.gateway = Gateway(
            settings,
            sink=self.sink,
            store=self.store,
            upstream=upstream,
            wall=self.clock.wall,
            monotonic=self.clock.monotonic,
        )

    async def engine(self, replica_id: str, handler: Handler) -> Engine:
        """Start an engine; `publish` routes to it."""
        engine = Engine(handler)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_post("/{path:.*}", engine.serve)
        server = TestServer(app)
        await server.start_server()
        self._servers.append(server)
        engine.url = str(server.make_url("")).rstrip("/")
        self.engines[replica_id] = engine
        return engine

    def publish(
        self,
        *,
        version: int = 1,
        profile_changes: dict[str, Any] | None = None,
        key_changes: dict[str, Any] | None = None,
        replicas: dict[str, TableReplica] | None = None,
    ) -> None:
        """Route the profile `fast` to every engine, or to the given replicas."""
        rows = {one: replica(engine.url) for one, engine in self.engines.items()} if replicas is None else replicas
        ready = tuple(one for one, row in rows.items() if row.state == "ready")
        fast = profile(**{"replicas": ready, **(profile_changes or {})})
        self.store.offer(
            table(
                version=version,
                profiles={"fast": fast},
                replicas=rows,
                keys={hashed(KEY): key(**(key_changes or {}))},
            ),
            mono=self.clock.monotonic(),
        )

    async def ask(self, body: Any = None, *, path: str = "/v1/chat/completions", **options: Any) -> Reply:
        """One chat request with the test key."""
        return await Client(self.gateway).call("POST", path, chat() if body is None else body, **options)

    @property
    def record(self) -> UsageRecord:
        """The only record."""
        (record,) = self.sink.records
        return record

    def assert_idle(self) -> None:
        """Nothing is held any more."""
        assert self.gateway.admission.counts == {}
        assert self.gateway.running == 0
        assert all(not load.calls for load in self.gateway.loads.rows.values())

    async def close(self) -> None:
        """Stop everything."""
        await self.upstream.close()
        for server in self._servers:
            await server.close()


def chat(**changes: Any) -> dict[str, Any]:
    """A chat body."""
    return {"model": "fast", "messages": [{"role": "user", "content": "Capital of France?"}], **changes}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, at most 5 s."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def record(**changes: Any) -> UsageRecord:
    """A usage record."""
    values: dict[str, Any] = {field: None for field in UsageRecord.__struct_fields__}
    values |= {"id": "req_1", "at": 1.0, "endpoint": "chat", "streamed": False, "status": 200, "outcome": "completed"}
    values |= {"e2e": 0.5, "gateway": "gw-1"}
    return msgspec.convert({**values, **changes}, UsageRecord)
