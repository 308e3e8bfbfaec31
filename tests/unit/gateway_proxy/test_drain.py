"""Drains: running requests finish, new ones go elsewhere, and the deadline ends what is left."""

import asyncio
import json
from dataclasses import replace

import pytest

from gateway.proxy.app import GatewaySettings
from tests.unit.gateway_proxy.harness import (
    DONE,
    WHOLE,
    Client,
    Engine,
    World,
    answers,
    chat,
    delta,
    replica,
    streams,
    table,
    until,
)

pytestmark = pytest.mark.asyncio


def draining(engine: Engine, *, deadline: float | None) -> dict[str, object]:
    return {"r1": replica(engine.url, state="draining", drain_deadline=deadline)}


async def start(world: World, client: Client, **changes: object) -> "asyncio.Task[object]":
    engine = world.engines["r1"]
    before = engine.running
    task: asyncio.Task[object] = asyncio.create_task(client.call("POST", "/v1/chat/completions", chat(**changes)))
    await until(lambda: engine.running == before + 1)
    return task


async def test_twenty_streams_finish_byte_for_byte_while_new_requests_go_to_the_other_replica(world: World) -> None:
    go_on = asyncio.Event()
    engine = await world.engine("r1", streams(delta(content="a"), go_on, delta(content="b"), DONE))
    world.publish(profile_changes={"max_concurrency": None})
    clients = [Client(world.gateway) for _ in range(20)]
    tasks = [await start(world, client, stream=True) for client in clients]
    other = await world.engine("r2", answers(WHOLE))
    rows = {**draining(engine, deadline=world.clock.wall() + 30), "r2": replica(other.url)}
    world.publish(version=2, replicas=rows, profile_changes={"max_concurrency": None})  # type: ignore[arg-type]  # rows
    assert world.gateway.sweep() == 0
    assert world.gateway.report().replicas["r1"].in_flight == 20
    assert (await world.ask()).status == 200
    assert (len(other.bodies), len(engine.bodies)) == (1, 20)
    go_on.set()
    await asyncio.gather(*tasks)
    assert {client.reply.body for client in clients} == {delta(content="a") + delta(content="b") + DONE}
    report = world.gateway.report()
    assert report.table_version == 2
    assert (report.replicas["r1"].in_flight, report.replicas["r1"].completed, report.replicas["r1"].cut) == (0, 20, 0)


async def test_with_no_other_replica_new_requests_get_503(world: World) -> None:
    engine = await world.engine("r1", answers(WHOLE))
    world.publish(replicas=draining(engine, deadline=None))  # type: ignore[arg-type]  # rows
    reply = await world.ask()
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert engine.bodies == []


async def test_at_the_deadline_a_hanging_stream_is_cut_with_an_error_event_and_reported(world: World) -> None:
    engine = await world.engine("r1", streams(delta(content="a"), asyncio.Event()))
    world.publish()
    client = Client(world.gateway)
    task = await start(world, client, stream=True)
    await until(lambda: bool(client.reply.pieces))
    world.publish(version=2, replicas=draining(engine, deadline=world.clock.wall() + 5))  # type: ignore[arg-type]  # rows
    assert world.gateway.sweep() == 0
    world.clock.ahead += 5
    assert world.gateway.sweep() == 1
    assert world.gateway.sweep() == 0
    await task
    await until(lambda: engine.running == 0)
    assert client.reply.ended
    assert json.loads(client.reply.pieces[-1].removeprefix(b"data: "))["error"]["code"] == "replica_drained"
    record = world.record
    assert (record.outcome, record.error_code, record.status) == ("cut", "replica_drained", 200)
    report = world.gateway.report().replicas["r1"]
    assert (report.in_flight, report.cut, report.cut_ids, report.completed) == (0, 1, [record.id], 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_at_the_deadline_a_request_without_an_answer_gets_503(world: World, stream: bool) -> None:
    engine = await world.engine("r1", streams(asyncio.Event()))
    world.publish()
    client = Client(world.gateway)
    task = await start(world, client, stream=stream)
    world.publish(version=2, replicas=draining(engine, deadline=world.clock.wall()))  # type: ignore[arg-type]  # rows
    assert world.gateway.sweep() == 1
    await task
    assert (client.reply.status, client.reply.error["code"]) == (503, "replica_drained")
    assert (world.record.outcome, world.record.status) == ("cut", 503)


async def test_a_client_that_stopped_reading_does_not_hold_up_a_drain(world: World) -> None:
    engine = await world.engine("r1", streams(delta(content="a"), asyncio.Event()))
    world.publish()

    async def never_reads(_: bytes) -> None:
        await asyncio.Event().wait()

    client = Client(world.gateway, on_piece=never_reads)
    task = await start(world, client, stream=True)
    await until(lambda: bool(client.reply.pieces))
    world.publish(version=2, replicas=draining(engine, deadline=world.clock.wall()))  # type: ignore[arg-type]  # rows
    assert world.gateway.sweep() == 1
    await asyncio.wait_for(task, 1)
    assert world.record.outcome == "cut"
    world.assert_idle()


async def test_a_drain_without_a_deadline_cuts_nothing(world: World) -> None:
    engine = await world.engine("r1", streams(delta(content="a"), 0.05, DONE))
    world.publish()
    client = Client(world.gateway)
    task = await start(world, client, stream=True)
    world.publish(version=2, replicas=draining(engine, deadline=None))  # type: ignore[arg-type]  # rows
    assert world.gateway.sweep() == 0
    await task
    assert world.record.outcome == "completed"


async def test_a_replica_that_vanished_may_finish_within_the_tables_time_to_live_and_is_then_cut(world: World) -> None:
    await world.engine("r1", streams(delta(content="a"), asyncio.Event()))
    world.publish()
    client = Client(world.gateway)
    task = await start(world, client, stream=True)
    world.publish(version=2, replicas={})
    assert world.gateway.sweep() == 0
    world.clock.ahead += 29
    assert world.gateway.sweep() == 0
    world.clock.ahead += 2
    assert world.gateway.sweep() == 1
    await task
    assert world.record.outcome == "cut"


async def test_a_replica_that_returns_is_not_cut_and_an_idle_gone_one_is_forgotten(
    world: World, settings: GatewaySettings
) -> None:
    await world.engine("r1", answers(WHOLE))
    world.publish()
    await world.ask()
    world.publish(version=2, replicas={})
    world.gateway.sweep()
    world.publish(version=3)
    world.clock.ahead += 100
    world.gateway.sweep()
    assert "r1" in world.gateway.report().replicas
    world.store.offer(table(version=4, replicas={}), mono=world.clock.monotonic())
    world.gateway.sweep()
    world.clock.ahead += settings.forget_seconds + 1
    world.gateway.sweep()
    assert world.gateway.report().replicas == {}


async def test_without_any_table_a_sweep_finds_nothing(world: World) -> None:
    assert world.gateway.sweep() == 0
    assert replace(world.gateway.settings, table_ttl=1).table_ttl == 1
