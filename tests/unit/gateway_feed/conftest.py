"""Fixtures: a real Valkey in a short directory, for Unix sockets take 100 bytes at most."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from gateway.valkey import connect
from tests.unit.gateway_feed.valkey import ValkeyServer


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path."""
    directory = Path(tempfile.mkdtemp(prefix="fb-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def server(place: Path) -> Iterator[ValkeyServer]:
    """A running Valkey."""
    server = ValkeyServer(place)
    server.start()
    yield server
    server.kill()
    server.client.close()


@pytest_asyncio.fixture
async def client(server: ValkeyServer) -> AsyncIterator[Redis]:
    """The gateway's client of it."""
    client = connect(server.url)
    yield client
    await client.aclose()
