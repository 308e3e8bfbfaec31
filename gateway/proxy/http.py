"""ASGI's side of a request: headers in, body in under a bound, answers out."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from gateway.proxy.interrupt import Interrupted
from gateway.proxy.openai import Refusal

# ASGI messages are maps of mixed values by specification.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
CLIENT_ID_LIMIT = 200


def header(scope: Scope, name: bytes) -> bytes | None:
    """First value of a header (name in lower case), None when it is absent."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def client_request_id(scope: Scope) -> str | None:
    """The client's own request id: printable ASCII up to 200 characters, anything else is dropped."""
    raw = header(scope, b"x-request-id")
    if not raw or len(raw) > CLIENT_ID_LIMIT:
        return None
    text = raw.decode("latin-1")
    return text if text.isascii() and text.isprintable() else None


async def read_body(scope: Scope, receive: Receive, *, limit: int, seconds: float) -> bytes:
    """The whole body in bytes.

    Raises Refusal (413 past `limit` bytes, 408 after `seconds`) and Interrupted when the client left.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, limit)
    except TimeoutError as error:
        raise Refusal(408, "request_timeout", f"The body did not arrive within {seconds:g} s.") from error


async def _collect(receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Interrupted("client_gone")
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "body_too_large", f"The body is larger than {limit} bytes.")


async def respond(
    send: Send, status: int, body: bytes, *, content_type: bytes = JSON, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send one whole answer."""
    await send(start_message(status, [(b"content-length", str(len(body)).encode()), *headers], content_type))
    await send({"type": "http.response.body", "body": body})


def start_message(status: int, headers: Headers, content_type: bytes) -> Message:
    """The message that begins an answer."""
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", content_type), *headers]}


def refusal_headers(refusal: Refusal) -> Headers:
    """Headers that an error answer needs beside its body."""
    headers: Headers = []
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
