"""The door to the engines: one pooled HTTP client, and what its failures mean."""

import io
from http import HTTPStatus
from typing import Self

import aiohttp

from gateway.proxy.openai import Refusal
from gateway.proxy.table import TableReplica

# Engines close an idle connection after 5 s; ours must leave the pool before that.
KEEPALIVE_SECONDS = 4.0
CONNECT_SECONDS = 5.0
# No byte for this long means a hung engine. Long, because a first token may wait in a queue.
SILENCE_SECONDS = 600.0
# aiohttp warns about larger bodies handed over as bytes: it would write them in one go.
_BYTES_BODY_LIMIT = 1 << 20
# These answers say that the process behind the port is not the engine that the table means.
_NOT_OURS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})


class UpstreamFailure(Refusal):
    """An engine that gave no usable answer; `retryable` when another may be asked instead."""

    def __init__(
        self, status: int, code: str, message: str, *, retryable: bool = False, retry_after: int | None = None
    ) -> None:
        super().__init__(status, code, message, retry_after=retry_after)
        self.retryable = retryable


def _explain(error: Exception) -> UpstreamFailure:
    """What a client error means; only failures before the first byte get here or are retried."""
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamFailure(504, "upstream_timeout", "The engine sent nothing for too long.")
    if isinstance(error, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError):
        return UpstreamFailure(502, "upstream_unreachable", "The engine could not be reached.", retryable=True)
    return UpstreamFailure(502, "upstream_broken", "The engine's answer was not HTTP.")


class Answer:
    """An engine's answer: status, the first piece of the body, and the rest to read."""

    def __init__(self, response: aiohttp.ClientResponse, first: bytes) -> None:
        self._response = response
        self._first: bytes | None = first
        self.status = response.status
        self.content_type = response.headers.get("content-type", "application/json").encode("latin-1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # After the last byte the connection is back in the pool and this does nothing; before
        # it, closing is what makes the engine stop generating.
        self._response.close()

    async def read(self) -> bytes:
        """The next piece, empty at the end; raises UpstreamFailure when the answer breaks off."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UpstreamFailure(502, "upstream_error", "The engine broke off its answer.") from error

    async def read_all(self, *, limit: int) -> bytes:
        """The whole body; raises UpstreamFailure when it breaks off or passes `limit` bytes."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.read():
            size += len(piece)
            if size > limit:
                raise UpstreamFailure(502, "upstream_too_large", f"The engine's answer is larger than {limit} bytes.")
            pieces.append(piece)
        return b"".join(pieces)


class Upstream:
    """The pooled client. Make it inside a running event loop, and close it."""

    def __init__(self, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def open(self, replica: TableReplica, *, path: str, body: bytes, request_id: str) -> Answer:
        """Send a request and wait for the first piece of the answer.

        The first piece is waited for so that whatever fails before it can still be retried.
        Raises UpstreamFailure. Headers are ours alone: nothing of the client's gets through.
        """
        headers = {
            "Authorization": f"Bearer {replica.api_key}",
            "Content-Type": "application/json",
            "X-Request-Id": request_id,
        }
        data = body if len(body) <= _BYTES_BODY_LIMIT else io.BytesIO(body)
        try:
            response = await self._session.post(replica.url + path, data=data, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _explain(error) from error
        try:
            _refuse_status(response.status)
            return Answer(response, await response.content.readany())
        except (aiohttp.ClientError, TimeoutError) as error:
            response.close()
            raise _explain(error) from error
        except BaseException:
            response.close()
            raise


def _refuse_status(status: int) -> None:
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise UpstreamFailure(503, "engine_busy", "The engine takes no new requests.", retryable=True, retry_after=1)
    if status in _NOT_OURS or HTTPStatus.OK < status < HTTPStatus.BAD_REQUEST:
        message = "The process at the engine's address is not the engine that was started there."
        raise UpstreamFailure(502, "upstream_not_ours", message, retryable=True)
