"""The node pass on real processes: from a pending row to a stopped engine, and through every way to fail.

The fake engine stands in for the real one; the runtime, the probes and the database are the product's own.
"""

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from profiles_app.models import EngineInstall, Replica, Transition
from profiles_app.reconciler import deployment as deployment_pass
from profiles_app.reconciler.node import Host, run_pass, step
from profiles_app.reconciler.timings import timings
from profiles_app.runtimes import process
from profiles_app.selectors import system_viewer
from profiles_app.services.deployments import deployment_scale
from profiles_app.services.replicas import drain_reported, replica_move, replica_unwant
from profiles_app.states import Reason, ReplicaPhase
from tests.factories import make_deployment, make_node
from tests.integration.node_world import World, eventually, free_port, is_alive

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
P = ReplicaPhase


@pytest.fixture
def world(tmp_path: Path, data_dir: Path) -> Iterator[World]:
    root = tmp_path / "replicas"
    root.mkdir()
    times = replace(timings(), probe_timeout=5.0)
    node = make_node(now=timezone.now())
    yield World(Host(name="node-a", runtime=process, run_root=root, times=times), node, tmp_path / "script.json")
    for folder in root.iterdir():
        record = process.read_record(folder) if (folder / "run.json").exists() else None
        if record is not None:
            process.kill(record)
            assert eventually(lambda record=record: not is_alive(record.shim_pid))


def path_of(row: Replica) -> list[tuple[str, str]]:
    """(phase, reason) of every move of the replica, in order."""
    return list(Transition.objects.filter(replica=row).values_list("new", "reason"))


def assert_next_pass_does_nothing(world: World) -> None:
    """No move is written and no process starts or ends."""
    before = (list(Transition.objects.order_by("pk").values()), dict(process.scan_marked(world.host.run_root)))
    world.run()
    assert (list(Transition.objects.order_by("pk").values()), dict(process.scan_marked(world.host.run_root))) == before


def test_a_replica_lives_from_pending_to_stopped_and_each_step_is_recorded(world: World) -> None:
    row = world.pending()
    world.run()
    row.refresh_from_db()
    assert row.phase == P.STARTING
    assert row.pid == world.record(row).pid
    world.run_until(row, P.READY)
    assert row.ready_at is not None
    assert_next_pass_does_nothing(world)

    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run()
    row.refresh_from_db()
    assert row.phase == P.DRAINING
    assert_next_pass_does_nothing(world)
    assert process.observe(world.record(row)).alive

    drain_reported(row, report={"drained": True, "completed": 3, "cut": 0})
    world.run()
    row.refresh_from_db()
    assert row.stop_signalled_at is not None
    world.run_until(row, P.STOPPED)
    assert path_of(row) == [
        ("pending", "Created"),
        ("starting", "Launched"),
        ("ready", "Proven"),
        ("draining", "ScaledDown"),
        ("stopped", "Drained"),
    ]
    assert (row.exit_status, row.message) == (0, "Stopped. 3 requests completed during the drain, 0 cut.")
    assert process.observe(world.record(row)).survivors == ()
    assert_next_pass_does_nothing(world)


def test_a_wish_becomes_a_served_engine_and_an_ended_wish_a_stopped_one(world: World, settings: Any) -> None:
    port = free_port()
    settings.FOREBAY = replace(settings.FOREBAY, engine_ports=(port, port))
    world.engine()
    deployment = make_deployment()
    deployment_pass.run_pass(now=world.now())
    row = Replica.objects.get()
    world.run_until(row, P.READY)
    assert row.port == port
    deployment_pass.run_pass(now=world.now())
    assert_next_pass_does_nothing(world)
    deployment_scale(system_viewer(), deployment=deployment, replicas=0, now=world.now())
    deployment_pass.run_pass(now=world.now())
    world.run_until(row, P.DRAINING)
    drain_reported(row, report={"drained": True})
    world.run_until(row, P.STOPPED)
    assert row.reason == Reason.DRAINED
    deployment_pass.run_pass(now=world.now())
    assert Replica.objects.count() == 1


def test_a_crash_while_starting_is_explained_and_the_next_replica_takes_the_slot(world: World) -> None:
    row = world.pending(crash_after_seconds=0.0, exit_code=3, log_lines=["ValueError: no such quantisation"])
    world.run_until(row, P.FAILED)
    assert (row.reason, row.exit_status) == (Reason.STARTUP_FAILED, 3)
    assert "no such quantisation" in row.message
    assert row.fix
    world.engine()
    deployment_pass.run_pass(now=world.now())
    assert Replica.objects.count() == 1
    world.forward(5)
    deployment_pass.run_pass(now=world.now())
    again = Replica.objects.exclude(pk=row.pk).get()
    assert (again.slot, again.phase) == (row.slot, P.PENDING)
    assert again.port != row.port
    world.run_until(again, P.READY)


