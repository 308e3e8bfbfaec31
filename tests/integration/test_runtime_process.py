"""The real runtime starts, adopts and ends real processes: the fake engine in place of vLLM."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from profiles_app.runtimes import process, procfs
from profiles_app.runtimes.base import AlreadyLaunched, Launch, Launched, LaunchFailed, Record, Runtime
from profiles_app.runtimes.ports import port_holder, port_is_free
from profiles_app.runtimes.vllm import probe

FAKE_ENGINE = Path(__file__).parents[1] / "fakes" / "fake_engine.py"
RUNTIME: Runtime = process


def free_port() -> int:
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return int(probe_socket.getsockname()[1])


def eventually(condition: Callable[[], bool], *, seconds: float = 15.0) -> bool:
    """Wait for an outside process to do something; the condition, not the waiting, is what a test asserts."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@dataclass
class Host:
    """One installation on this host, with the launches that a test made on it."""

    run_root: Path
    records: list[Record] = field(default_factory=list)

    def order(self, **script: object) -> Launch:
        replica_id = str(uuid.uuid4())
        run_dir = self.run_root / replica_id
        run_dir.mkdir(parents=True)
        (run_dir / "script.json").write_text(json.dumps(script), encoding="utf-8")
        port = free_port()
        config = {"model": "m", "host": "127.0.0.1", "port": port, "served-model-name": ["fast", replica_id]}
        return Launch(
            replica_id=replica_id,
            generation=3,
            marker=uuid.uuid4().hex,
            argv=(sys.executable, str(FAKE_ENGINE), "serve", "--config", str(run_dir / "config.yaml")),
            env={"FAKE_ENGINE_SCRIPT": str(run_dir / "script.json"), "VLLM_API_KEY": "sesame"},
            config_yaml=yaml.safe_dump(config),
            port=port,
            run_dir=run_dir,
        )

    def launch(self, order: Launch) -> Record:
        outcome = RUNTIME.launch(order)
        assert isinstance(outcome, Launched), outcome
        self.records.append(outcome.record)
        return outcome.record

    def start(self, **script: object) -> Record:
        return self.launch(self.order(**script))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "replicas")
    yield host
    for run_dir in host.run_root.iterdir() if host.run_root.exists() else ():
        record = process.read_record(run_dir)
        if record is not None:
            process.kill(record)
            assert eventually(lambda record=record: not is_alive(record.shim_pid))


def is_alive(pid: int) -> bool:
    seen = procfs.process(pid)
    return seen is not None and seen.alive


def listens(record: Record) -> bool:
    with contextlib.closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", record.port)) == 0


def test_a_launched_engine_is_recorded_with_what_proves_it_ours(host: Host) -> None:
    order = host.order()
    record = host.launch(order)
    seen = procfs.process(record.pid)
    assert seen is not None
    assert (record.start_ticks, record.pgid, record.sid) == (seen.start_ticks, seen.pgid, seen.sid)
    assert record.sid == record.shim_pid
    assert (record.generation, record.marker, record.replica_id) == (3, order.marker, order.replica_id)
    assert record.argv_sha256 == hashlib.sha256("\0".join(order.argv).encode()).hexdigest()
    assert process.observe(record) == process.Observation(alive=True, identity="ours", exit_status=None, survivors=())


def test_the_files_of_a_replica_are_readable_by_its_owner_only(host: Host) -> None:
    record = host.start()
    assert record.run_dir.stat().st_mode & 0o777 == 0o700
    for name in ("config.yaml", "run.json", "engine.log", "shim.log", "lock"):
        assert (record.run_dir / name).stat().st_mode & 0o077 == 0, name


