"""How the gateway process reaches Valkey: names of keys, database, time limits."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

DATABASE = 3
TABLE_KEY = "forebay:table"
TABLE_VERSION_KEY = "forebay:table:version"
TABLE_CHANNEL = "forebay:table"
USAGE_STREAM = "forebay:usage"
USAGE_STREAM_LENGTH = 1_000_000
CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 2.0

FAILURES = (RedisError, OSError)


def report_key(process_id: str) -> str:
    """Key of a gateway process's report."""
    return f"forebay:gateway:{process_id}"


def connect(url: str, *, answer_seconds: float | None = ANSWER_SECONDS) -> Redis:
    """A client of Forebay's database at `url` (which names none); connects when first used.

    It retries once and at once, which is what a pooled connection needs after Valkey restarted;
    beyond that each caller has a loop of its own and something better to do meanwhile.
    `answer_seconds=None` is for subscriptions, which are silent for long.
    """
    joint = "&" if "?" in url else "?"
    return Redis.from_url(
        f"{url}{joint}db={DATABASE}",
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=answer_seconds,
        retry=Retry(NoBackoff(), 1),
        protocol=2,
    )