def test_an_engine_that_dies_while_serving_has_failed(world: World) -> None:
    row = world.ready()
    os.kill(world.record(row).pid, signal.SIGKILL)
    world.run_until(row, P.FAILED)
    assert path_of(row)[-1] == ("failed", Reason.PROCESS_EXITED)
    assert row.exit_status == -signal.SIGKILL
    assert "SIGKILL" in row.message
    assert_next_pass_does_nothing(world)


def test_children_that_outlive_their_api_server_are_ended_before_the_replica_is_closed(world: World) -> None:
    row = world.ready(grandchildren=2)
    record = world.record(row)
    assert len(process.observe(record).survivors) == 2
    os.kill(record.pid, signal.SIGKILL)
    assert eventually(lambda: not process.observe(record).alive)
    world.run()
    row.refresh_from_db()
    assert row.phase == P.READY
    world.run_until(row, P.FAILED)
    assert process.observe(record).survivors == ()


def test_a_process_whose_row_is_gone_is_ended_and_its_neighbour_is_left_alone(world: World) -> None:
    kept, lost = world.ready("kept"), world.ready("lost")
    record = world.record(lost)
    Transition.objects.filter(replica=lost).delete()
    Replica.objects.filter(pk=lost.pk).delete()
    world.run()
    assert eventually(lambda: not process.observe(record).alive)
    assert process.observe(world.record(kept)).alive
    assert_next_pass_does_nothing(world)


def test_an_engine_without_a_record_of_its_start_in_the_database_is_adopted_and_not_started_twice(world: World) -> None:
    row = world.started()
    record = world.record(row)
    Replica.objects.filter(pk=row.pk).update(phase=P.PENDING, pid=None, record=None)
    row.refresh_from_db()
    world.run_until(row, P.READY)
    assert ("starting", Reason.ADOPTED) in path_of(row)
    assert row.pid == record.pid
    assert dict(process.scan_marked(world.host.run_root)) == {row.marker: (record.pid,)}


def test_a_restarted_agent_goes_on_with_the_engines_that_it_finds(world: World) -> None:
    row = world.ready()
    Replica.objects.filter(pk=row.pk).update(pid=None, record=None)
    world.run()
    row.refresh_from_db()
    assert (row.phase, row.pid) == (P.READY, world.record(row).pid)


def test_a_start_that_nobody_wants_any_more_is_ended_at_once(world: World) -> None:
    row = world.started(start_seconds=60, ignore_term=True)
    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run_until(row, P.STOPPED)
    assert path_of(row)[-1] == ("stopped", "ScaledDown")
    assert not process.observe(world.record(row)).alive


def test_a_pending_replica_that_nobody_wants_is_never_started(world: World) -> None:
    row = world.pending()
    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run_until(row, P.STOPPED)
    assert list(world.host.run_root.iterdir()) == []


def test_an_engine_that_ignores_sigterm_is_killed_after_its_grace(world: World) -> None:
    row = world.ready(ignore_term=True)
    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run_until(row, P.DRAINING)
    drain_reported(row, report={"drained": True})
    world.run()
    world.run()
    assert process.observe(world.record(row)).alive
    world.forward(world.host.times.term_grace + 1)
    world.run_until(row, P.STOPPED)
    assert row.exit_status == -signal.SIGKILL


def test_a_drain_without_word_from_any_gateway_ends_after_its_deadline(world: World) -> None:
    row = world.ready()
    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run_until(row, P.DRAINING)
    drain_reported(row, report={"drained": False, "in_flight": 1, "cut": 2})
    world.forward(row.deployment.drain_seconds)
    world.run()
    row.refresh_from_db()
    assert row.stop_signalled_at is None
    world.forward(world.host.times.drain_margin + 1)
    world.run_until(row, P.STOPPED)
    assert row.reason == Reason.DRAIN_DEADLINE
    assert "2 cut" in row.message


def test_a_draining_replica_without_its_record_is_closed_only_when_no_marked_process_lives(world: World) -> None:
    row = world.ready()
    record = world.record(row)
    replica_unwant(row, reason=Reason.SCALED_DOWN)
    world.run_until(row, P.DRAINING)
    (record.run_dir / "run.json").unlink()
    step(world.host, row, now=world.now())
    row.refresh_from_db()
    assert row.phase == P.DRAINING
    world.run_until(row, P.STOPPED)
    assert row.marker not in process.scan_marked(world.host.run_root)