def test_no_secret_is_in_a_file_or_a_command_line(host: Host) -> None:
    record = host.start()
    for file in record.run_dir.iterdir():
        assert b"sesame" not in file.read_bytes(), file.name
    for pid in (record.pid, record.shim_pid):
        assert b"sesame" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_engine_hears_sigterm_and_its_exit_status_is_recorded(host: Host) -> None:
    record = host.start()
    assert eventually(lambda: listens(record))
    assert process.terminate(record)
    assert eventually(lambda: process.observe(record).exit_status == 0)
    assert process.observe(record).identity == "gone"
    latest = process.read_record(record.run_dir)
    assert latest is not None
    assert latest.exited_at is not None
    assert latest.exited_at >= latest.started_at
    assert eventually(lambda: not is_alive(record.shim_pid))


def test_a_crash_is_recorded_with_its_exit_status_and_log(host: Host) -> None:
    record = host.start(crash_after_seconds=0.0, exit_code=7, log_lines=["ValueError: no such thing"])
    assert eventually(lambda: process.observe(record).exit_status == 7)
    assert "ValueError: no such thing" in (record.run_dir / "engine.log").read_text(encoding="utf-8")


def test_an_engine_outlives_the_process_that_launched_it_and_is_adopted(host: Host) -> None:
    order = host.order()
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    with launcher:
        launcher.stdin.write(json.dumps(as_json(order)).encode())
        launcher.stdin.close()
        assert launcher.stdout.readline() == b"Launched\n"
        launcher.send_signal(signal.SIGKILL)
    record = process.read_record(order.run_dir)
    assert record is not None
    assert eventually(lambda: listens(record))
    assert process.observe(record).identity == "ours"
    assert process.terminate(record)
    assert eventually(lambda: process.observe(record).exit_status == 0)


LAUNCHER = """
import json, sys, time
from pathlib import Path
from profiles_app.runtimes import process
from profiles_app.runtimes.base import Launch
order = json.load(sys.stdin)
order |= {"argv": tuple(order["argv"]), "run_dir": Path(order["run_dir"])}
print(type(process.launch(Launch(**order))).__name__, flush=True)
time.sleep(60)
"""


def as_json(order: Launch) -> dict[str, object]:
    names = ("replica_id", "generation", "marker", "argv", "env", "config_yaml", "port")
    return {name: getattr(order, name) for name in names} | {"run_dir": str(order.run_dir)}


def test_a_second_launch_of_a_replica_is_refused_with_the_first_ones_record(host: Host) -> None:
    order = host.order()
    record = host.launch(order)
    assert RUNTIME.launch(order) == AlreadyLaunched(record)
    process.kill(record)
    assert eventually(lambda: not is_alive(record.shim_pid))
    again = RUNTIME.launch(order)
    assert isinstance(again, AlreadyLaunched)
    assert again.record is not None
    assert again.record.exit_status == -signal.SIGKILL


