"""Requests against a scripted engine: what passes, what is retried, what breaks, what is recorded."""

import asyncio
import json
import socket
from typing import Any

import pytest
from aiohttp import web

from gateway.proxy.accounting import UsageRecord
from tests.unit.gateway_proxy.harness import (
    DONE,
    ROLE,
    USAGE,
    USAGE_EVENT,
    WHOLE,
    Client,
    Handler,
    World,
    answers,
    chat,
    delta,
    replica,
    sse,
    streams,
    until,
)

pytestmark = pytest.mark.asyncio


def tokens(record: UsageRecord) -> tuple[int | None, int | None, int | None]:
    return record.prompt_tokens, record.cached_tokens, record.completion_tokens


def refusing_url() -> str:
    """An address of this host where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_a_whole_answer_passes_unchanged_with_our_headers_on_both_sides(world: World) -> None:
    engine = await world.engine("r1", answers(WHOLE))
    world.publish()
    reply = await world.ask(headers={"x-request-id": "mine", "x-vllm-priority": "0", "cookie": "a=b"})
    assert json.loads(reply.body) == WHOLE
    record = world.record
    assert reply.headers["x-request-id"] == record.id
    assert reply.headers["x-client-request-id"] == "mine"
    assert (reply.headers["x-forebay-profile"], reply.headers["x-forebay-revision"]) == ("fast", "3")
    assert int(reply.headers["content-length"]) == len(reply.body)
    (sent,) = engine.headers
    assert (sent["authorization"], sent["x-request-id"]) == ("Bearer engine-key", record.id)
    assert not {"x-vllm-priority", "cookie"} & set(sent)
    assert (record.status, record.outcome, record.replica, record.revision) == (200, "completed", "r1", 3)
    assert (record.endpoint, record.streamed, record.ttft) == ("chat", False, None)
    assert tokens(record) == (11, 8, 3)
    world.assert_idle()
    assert world.gateway.report().replicas["r1"].completed == 1


async def test_text_completions_are_served_too(world: World) -> None:
    engine = await world.engine("r1", answers(WHOLE))
    world.publish()
    await world.ask({"model": "fast", "prompt": "x"}, path="/v1/completions")
    assert engine.bodies == [{"model": "fast", "prompt": "x"}]
    assert world.record.endpoint == "completions"


async def test_a_body_of_megabytes_reaches_the_engine_whole(world: World) -> None:
    engine = await world.engine("r1", answers(WHOLE))
    world.publish()
    body = chat(padding="x" * (2 << 20))
    assert (await world.ask(body)).status == 200
    assert engine.bodies == [body]


@pytest.mark.parametrize("asked", [True, False])
async def test_a_stream_passes_byte_for_byte_and_our_usage_chunk_is_ours(world: World, asked: bool) -> None:
    events = [ROLE, delta(content="Par"), delta(content="is"), USAGE_EVENT, DONE]
    engine = await world.engine("r1", streams(*events))
    world.publish()
    options = {"stream_options": {"include_usage": True}} if asked else {}
    reply = await world.ask(chat(stream=True, **options))
    assert reply.body == b"".join(event for event in events if asked or event != USAGE_EVENT)
    assert reply.ended
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (reply.headers["cache-control"], reply.headers["x-accel-buffering"]) == ("no-cache", "no")
    assert engine.bodies[0]["stream_options"] == {"include_usage": True}
    assert world.record.streamed
    assert tokens(world.record) == (11, 8, 3)


@pytest.mark.parametrize(
    "last",
    [
        [delta(content="Paris"), USAGE_EVENT],
        [sse({"choices": [{"index": 0, "delta": {"content": "Paris"}}], "usage": USAGE})],
    ],
)
async def test_streamed_and_whole_answers_account_for_the_same_tokens(world: World, last: list[bytes]) -> None:
    await world.engine("r1", streams(ROLE, *last, DONE))
    world.publish()
    await world.ask(chat(stream=True))
    world.engines["r1"].handler = answers(WHOLE)
    await world.ask(chat())
    streamed, whole = world.sink.records
    assert tokens(streamed) == tokens(whole) == (11, 8, 3)


async def test_ttft_is_the_first_text_not_the_role_chunk(world: World) -> None:
    await world.engine("r1", streams(ROLE, 0.2, delta(content="a"), 0.1, delta(content="b"), USAGE_EVENT, DONE))
    world.publish()
    await world.ask(chat(stream=True))
    record = world.record
    assert record.ttft is not None
    assert 0.2 <= record.ttft < 0.29
    assert record.e2e >= 0.3


async def test_chunks_are_passed_on_as_they_come(world: World) -> None:
    gate = asyncio.Event()
    await world.engine("r1", streams(delta(content="a"), gate, delta(content="b"), DONE))
    world.publish()
    seen: list[bytes] = []

    async def on_piece(piece: bytes) -> None:
        seen.append(piece)
        if piece == delta(content="a"):
            gate.set()  # the engine writes the second chunk only after the client has the first

    await Client(world.gateway, on_piece=on_piece).call("POST", "/v1/chat/completions", chat(stream=True))
    assert b"".join(seen) == delta(content="a") + delta(content="b") + DONE


async def test_a_stream_without_text_has_no_ttft(world: World) -> None:
    await world.engine("r1", streams(ROLE, USAGE_EVENT, DONE))
    world.publish()
    await world.ask(chat(stream=True))
    assert (world.record.ttft, world.record.outcome) == (None, "completed")


@pytest.mark.parametrize(
    "bad", [answers({}, 503), answers({"error": "Unauthorized"}, 401), answers({}, 404), "refuses"]
)
async def test_a_failure_before_the_first_byte_is_hidden_by_another_replica(world: World, bad: Handler | str) -> None:
    await world.engine("good", answers(WHOLE))
    url = refusing_url() if isinstance(bad, str) else (await world.engine("bad", bad)).url
    world.publish(replicas={"good": replica(world.engines["good"].url), "bad": replica(url)})
    for _ in range(4):
        assert (await world.ask()).status == 200
    assert {record.replica for record in world.sink.records} == {"good"}
    assert len(world.sink.records) == 4
    world.assert_idle()


async def test_the_only_replica_is_asked_twice(world: World) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(WHOLE, status=503 if len(world.engines["r1"].bodies) == 1 else 200)

    engine = await world.engine("r1", handler)
    world.publish()
    assert (await world.ask()).status == 200
    assert len(engine.bodies) == 2


@pytest.mark.parametrize(
    ("script", "status", "code", "asked"),
    [
        (answers({}, 503), 503, "engine_busy", 2),
        (answers({}, 401), 502, "upstream_not_ours", 2),
        (answers({}, 302), 502, "upstream_not_ours", 2),
        (streams(cut=True), 502, "upstream_unreachable", 2),
        (streams(5.0), 504, "upstream_timeout", 1),
    ],
)
async def test_a_replica_that_stays_bad_is_a_clear_error_after_one_retry(
    world: World, script: Handler, status: int, code: str, asked: int
) -> None:
    engine = await world.engine("r1", script)
    world.publish()
    reply = await world.ask(chat(stream=True))
    assert (reply.status, reply.error["code"]) == (status, code)
    assert len(engine.bodies) == asked
    record = world.record
    assert (record.status, record.outcome, record.error_code, record.replica) == (status, "upstream_error", code, "r1")
    world.assert_idle()


async def test_a_refused_connection_is_502_after_one_retry(world: World) -> None:
    world.publish(replicas={"r1": replica(refusing_url())})
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (502, "upstream_unreachable")


async def test_an_answer_that_is_not_http_is_502_without_a_retry(world: World) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail ready\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    world.publish(replicas={"r1": replica(f"http://127.0.0.1:{port}")})
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (502, "upstream_broken")
    server.close()
    await server.wait_closed()


async def test_an_engines_refusal_passes_in_openais_shape(world: World) -> None:
    error = {"message": "too long", "type": "BadRequestError", "param": "input_tokens", "code": 400}
    await world.engine("r1", answers({"error": error}, 400))
    world.publish()
    reply = await world.ask()
    assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "engine_refused", "input_tokens")
    record = world.record
    assert (record.outcome, record.error_code, record.replica) == ("refused", "engine_refused", "r1")


async def test_an_engines_failure_passes_and_is_an_upstream_error(world: World) -> None:
    await world.engine("r1", answers({"error": {"message": "EngineCore encountered an issue.", "code": 500}}, 500))
    world.publish()
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (500, "engine_error")
    assert world.record.outcome == "upstream_error"


async def test_an_answer_over_the_bound_is_502(world: World) -> None:
    await world.engine("r1", answers({"x": "y" * (3 << 20)}))
    world.publish()
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (502, "upstream_too_large")


async def test_a_whole_answer_that_breaks_off_is_502(world: World) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    await world.engine("r1", handler)
    world.publish()
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (502, "upstream_error")


@pytest.mark.parametrize(
    "ending", [streams(delta(content="a"), 0.05, b"data: {half", 0.05, cut=True), streams(delta(content="a"), 0.05)]
)
async def test_a_stream_that_breaks_off_ends_with_an_error_event(world: World, ending: Handler) -> None:
    engine = await world.engine("r1", ending)
    world.publish()
    reply = await world.ask(chat(stream=True))
    assert reply.status == 200
    assert reply.ended
    first, last = reply.pieces
    assert first == delta(content="a")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_error"
    assert len(engine.bodies) == 1
    record = world.record
    assert (record.status, record.outcome, record.error_code) == (200, "upstream_error", "upstream_error")
    assert record.ttft is not None
    world.assert_idle()


async def test_a_connection_lost_after_done_loses_nothing(world: World) -> None:
    await world.engine("r1", streams(delta(content="a"), DONE, 0.05, cut=True))
    world.publish()
    reply = await world.ask(chat(stream=True))
    assert reply.body == delta(content="a") + DONE
    assert world.record.outcome == "completed"


async def test_an_error_event_of_the_engine_passes_and_is_an_upstream_error(world: World) -> None:
    event = sse({"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}})
    await world.engine("r1", streams(ROLE, event, DONE))
    world.publish()
    reply = await world.ask(chat(stream=True))
    assert reply.body == ROLE + event + DONE
    assert (world.record.outcome, world.record.error_code) == ("upstream_error", "engine_error")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_the_engine_within_a_second(world: World, stream: bool) -> None:
    forever = asyncio.Event()
    engine = await world.engine("r1", streams(delta(content="a"), forever))
    world.publish()
    client = Client(world.gateway)
    task = asyncio.create_task(client.call("POST", "/v1/chat/completions", chat(stream=stream)))
    await until(lambda: bool(client.reply.pieces) if stream else engine.running == 1)
    client.leave.set()
    await asyncio.wait_for(task, 1)
    async with asyncio.timeout(1):
        await until(lambda: engine.running == 0)
    record = world.record
    assert (record.outcome, record.error_code, record.status) == ("client_gone", None, 200 if stream else 499)
    world.assert_idle()


async def test_a_downstream_error_ends_the_request_and_marks_no_replica(world: World) -> None:
    await world.engine("r1", streams(delta(content="a"), 0.02, delta(content="b"), DONE))
    world.publish()

    async def lost(_: bytes) -> None:
        raise ConnectionResetError

    client = Client(world.gateway, on_piece=lost)
    await client.call("POST", "/v1/chat/completions", chat(stream=True))
    assert world.record.outcome == "client_gone"
    assert world.gateway._router._cooling == {}
    world.assert_idle()


async def test_messages_that_are_no_disconnect_do_not_end_a_request(world: World) -> None:
    await world.engine("r1", streams(delta(content="a"), 0.05, DONE))
    world.publish()
    whole = {"type": "http.request", "body": json.dumps(chat(stream=True)).encode()}
    reply = await world.ask(messages=[whole, {"type": "http.request"}])
    assert reply.body == delta(content="a") + DONE


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stopping_server_gives_last_words_and_leaves_a_record(world: World, stream: bool) -> None:
    engine = await world.engine("r1", streams(delta(content="a"), asyncio.Event()))
    world.publish()
    client = Client(world.gateway)
    task = asyncio.create_task(client.call("POST", "/v1/chat/completions", chat(stream=stream)))
    await until(lambda: bool(client.reply.pieces) if stream else engine.running == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.reply.ended
    assert b'"gateway_stopping"' in client.reply.body
    assert client.reply.status == (200 if stream else 503)
    assert (world.record.outcome, world.record.error_code) == ("cut", "gateway_stopping")
    world.assert_idle()


async def test_an_accident_after_a_whole_answer_began_adds_no_words(world: World) -> None:
    await world.engine("r1", answers(WHOLE))
    world.publish()

    async def fail(_: bytes) -> None:
        raise ZeroDivisionError

    client = Client(world.gateway, on_piece=fail)
    reply = await client.call("POST", "/v1/chat/completions", chat())
    assert (reply.status, len(reply.pieces)) == (200, 1)
    assert world.record.error_code == "internal_error"


async def test_slots_come_back_after_every_kind_of_end(world: World) -> None:
    """Ten parallel requests that time out, then ten that leave: each round the next one is admitted."""
    engine = await world.engine("r1", streams(5.0))
    world.publish(key_changes={"max_concurrency": 10}, profile_changes={"max_concurrency": None})
    replies = await asyncio.gather(*(world.ask() for _ in range(10)))
    assert {reply.status for reply in replies} == {504}
    world.assert_idle()
    await until(lambda: engine.running == 0)
    clients = [Client(world.gateway) for _ in range(10)]
    tasks = [asyncio.create_task(client.call("POST", "/v1/chat/completions", chat())) for client in clients]
    await until(lambda: engine.running == 10)
    assert (await world.ask()).status == 429
    for client in clients:
        client.leave.set()
    await asyncio.gather(*tasks)
    world.assert_idle()
    engine.handler = answers(WHOLE)
    assert (await world.ask()).status == 200


async def test_counters_end_at_zero_and_no_replica_gets_an_excess_while_one_leaves_and_returns(world: World) -> None:
    outcomes: list[Any] = [answers(WHOLE), answers({}, 500), streams(delta(content="a"), 0.01, cut=True)]

    async def handler(request: web.Request) -> web.StreamResponse:
        script: Handler = outcomes[sum(len(engine.bodies) for engine in world.engines.values()) % 3]
        return await script(request)

    for one in ("r1", "r2", "r3"):
        await world.engine(one, handler)
    world.publish(profile_changes={"max_concurrency": None})
    everything = {one: replica(engine.url) for one, engine in world.engines.items()}

    async def one_request(number: int) -> None:
        client = Client(world.gateway)
        if number % 5 == 0:
            client.leave.set()
        await client.call("POST", "/v1/chat/completions", chat(stream=number % 2 == 0))

    for wave in range(10):
        rows = {one: row for one, row in everything.items() if wave not in (3, 4) or one != "r2"}
        world.publish(version=2 + wave, replicas=rows, profile_changes={"max_concurrency": None})
        await asyncio.gather(*(one_request(number) for number in range(30)))
    world.assert_idle()
    assert len(world.sink.records) == 300
    assert len({record.id for record in world.sink.records}) == 300
    received = [len(engine.bodies) for engine in world.engines.values()]
    assert max(received) < 2 * min(received)
