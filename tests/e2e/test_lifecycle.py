"""Starts, double starts, foreign servers, crashes and reused pids, through the API and the real runtime."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import procs
from tests.e2e.client import Caller
from tests.e2e.procs import Sampler, wait_for
from tests.e2e.stack import Stack


class Foreigner(BaseHTTPRequestHandler):
    """Says 200 to everything, and notes what it was asked."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"object": "list", "data": [{"id": "anything"}]}')

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def foreign_server(port: int) -> Iterator[list[str]]:
    """A server of somebody else on the port; yields the paths that it was asked for."""
    handler = type("Handler", (Foreigner,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield handler.asked
        finally:
            server.shutdown()
            thread.join()


def ports_to_come(stack: Stack) -> list[int]:
    """Ports of which the next replica is given one: those that had none lately, up to the first that never had one."""
    rows = stack.control(
        "select port, coalesce(julianday('now') - julianday(ended_at), 0) * 86400 as age"
        " from profiles_app_replica where port is not null"
    )
    ages: dict[int, float] = {}
    for port, age in rows:
        ages[port] = min(age, ages.get(port, age))
    fresh = next(port for port in range(stack.first_engine_port, stack.first_engine_port + 100) if port not in ages)
    # A port is kept back for 75 s; some may come free while the test runs.
    return sorted([port for port, age in ages.items() if age > 50 and port < fresh] + [fresh])


def test_a_foreign_server_on_the_port_is_named_never_routed_to_and_another_port_is_taken(
    stack: Stack, caller: Caller
) -> None:
    with contextlib.ExitStack() as servers:
        asked = {port: servers.enter_context(foreign_server(port)) for port in ports_to_come(stack)}
        deployment = stack.deploy("foreign")
        failed, *_, serving = stack.replicas_of(deployment)
        assert (failed["phase"], failed["reason"], failed["ready_at"]) == ("failed", "PortTaken", None)
        assert f"Port {failed['port']} is in use by pid {os.getpid()}" in failed["message"]
        assert failed["port"] in asked
        assert serving["phase"] == "ready"
        assert serving["port"] not in asked
        assert caller.ask("foreign").json()["choices"][0]["message"]["content"] == "word " * 8
        assert not any(asked.values())


def test_two_requests_and_a_task_delivered_twice_start_one_engine(stack: Stack) -> None:
    stack.profile("double")
    with Sampler(lambda: len(procs.engines(stack.place))) as sampler:
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: stack.post("deployments/", profile="double", replicas=1), range(2)))
        for _ in range(3):
            passes = stack.send_twice("profiles_app.deployment_pass", queue="control")
            stack.send_twice("profiles_app.node_pass", "e2e", queue="node.e2e")
        assert answers[0]["id"] == answers[1]["id"]
        deployment = stack.until(answers[0]["id"], "ready")
        stack.task_done(passes, "control")
        stack.task_done(stack.send_twice("profiles_app.node_pass", "e2e", queue="node.e2e"), "node.e2e")
    assert max(sampler.seen) == 1
    (replica,) = deployment["replicas"]
    assert [move["new"] for move in deployment["transitions"]] == ["ready", "starting", "pending"]
    assert procs.engines(stack.place) == [replica["pid"]]


