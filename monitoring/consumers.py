"""The live websocket: who may listen to which topics, and sending without ever waiting for a slow reader."""

import asyncio
import logging
from importlib import import_module
from typing import Any, ClassVar
from urllib.parse import parse_qs

from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.urls import path

from monitoring.live import MOST_SOCKET_TOPICS, Hub, Mailbox
from profiles_app.selectors import Viewer, profiles, viewer_for

logger = logging.getLogger(__name__)

NOT_SIGNED_IN = 4401
NOT_ALLOWED = 4403
TOO_SLOW = 4408
TOO_LARGE = 1009
MOST_QUERY_BYTES = 4096
MOST_INBOUND_CHARACTERS = 1024
MOST_INBOUND_MESSAGES = 16


def topics_of(query: bytes) -> frozenset[str] | None:
    """Return the topics that a query string asks for, or None when it is not one we answer."""
    if len(query) > MOST_QUERY_BYTES:
        return None
    asked = parse_qs(query.decode("latin-1"), max_num_fields=8).get("topics", [""])[0]
    topics = frozenset(topic for topic in asked.split(",") if topic)
    if not topics or len(topics) > MOST_SOCKET_TOPICS or not all(topic.startswith("profile:") for topic in topics):
        return None
    return topics


class LiveConsumer(AsyncWebsocketConsumer):
    """One browser. It only listens: what it sends is counted and dropped."""

    # No layer of that name exists, so Channels subscribes nothing for a socket: frames come through the hub,
    # and a page can connect, and be told that the broker is away, while it is.
    channel_layer_alias = "none"
    heartbeat_seconds: ClassVar[float] = 5.0
    recheck_seconds: ClassVar[float] = 60.0
    send_seconds: ClassVar[float] = 10.0

    def __init__(self, *args: Any, hub: Hub, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._hub = hub
        self._mailbox: Mailbox | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._inbound = 0

    async def connect(self) -> None:
        """Accept a signed-in person whose every topic is theirs to see; refuse all others alike."""
        viewer = await self._viewer()
        if viewer is None:
            await self.close(code=NOT_SIGNED_IN)
            return
        topics = topics_of(self.scope.get("query_string", b""))
        teams = await self._teams_of(viewer, topics) if topics else None
        if topics is None or teams is None:
            await self.close(code=NOT_ALLOWED)
            return
        await self.accept()
        self._mailbox = Mailbox(topics=topics, teams=teams)
        self._hub.attach(self._mailbox)
        self._tasks = [asyncio.create_task(work) for work in (self._send_frames(), self._beat(), self._recheck())]

    async def disconnect(self, code: int) -> None:
        """End the socket's tasks and leave the hub."""
        tasks, self._tasks = self._tasks, []
        current = asyncio.current_task()
        for task in tasks:
            if task is not current:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not current), return_exceptions=True)
        if self._mailbox is not None:
            await self._hub.detach(self._mailbox)
            self._mailbox = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Drop what a browser sends; close on a large message or on many."""
        self._inbound += 1
        if len(text_data or bytes_data or "") > MOST_INBOUND_CHARACTERS or self._inbound > MOST_INBOUND_MESSAGES:
            await self.close(code=TOO_LARGE)

    async def _send_frames(self) -> None:
        mailbox = self._mailbox
        while mailbox is not None:
            for text in await mailbox.take():
                await self._write(text)

    async def _beat(self) -> None:
        while self._mailbox is not None:
            await self._write(self._hub.heartbeat(self._mailbox.topics))
            await asyncio.sleep(settings.FOREBAY.seconds(self.heartbeat_seconds))

    async def _write(self, text: str) -> None:
        """Send one message; a socket that does not take it in time is closed."""
        try:
            async with asyncio.timeout(self.send_seconds):
                await self.send(text_data=text)
        except TimeoutError:
            logger.info("a live socket stopped reading")
            await self.close(code=TOO_SLOW)
            raise

    async def _recheck(self) -> None:
        """Close the socket when its person signed out, was disabled, or lost a team."""
        while self._mailbox is not None:
            await asyncio.sleep(settings.FOREBAY.seconds(self.recheck_seconds))
            viewer = await self._viewer()
            if viewer is None:
                await self.close(code=NOT_SIGNED_IN)
            elif await self._teams_of(viewer, self._mailbox.topics) != self._mailbox.teams:
                await self.close(code=NOT_ALLOWED)

    async def _viewer(self) -> Viewer | None:
        """Return the viewer of the session as it is in the database now, or None."""
        key = getattr(self.scope.get("session"), "session_key", None)
        if key is None:
            return None
        scope: Any = {"session": await database_sync_to_async(_session)(key)}
        user = await get_user(scope)
        if not user.is_authenticated or not user.is_active:
            return None
        return await database_sync_to_async(viewer_for)(user)

    async def _teams_of(self, viewer: Viewer, topics: frozenset[str]) -> frozenset[str] | None:
        return await database_sync_to_async(_teams)(viewer, topics)


def _session(key: str) -> SessionBase:
    """Return the session as it is stored now, not as it was when the socket was opened."""
    session: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore(key)
    session.load()
    return session


def _teams(viewer: Viewer, topics: frozenset[str]) -> frozenset[str] | None:
    """Return the teams of the topics' profiles, or None unless every topic is the viewer's."""
    names = {topic.removeprefix("profile:") for topic in topics}
    found = dict(profiles(viewer).filter(name__in=names).values_list("name", "team__slug"))
    return frozenset(found.values()) if found.keys() == names else None


_application: Any = LiveConsumer.as_asgi(hub=Hub(url=lambda: settings.FOREBAY_DATA_URL))
websocket_urlpatterns = [path("ws/live/", _application)]