def test_two_launches_at_once_start_one_engine(host: Host) -> None:
    order = host.order()
    launchers = [
        subprocess.Popen(
            [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=FAKE_ENGINE.parents[2]
        )
        for _ in range(2)
    ]
    answers = []
    for launcher in launchers:
        assert launcher.stdin is not None
        launcher.stdin.write(json.dumps(as_json(order)).encode())
        launcher.stdin.close()
    for launcher in launchers:
        with launcher:
            assert launcher.stdout is not None
            answers.append(launcher.stdout.readline())
            launcher.kill()
    assert sorted(answers) == [b"AlreadyLaunched\n", b"Launched\n"]
    assert len(process.scan_marked(host.run_root)[order.marker]) == 1


def test_a_program_that_is_not_there_fails_the_launch_in_words(host: Host) -> None:
    outcome = RUNTIME.launch(replace(host.order(), argv=("/nowhere/vllm", "serve")))
    assert isinstance(outcome, LaunchFailed)
    assert "/nowhere/vllm" in outcome.message
    assert "No such file" in outcome.message


def test_a_shim_that_fails_before_the_engine_says_why_and_starts_nothing(host: Host) -> None:
    order = host.order()
    (order.run_dir / "config.yaml").mkdir()
    outcome = RUNTIME.launch(order)
    assert isinstance(outcome, LaunchFailed)
    assert "Is a directory" in outcome.message
    assert process.read_record(order.run_dir) is None
    assert process.scan_marked(host.run_root) == {}


def test_an_order_cut_short_starts_nothing(host: Host) -> None:
    order = host.order()
    shim_path = process.shim.__file__
    text = json.dumps(as_json(order))[:-40].encode()
    done = subprocess.run([sys.executable, "-I", "-S", shim_path], input=text, capture_output=True, check=False)
    assert done.returncode != 0
    assert done.stdout == b""
    assert process.read_record(order.run_dir) is None


def test_a_reused_pid_is_neither_alive_nor_signalled(host: Host) -> None:
    record = host.start()
    with stranger(session=False) as pid:
        reused = replace(record, pid=pid, start_ticks=1)
        assert process.observe(reused).identity == "not_ours"
        assert not process.observe(reused).alive
        assert not process.terminate(reused)
        assert pid not in process.kill(reused)
        assert is_alive(pid)


def test_a_pid_with_the_right_start_but_another_marker_is_not_signalled(host: Host) -> None:
    record = host.start()
    with stranger(session=False) as pid:
        seen = procfs.process(pid)
        assert seen is not None
        reused = replace(record, pid=pid, start_ticks=seen.start_ticks)
        assert process.observe(reused).identity == "not_ours"
        assert not process.terminate(reused)
        assert is_alive(pid)


def test_a_reused_pid_of_the_session_leader_protects_its_session(host: Host) -> None:
    record = host.start()
    process.kill(record)
    assert eventually(lambda: not is_alive(record.shim_pid))
    with stranger(session=True) as pid:
        reused = replace(record, shim_pid=pid, shim_start_ticks=1, sid=pid, pgid=pid)
        assert process.observe(reused).survivors == ()
        assert process.kill(reused) == ()
        assert is_alive(pid)


def test_a_record_of_another_boot_names_nothing_that_lives(host: Host) -> None:
    record = replace(host.start(), boot_id="another boot")
    assert process.observe(record).identity == "gone"
    assert process.observe(record).survivors == ()
    assert process.kill(record) == ()
    assert is_alive(record.pid)


@contextlib.contextmanager
def stranger(*, session: bool) -> Iterator[int]:
    """A process of somebody else, whose pid a record happens to name."""
    with subprocess.Popen(["sleep", "60"], start_new_session=session, env={}) as sleeper:
        try:
            yield sleeper.pid
        finally:
            sleeper.kill()


def test_what_outlives_a_killed_api_server_is_seen_and_ended(host: Host) -> None:
    record = host.start(grandchildren=3)
    assert eventually(lambda: len(process.observe(record).survivors) == 3)
    os.kill(record.pid, signal.SIGKILL)
    assert eventually(lambda: process.observe(record).exit_status == -signal.SIGKILL)
    seen = process.observe(record)
    assert (seen.alive, seen.identity, len(seen.survivors)) == (False, "gone", 3)
    assert is_alive(record.shim_pid)
    assert set(process.kill(record)) == set(seen.survivors)
    assert eventually(lambda: process.observe(record).survivors == ())
    assert eventually(lambda: not is_alive(record.shim_pid))


def test_a_grandchild_that_left_the_session_is_found_even_without_the_shim(host: Host) -> None:
    record = host.start(grandchildren=2)
    assert eventually(lambda: any(sid != record.sid for sid in sessions(record)))
    os.kill(record.shim_pid, signal.SIGKILL)
    assert eventually(lambda: not is_alive(record.shim_pid))
    assert process.observe(record).identity == "ours"
    assert len(process.observe(record).survivors) == 2
    assert len(process.kill(record)) == 3
    assert eventually(lambda: process.observe(record).survivors == ())


def sessions(record: Record) -> list[int]:
    members = (procfs.process(pid) for pid in process.observe(record).survivors)
    return [member.sid for member in members if member is not None]


def test_a_process_that_wiped_its_environment_is_found_below_the_shim(host: Host) -> None:
    """The marker is gone and the session left, but the shim is its reaper."""
    script = "import os\nif os.fork() == 0:\n os.setsid(); os.execve('/bin/sleep', ['sleep', '60'], {})\nos.wait()"
    record = host.launch(replace(host.order(), argv=(sys.executable, "-c", script)))
    assert eventually(lambda: any(sid != record.sid for sid in sessions(record)))
    os.kill(record.pid, signal.SIGKILL)
    assert eventually(lambda: process.observe(record).exit_status == -signal.SIGKILL)
    (survivor,) = process.observe(record).survivors
    assert process.kill(record) == (survivor,)


def test_an_engine_that_ignores_sigterm_is_ended_by_kill(host: Host) -> None:
    record = host.start(ignore_term=True)
    assert eventually(lambda: listens(record))
    assert process.terminate(record)
    assert process.observe(record).alive
    assert record.pid in process.kill(record)
    assert eventually(lambda: process.observe(record).exit_status == -signal.SIGKILL)


def test_polite_signals_to_the_whole_group_leave_the_shim_to_keep_the_record(host: Host) -> None:
    record = host.start()
    assert eventually(lambda: listens(record))
    os.killpg(record.pgid, signal.SIGTERM)
    assert eventually(lambda: process.observe(record).exit_status == 0)


def test_nothing_is_signalled_twice_once_an_engine_is_gone(host: Host) -> None:
    record = host.start()
    process.kill(record)
    assert eventually(lambda: not is_alive(record.shim_pid))
    assert process.kill(record) == ()
    assert not process.terminate(record)


def test_the_orphan_scan_sees_this_installation_only(host: Host, tmp_path: Path) -> None:
    neighbour = Host(tmp_path / "neighbour")
    mine, theirs = host.start(grandchildren=1), neighbour.start()
    assert eventually(lambda: len(process.scan_marked(host.run_root).get(mine.marker, ())) == 2)
    assert set(process.scan_marked(host.run_root)) == {mine.marker}
    assert process.scan_marked(neighbour.run_root) == {theirs.marker: (theirs.pid,)}
    (mine.run_dir / "run.json").unlink()
    assert process.kill_marked(neighbour.run_root, mine.marker) == ()
    assert len(process.kill_marked(host.run_root, mine.marker)) == 2
    assert process.scan_marked(host.run_root) == {}
    assert process.kill(theirs) == (theirs.pid,)
    assert eventually(lambda: not is_alive(mine.shim_pid) and not is_alive(theirs.shim_pid))


def test_a_record_that_is_no_record_is_an_accident_and_not_an_absence(host: Host) -> None:
    order = host.order()
    (order.run_dir / "run.json").write_text('{"pid": 1}', encoding="utf-8")
    with pytest.raises(ValueError, match="is no run record"):
        process.read_record(order.run_dir)
    (order.run_dir / "run.json").unlink()


def test_a_served_engine_proves_itself_by_name_and_by_a_token(host: Host) -> None:
    record = host.start()
    assert eventually(lambda: listens(record))
    found = probe(
        base_url=f"http://127.0.0.1:{record.port}",
        api_key="sesame",
        served_name="fast",
        identity_name=record.replica_id,
        want_token=True,
        timeout=5.0,
    )
    assert (found.health, found.identity, found.token) == (True, True, True)


def test_a_port_in_use_names_its_holder(host: Host) -> None:
    record = host.start()
    assert eventually(lambda: listens(record))
    assert not port_is_free(record.port)
    holder = port_holder(record.port)
    assert holder is not None
    assert holder.pid == record.pid
    process.kill(record)
    assert eventually(lambda: port_is_free(record.port))
    assert port_holder(record.port) is None
