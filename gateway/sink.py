"""Takes usage records off the request path: a bounded queue to Valkey's stream, a bounded file while it is down."""

import fcntl
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from io import BufferedRandom
from itertools import islice
from pathlib import Path

import msgspec
from redis.asyncio import Redis

from gateway.proxy.accounting import UsageRecord
from gateway.valkey import FAILURES, USAGE_STREAM, USAGE_STREAM_LENGTH

logger = logging.getLogger(__name__)

QUEUE_LIMIT = 10_000
SPOOL_LIMIT_BYTES = 64 << 20
BATCH = 1_000
_encoder = msgspec.json.Encoder()
_readable = msgspec.json.Decoder(UsageRecord)


class Spool:
    """One file of records, one JSON a line. The lock on it says that its process lives."""

    def __init__(self, path: Path, file: BufferedRandom) -> None:
        self.path = path
        self._file = file
        self._read_to = 0

    @classmethod
    def claim(cls, path: Path) -> "Spool | None":
        """Open a file and lock it; None when another process holds it. Raises OSError."""
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return cls(path, file)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._file.seek(0, os.SEEK_END)

    def append(self, records: Sequence[bytes]) -> None:
        """Add records; raises OSError."""
        self._file.seek(0, os.SEEK_END)
        self._file.write(b"".join(record + b"\n" for record in records))
        self._file.flush()

    def next_batch(self) -> list[bytes]:
        """Lines after those that `taken` confirmed, [] at the end."""
        self._file.seek(self._read_to)
        return list(islice(self._file, BATCH))

    def taken(self, lines: Sequence[bytes]) -> None:
        """Lines that need not be read again."""
        self._read_to += sum(map(len, lines))

    def close(self, *, remove: bool) -> None:
        """Give the file up, and remove it when all that it held is stored."""
        if remove:
            self.path.unlink(missing_ok=True)
        self._file.close()


class StreamSink:
    """Usage on its way to Valkey. `put` never waits; `flush` is called by one task only."""

    def __init__(
        self,
        client: Redis,
        *,
        directory: Path,
        process_id: str,
        queue_limit: int = QUEUE_LIMIT,
        spool_limit_bytes: int = SPOOL_LIMIT_BYTES,
    ) -> None:
        self._client = client
        self._directory = directory
        self._own = directory / f"usage-{process_id}.jsonl"
        self._queue: deque[bytes] = deque()
        self._queue_limit = queue_limit
        self._spool_limit_bytes = spool_limit_bytes
        self._spool: Spool | None = None
        self._look_for_spools = True
        self._dropped = 0

    @property
    def queued(self) -> int:
        """Records in memory."""
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """Records lost: neither the queue, nor Valkey, nor the file took them."""
        return self._dropped

    def put(self, record: UsageRecord) -> None:
        """Take one record; a full queue drops it and counts."""
        if len(self._queue) >= self._queue_limit:
            self._dropped += 1
        else:
            self._queue.append(_encoder.encode(record))

    async def flush(self) -> None:
        """Move what is queued to the stream, or to the file while Valkey is down; then replay files."""
        up = True
        while self._queue:
            batch = list(islice(self._queue, BATCH))
            up = up and await self._add(batch)
            if not up and not self._keep(batch):
                return
            for _ in batch:
                self._queue.popleft()
        if up and self._look_for_spools:
            self._look_for_spools = not await self._replay_all()

    async def close(self) -> None:
        """Store what is left; a file that still holds records stays for the next process."""
        await self.flush()
        if self._spool is not None:
            self._spool.close(remove=False)
            self._spool = None

    async def _add(self, records: Sequence[bytes]) -> bool:
        pipeline = self._client.pipeline(transaction=False)
        for record in records:
            pipeline.xadd(USAGE_STREAM, {"r": record}, maxlen=USAGE_STREAM_LENGTH, approximate=True)
        try:
            await pipeline.execute()
        except FAILURES as error:
            # Some may be stored all the same. The reader takes each request id once.
            logger.debug("usage goes to the file: %s", error)
            return False
        return True

    def _keep(self, records: Sequence[bytes]) -> bool:
        """Write records to the file, drop them when it is full; False when it can't be written now."""
        self._look_for_spools = True
        try:
            if self._spool is None:
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._spool = Spool.claim(self._own)
            if self._spool is None:
                return False
            room = self._spool.size + sum(len(record) + 1 for record in records) <= self._spool_limit_bytes
            if room:
                self._spool.append(records)
            else:
                self._dropped += len(records)
        except OSError as error:
            logger.error("usage can't be written to %s: %s", self._own, error)
            return False
        return True

    async def _replay_all(self) -> bool:
        """Store what files of this and of dead processes hold; False when it must be tried again."""
        if self._spool is not None:
            if not await self._replay(self._spool):
                return False
            self._spool = None
        for path in self._left_behind():
            spool = Spool.claim(path)
            if spool is not None and not await self._replay(spool):
                spool.close(remove=False)
                return False
        return True

    def _left_behind(self) -> Iterator[Path]:
        return (path for path in sorted(self._directory.glob("usage-*.jsonl")) if path != self._own)

    async def _replay(self, spool: Spool) -> bool:
        """Move a file's records to the stream and remove it; False when Valkey is down again."""
        while lines := spool.next_batch():
            records = [line.rstrip(b"\n") for line in lines if _is_record(line)]
            self._dropped += len(lines) - len(records)
            if records and not await self._add(records):
                return False
            spool.taken(lines)
        logger.info("usage of %s is stored", spool.path.name)
        spool.close(remove=True)
        return True


def _is_record(line: bytes) -> bool:
    """False for a line that a dying process left half written."""
    try:
        _readable.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