def test_a_start_that_takes_too_long_is_given_up(world: World) -> None:
    row = world.started(start_seconds=60)
    world.forward(world.host.times.startup + 1)
    world.run_until(row, P.FAILED)
    assert row.reason == Reason.STARTUP_TIMEOUT
    assert "Not ready after 540 s" in row.message
    assert eventually(lambda: not process.observe(world.record(row)).alive)


def test_a_server_that_is_not_the_replica_is_never_ready(world: World) -> None:
    row = world.pending(bad_identity=True)
    world.run_until(row, P.FAILED)
    assert row.reason == Reason.IDENTITY_MISMATCH
    assert "What answers is not this replica" in row.message
    assert ("ready", Reason.PROVEN) not in path_of(row)


def test_an_engine_that_generates_nothing_is_never_ready(world: World) -> None:
    row = world.started(no_token=True)
    assert eventually(lambda: "Application startup complete" in log_of(world, row))
    for _ in range(3):
        world.run()
    row.refresh_from_db()
    assert row.phase == P.STARTING


def log_of(world: World, row: Replica) -> str:
    return (world.host.run_root / str(row.pk) / "engine.log").read_text()


def test_a_port_in_use_fails_the_start_and_names_its_holder(world: World) -> None:
    row = world.pending()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", row.port or 0))
        holder.listen()
        world.run()
    row.refresh_from_db()
    assert (row.phase, row.reason) == (P.FAILED, Reason.PORT_TAKEN)
    assert f"pid {os.getpid()}" in row.message
    assert list(world.host.run_root.iterdir()) == []


def test_a_program_that_is_not_there_fails_the_start_in_words(world: World) -> None:
    row = world.pending()
    EngineInstall.objects.update(argv_prefix=["/nowhere/vllm"])
    world.run()
    row.refresh_from_db()
    assert (row.phase, row.reason) == (P.FAILED, Reason.STARTUP_FAILED)
    assert "/nowhere/vllm" in row.message


def test_an_engine_that_was_removed_before_the_start_is_named_as_the_reason(world: World) -> None:
    row = world.pending()
    EngineInstall.objects.all().delete()
    world.run()
    row.refresh_from_db()
    assert (row.phase, row.reason) == (P.FAILED, Reason.ENGINE_MISSING)


def test_a_start_of_which_no_process_is_ever_found_has_failed(world: World) -> None:
    row = world.pending()
    assert replica_move(row, old=P.PENDING, new=P.STARTING, reason=Reason.LAUNCHED, message="", now=world.now())
    world.run()
    row.refresh_from_db()
    assert row.phase == P.STARTING
    world.forward(world.host.times.launch_grace + 1)
    world.run()
    row.refresh_from_db()
    assert (row.phase, row.reason) == (P.FAILED, Reason.PROCESS_LOST)


def test_a_serving_engine_that_stops_answering_is_taken_out_and_comes_back(world: World) -> None:
    row = world.ready()
    pid = world.record(row).pid
    impatient = World(replace(world.host, times=replace(world.host.times, probe_timeout=0.2)), world.node, world.script)
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(2):
            impatient.run()
            row.refresh_from_db()
            assert row.phase == P.READY
        impatient.run()
        row.refresh_from_db()
        assert (row.phase, row.reason) == (P.NOT_READY, Reason.READINESS_FAILED)
        assert process.observe(world.record(row)).alive
    finally:
        os.kill(pid, signal.SIGCONT)
    world.run_until(row, P.READY)
    assert row.progress["misses"] == 0


def test_a_replica_whose_record_cannot_be_read_does_not_keep_others_from_their_step(world: World) -> None:
    broken, sound = world.pending("broken"), world.pending("sound")
    folder = world.host.run_root / str(broken.pk)
    folder.mkdir()
    (folder / "run.json").write_text('{"pid": 1}')
    world.run_until(sound, P.READY)
    broken.refresh_from_db()
    assert broken.phase == P.PENDING
    (folder / "run.json").unlink()
    world.run_until(broken, P.READY)


def test_replicas_of_another_node_are_left_alone(world: World) -> None:
    row = world.pending()
    run_pass(replace(world.host, name="node-b"), now=world.now)
    row.refresh_from_db()
    assert row.phase == P.PENDING


def test_several_replicas_start_and_stop_side_by_side(world: World) -> None:
    rows = [world.pending(f"p{number}") for number in range(3)]
    for row in rows:
        world.run_until(row, P.READY)
    for row in rows:
        replica_unwant(row, reason=Reason.DEPLOYMENT_STOPPED)
    world.run()
    for row in rows:
        drain_reported(row, report={"drained": True})
    for row in rows:
        world.run_until(row, P.STOPPED)
    assert dict(process.scan_marked(world.host.run_root)) == {}
