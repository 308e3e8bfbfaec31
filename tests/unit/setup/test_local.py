"""The small parts of `forebay up`: layout, identity, logs, records, options, lock and what the console says."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import doctor
from controlplane.engine.findings import Finding
from controlplane.local import lock, ports, stack, valkey
from controlplane.local.console import SetupFollower
from controlplane.local.files import read_json, write_json
from controlplane.local.identity import ProcessId, alive, identify, known, signal_group
from controlplane.local.logfile import LogFile
from controlplane.local.options import Setup, UpOptions, resolve
from controlplane.local.paths import SOCKET_PATH_LIMIT, DataPaths
from controlplane.local.setup_log import SetupLog
from controlplane.status import read_status
from controlplane.supervisor import Backoff


def machine(folder: Path, **environ: str) -> Setup:
    return resolve(UpOptions(data_dir=folder), environ=environ)


def test_the_data_directory_is_closed_to_others(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    paths.make()
    for folder in (paths.root, paths.run, paths.socket.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_long_path_puts_the_socket_into_a_short_folder_of_ours(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / ("long" * 30))
    assert len(os.fsencode(paths.socket)) < SOCKET_PATH_LIMIT
    assert paths.socket != DataPaths(tmp_path / ("other" * 30)).socket
    assert doctor.socket_path(paths).level == "info"


def test_a_process_is_known_by_more_than_its_pid() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert alive(own)
    assert not alive(ProcessId(own.pid, own.started + 1, own.boot))
    assert known(own.as_dict()) == own
    assert known({"pid": None}) is None
    assert known("text") is None


def test_a_dead_child_that_nobody_reaped_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    child.wait()


def test_a_group_without_processes_takes_no_signal() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    child.wait()
    assert not signal_group(child.pid, signal.SIGTERM)


def test_a_record_is_replaced_whole_and_readable_only_by_us(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_record_that_is_no_object_reads_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    assert read_json(path) is None


def test_a_log_that_grows_too_long_moves_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "web", max_bytes=10)
    writer = log.open_for_child()
    for number in range(5):
        os.write(writer, f"line number {number}\n".encode())
        assert log.rotate()
    os.write(writer, b"new\n")
    os.close(writer)
    assert log.path.read_text() == "new\n"
    assert (tmp_path / "web.log.1").read_text() == "line number 4\n"
    assert (tmp_path / "web.log.3").read_text() == "line number 2\n"
    assert not (tmp_path / "web.log.4").exists()


def test_a_log_is_followed_in_whole_lines(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "web")
    assert log.new_lines() == []
    with log.path.open("a") as handle:
        handle.write("one\ntw")
        handle.flush()
        assert log.new_lines() == ["one"]
        handle.write("o\n")
    assert log.new_lines() == ["two"]
    assert log.tail(1) == ["two"]


def test_back_off_doubles_to_a_cap_and_starts_again_after_a_good_run() -> None:
    backoff = Backoff(1.0)
    assert [backoff.after(0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.after(60.0) == 1


def test_back_off_follows_the_time_scale() -> None:
    assert Backoff(0.1).after(0.0) == pytest.approx(0.1)


def test_options_win_over_the_environment(tmp_path: Path) -> None:
    setup = resolve(
        UpOptions(data_dir=tmp_path, port=9000), environ={"FOREBAY_PORT": "9001", "FOREBAY_GATEWAY_PORT": "9002"}
    )
    assert (setup.port, setup.gateway_port) == (9000, 9002)
    assert setup.environment()["FOREBAY_PORT"] == "9000"


def test_an_address_to_listen_on_becomes_one_to_open(tmp_path: Path) -> None:
    setup = machine(tmp_path, FOREBAY_HOST="::")
    assert setup.address == "http://[::1]:8300"


def test_the_embedded_broker_listens_on_no_port(tmp_path: Path) -> None:
    words = valkey.argv(Path("valkey-server"), DataPaths(tmp_path))
    assert words[words.index("--port") + 1] == "0"
    assert words[words.index("--appendonly") + 1] == "yes"
    assert words[words.index("--unixsocketperm") + 1] == "700"


def test_every_process_is_stopped_in_an_order_that_names_it(tmp_path: Path) -> None:
    specs = stack.process_specs(machine(tmp_path), server=Path("valkey-server"))
    assert sorted(spec.name for spec in specs) == sorted(stack.STOP_ORDER)
    assert [spec.name for spec in specs if not spec.restart] == [stack.SETUP]


def test_an_external_broker_is_not_started(tmp_path: Path) -> None:
    setup = machine(tmp_path, FOREBAY_VALKEY_URL="redis://broker:6379")
    assert stack.VALKEY not in [spec.name for spec in stack.process_specs(setup, server=None)]
    assert setup.environment()["FOREBAY_VALKEY_URL"] == "redis://broker:6379"


def test_the_second_start_on_a_data_directory_is_refused_by_name(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.make()
    with lock.held(paths):
        assert lock.holder(paths) == identify(os.getpid())
        with pytest.raises(lock.AlreadyRunningError, match=rf"process {os.getpid()}\)"), lock.held(paths):
            pass
    assert lock.holder(paths) is None
    with lock.held(paths):
        pass


def test_only_processes_that_are_still_the_recorded_ones_are_ended(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.make()
    left, other = (subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2))
    try:
        stray, stranger = identify(left.pid), identify(other.pid)
        assert stray is not None
        assert stranger is not None
        reused = {**stranger.as_dict(), "started": stranger.started - 1, "name": "gateway"}
        write_json(
            paths.status, {"processes": [{**stray.as_dict(), "name": "web"}, reused, {"name": "x", "pid": None}]}
        )
        assert lock.end_strays(paths) == ["web"]
        assert left.wait(10) == -signal.SIGKILL
        assert alive(stranger)
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_the_set_up_is_shown_as_its_steps_move(tmp_path: Path) -> None:
    log = SetupLog(tmp_path / "setup.json", [("engine", "Install the engine"), ("weights", "Make the demo model")])
    follower = SetupFollower(tmp_path / "setup.json")
    assert follower.news(0.0) == []
    log.start("engine")
    assert follower.news(1.0) == ["  Install the engine   0% (running)"]
    log.done("engine", "vLLM 0.32.0")
    log.failed("weights", Finding(id="FB015", level="error", title="No weights", detail="gone", fix="Try again."))
    assert follower.news(1.1) == [
        "  Install the engine (done): vLLM 0.32.0",
        "  Make the demo model (failed): No weights. gone",
        "    What to do: Try again.",
    ]
    assert follower.news(100.0) == []
    steps = json.loads((tmp_path / "setup.json").read_text())["steps"]
    assert [step["state"] for step in steps] == ["done", "failed"]
    assert steps[1]["finding"]["id"] == "FB015"


def test_a_taken_port_is_found_with_its_owner(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not ports.free("127.0.0.1", port)
        assert str(os.getpid()) in ports.owner(port)
        found = doctor.processes(machine(tmp_path, FOREBAY_PORT=str(port)), now=0.0)
        assert "FB007" in [finding.id for finding in found]


def test_a_process_that_status_calls_running_but_is_gone_is_dead(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.make()
    child = subprocess.Popen(["sleep", "60"])
    gone = identify(child.pid)
    child.kill()
    child.wait()
    assert gone is not None
    row = {**gone.as_dict(), "name": "web", "state": "running", "since": 1.0, "restarts": 0, "last_exit": None}
    write_json(paths.status, {"at": 5.0, "state": "running", "processes": [row]})
    with lock.held(paths):
        facts = read_status(paths, now=7.0)
        assert facts["state"] == "running"
        assert facts["processes"][0]["state"] == "dead"
        assert facts["age"] == 2.0
        assert [finding.id for finding in doctor.processes(machine(tmp_path), now=7.0)] == ["FB008"]
    assert read_status(paths, now=7.0)["state"] == "stopped"


def test_a_data_directory_that_others_can_read_is_an_error_with_a_fix(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    assert doctor.data_dir(paths).level == "info"
    paths.make()
    assert doctor.data_dir(paths).level == "ok"
    paths.root.chmod(0o755)
    found = doctor.data_dir(paths)
    assert (found.id, found.level, found.fix) == ("FB003", "error", f"chmod 700 {paths.root}")


def test_an_old_python_is_an_error() -> None:
    assert doctor.python_version((3, 11)).level == "error"
    assert doctor.python_version((3, 12)).level == "ok"


def test_every_finding_that_is_not_well_says_what_to_do(tmp_path: Path) -> None:
    for finding in doctor.findings(machine(tmp_path), now=0.0):
        assert finding.fix or finding.level in {"ok", "info"}
