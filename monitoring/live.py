"""The hub: one subscription a web process, and one latest-wins slot a socket and topic.

A slow reader costs freshness, never memory. The hub knows no Django user: who may see a topic is the
consumer's business, and the team of each frame is checked again when it is handed over.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from monitoring.publish import CHANNEL

logger = logging.getLogger(__name__)

SHORTEST_BACKOFF_SECONDS = 0.2
LONGEST_BACKOFF_SECONDS = 5.0
MOST_FRAME_BYTES = 64 * 1024
MOST_TOPICS = 4096
MOST_SOCKET_TOPICS = 32


@dataclass(frozen=True, slots=True)
class Frame:
    """A live frame, serialised once for all sockets."""

    topic: str
    team: str
    generation: str
    seq: int
    text: str


class Mailbox:
    """What one socket has not sent yet: the newest frame of each topic, and whether the broker is up."""

    def __init__(self, *, topics: Collection[str], teams: Collection[str]) -> None:
        self.topics = frozenset(topics)
        self.teams = frozenset(teams)
        self.replaced = 0
        self._frames: dict[str, Frame] = {}
        self._broker: bool | None = None
        self._something = asyncio.Event()

    def put(self, frame: Frame) -> None:
        """Take a frame, in the place of an older one of its topic that was not sent yet."""
        if frame.topic not in self.topics or frame.team not in self.teams:
            return
        self.replaced += frame.topic in self._frames
        self._frames[frame.topic] = frame
        self._something.set()

    def broker(self, *, up: bool) -> None:
        """Note that the subscription was lost or is back."""
        self._broker = up
        self._something.set()

    async def take(self) -> list[str]:
        """Wait for something to send, and return it as texts: a change of the broker first, then frames."""
        await self._something.wait()
        self._something.clear()
        texts = [] if self._broker is None else [json.dumps({"type": "broker", "up": self._broker})]
        texts += [frame.text for frame in self._frames.values()]
        self._broker = None
        self._frames = {}
        return texts


class Hub:
    """Feeds mailboxes from the broker. Its task runs while there is a socket, and resubscribes for ever."""

    def __init__(self, *, url: Callable[[], str]) -> None:
        self.dropped = 0
        self.up = False
        self._url = url
        self._mailboxes: set[Mailbox] = set()
        self._latest: dict[str, Frame] = {}
        self._task: asyncio.Task[None] | None = None

    def attach(self, mailbox: Mailbox) -> None:
        """Begin to feed a mailbox, with the last frame of each of its topics first."""
        self._mailboxes.add(mailbox)
        for topic in mailbox.topics & self._latest.keys():
            mailbox.put(self._latest[topic])
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run())

    async def detach(self, mailbox: Mailbox) -> None:
        """Stop feeding a mailbox; the subscription ends with the last one."""
        self._mailboxes.discard(mailbox)
        if self._mailboxes or self._task is None:
            return
        task, self._task = self._task, None
        self._latest.clear()
        self.up = False
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def heartbeat(self, topics: Collection[str]) -> str:
        """Return the heartbeat of these topics: the last seq and generation of each, and the broker's state."""
        known = {topic: self._latest[topic] for topic in topics if topic in self._latest}
        return json.dumps(
            {
                "type": "heartbeat",
                "streams": {topic: frame.seq for topic, frame in known.items()},
                "generations": {topic: frame.generation for topic, frame in known.items()},
                "broker": self.up,
            }
        )

    async def _run(self) -> None:
        backoff = SHORTEST_BACKOFF_SECONDS
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                backoff = SHORTEST_BACKOFF_SECONDS if self.up else min(backoff * 2, LONGEST_BACKOFF_SECONDS)
                if self.up:
                    logger.warning("live subscription lost: %r", error)
                self._turn(up=False)
                await asyncio.sleep(backoff)

    async def _listen(self) -> None:
        """Subscribe and hand out frames until the connection breaks."""
        # Without socket_timeout=None an idle subscription is cut after redis-py's default of 5 s; with its
        # own retries it would mend a break silently, and frames lost meanwhile would go unnoticed.
        client = aioredis.Redis.from_url(
            self._url(), socket_timeout=None, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
        )
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as subscription:
                await subscription.subscribe(CHANNEL)
                # The answer to a ping proves that the subscription stands.
                await subscription.ping()
                self._turn(up=True)
                async for message in subscription.listen():
                    if message.get("type") == "message":
                        self._hand_out(message["data"])
        finally:
            await client.aclose()

    def _turn(self, *, up: bool) -> None:
        if up != self.up:
            self.up = up
            for mailbox in self._mailboxes:
                mailbox.broker(up=up)

    def _hand_out(self, raw: Any) -> None:
        frame = read_frame(raw)
        if frame is None or (frame.topic not in self._latest and len(self._latest) >= MOST_TOPICS):
            self.dropped += 1
            return
        self._latest[frame.topic] = frame
        for mailbox in self._mailboxes:
            mailbox.put(frame)


def read_frame(raw: bytes | str) -> Frame | None:
    """Return the frame of a published message, or None when it is too large or not one of ours."""
    if len(raw) > MOST_FRAME_BYTES:
        return None
    try:
        body = json.loads(raw)
        text = json.dumps({"type": "frame", **body}, separators=(",", ":"))
        return Frame(str(body["topic"]), str(body["team"]), str(body["generation"]), int(body["seq"]), text)
    except (ValueError, KeyError, TypeError):
        return None