@pytest.mark.parametrize("leader", [True, False], ids=["group leader", "group member"])
def test_a_pid_that_was_given_out_again_is_not_running_and_never_signalled(stack: Stack, leader: bool) -> None:
    deployment = stack.deploy(f"reused-{'leader' if leader else 'member'}")
    (replica,) = stack.deployment(deployment)["replicas"]
    record = stack.record(replica["id"])
    victim = subprocess.Popen(["sleep", "600"], start_new_session=leader)
    try:
        with stack.frozen("agent"):
            for pid in (record["shim_pid"], record["pid"]):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not procs.alive(record["pid"]) and not procs.alive(record["shim_pid"]), 5)
            path = stack.place / "replicas" / replica["id"] / "run.json"
            path.write_text(json.dumps(record | {"pid": victim.pid}))
        ended = wait_for(lambda: (row := stack.replica(replica["id"]))["ended_at"] and row, 20, "it is closed")
        assert (ended["phase"], ended["reason"]) == ("failed", "ProcessLost")
        assert "left alone" in ended["message"]
        stack.remove(deployment)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_a_killed_engine_is_failed_with_its_reason_and_the_next_replica_serves(stack: Stack, caller: Caller) -> None:
    deployment = stack.deploy("killed")
    (first,) = stack.deployment(deployment)["replicas"]
    os.kill(first["pid"], signal.SIGKILL)
    ended = wait_for(lambda: (row := stack.replica(first["id"]))["ended_at"] and row, 20, "it is closed")
    assert (ended["phase"], ended["reason"], ended["exit_status"]) == ("failed", "ProcessExited", -9)
    assert "SIGKILL" in ended["message"]
    (second,) = stack.until(deployment, "ready")["replicas"]
    assert second["id"] != first["id"]
    stack.routed("killed", 1)
    assert caller.ask("killed").status_code == 200


def test_children_that_outlive_their_api_server_are_ended_before_the_slot_is_filled_again(stack: Stack) -> None:
    stack.script(grandchildren=3)
    deployment = stack.deploy("orphans")
    (first,) = stack.deployment(deployment)["replicas"]
    marker = stack.record(first["id"])["marker"]
    assert len(procs.marked(marker)) == 4

    def old_and_new() -> tuple[bool, bool]:
        before = {first["pid"], *procs.marked(marker)}
        new = set(procs.engines(stack.place)) - before
        return bool(before & set(procs.marked(marker))), bool(new)

    with Sampler(old_and_new) as sampler:
        os.kill(first["pid"], signal.SIGKILL)
        wait_for(lambda: stack.replica(first["id"])["ended_at"], 20, "it is closed")
        assert procs.marked(marker) == []
        (second,) = stack.until(deployment, "ready")["replicas"]
    assert second["id"] != first["id"]
    assert (True, True) not in sampler.seen
    assert (False, True) in sampler.seen
    marker = stack.record(second["id"])["marker"]
    stack.remove(deployment)
    assert procs.marked(marker) == []


def test_a_start_that_always_fails_is_given_up_with_its_reason_and_a_retry_begins_anew(stack: Stack) -> None:
    stack.script(crash_after_seconds=0, exit_code=1, log_lines=["ValueError: the weights are not there"])
    stack.profile("hopeless")
    deployment = stack.post("deployments/", profile="hopeless", replicas=1)["id"]
    row = stack.until(deployment, "failed")
    assert (row["failed_slots"], row["replicas"]) == (1, [])
    assert len(stack.replicas_of(deployment)) == 4
    assert row["last_failure"]["reason"] == "StartupFailed"
    assert "the weights are not there" in row["last_failure"]["message"]
    stack.script()
    stack.post(f"deployments/{deployment}/retry/")
    stack.until(deployment, "ready")


def test_an_engine_that_never_serves_its_own_name_does_not_become_ready(stack: Stack) -> None:
    stack.script(bad_identity=True)
    stack.profile("impostor")
    deployment = stack.post("deployments/", profile="impostor", replicas=1)["id"]
    first = wait_for(lambda: stack.deployment(deployment)["last_failure"], 30, "it is closed")
    assert (first["reason"], first["ready_at"]) == ("IdentityMismatch", None)
    assert not procs.alive(first["pid"])


def test_the_data_directory_is_closed_to_others(stack: Stack) -> None:
    closed = [stack.place, stack.place / "run", *(stack.place / "replicas").iterdir()]
    assert [oct(Path(folder).stat().st_mode & 0o777) for folder in closed] == ["0o700"] * len(closed)
