"""The playground: the gateway's stream passed on as it is, with a key of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from django.conf import settings as django_settings
from django.test import AsyncClient

from gateway.models import ApiKey
from gateway.services import hash_key
from gateway.web.playground import read_ask
from profiles_app.errors import DomainError
from profiles_app.models import Profile

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
PROMPT = {"profile": "standard", "prompt": "Say hi", "system": "Be short", "temperature": 0, "max_tokens": 8}


class Gateway:
    """A stand-in at the gateway's address: answers what the test tells it to, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[Callable[[web.Request], Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.headers["Authorization"], await request.json()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        response: web.StreamResponse = await answer(request)
        return response


async def streamed(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Type": "text/event-stream", "x-forebay-profile": "standard", "x-internal": "hidden"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    for word in ("Hi", "!"):
        chunk = {"choices": [{"delta": {"content": word}}]}
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def refused(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "Unknown key.", "code": "invalid_api_key"}}, status=401)


async def unavailable(request: web.Request) -> web.StreamResponse:
    error = {"error": {"message": "No replica is ready.", "code": "no_replica"}}
    return web.json_response(error, status=503, headers={"Retry-After": "5"})


@pytest_asyncio.fixture
async def gateway(settings: Any) -> AsyncIterator[Gateway]:
    """A gateway on a free port of loopback."""
    made = Gateway()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    settings.FOREBAY = replace(django_settings.FOREBAY, gateway_port=port, time_scale=0.01)
    yield made
    await runner.cleanup()


async def send(user: Any, **change: Any) -> Any:
    client = AsyncClient()
    await client.aforce_login(user)
    return await client.post("/playground/stream", json.dumps(PROMPT | change), content_type="application/json")


async def body_of(response: Any) -> str:
    return b"".join([chunk async for chunk in response.streaming_content]).decode()


@pytest.mark.asyncio
async def test_the_stream_is_passed_on_whole_with_the_gateways_headers(
    gateway: Gateway, operator_user: Any, profile: Profile
) -> None:
    gateway.answers = [streamed]
    response = await send(operator_user)
    text = await body_of(response)
    assert response.status_code == 200
    assert text.count("data: ") == 3
    assert text.endswith("data: [DONE]\n\n")
    assert response.headers["x-forebay-profile"] == "standard"
    assert "x-internal" not in response.headers
    authorization, asked = gateway.asked[0]
    assert asked["messages"] == [{"role": "system", "content": "Be short"}, {"role": "user", "content": "Say hi"}]
    assert asked["stream"] is True
    row = await ApiKey.objects.aget()
    assert (row.internal, row.key_hash) == (True, hash_key(authorization.removeprefix("Bearer ")))


@pytest.mark.asyncio
async def test_a_key_that_the_gateway_does_not_know_yet_is_tried_again(
    gateway: Gateway, operator_user: Any, profile: Profile
) -> None:
    gateway.answers = [refused, refused, streamed]
    response = await send(operator_user)
    await body_of(response)
    assert response.status_code == 200
    assert len(gateway.asked) == 3


@pytest.mark.asyncio
async def test_a_refusal_of_the_gateway_reaches_the_page(
    gateway: Gateway, operator_user: Any, profile: Profile
) -> None:
    gateway.answers = [unavailable]
    response = await send(operator_user)
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert response.json()["error"]["code"] == "no_replica"


@pytest.mark.asyncio
async def test_a_gateway_that_is_down_is_said_so(settings: Any, operator_user: Any, profile: Profile) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    settings.FOREBAY = replace(django_settings.FOREBAY, gateway_port=port)
    response = await send(operator_user)
    assert response.status_code == 502
    assert response.json()["error"]["code"] == "gateway_unreachable"


@pytest.mark.asyncio
async def test_who_may_not_operate_sends_nothing(
    gateway: Gateway, viewer_user: Any, stranger: Any, profile: Profile
) -> None:
    gateway.answers = [streamed]
    assert (await send(viewer_user)).status_code == 403
    assert (await send(stranger)).status_code == 404
    client = AsyncClient()
    anonymous = await client.post("/playground/stream", json.dumps(PROMPT), content_type="application/json")
    assert anonymous.status_code == 401
    assert gateway.asked == []


@pytest.mark.parametrize(
    "change",
    [{"prompt": " "}, {"prompt": "x" * 100_001}, {"temperature": 3}, {"max_tokens": 0}, {"max_tokens": "many"}],
)
def test_a_prompt_out_of_bounds_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DomainError) as refusal:
        read_ask(json.dumps(PROMPT | change).encode())
    assert refusal.value.status == 422


def test_a_body_that_is_no_object_is_refused() -> None:
    for body in (b"", b"[]", b"{}", b'"text"'):
        with pytest.raises(DomainError):
            read_ask(body)
