"""The playground: one prompt to one profile, streamed through the gateway like any client's request."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import httpx
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from gateway.services import playground_key
from gateway.web.keys import gateway_address
from profiles_app import selectors
from profiles_app.errors import DomainError, ForbiddenError
from profiles_app.models import Profile
from profiles_app.selectors import Viewer, viewer_for
from profiles_app.web.http import page
from profiles_app.web.rows import profile_rows

SESSION_KEY = "playground"
KEY_TRIES = 24
KEY_WAIT_SECONDS = 0.25
TIMEOUT = httpx.Timeout(connect=5.0, read=300.0, write=10.0, pool=5.0)
PASSED_ON = ("x-forebay-", "x-request-id", "retry-after")
MAX_PROMPT = 100_000


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of the playground."""

    profile: str
    messages: list[dict[str, str]]
    temperature: float
    max_tokens: int

    def body(self) -> dict[str, Any]:
        """The request as OpenAI clients send it."""
        return {
            "model": self.profile,
            "messages": self.messages,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@require_safe
@page
def playground(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """The page; the profiles that are ready come first."""
    rows = sorted(profile_rows(viewer, now=timezone.now()), key=lambda row: (row.ready == 0, row.name))
    context = {
        "rows": rows,
        "chosen": request.GET.get("profile") or (rows[0].name if rows else ""),
        "ready": sum(row.ready > 0 for row in rows),
        "operate": viewer.can_somewhere("operator"),
        "gateway": gateway_address(request),
    }
    return render(request, "gateway/playground.html", context)


@require_POST
async def stream(request: HttpRequest) -> HttpResponseBase:
    """Send the prompt to the gateway and pass its stream on as it comes."""
    viewer = await sync_to_async(viewer_for)(await request.auser())
    try:
        ask = read_ask(request.body)
        profile = await sync_to_async(_profile)(viewer, ask.profile)
        return await _answer(request, viewer, profile, ask)
    except DomainError as error:
        return _refused(error.code, error.message, error.status)
    except httpx.HTTPError as error:
        return _refused("gateway_unreachable", f"The gateway did not answer: {type(error).__name__}.", 502)


def read_ask(body: bytes) -> Ask:
    """Parse and bound what the page sent. Raises DomainError."""
    try:
        data = json.loads(body)
        prompt, system = str(data["prompt"]).strip(), str(data.get("system") or "").strip()
        temperature, max_tokens = float(data.get("temperature", 0)), int(data.get("max_tokens", 128))
        name = str(data["profile"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DomainError("invalid", "The request of the playground could not be read.", status=422) from error
    if not prompt or len(prompt) + len(system) > MAX_PROMPT:
        raise DomainError("invalid_prompt", "Write a prompt of at most 100,000 signs.", status=422, field="prompt")
    if not (0 <= temperature <= 2 and 1 <= max_tokens <= 1_000_000):
        raise DomainError("invalid_sampling", "Temperature is 0 to 2, tokens are at least 1.", status=422)
    messages = [{"role": "system", "content": system}] if system else []
    return Ask(name, [*messages, {"role": "user", "content": prompt}], temperature, max_tokens)


def _profile(viewer: Viewer, name: str) -> Profile:
    if viewer.user_id is None:
        raise DomainError("not_authenticated", "Log in again.", status=401)
    profile = selectors.profile_by_name(viewer, name)
    if not viewer.can(profile.team.slug, "operator"):
        raise ForbiddenError("operator")
    return profile


async def _answer(request: HttpRequest, viewer: Viewer, profile: Profile, ask: Ask) -> HttpResponseBase:
    """The gateway's answer. A key that was just made may take a moment to reach the gateway: 401 is tried again."""
    client = httpx.AsyncClient(base_url=_gateway_url(), timeout=TIMEOUT, trust_env=False)
    try:
        key = await sync_to_async(_key)(request, viewer, profile, renew=False)
        for attempt in range(KEY_TRIES):
            response = await _send(client, key, ask)
            if response.status_code != 401 or attempt == KEY_TRIES - 1:
                break
            await response.aclose()
            if attempt == 0:
                key = await sync_to_async(_key)(request, viewer, profile, renew=True)
            await asyncio.sleep(settings.FOREBAY.seconds(KEY_WAIT_SECONDS))
    except BaseException:
        await client.aclose()
        raise
    return await _passed_on(client, response)


async def _send(client: httpx.AsyncClient, key: str, ask: Ask) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return await client.send(
        client.build_request("POST", "/v1/chat/completions", json=ask.body(), headers=headers), stream=True
    )


async def _passed_on(client: httpx.AsyncClient, response: httpx.Response) -> HttpResponseBase:
    headers = {name: value for name, value in response.headers.items() if name.lower().startswith(PASSED_ON)}
    headers |= {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    if response.status_code == 200:
        return StreamingHttpResponse(_relay(client, response), content_type="text/event-stream", headers=headers)
    try:
        content = await response.aread()
    finally:
        await client.aclose()
    return HttpResponse(content, status=response.status_code, content_type="application/json", headers=headers)


async def _relay(client: httpx.AsyncClient, response: httpx.Response) -> AsyncIterator[bytes]:
    """Bytes of the stream; closing it (the browser went away) closes the gateway's side too."""
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    finally:
        await response.aclose()
        await client.aclose()


def _key(request: HttpRequest, viewer: Viewer, profile: Profile, *, renew: bool) -> str:
    """The session's key for the profile's team; made at its first use, and anew when the gateway refuses it."""
    held: dict[str, str] = request.session.get(SESSION_KEY, {})
    slug = profile.team.slug
    if renew or slug not in held:
        key = playground_key(viewer, team=profile.team, now=timezone.now())
        request.session[SESSION_KEY] = held | {slug: key}
        request.session.save()
        return key
    return held[slug]


def _gateway_url() -> str:
    """The gateway as this process reaches it: one that listens on every interface is asked on loopback."""
    host = settings.FOREBAY.host
    try:
        everywhere = ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    return f"http://{'127.0.0.1' if everywhere else host}:{settings.FOREBAY.gateway_port}"


def _refused(code: str, message: str, status: int) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)
