"""The control plane goes and comes back, by force or in order: its engines are kept, adopted, or ended."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.e2e import procs
from tests.e2e.client import Caller, streams
from tests.e2e.procs import wait_for
from tests.e2e.stack import Stack


def identities(replicas: list[Any]) -> list[tuple[Any, ...]]:
    """What must not change of replicas: id, slot, process, port, and their moves."""
    return sorted((row["slot"], row["id"], row["pid"], row["port"], row["phase_since"]) for row in replicas)


def test_engines_outlive_the_death_of_everything_else_and_are_adopted_as_they_are(own_stack: Stack) -> None:
    stack = own_stack
    stack.start()
    deployment = stack.deploy("three", replicas=3)
    caller = Caller(stack, stack.key())
    before = stack.deployment(deployment)
    engines = sorted(procs.engines(stack.place))
    assert engines == sorted(row["pid"] for row in before["replicas"])

    stack.kill_everything()
    assert sorted(procs.engines(stack.place)) == engines
    stack.start()
    after = stack.until(deployment, "ready")
    assert identities(after["replicas"]) == identities(before["replicas"])
    assert after["transitions"] == before["transitions"]
    assert sorted(procs.engines(stack.place)) == engines
    wait_for(lambda: caller.ask("three").status_code == 200, 20, "the gateway serves")

    # One of them dies while nobody looks.
    dead = before["replicas"][1]
    stack.kill_everything()
    os.kill(dead["pid"], signal.SIGKILL)
    stack.start()
    wait_for(lambda: stack.replica(dead["id"])["ended_at"], 20, "it is closed")
    ended = stack.replica(dead["id"])
    assert (ended["phase"], ended["reason"], ended["exit_status"]) == ("failed", "ProcessExited", -9)
    healed = stack.until(deployment, "ready")["replicas"]
    kept = [row for row in before["replicas"] if row["id"] != dead["id"]]
    assert identities([row for row in healed if row["slot"] != dead["slot"]]) == identities(kept)
    assert [row["slot"] for row in healed] == [0, 1, 2]

    # And the end in order: what runs is finished, nothing is left.
    # Long enough to be running still when the command that begins the drain has started.
    with streams(caller, "three", ["tokens=8 seconds=8"] * 3) as running:
        stack.interrupt()
        assert all(one.result().is_whole(tokens=8) for one in running)
    assert stack.ended() == 0
    assert procs.using(stack.place) == {}
    ended = stack.control("select reason, drain_report from profiles_app_replica where phase = 'stopped' order by slot")
    assert [row["reason"] for row in ended] == ["Drained"] * 3
    assert sum(json.loads(row["drain_report"])["completed"] for row in ended) == 3
    caller.close()


def test_engines_that_are_left_at_the_end_serve_on_and_the_next_start_adopts_them(own_stack: Stack) -> None:
    stack = own_stack
    stack.start("--leave-engines")
    deployment = stack.deploy("left")
    caller = Caller(stack, stack.key())
    (before,) = stack.deployment(deployment)["replicas"]
    stack.interrupt()
    assert stack.ended() == 0
    left = procs.using(stack.place)
    assert before["pid"] in left
    assert all("fake_engine.py" in command or "shim.py" in command for command in left.values())

    stack.start()
    (after,) = stack.until(deployment, "ready")["replicas"]
    assert identities([after]) == identities([before])
    wait_for(lambda: caller.ask("left").status_code == 200, 20, "the gateway serves")
    caller.close()
    stack.interrupt()
    assert stack.ended() == 0
    assert procs.using(stack.place) == {}


def test_one_process_killed_at_a_time_is_started_again_and_everything_still_works(stack: Stack, caller: Caller) -> None:
    deployment = stack.deploy("one-by-one")
    (before,) = stack.deployment(deployment)["replicas"]
    for name in ("agent", "control-worker", "scheduler", "monitor", "web", "gateway", "valkey"):
        stack.kill(name)
        stack.restarted(name)
    wait_for(stack.serves, 30, "it serves again")
    with ThreadPoolExecutor(4) as pool:
        wait_for(lambda: caller.ask("one-by-one").status_code == 200, 20, "the gateway serves")
        assert {answer.status_code for answer in pool.map(lambda _: caller.ask("one-by-one"), range(8))} == {200}
    assert stack.api.patch(f"deployments/{deployment}/", json={"replicas": 2}).is_success
    stack.routed("one-by-one", 2)
    after = stack.until(deployment, "ready")["replicas"]
    assert identities([row for row in after if row["slot"] == 0]) == identities([before])
