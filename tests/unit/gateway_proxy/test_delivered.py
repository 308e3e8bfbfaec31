"""A stream whose last event is with the client is complete, however the connections end."""

import asyncio

import pytest

from tests.unit.gateway_proxy.harness import DONE, ROLE, USAGE_EVENT, Client, World, chat, delta, sse, streams, until

pytestmark = pytest.mark.asyncio
STREAM = (ROLE, delta(content="Paris"), USAGE_EVENT, DONE)


async def delivered(world: World, *events: bytes) -> tuple[Client, asyncio.Task[object]]:
    """A stream that was passed on up to its last event, while the engine holds the connection open."""
    await world.engine("r1", streams(*events, asyncio.Event()))
    world.publish()
    client = Client(world.gateway)
    task: asyncio.Task[object] = asyncio.create_task(client.call("POST", "/v1/chat/completions", chat(stream=True)))
    await until(lambda: DONE in client.reply.body)
    return client, task


async def test_a_client_that_leaves_after_the_last_event_got_a_whole_answer(world: World) -> None:
    client, task = await delivered(world, *STREAM)
    client.leave.set()
    await asyncio.wait_for(task, 1)
    record = world.record
    assert (record.outcome, record.error_code, record.status) == ("completed", None, 200)
    assert (record.prompt_tokens, record.completion_tokens) == (11, 3)
    assert record.ttft is not None
    world.assert_idle()


async def test_an_engine_that_failed_has_failed_also_when_the_client_leaves_after_it(world: World) -> None:
    client, task = await delivered(world, ROLE, sse({"error": {"message": "dead"}}), DONE)
    client.leave.set()
    await asyncio.wait_for(task, 1)
    assert (world.record.outcome, world.record.error_code) == ("upstream_error", "engine_error")
    world.assert_idle()


async def test_a_gateway_that_stops_after_the_last_event_cut_nothing(world: World) -> None:
    client, task = await delivered(world, *STREAM)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.record.outcome == "completed"
    assert b"gateway_stopping" not in client.reply.body
    world.assert_idle()
