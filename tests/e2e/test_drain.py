"""Drains: whole streams within the deadline, an honest report past it, and new requests meanwhile."""

from tests.e2e import procs
from tests.e2e.client import Caller, streams
from tests.e2e.procs import wait_for
from tests.e2e.stack import Stack

STREAMS = 20
TOKENS = 20


def test_a_drain_lets_twenty_streams_finish_and_refuses_new_requests_meanwhile(stack: Stack, caller: Caller) -> None:
    deployment = stack.deploy("drain-one", drain_seconds=30)
    (replica,) = stack.deployment(deployment)["replicas"]
    with streams(caller, "drain-one", [f"tokens={TOKENS} seconds=6"] * STREAMS) as running:
        stack.drain(deployment)
        statuses: list[int] = []
        wait_for(
            lambda: statuses.append(caller.ask("drain-one", "tokens=1").status_code) or statuses[-1] == 503,
            20,
            "new requests are refused",
        )
        refused = caller.ask("drain-one", "tokens=1")
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert not any(one.done() for one in running)
        progress = wait_for(
            lambda: (drain := stack.replica(replica["id"])["drain"]) and drain["in_flight"] == STREAMS and drain,
            20,
            "the drain is reported",
        )
        assert progress["drained"] is False
        results = [one.result() for one in running]
    assert all(one.is_whole(tokens=TOKENS) for one in results)
    stack.until(deployment, "stopped")
    ended = stack.replica(replica["id"])
    assert (ended["phase"], ended["reason"]) == ("stopped", "Drained")
    assert (ended["drain"]["cut"], ended["drain"]["cut_ids"]) == (0, [])
    # Those that came before the gateway had the new table were served, and are counted too.
    assert STREAMS <= ended["drain"]["completed"] <= STREAMS + statuses.count(200)
    assert not procs.alive(replica["pid"])


def test_with_a_second_replica_no_request_is_refused_while_the_first_is_drained(stack: Stack, caller: Caller) -> None:
    deployment = stack.deploy("drain-two", replicas=2, drain_seconds=30)
    leaving = next(row for row in stack.deployment(deployment)["replicas"] if row["slot"] == 1)
    with streams(caller, "drain-two", [f"tokens={TOKENS} seconds=4"] * STREAMS) as running:
        answer = stack.api.patch(f"deployments/{deployment}/", json={"replicas": 1})
        assert answer.is_success, answer.text
        statuses = []
        while not all(one.done() for one in running):
            statuses.append(caller.ask("drain-two", "tokens=1").status_code)
        results = [one.result() for one in running]
    assert set(statuses) == {200}
    assert all(one.is_whole(tokens=TOKENS) for one in results)
    ended = wait_for(lambda: (row := stack.replica(leaving["id"]))["ended_at"] and row, 20, "it is stopped")
    assert (ended["phase"], ended["reason"], ended["drain"]["cut"]) == ("stopped", "Drained", 0)
    # Half of the streams ran on it; short requests may have been completed by it before the table was out.
    assert ended["drain"]["completed"] >= STREAMS // 2
    (left,) = stack.until(deployment, "ready")["replicas"]
    assert left["slot"] == 0


def test_a_stream_that_never_ends_is_cut_at_the_deadline_and_reported_by_its_id(stack: Stack, caller: Caller) -> None:
    deployment = stack.deploy("drain-hang")
    (replica,) = stack.deployment(deployment)["replicas"]
    prompts = ["tokens=4 seconds=2", "tokens=4 seconds=2", "tokens=4 HANG"]
    with streams(caller, "drain-hang", prompts) as running:
        stack.drain(deployment, drain_seconds=5)
        ended = wait_for(lambda: (row := stack.replica(replica["id"]))["ended_at"] and row, 25, "it is stopped")
        first, second, hanging = [one.result(10) for one in running]
    assert first.is_whole(tokens=4)
    assert second.is_whole(tokens=4)
    assert hanging.text == "word " * 4
    assert hanging.events[-1]["error"]["code"] == "replica_drained"
    assert (ended["phase"], ended["reason"]) == ("stopped", "DrainDeadline")
    drain = ended["drain"]
    assert (drain["completed"], drain["cut"], drain["cut_ids"]) == (2, 1, [hanging.request_id])
    assert not procs.alive(replica["pid"])
    assert stack.deployment(deployment)["status"] == "stopped"
    usage = wait_for(lambda: stack.usage().get(hanging.request_id), 20, "its usage is stored")
    assert (usage["outcome"], usage["completion_tokens"]) == ("cut", None)
