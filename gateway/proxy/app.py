"""The gateway as a raw ASGI application: its state, its paths, and the end of drained requests."""

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from gateway.proxy.accounting import Call, Clock, GatewayReport, Loads, ReplicaLoad, UsageSink
from gateway.proxy.admission import Admission
from gateway.proxy.auth import authenticate, bearer, may_use, usable_profile
from gateway.proxy.exchange import PATHS, Exchange
from gateway.proxy.http import Receive, Scope, Send, client_request_id, header, refusal_headers, respond
from gateway.proxy.metrics import CONTENT_TYPE, GatewayMetrics, may_read
from gateway.proxy.openai import Endpoint, Refusal
from gateway.proxy.router import Router
from gateway.proxy.table import Table, TableKey, TableProfile, TableReplica, TableStore, ready_replicas
from gateway.proxy.upstream import Upstream

RETRY_AFTER_SECONDS = 5
MODELS = "/v1/models"
_GENERATE: dict[str, Endpoint] = {PATHS["chat"]: "chat", PATHS["completions"]: "completions"}
_GETS = frozenset({MODELS, "/livez", "/readyz", "/metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Bounds of one gateway process; times in seconds."""

    process_id: str
    table_ttl: float = 30.0
    body_limit_bytes: int = 8 << 20
    answer_limit_bytes: int = 64 << 20
    body_seconds: float = 30.0
    cool_seconds: float = 2.0
    last_words_seconds: float = 1.0
    forget_seconds: float = 60.0
    metrics_token: str | None = None


class Gateway:
    """One gateway process. Make it inside a running event loop; `close` it at the end."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        sink: UsageSink,
        store: TableStore,
        upstream: Upstream,
        wall: Clock = time.time,
        monotonic: Clock = time.monotonic,
        valkey_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings
        self.store = store
        self.upstream = upstream
        self.monotonic = monotonic
        self.admission = Admission()
        self.loads = Loads(monotonic)
        self._router = Router(cool_seconds=settings.cool_seconds)
        self._sink = sink
        self._wall = wall
        self._valkey_up = valkey_up
        self._running = 0
        self._metrics = GatewayMetrics(self.report)

    @property
    def running(self) -> int:
        """Generation requests that are not settled yet."""
        return self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection; anything but HTTP is closed."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        endpoint = _GENERATE.get(scope["path"])
        if endpoint is not None and scope["method"] == "POST":
            await self._generate(endpoint, scope, receive, send)
            return
        try:
            await self._other(scope, send)
        except Refusal as refusal:
            await respond(send, refusal.status, refusal.body(), headers=refusal_headers(refusal))

    async def _generate(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call(
            id=f"req_{secrets.token_hex(12)}",
            client_request_id=client_request_id(scope),
            at=self._wall(),
            started=self.monotonic(),
            endpoint=endpoint,
        )
        self._running += 1
        await Exchange(self, call, scope, receive, send).run()

    def _other(self, scope: Scope, send: Send) -> Awaitable[None]:
        path: str = scope["path"]
        one_model = path.startswith(MODELS + "/")
        if not (path in _GETS or path in _GENERATE or one_model):
            raise Refusal(404, "unknown_path", f"There is nothing at {path[:200]}.")
        if path in _GENERATE or scope["method"] != "GET":
            raise Refusal(405, "method_not_allowed", f"{scope['method']} is not possible at {path[:200]}.")
        if path == "/livez":
            return respond(send, 200, b'{"status":"ok"}')
        if path == "/readyz":
            self.fresh_table()
            return respond(send, 200, b'{"status":"ok"}')
        if path == "/metrics":
            return self._show_metrics(scope, send)
        return self._show_models(scope, send, name=path[len(MODELS) + 1 :] if one_model else None)

    def _show_metrics(self, scope: Scope, send: Send) -> Awaitable[None]:
        peer = scope.get("client")
        token_sent = bearer(header(scope, b"authorization"))
        if not may_read(peer=peer and peer[0], token_sent=token_sent, token=self.settings.metrics_token):
            raise Refusal(403, "metrics_forbidden", "Metrics need their own token, or a peer on this host.")
        return respond(send, 200, self._metrics.render(), content_type=CONTENT_TYPE)

    def _show_models(self, scope: Scope, send: Send, *, name: str | None) -> Awaitable[None]:
        table = self.fresh_table()
        key = authenticate(table, header=header(scope, b"authorization"), now=self._wall())
        if name is not None:
            profile = usable_profile(table, key=key, name=name)
            return respond(send, 200, msgspec.json.encode(_model(table, name, profile)))
        return respond(send, 200, msgspec.json.encode({"object": "list", "data": _models(table, key)}))

    def fresh_table(self) -> Table:
        """The table in use; raises Refusal (503) when there is none or its age is past the bound."""
        table = self.store.fresh(mono=self.monotonic())
        if table is None:
            code = "table_missing" if self.store.table is None else "table_stale"
            message = "The gateway has no routing table that is fresh enough to serve from."
            raise Refusal(503, code, message, retry_after=RETRY_AFTER_SECONDS)
        return table

    def pick(self, name: str, *, tried: Sequence[str]) -> str:
        """A ready replica of a profile by the table of this moment; raises Refusal (503) when there is none."""
        table = self.fresh_table()
        profile = table.profiles.get(name)
        ready = [] if profile is None else ready_replicas(table, profile)
        chosen = self._router.choose(ready, in_flight=self.loads.in_flight, tried=tried, mono=self.monotonic())
        if chosen is None:
            message = f"No replica of `{name}` is ready."
            raise Refusal(503, "no_ready_replica", message, retry_after=RETRY_AFTER_SECONDS)
        return chosen

    def replica(self, replica_id: str) -> TableReplica:
        """The row of a replica that `pick` has just chosen."""
        return self.fresh_table().replicas[replica_id]

    def upstream_failed(self, replica_id: str) -> None:
        """Prefer other replicas for a while."""
        self._router.failed(replica_id, mono=self.monotonic())

    def settle(self, call: Call) -> None:
        """Account for a request that has ended: called exactly once for each."""
        self._running -= 1
        record = call.record(gateway=self.settings.process_id, mono=self.monotonic())
        if record.outcome == "completed" and record.replica is not None:
            self.loads.count_completed(record.replica)
        self._sink.put(record)
        self._metrics.observe(record)

    def sweep(self) -> int:
        """End requests past their replica's drain deadline, and say how many; forget idle, gone replicas.

        A replica that vanished from the table may finish for as long as an old table may be used.
        Run it several times a second: this is what holds a drain to its deadline.
        """
        mono, now = self.monotonic(), self._wall()
        rows = {} if self.store.table is None else self.store.table.replicas
        ended = 0
        for replica_id, load in list(self.loads.rows.items()):
            row = rows.get(replica_id)
            load.missing_since = None if row is not None else mono if load.missing_since is None else load.missing_since
            missing_seconds = 0.0 if load.missing_since is None else mono - load.missing_since
            if _past_deadline(row, now) or missing_seconds > self.settings.table_ttl:
                ended += load.cut()
            self._forget(replica_id, load, missing_seconds)
        return ended

    def _forget(self, replica_id: str, load: ReplicaLoad, missing_seconds: float) -> None:
        if missing_seconds > self.settings.forget_seconds and not load.calls:
            del self.loads.rows[replica_id]

    def report(self) -> GatewayReport:
        """What the control plane is told. Table version and counts are of one moment."""
        mono = self.monotonic()
        return GatewayReport(
            process_id=self.settings.process_id,
            at=self._wall(),
            table_version=self.store.version,
            table_age=self.store.age(mono=mono),
            replicas=self.loads.report(mono=mono),
            usage_queued=self._sink.queued,
            usage_dropped=self._sink.dropped,
            valkey=self._valkey_up(),
        )


def _past_deadline(row: TableReplica | None, now: float) -> bool:
    if row is None or row.state != "draining" or row.drain_deadline is None:
        return False
    return row.drain_deadline <= now


def _models(table: Table, key: TableKey) -> list[dict[str, object]]:
    return [_model(table, name, row) for name, row in table.profiles.items() if may_use(key, name, row)]


def _model(table: Table, name: str, profile: TableProfile) -> dict[str, object]:
    """One profile as OpenAI's model object, and beside its fields what stands behind the name."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": profile.team,
        "base_model": profile.model,
        "revision": profile.revision,
        "revision_hash": profile.revision_hash,
        "max_model_len": profile.max_model_len,
        "precision": profile.precision,
        "state": "ready" if ready_replicas(table, profile) else "unavailable",
    }
