"""The gateway's answers, and its usage: exactly one record a request, whatever is killed meanwhile."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.e2e import procs
from tests.e2e.client import Caller, streams
from tests.e2e.procs import repeat, wait_for
from tests.e2e.stack import Stack

CONTROL_PLANE = ("web", "control-worker", "scheduler", "agent", "monitor")


def error_of(answer: httpx.Response) -> Any:
    """The error of an answer, which must have OpenAI's shape."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def all_stored(stack: Stack) -> bool:
    """Whether nothing that the gateways took is on its way to the telemetry database any more."""
    with stack.valkey() as client:
        reports = [client.get(name) for name in client.keys("forebay:gateway:*")]
        newest = client.xrevrange("forebay:usage", count=1)
    if not reports or any(b'"usage_queued":0' not in (report or b"") for report in reports):
        return False
    if any((stack.place / "spool").iterdir()):
        return False
    return not newest or stack.position() == newest[0][0].decode()


def settled(stack: Stack, ids: list[str], *, before: set[str]) -> dict[str, Any]:
    """The records of these requests once all are stored; there must be one each, and no other new ones."""
    wait_for(lambda: set(ids) <= stack.usage().keys() and all_stored(stack), 40, "all usage is stored")
    usage = stack.usage()
    assert len(ids) == len(set(ids))
    assert usage.keys() - before == set(ids)
    return {one: usage[one] for one in ids}


def test_each_refusal_has_its_own_status_and_code_in_openais_shape(stack: Stack, caller: Caller) -> None:
    stack.deploy("codes")
    stack.profile("nobody")
    only_one = Caller(stack, stack.key(max_concurrency=1))
    only_other = Caller(stack, stack.key(profiles=["nobody"]))
    stranger = Caller(stack, "fb_00000000_wrong")
    wait_for(lambda: caller.ask("nobody").status_code == 503, 10, "the profile is in the table")
    begun = threading.Event()
    try:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(only_one.stream, "codes", "seconds=3", started=begun)
            assert begun.wait(20)
            answers = {
                "unauthorised": stranger.ask("codes"),
                "unknown": caller.ask("no-such-profile"),
                "not ready": caller.ask("nobody"),
                "full": only_one.ask("codes"),
                "not json": caller.send(b"{"),
            }
            foreign = only_other.ask("codes")
            assert running.result().is_whole(tokens=8)
    finally:
        for one in (only_one, only_other, stranger):
            one.close()
    assert {name: answer.status_code for name, answer in answers.items()} == {
        "unauthorised": 401,
        "unknown": 404,
        "not ready": 503,
        "full": 429,
        "not json": 400,
    }
    codes = {name: error_of(answer)["code"] for name, answer in answers.items()}
    assert len(set(codes.values())) == len(codes)
    assert {name for name, answer in answers.items() if "retry-after" in answer.headers} == {"not ready", "full"}
    # A key for other profiles learns nothing of this one.
    assert (foreign.status_code, error_of(foreign)["code"]) == (404, codes["unknown"])


def mixed_requests(caller: Caller, profile: str) -> None:
    """One of each kind of request, all at once."""
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(caller.ask, profile),
            pool.submit(caller.ask, profile, "tokens=3", max_tokens=2),
            pool.submit(caller.stream, profile),
            pool.submit(caller.stream, profile, "seconds=0.5"),
            pool.submit(caller.leave, profile, "seconds=30"),
            pool.submit(caller.ask, "no-such-profile"),
            pool.submit(caller.send, b"no json"),
            pool.submit(caller.send, b"{}", **{"X-Request-Id": "the-clients-own"}),
        ]
        for job in jobs:
            job.result()


def test_each_request_leaves_one_usage_record_though_the_broker_is_killed_meanwhile(
    stack: Stack, caller: Caller
) -> None:
    stack.deploy("mixed")
    wait_for(lambda: all_stored(stack), 20, "what came before is stored")
    before = set(stack.usage())
    for _ in range(3):
        mixed_requests(caller, "mixed")
    killed = stack.kill("valkey")
    for _ in range(3):
        mixed_requests(caller, "mixed")
    stack.restarted("valkey")
    assert stack.pid("valkey") != killed
    for _ in range(3):
        mixed_requests(caller, "mixed")
    # The engine dies of the second one, which itself is answered, and breaks the first one off.
    with streams(caller, "mixed", ["tokens=300 seconds=30"]) as running:
        assert caller.ask("mixed", "DIE").status_code == 200
        assert "error" in running[0].result().events[-1]
    usage = settled(stack, caller.ids, before=before)
    assert len(usage) == 9 * 8 + 2
    outcomes = Counter(row["outcome"] for row in usage.values())
    assert outcomes == {"completed": 37, "client_gone": 9, "refused": 27, "upstream_error": 1}
    completed = [row for row in usage.values() if row["outcome"] == "completed"]
    assert all(row["profile"] == "mixed" and row["revision"] == 1 and row["completion_tokens"] for row in completed)
    assert all((row["ttft"] is None) == (not row["streamed"]) for row in completed)
    assert sum(row["client_request_id"] == "the-clients-own" for row in usage.values()) == 9


def test_the_gateway_serves_while_the_control_plane_and_the_broker_are_dead_and_loses_no_usage(
    stack: Stack, caller: Caller
) -> None:
    stack.deploy("alone")
    wait_for(lambda: all_stored(stack), 20, "what came before is stored")
    before = set(stack.usage())
    caller.ids.clear()
    gateway = stack.pid("gateway")
    with stack.frozen("up"):
        for name in (*CONTROL_PLANE, "valkey"):
            stack.kill(name)
        statuses = []
        # Past the time for which a table may be used that nothing confirms (3 s at this scale).
        repeat(lambda: statuses.append(caller.ask("alone", "tokens=2 seconds=0.1").status_code), 5)
        assert caller.stream("alone").is_whole(tokens=8)
    assert set(statuses) == {200}
    stack.restarted(*CONTROL_PLANE, "valkey")
    assert stack.pid("gateway") == gateway
    assert procs.alive(gateway)
    usage = settled(stack, caller.ids, before=before)
    assert {row["outcome"] for row in usage.values()} == {"completed"}
    stack.until(stack.deployment_of("alone"), "ready")
