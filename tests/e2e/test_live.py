"""Live websockets: many idle ones for a while, and their healing after the broker's death."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.e2e.client import Caller
from tests.e2e.seed import PASSWORD, USER
from tests.e2e.stack import Stack

SOCKETS = 20
IDLE_SECONDS = 15.0


def session_cookie(stack: Stack) -> str:
    """Sign in as a person does, and return the session's cookie."""
    address = f"http://127.0.0.1:{stack.port}"
    with httpx.Client(base_url=address, trust_env=False, timeout=20) as browser:
        browser.get("/login/").raise_for_status()
        form = {"username": USER, "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        answer = browser.post("/login/", data=form, headers={"Referer": f"{address}/login/"})
        assert answer.status_code == 302, answer.text[:500]
        return f"sessionid={browser.cookies['sessionid']}"


class Tab:
    """One browser tab: reads what comes, and opens its socket again when that closes."""

    def __init__(self, stack: Stack, cookie: str, profile: str) -> None:
        address = f"ws://127.0.0.1:{stack.port}"
        self._url = f"{address}/ws/live/?topics=profile:{profile}"
        self._headers = {"Cookie": cookie, "Origin": address.replace("ws", "http")}
        self.heartbeats = self.drops = 0
        self.broker: bool | None = None
        self.frames: list[dict[str, Any]] = []

    async def follow(self) -> None:
        """Read for ever."""
        while True:
            with contextlib.suppress(ConnectionClosed, OSError):
                async with connect(self._url, additional_headers=self._headers, proxy=None) as socket:
                    await self._read(socket)
            self.drops += 1
            await asyncio.sleep(0.2)

    async def _read(self, socket: ClientConnection) -> None:
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "heartbeat":
                self.heartbeats += 1
            elif message["type"] == "broker":
                self.broker = message["up"]
            else:
                self.frames = [*self.frames[-200:], message]


@contextlib.asynccontextmanager
async def tabs(stack: Stack, profile: str) -> AsyncIterator[list[Tab]]:
    """So many tabs, open and with a frame each."""
    cookie = await asyncio.to_thread(session_cookie, stack)
    opened = [Tab(stack, cookie, profile) for _ in range(SOCKETS)]
    following = [asyncio.create_task(tab.follow()) for tab in opened]
    try:
        await until(lambda: all(tab.frames for tab in opened), 30)
        yield opened
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def until(condition: Any, seconds: float) -> None:
    """Poll a condition."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_twenty_idle_sockets_hold_and_heal_when_the_broker_dies(stack: Stack, caller: Caller) -> None:
    await asyncio.to_thread(stack.deploy, "watched")
    async with tabs(stack, "watched") as opened:
        began = time.monotonic()
        beats = [tab.heartbeats for tab in opened]
        # A heartbeat comes each half second at this scale; a loaded host may be late with some.
        enough = IDLE_SECONDS / 0.5 * 0.5
        await until(
            lambda: (
                time.monotonic() - began > IDLE_SECONDS
                and all(tab.heartbeats - was > enough for tab, was in zip(opened, beats, strict=True))
            ),
            IDLE_SECONDS * 2,
        )
        assert [tab.drops for tab in opened] == [0] * SOCKETS

        await asyncio.to_thread(stack.kill, "valkey")
        killed = time.time()
        await asyncio.to_thread(stack.restarted, "valkey")
        await until(lambda: all(tab.broker and tab.frames[-1]["at"] > killed for tab in opened), 40)

        answer = await asyncio.to_thread(caller.ask, "watched")
        assert answer.status_code == 200
        await until(lambda: all(tab.frames[-1]["data"]["e2e"]["count"] for tab in opened), 30)
    frames = opened[0].frames
    assert {frame["topic"] for frame in frames} == {"profile:watched"}
    order = [(frame["generation"], frame["seq"]) for frame in frames]
    assert len(order) == len(set(order))


@pytest.mark.asyncio
async def test_a_socket_without_a_session_is_refused(stack: Stack) -> None:
    await asyncio.to_thread(stack.profile, "hidden")
    address = f"ws://127.0.0.1:{stack.port}"
    url, origin = f"{address}/ws/live/?topics=profile:hidden", address.replace("ws", "http")
    with pytest.raises(Exception, match=r"403|4401"):
        async with connect(url, additional_headers={"Origin": origin}, proxy=None) as socket:
            await socket.recv()
