"""Paths, probes, model lists, and every refusal that needs no engine."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.proxy.app import Gateway, GatewaySettings
from tests.unit.gateway_proxy.harness import KEY, Client, World, answers, chat, hashed, key, profile, replica, table

pytestmark = pytest.mark.asyncio


async def get(world: World, path: str, **options: Any) -> Any:
    return await Client(world.gateway).call("GET", path, **options)


async def test_anything_but_http_is_closed(world: World) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await world.gateway({"type": "websocket"}, lambda: None, send)  # type: ignore[arg-type, return-value]  # unused
    assert sent == [{"type": "websocket.close"}]


async def test_liveness_needs_nothing_and_readiness_a_fresh_table(world: World) -> None:
    assert (await get(world, "/livez", key=None)).status == 200
    reply = await get(world, "/readyz", key=None)
    assert (reply.status, reply.error["code"]) == (503, "table_missing")
    world.publish()
    assert (await get(world, "/readyz", key=None)).status == 200
    world.clock.ahead += 31
    reply = await get(world, "/readyz", key=None)
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (503, "table_stale", "5")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "unknown_path"),
        ("POST", "/invocations", 404, "unknown_path"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/fast", 405, "method_not_allowed"),
    ],
)
async def test_only_listed_paths_exist(world: World, method: str, path: str, status: int, code: str) -> None:
    world.publish()
    reply = await Client(world.gateway).call(method, path)
    assert (reply.status, reply.error["code"]) == (status, code)


async def test_models_show_what_stands_behind_each_profile_the_key_may_use(world: World) -> None:
    world.store.offer(
        table(
            profiles={"fast": profile(), "idle": profile(replicas=()), "hidden": profile(team="other")},
            replicas={"r1": replica()},
        ),
        mono=world.clock.monotonic(),
    )
    reply = await get(world, "/v1/models")
    listed = json.loads(reply.body)
    assert listed["object"] == "list"
    fast, idle = listed["data"]
    assert fast == {
        "id": "fast",
        "object": "model",
        "created": 0,
        "owned_by": "default",
        "base_model": "SmolLM2-135M-Instruct",
        "revision": 3,
        "revision_hash": "abc",
        "max_model_len": 2048,
        "precision": "bf16",
        "state": "ready",
    }
    assert (idle["id"], idle["state"]) == ("idle", "unavailable")


async def test_one_model_can_be_read_and_a_hidden_one_is_unknown(world: World) -> None:
    world.store.offer(table(profiles={"fast": profile(), "h": profile(team="o")}), mono=world.clock.monotonic())
    assert json.loads((await get(world, "/v1/models/fast")).body)["id"] == "fast"
    assert (await get(world, "/v1/models/h")).error["code"] == "model_not_found"


async def test_models_need_a_key(world: World) -> None:
    world.publish()
    reply = await get(world, "/v1/models", key=None)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")


async def test_metrics_are_served_to_this_host_only(world: World) -> None:
    reply = await get(world, "/metrics", key=None)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    for peer in (("10.1.1.1", 5), None):
        reply = await get(world, "/metrics", key=None, peer=peer)
        assert (reply.status, reply.error["code"]) == (403, "metrics_forbidden")


async def test_metrics_with_a_token_are_served_to_its_bearer(world: World, settings: GatewaySettings) -> None:
    guarded = Gateway(replace(settings, metrics_token="m"), sink=world.sink, store=world.store, upstream=world.upstream)
    assert (await Client(guarded).call("GET", "/metrics", key="m", peer=("10.1.1.1", 5))).status == 200
    assert (await Client(guarded).call("GET", "/metrics", key=None)).status == 403


async def test_without_a_key_the_body_is_not_even_read_and_one_record_is_left(world: World) -> None:
    world.publish()
    reply = await world.ask(key=None, messages=[])
    assert (reply.status, reply.error["code"]) == (401, "missing_api_key")
    record = world.record
    assert (record.status, record.outcome, record.error_code) == (401, "refused", "missing_api_key")
    assert (record.team, record.key_id, record.profile, record.replica, record.ttft) == (None,) * 5
    world.assert_idle()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (chat(model="nope"), 404, "model_not_found"),
        (chat(max_tokens=9), 400, "output_cap_exceeded"),
    ],
)
async def test_a_refused_body_leaves_one_record(world: World, body: Any, status: int, code: str) -> None:
    world.publish(profile_changes={"output_cap": 8})
    reply = await world.ask(body)
    assert (reply.status, reply.error["code"]) == (status, code)
    record = world.record
    assert (record.status, record.error_code, record.team, record.key_id) == (status, code, "default", "k1")
    assert reply.headers["x-request-id"] == record.id
    world.assert_idle()


async def test_without_a_fresh_table_requests_get_503(world: World) -> None:
    reply = await world.ask()
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (503, "table_missing", "5")
    assert world.record.team is None


async def test_no_ready_replica_is_503_with_retry_after_and_not_404_or_429(world: World) -> None:
    world.publish(replicas={"r1": replica(state="draining")})
    reply = await world.ask()
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (503, "no_ready_replica", "5")
    assert (reply.headers["x-forebay-profile"], reply.headers["x-forebay-revision"]) == ("fast", "3")
    assert world.record.outcome == "refused"


async def test_a_profile_that_vanished_meanwhile_has_no_ready_replica(world: World) -> None:
    world.publish()
    reply = await world.ask(
        messages=[{"type": "http.request", "body": json.dumps(chat()).encode(), "more_body": False}],
    )
    assert reply.error["code"] == "no_ready_replica"
    world.store.offer(table(version=2, profiles={}), mono=world.clock.monotonic())
    with pytest.raises(Exception, match="no_ready_replica"):
        world.gateway.pick("fast", tried=[])


async def test_over_a_limit_is_429_with_retry_after_and_a_body_of_its_own(world: World) -> None:
    world.publish(key_changes={"max_concurrency": 0})
    reply = await world.ask()
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (429, "key_concurrency", "1")
    world.publish(version=2, profile_changes={"max_concurrency": 0})
    reply = await world.ask()
    assert (reply.status, reply.error["code"], reply.headers["retry-after"]) == (429, "profile_concurrency", "1")


async def test_an_expired_key_is_401(world: World) -> None:
    world.store.offer(table(keys={hashed(KEY): key(expires_at=5.0)}), mono=world.clock.monotonic())
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (401, "expired_api_key")


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_put_together(world: World) -> None:
    engine = await world.engine("r1", answers({}))
    world.publish()
    raw = json.dumps(chat()).encode()
    reply = await world.ask(messages=[part(raw[:5]), part(raw[5:9]), {"type": "http.request", "body": raw[9:]}])
    assert reply.status == 200
    assert engine.bodies == [chat()]


@pytest.mark.parametrize("headers", [{"content-length": str(5 << 20)}, {"content-length": "x"}, {}])
async def test_a_body_over_the_bound_is_413(world: World, headers: dict[str, str]) -> None:
    world.publish()
    reply = await world.ask(messages=[part(b"x" * (3 << 20)), part(b"x" * (3 << 20))], headers=headers)
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


async def test_a_body_that_does_not_arrive_is_408(world: World) -> None:
    world.publish()
    reply = await world.ask(messages=[part(b"{")])
    assert (reply.status, reply.error["code"]) == (408, "request_timeout")


async def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_a_record(world: World) -> None:
    world.publish()
    reply = await world.ask(messages=[part(b"{"), {"type": "http.disconnect"}])
    assert not reply.status
    assert (world.record.status, world.record.outcome) == (499, "client_gone")
    world.assert_idle()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("my-id", "my-id"), ("", None), ("x" * 201, None), ("caf\xe9", None), ("a\tb", None)],
)
async def test_the_clients_id_is_kept_beside_ours(world: World, sent: str, kept: str | None) -> None:
    world.publish()
    reply = await world.ask(headers={"x-request-id": sent})
    assert reply.headers.get("x-client-request-id") == kept
    assert world.record.client_request_id == kept
    assert world.record.id.startswith("req_") and len(world.record.id) == 28


async def test_an_accident_before_a_replica_is_chosen_is_500_and_holds_nothing(world: World) -> None:
    world.publish()
    reply = await world.ask(messages=[{"no type": 1}])
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert (world.record.outcome, world.record.error_code) == ("refused", "internal_error")
    world.assert_idle()


async def test_an_accident_on_the_way_to_the_engine_is_500_and_holds_nothing(world: World) -> None:
    engine = await world.engine("r1", answers({}))
    world.publish(replicas={"r1": replica(engine.url, api_key="no\r\nheader")})
    reply = await world.ask()
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert (world.record.outcome, world.record.error_code) == ("upstream_error", "internal_error")
    world.assert_idle()
