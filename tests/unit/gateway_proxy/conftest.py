"""Fixtures: a gateway with small bounds, on clocks that tests may move on."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.proxy.app import GatewaySettings
from gateway.proxy.upstream import Upstream
from tests.unit.gateway_proxy.harness import World


@pytest.fixture
def settings() -> GatewaySettings:
    """Small bounds."""
    return GatewaySettings(
        process_id="gw-1",
        body_limit_bytes=4 << 20,
        answer_limit_bytes=2 << 20,
        body_seconds=0.2,
        last_words_seconds=0.2,
    )


@pytest_asyncio.fixture
async def world(settings: GatewaySettings) -> AsyncIterator[World]:
    """A gateway without engines or table yet."""
    world = World(settings, Upstream(silence_seconds=1.0))
    yield world
    await world.close()
