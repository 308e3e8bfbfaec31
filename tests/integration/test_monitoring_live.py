"""The hub and the websocket: who may listen, latest wins, a broker that goes and comes back."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.urls import path

from monitoring.consumers import LiveConsumer, topics_of
from monitoring.live import MOST_FRAME_BYTES, MOST_SOCKET_TOPICS, Hub, Mailbox, read_frame
from monitoring.publish import CHANNEL
from profiles_app.models import Membership
from tests.integration.monitoring_world import Valkey, person, profile


def frame(topic: str = "profile:fast", *, seq: int = 1, team: str = "default", **more: Any) -> str:
    return json.dumps({"topic": topic, "team": team, "generation": "m1", "seq": seq, "at": 1.0, "data": {}} | more)


async def soon(check: Any, *, seconds: float = 10.0) -> None:
    """Wait until a check holds; fail when it does not within the time."""
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.01)


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    valkey = Valkey()
    yield valkey
    valkey.close()


@pytest.fixture
def publish(valkey: Valkey) -> Iterator[Any]:
    client = valkey.client()
    yield lambda text: client.publish(CHANNEL, text)
    client.close()


@pytest_asyncio.fixture
async def hub(valkey: Valkey) -> AsyncIterator[Hub]:
    hub = Hub(url=lambda: valkey.url)
    yield hub
    for mailbox in list(hub._mailboxes):
        await hub.detach(mailbox)


# ---------- the hub


@pytest.mark.asyncio
async def test_a_mailbox_gets_only_the_topics_and_teams_that_are_its_own(hub: Hub, publish: Any) -> None:
    mine = Mailbox(topics=["profile:fast"], teams=["default"])
    hub.attach(mine)
    await soon(lambda: hub.up)
    for text in (frame("profile:other"), frame(team="rivals"), frame(seq=7), "{", frame("profile:last")):
        publish(text)
    await soon(lambda: "profile:last" in hub._latest)
    texts = [json.loads(text) for text in await mine.take()]
    assert [(text["type"], text.get("seq")) for text in texts] == [("broker", None), ("frame", 7)]
    assert hub.dropped == 1


@pytest.mark.asyncio
async def test_a_slow_socket_gets_the_latest_frame_and_the_rest_are_counted(hub: Hub, publish: Any) -> None:
    slow = Mailbox(topics=["profile:fast"], teams=["default"])
    hub.attach(slow)
    await soon(lambda: hub.up)
    for seq in range(1, 101):
        publish(frame(seq=seq))
    await soon(lambda: hub._latest.get("profile:fast") and hub._latest["profile:fast"].seq == 100)
    assert [json.loads(text)["seq"] for text in await slow.take() if "seq" in text] == [100]
    assert slow.replaced == 99


@pytest.mark.asyncio
async def test_one_subscription_serves_every_socket_and_ends_with_the_last(hub: Hub, valkey: Valkey) -> None:
    boxes = [Mailbox(topics=["profile:fast"], teams=["default"]) for _ in range(20)]
    for box in boxes:
        hub.attach(box)
    await soon(lambda: hub.up)
    client = valkey.client()
    assert client.pubsub_numsub(CHANNEL)[0][1] == 1
    for box in boxes:
        await hub.detach(box)
    await soon(lambda: client.pubsub_numsub(CHANNEL)[0][1] == 0)
    assert hub.up is False
    client.close()


@pytest.mark.asyncio
async def test_a_new_socket_starts_with_the_last_frame(hub: Hub, publish: Any) -> None:
    hub.attach(Mailbox(topics=["profile:fast"], teams=["default"]))
    await soon(lambda: hub.up)
    publish(frame(seq=5))
    await soon(lambda: "profile:fast" in hub._latest)
    late = Mailbox(topics=["profile:fast"], teams=["default"])
    hub.attach(late)
    assert [json.loads(text)["seq"] for text in await late.take()] == [5]
    beat = json.loads(hub.heartbeat(["profile:fast", "profile:none"]))
    assert beat["streams"] == {"profile:fast": 5}
    assert (beat["type"], beat["broker"], beat["generations"]) == ("heartbeat", True, {"profile:fast": "m1"})


@pytest.mark.asyncio
async def test_a_killed_broker_is_said_at_once_and_frames_flow_again_after_its_return(hub: Hub, valkey: Valkey) -> None:
    box = Mailbox(topics=["profile:fast"], teams=["default"])
    hub.attach(box)
    await soon(lambda: hub.up)
    await box.take()
    valkey.kill()
    await soon(lambda: not hub.up)
    assert [json.loads(text) for text in await box.take()] == [{"type": "broker", "up": False}]
    await asyncio.to_thread(valkey.start)
    await soon(lambda: hub.up)
    client = valkey.client()
    client.publish(CHANNEL, frame(seq=9))
    client.close()
    await soon(lambda: "profile:fast" in hub._latest)
    assert [json.loads(text).get("seq") for text in await box.take()] == [None, 9]


def test_a_message_that_is_no_frame_is_dropped() -> None:
    assert read_frame(b'{"topic":"a"}') is None
    assert read_frame(b"[]") is None
    assert read_frame(frame(blob="x" * MOST_FRAME_BYTES)) is None


def test_only_a_bounded_list_of_profile_topics_is_answered() -> None:
    assert topics_of(b"topics=profile:a,profile:b,") == {"profile:a", "profile:b"}
    many = ",".join(f"profile:{i}" for i in range(MOST_SOCKET_TOPICS + 1))
    for query in (b"", b"topics=", b"topics=profile:a,other", f"topics={many}".encode(), b"topics=" + b"a" * 5000):
        assert topics_of(query) is None


# ---------- the socket

pytestmark_db = pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveConsumer, "heartbeat_seconds", 0.1)
    monkeypatch.setattr(LiveConsumer, "recheck_seconds", 0.1)


def session_of(user: Any) -> SessionStore:
    browser = Client()
    browser.force_login(user)
    return SessionStore(browser.cookies[settings.SESSION_COOKIE_NAME].value)


class Socket:
    """A browser's end of one websocket."""

    def __init__(self, hub: Hub, *, session: SessionStore, topics: str) -> None:
        scope = {"type": "websocket", "path": "/ws/live/", "query_string": f"topics={topics}".encode(), "headers": []}
        application = URLRouter([path("ws/live/", LiveConsumer.as_asgi(hub=hub))])
        self.end = ApplicationCommunicator(application, {**scope, "session": session})

    async def open(self) -> int | None:
        """Return None when the server accepted, else its closing code."""
        await self.end.send_input({"type": "websocket.connect"})
        answer = await self.end.receive_output(timeout=5)
        return None if answer["type"] == "websocket.accept" else int(answer["code"])

    async def read(self) -> dict[str, Any]:
        message = await self.end.receive_output(timeout=10)
        return {"close": message["code"]} if message["type"] == "websocket.close" else json.loads(message["text"])

    async def leave(self) -> None:
        await self.end.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.end.wait(timeout=5)


