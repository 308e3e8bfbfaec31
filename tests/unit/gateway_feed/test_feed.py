"""Where tables come from, with a real Valkey that is killed and started again."""

import asyncio
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.feed import TableFeed
from gateway.proxy.table import Table, TableStore, encode_table
from gateway.valkey import connect
from tests.unit.gateway_feed.valkey import ValkeyServer
from tests.unit.gateway_proxy.harness import table

pytestmark = pytest.mark.asyncio


def publish(server: ValkeyServer, rows: Table) -> None:
    server.client.set("forebay:table", encode_table(rows))
    server.client.set("forebay:table:version", rows.version)
    server.client.publish("forebay:table", rows.version)


class Fed:
    """A store fed from one Valkey and one file, on a clock that tests move."""

    def __init__(self, server: ValkeyServer, client: Redis, place: Path, *, period_seconds: float = 0.01) -> None:
        self.now = 1000.0
        self.file = place / "table.json"
        self.store = TableStore(ttl=30)
        self.feed = TableFeed(
            self.store,
            client,
            url=server.url,
            file=self.file,
            period_seconds=period_seconds,
            monotonic=lambda: self.now,
        )

    def age(self) -> float | None:
        return self.store.age(mono=self.now)


@pytest.fixture
def fed(server: ValkeyServer, client: Redis, place: Path) -> Fed:
    return Fed(server, client, place)


async def test_with_no_source_there_is_no_table(fed: Fed) -> None:
    await fed.feed.poll()
    assert fed.store.version is None
    assert fed.feed.valkey_up


async def test_the_newest_table_of_both_sources_is_used(fed: Fed, server: ValkeyServer) -> None:
    publish(server, table(version=2))
    fed.file.write_bytes(encode_table(table(version=3)))
    await fed.feed.poll()
    assert fed.store.version == 3
    publish(server, table(version=4))
    await fed.feed.poll()
    assert fed.store.version == 4


async def test_a_readable_source_keeps_the_table_fresh_and_a_silent_one_does_not(
    fed: Fed, server: ValkeyServer
) -> None:
    publish(server, table(version=2))
    await fed.feed.poll()
    fed.now += 20
    await fed.feed.poll()
    assert fed.age() == 0
    server.kill()
    fed.now += 20
    await fed.feed.poll()
    assert (fed.age(), fed.feed.valkey_up) == (20, False)
    assert fed.store.fresh(mono=fed.now) is not None
    fed.now += 11
    await fed.feed.poll()
    assert fed.store.fresh(mono=fed.now) is None


async def test_with_valkey_down_the_file_starts_feeds_and_refreshes(fed: Fed, server: ValkeyServer) -> None:
    server.kill()
    fed.file.write_bytes(encode_table(table(version=2)))
    await fed.feed.poll()
    assert fed.store.version == 2
    fed.now += 100
    await fed.feed.poll()
    assert fed.age() == 0
    fed.file.write_bytes(encode_table(table(version=3, published_at=101.5)))
    await fed.feed.poll()
    assert fed.store.version == 3


async def test_a_valkey_that_came_back_empty_takes_nothing_away(fed: Fed, server: ValkeyServer) -> None:
    publish(server, table(version=9, published_at=500.0))
    await fed.feed.poll()
    server.kill()
    server.start()
    await fed.feed.poll()
    assert (fed.store.version, fed.feed.valkey_up) == (9, True)
    fed.now += 5
    publish(server, table(version=8, published_at=400.0))
    await fed.feed.poll()
    assert (fed.store.version, fed.age()) == (9, 5)
    publish(server, table(version=1, published_at=600.0))
    await fed.feed.poll()
    assert (fed.store.version, fed.age()) == (1, 0)


async def test_a_broken_table_is_ignored_and_the_last_good_one_kept(fed: Fed, server: ValkeyServer) -> None:
    publish(server, table(version=2))
    await fed.feed.poll()
    fed.file.write_bytes(b"{half")
    server.client.set("forebay:table", b"junk")
    server.client.set("forebay:table:version", 3)
    await fed.feed.poll()
    assert fed.store.version == 2
    server.client.delete("forebay:table")
    await fed.feed.poll()
    assert fed.store.version == 2


async def test_an_announcement_is_followed_at_once_also_after_valkey_restarted(
    server: ValkeyServer, client: Redis, place: Path
) -> None:
    fed = Fed(server, client, place, period_seconds=60)

    async def subscribed() -> None:
        async with asyncio.timeout(5):
            while not server.client.pubsub_numsub("forebay:table")[0][1]:
                await asyncio.sleep(0.01)

    for version in (1, 2):
        listener = asyncio.create_task(fed.feed.listen())
        await subscribed()
        turn = asyncio.create_task(fed.feed.turn())
        begun = time.monotonic()
        publish(server, table(version=version))
        await asyncio.wait_for(turn, 5)
        while fed.store.version != version:  # the subscription's own confirmation is an announcement too
            await asyncio.wait_for(fed.feed.turn(), 5)
        assert time.monotonic() - begun < 5
        server.kill()
        await asyncio.wait_for(listener, 5)
        server.start()


async def test_without_an_announcement_a_turn_takes_one_period(fed: Fed, server: ValkeyServer) -> None:
    server.client.set("forebay:table", encode_table(table(version=2)))
    server.client.set("forebay:table:version", 2)
    await asyncio.wait_for(fed.feed.turn(), 5)
    assert fed.store.version == 2


async def test_a_url_with_options_keeps_them() -> None:
    client = connect("redis://127.0.0.1:1?client_name=x")
    options = client.connection_pool.connection_kwargs
    assert (options["db"], options["client_name"], options["port"]) == (3, "x", 1)
    await client.aclose()
