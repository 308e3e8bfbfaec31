"""One generation request, from its body to its usage record."""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from gateway.proxy.accounting import Call, Outcome
from gateway.proxy.auth import authenticate, usable_profile
from gateway.proxy.http import (
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    refusal_headers,
    respond,
    start_message,
)
from gateway.proxy.interrupt import Interrupted, Interruptible, Reason
from gateway.proxy.openai import Refusal, Request, engine_body, engine_refusal, error_event, parse_request
from gateway.proxy.streaming import SseTap, usage_of
from gateway.proxy.upstream import Answer, UpstreamFailure

if TYPE_CHECKING:
    from gateway.proxy.app import Gateway

logger = logging.getLogger(__name__)

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
ATTEMPTS = 2
_DRAINED = "The replica was stopped at its drain deadline before this answer was complete."
_STOPPING = "The gateway is stopping."
_INTERNAL = "The gateway failed on this request. The fault is in its log under the request id."


class Exchange:
    """Runs one request; `call` collects what the record will say."""

    def __init__(self, gateway: "Gateway", call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        self._gateway = gateway
        self.call = call
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = False
        self._delivered = False
        self._interrupt = Interruptible()

    async def run(self) -> None:
        """Answer the request, whatever happens, and settle its account exactly once."""
        try:
            await self._answer()
        except asyncio.CancelledError:
            if not self._delivered:
                self._end("cut", "gateway_stopping")
                await self._last_words(Refusal(503, "gateway_stopping", _STOPPING, retry_after=1))
            raise
        except Exception:  # the one place where an accident on the request path ends
            logger.exception("request %s failed in the gateway", self.call.id)
            self._end("upstream_error" if self.call.replica else "refused", "internal_error")
            await self._last_words(Refusal(500, "internal_error", _INTERNAL))
        finally:
            self._gateway.settle(self.call)

    async def _answer(self) -> None:
        try:
            await self._serve()
        except UpstreamFailure as failure:
            self._end("upstream_error", failure.code)
            await self._last_words(failure)
        except Refusal as refusal:
            self._end("refused", refusal.code)
            await self._last_words(refusal)
        except Interrupted as interrupted:
            await self._interrupted(interrupted.reason)

    async def _serve(self) -> None:
        gateway, call = self._gateway, self.call
        table = gateway.fresh_table()
        key = authenticate(table, header=header(self._scope, b"authorization"), now=call.at)
        call.team, call.key_id = key.team, key.id
        settings = gateway.settings
        raw = await read_body(
            self._scope, self._receive, limit=settings.body_limit_bytes, seconds=settings.body_seconds
        )
        request = parse_request(raw)
        call.streamed = request.stream
        profile = usable_profile(table, key=key, name=request.model)
        call.profile, call.revision = request.model, profile.revision
        body = engine_body(request, output_cap=profile.output_cap)
        with gateway.admission.admit(key=key, name=request.model, profile=profile):
            await self._watched(request, body)

    async def _watched(self, request: Request, body: bytes) -> None:
        """Relay, while one task waits for the client to leave: a server's send() does not tell."""
        with self._interrupt:
            watcher = asyncio.create_task(self._watch())
            try:
                await self._relay(request, body)
            finally:
                watcher.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._interrupt.fire("client_gone")

    async def _relay(self, request: Request, body: bytes) -> None:
        """Ask a replica, and once more another one if the first failed before its first byte."""
        tried: list[str] = []
        while True:
            replica_id = self._gateway.pick(request.model, tried=tried)
            tried.append(replica_id)
            try:
                await self._attempt(replica_id, request, body)
            except UpstreamFailure as failure:
                self._gateway.upstream_failed(replica_id)
                if not failure.retryable or len(tried) == ATTEMPTS:
                    raise
            else:
                return

    async def _attempt(self, replica_id: str, request: Request, body: bytes) -> None:
        gateway, call = self._gateway, self.call
        replica = gateway.replica(replica_id)
        call.replica, call.revision = replica_id, replica.revision
        with gateway.loads.hold(replica_id, call.id, self._interrupt):
            answer = await gateway.upstream.open(replica, path=PATHS[call.endpoint], body=body, request_id=call.id)
            with answer:
                await self._deliver(answer, request)

    async def _deliver(self, answer: Answer, request: Request) -> None:
        if answer.status != 200:
            raw = await answer.read_all(limit=self._gateway.settings.answer_limit_bytes)
            refusal = engine_refusal(answer.status, raw)
            self._end("upstream_error" if answer.status >= 500 else "refused", refusal.code)
            await self._last_words(refusal)
        elif request.stream:
            await self._deliver_stream(answer, SseTap(hide_usage=not request.asked_usage))
        else:
            await self._deliver_whole(answer)

    async def _deliver_whole(self, answer: Answer) -> None:
        raw = await answer.read_all(limit=self._gateway.settings.answer_limit_bytes)
        self.call.usage = usage_of(raw) or self.call.usage
        self._end("completed", None)
        await self._start(200, [(b"content-length", str(len(raw)).encode())], answer.content_type)
        await self._write(raw, more=False)

    async def _deliver_stream(self, answer: Answer, tap: SseTap) -> None:
        headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._start(200, headers, answer.content_type)
        try:
            await self._pump(answer, tap)
        finally:
            self._end_stream(tap)
        await self._write(b"", more=False)

    def _end_stream(self, tap: SseTap) -> None:
        """Note what the stream told by now; the end of one that broke off is noted over it."""
        self.call.usage = tap.usage or self.call.usage
        if tap.saw_error:
            self._end("upstream_error", "engine_error")
        else:
            self._end("completed", None)

    async def _pump(self, answer: Answer, tap: SseTap) -> None:
        """Pass pieces on until the end; an end without `[DONE]` is a stream that broke off."""
        call = self.call
        try:
            while piece := await answer.read():
                out = tap.feed(piece)
                if tap.saw_content and call.first_token is None:
                    call.first_token = self._gateway.monotonic()
                if out:
                    await self._write(out, more=True)
                self._delivered = tap.done
        except UpstreamFailure:
            if not tap.done:
                raise
        if not tap.done:
            raise UpstreamFailure(502, "upstream_error", "The engine broke off its answer.")

    async def _interrupted(self, reason: Reason) -> None:
        if self._delivered:
            # The client has the last event, and often leaves before the connections are closed: nothing was lost.
            return
        if reason == "client_gone":
            self._end("client_gone", None)
            return
        self._end("cut", "replica_drained")
        await self._last_words(Refusal(503, "replica_drained", _DRAINED, retry_after=1))

    def _end(self, outcome: Outcome, code: str | None) -> None:
        self.call.outcome, self.call.error_code = outcome, code

    async def _last_words(self, refusal: Refusal) -> None:
        """Tell the client of the end: as a status where none is out yet, else as an event of the stream.

        Bounded, since a client that stopped reading would hold a drain up for ever.
        """
        with suppress(TimeoutError, Interrupted):
            async with asyncio.timeout(self._gateway.settings.last_words_seconds):
                if not self._started:
                    self._started = True
                    self.call.status = refusal.status
                    headers = [*self._headers(), *refusal_headers(refusal)]
                    await respond(self._put, refusal.status, refusal.body(), headers=headers)
                elif self.call.streamed:
                    await self._write(error_event(refusal.code, refusal.message), more=False)

    async def _start(self, status: int, headers: Headers, content_type: bytes) -> None:
        self._started = True
        self.call.status = status
        await self._put(start_message(status, [*headers, *self._headers()], content_type))

    async def _write(self, body: bytes, *, more: bool) -> None:
        await self._put({"type": "http.response.body", "body": body, "more_body": more})

    async def _put(self, message: Message) -> None:
        """Send, so that a lost client is never taken for a lost engine: both raise the same errors."""
        try:
            await self._send(message)
        except OSError as error:
            raise Interrupted("client_gone") from error

    def _headers(self) -> Headers:
        """Headers of every answer: whose request this is, and what served it."""
        call = self.call
        headers = [(b"x-request-id", call.id.encode())]
        if call.client_request_id is not None:
            headers.append((b"x-client-request-id", call.client_request_id.encode()))
        if call.profile is not None:
            headers.append((b"x-forebay-profile", call.profile.encode()))
            headers.append((b"x-forebay-revision", str(call.revision).encode()))
        return headers