async def connect(hub: Hub, user: Any, topics: str) -> tuple[Socket, int | None]:
    session = await sync_to_async(session_of)(user) if user else SessionStore()
    socket = Socket(hub, session=session, topics=topics)
    return socket, await socket.open()


async def closing_code(socket: Socket) -> int:
    """Read until the server closes; return its code."""
    async with asyncio.timeout(10):
        while True:
            message = await socket.read()
            if "close" in message:
                return int(message["close"])


@pytestmark_db
@pytest.mark.asyncio
async def test_a_member_gets_frames_and_heartbeats_of_their_profile(hub: Hub, publish: Any, quick: None) -> None:
    user = await sync_to_async(person)("ann")
    await sync_to_async(profile)("fast")
    socket, refused = await connect(hub, user, "profile:fast")
    assert refused is None
    await soon(lambda: hub.up)
    publish(frame(seq=3))
    seen: dict[str, Any] = {}
    async with asyncio.timeout(10):
        while {"frame", "heartbeat"} - seen.keys():
            message = await socket.read()
            seen[message["type"]] = message
    assert (seen["frame"]["topic"], seen["frame"]["seq"]) == ("profile:fast", 3)
    await socket.leave()
    await soon(lambda: not hub._mailboxes)


@pytestmark_db
@pytest.mark.asyncio
async def test_nobody_else_gets_in_and_a_foreign_profile_is_like_a_missing_one(hub: Hub) -> None:
    user = await sync_to_async(person)("ann")
    await sync_to_async(profile)("fast")
    await sync_to_async(profile)("secret", slug="rivals")
    answers = [
        await connect(hub, who, topics)
        for who, topics in (
            (None, "profile:fast"),
            (user, "profile:secret"),
            (user, "profile:missing"),
            (user, "profile:fast,profile:secret"),
            (user, ""),
        )
    ]
    assert [code for _, code in answers] == [4401, 4403, 4403, 4403, 4403]
    assert not hub._mailboxes


@pytestmark_db
@pytest.mark.asyncio
async def test_a_disabled_person_and_one_who_left_the_team_lose_their_socket(hub: Hub, quick: None) -> None:
    ann, bob = await sync_to_async(person)("ann"), await sync_to_async(person)("bob")
    await sync_to_async(profile)("fast")
    first, _ = await connect(hub, ann, "profile:fast")
    second, _ = await connect(hub, bob, "profile:fast")
    await get_user_model().objects.filter(pk=ann.pk).aupdate(is_active=False)
    await Membership.objects.filter(user=bob).adelete()
    assert await closing_code(first) == 4401
    assert await closing_code(second) == 4403
    await first.leave()
    await second.leave()


@pytestmark_db
@pytest.mark.asyncio
async def test_a_browser_that_sends_too_much_is_closed(hub: Hub) -> None:
    user = await sync_to_async(person)("ann")
    await sync_to_async(profile)("fast")
    socket, _ = await connect(hub, user, "profile:fast")
    await socket.end.send_input({"type": "websocket.receive", "text": "x" * 5000})
    assert await closing_code(socket) == 1009
    await socket.leave()


@pytestmark_db
@pytest.mark.asyncio
async def test_a_socket_that_does_not_read_is_closed(hub: Hub, publish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    user = await sync_to_async(person)("ann")
    await sync_to_async(profile)("fast")
    monkeypatch.setattr(LiveConsumer, "send_seconds", 0.05)
    closed: list[int] = []

    async def stuck(self: LiveConsumer, text_data: str | None = None, **_: Any) -> None:
        await asyncio.Event().wait()

    async def close(self: LiveConsumer, code: int | None = None, **_: Any) -> None:
        closed.append(code or 0)

    monkeypatch.setattr(LiveConsumer, "send", stuck)
    monkeypatch.setattr(LiveConsumer, "close", close)
    socket, _ = await connect(hub, user, "profile:fast")
    await soon(lambda: closed)
    assert set(closed) == {4408}
    await socket.leave()
