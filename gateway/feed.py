"""Brings routing tables into the process: from Valkey, and from the file on this host."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from redis.asyncio import Redis

from gateway.proxy.table import TableError, TableStore, decode_table
from gateway.valkey import FAILURES, TABLE_CHANNEL, TABLE_KEY, TABLE_VERSION_KEY, connect

logger = logging.getLogger(__name__)


class TableFeed:
    """Reads both sources each period, and at once when a new version is announced.

    Any source that can be read and is not behind refreshes the table's age. The store refuses
    tables that are older than the one in use, so a source that fell back does no harm.
    """

    def __init__(
        self,
        store: TableStore,
        client: Redis,
        *,
        url: str,
        file: Path,
        period_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.valkey_up = False
        self._store = store
        self._client = client
        self._url = url
        self._file = file
        self._file_seen: tuple[int, int, int] | None = None
        self._file_version: int | None = None
        self._period_seconds = period_seconds
        self._monotonic = monotonic
        self._announced = asyncio.Event()

    async def turn(self) -> None:
        """Wait for an announcement, at most a period, then read the sources."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._period_seconds):
                await self._announced.wait()
        self._announced.clear()
        await self.poll()

    async def poll(self) -> None:
        """Read both sources once. A source that can't be read is no error."""
        self._read_file()
        try:
            await self._read_valkey()
        except FAILURES as error:
            self._valkey_is(False, str(error))
        else:
            self._valkey_is(True, "")

    async def listen(self) -> None:
        """Follow the announcements of one connection, until it breaks."""
        client = connect(self._url, answer_seconds=None)
        try:
            async with client.pubsub() as subscription:
                await subscription.subscribe(TABLE_CHANNEL)
                async for _ in subscription.listen():
                    self._announced.set()
        except FAILURES:
            # The poll notices and says so; this connection is only there to be early.
            self._announced.set()
        finally:
            await client.aclose()

    async def _read_valkey(self) -> None:
        version = await self._client.get(TABLE_VERSION_KEY)
        if version is None or self._store.confirm(version=int(version), mono=self._monotonic()):
            return
        raw = await self._client.get(TABLE_KEY)
        if isinstance(raw, bytes):
            self._offer(raw, "Valkey")

    def _read_file(self) -> None:
        try:
            stat = self._file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._file_seen:
                self._file_version = self._offer(self._file.read_bytes(), "file")
                self._file_seen = seen
        except OSError:
            return
        if self._file_version is not None:
            self._store.confirm(version=self._file_version, mono=self._monotonic())

    def _offer(self, raw: bytes, source: str) -> int | None:
        """Offer a table to the store; its version, None when it can't be read."""
        try:
            table = decode_table(raw)
        except TableError as error:
            logger.warning("the routing table in the %s can't be read: %s", source, error)
            return None
        before = self._store.version
        if not self._store.offer(table, mono=self._monotonic()):
            logger.warning("the routing table in the %s is older (%s) than the one in use", source, table.version)
        elif table.version != before:
            logger.info("routing table %s in use, from the %s", table.version, source)
        return table.version

    def _valkey_is(self, up: bool, reason: str) -> None:
        if up != self.valkey_up:
            logger.warning("Valkey %s", "answers" if up else f"does not answer: {reason}")
        self.valkey_up = up
