"""The supervisor with real processes: start, order, restart, escalation, and what it leaves behind."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.local import valkey
from controlplane.local.identity import identify
from controlplane.local.paths import DataPaths
from controlplane.supervisor import ProcessSpec, Supervisor

pytestmark = pytest.mark.asyncio

SCALE = 0.02
LIMIT_SECONDS = 20.0


def python(program: str, **rest: Any) -> ProcessSpec:
    return ProcessSpec(**{"name": "child", "argv": (sys.executable, "-c", program), **rest})


def supervisor(folder: Path, *specs: ProcessSpec, **rest: Any) -> Supervisor:
    return Supervisor(specs, log_dir=folder, status_path=folder / "status.json", time_scale=SCALE, **rest)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


def row(keeper: Supervisor, name: str = "child") -> dict[str, Any]:
    return next(entry for entry in keeper.processes() if entry["name"] == name)


def file_exists(path: Path) -> Callable[[int], Awaitable[bool]]:
    async def ready(pid: int) -> bool:
        return path.exists()

    return ready


SLEEP = "import time; time.sleep(60)"


async def test_a_process_that_dies_is_started_again_and_counted(tmp_path: Path) -> None:
    keeper = supervisor(tmp_path, python(SLEEP))
    keeper.start(["child"])
    await until(lambda: row(keeper)["state"] == "running")
    first = row(keeper)["pid"]
    os.kill(first, signal.SIGKILL)
    await until(lambda: row(keeper)["state"] == "running" and row(keeper)["pid"] not in (None, first))
    assert row(keeper)["restarts"] == 1
    assert row(keeper)["last_exit"]["code"] == -signal.SIGKILL
    assert row(keeper)["last_exit"]["clean"] is False
    await keeper.close()
    assert row(keeper)["state"] == "stopped"


async def test_a_program_that_is_not_there_backs_off_and_says_why(tmp_path: Path) -> None:
    keeper = supervisor(tmp_path, ProcessSpec(name="child", argv=(str(tmp_path / "nothing"),)))
    keeper.start(["child"])
    await until(lambda: row(keeper)["restarts"] >= 2)
    assert row(keeper)["last_exit"]["code"] == 127
    assert "nothing" in row(keeper)["last_exit"]["message"]
    await keeper.close()


async def test_a_process_starts_only_after_those_it_needs_were_ready(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    first = python(SLEEP, name="first", ready=file_exists(sign))
    second = python(SLEEP, name="second", start_after=("first",))
    keeper = supervisor(tmp_path, first, second)
    keeper.start(["first", "second"])
    await until(lambda: row(keeper, "first")["state"] == "starting")
    assert await keeper.wait_ready(["first", "second"], seconds=0.05) == ["first", "second"]
    assert row(keeper, "second")["state"] == "waiting"
    sign.touch()
    assert await keeper.wait_ready(["first", "second"], seconds=LIMIT_SECONDS) == []
    await keeper.close()


async def test_a_process_that_never_gets_ready_is_ended_and_tried_again(tmp_path: Path) -> None:
    keeper = supervisor(tmp_path, python(SLEEP, ready=file_exists(tmp_path / "never"), ready_seconds=0.1))
    keeper.start(["child"])
    await until(lambda: row(keeper)["restarts"] >= 1)
    await keeper.close()


@pytest.mark.parametrize(
    ("quit_seconds", "expected"), [(0.0, -signal.SIGKILL), (LIMIT_SECONDS, 7)], ids=["kill", "quit first"]
)
async def test_a_process_that_ignores_term_is_ended_all_the_same(
    tmp_path: Path, quit_seconds: float, expected: int
) -> None:
    sign = tmp_path / "armed"
    program = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGQUIT, lambda *_: os._exit(7))\n"
        f"pathlib.Path({str(sign)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    keeper = supervisor(tmp_path, python(program, ready=file_exists(sign), stop_seconds=0.2, quit_seconds=quit_seconds))
    keeper.start(["child"])
    assert await keeper.wait_ready(["child"], seconds=LIMIT_SECONDS) == []
    await keeper.close()
    assert row(keeper)["last_exit"]["code"] == expected


async def test_children_of_a_process_that_ends_do_not_stay(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    keeper = supervisor(tmp_path, python(program))
    keeper.start(["child"])
    await until(lambda: note.exists() and note.read_text() != "")
    grandchild = int(note.read_text())
    await keeper.close()
    await until(lambda: identify(grandchild) is None)


async def test_the_end_of_a_stopped_server_by_its_signal_is_clean(tmp_path: Path) -> None:
    sign = tmp_path / "armed"
    program = (
        "import os, pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(143))\n"
        f"pathlib.Path({str(sign)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    keeper = supervisor(tmp_path, python(program, ready=file_exists(sign)))
    keeper.start(["child"])
    assert await keeper.wait_ready(["child"], seconds=LIMIT_SECONDS) == []
    await keeper.stop(["child"])
    assert row(keeper)["last_exit"]["clean"] is True
    await keeper.close()


@pytest.mark.parametrize(("code", "state"), [(0, "done"), (3, "failed")])
async def test_a_task_that_runs_once_is_not_started_again(tmp_path: Path, code: int, state: str) -> None:
    keeper = supervisor(tmp_path, python(f"raise SystemExit({code})", restart=False))
    keeper.start(["child"])
    await until(lambda: row(keeper)["state"] == state)
    assert row(keeper)["restarts"] == 0
    await keeper.close()


async def test_stopping_while_it_backs_off_starts_nothing(tmp_path: Path) -> None:
    keeper = Supervisor([python("raise SystemExit(1)")], log_dir=tmp_path, status_path=tmp_path / "status.json")
    keeper.start(["child"])
    await until(lambda: row(keeper)["state"] == "backing off")
    await keeper.stop(["child"])
    assert row(keeper)["pid"] is None
    assert row(keeper)["state"] == "stopped"
    await keeper.close()


async def test_the_output_lies_in_a_log_and_is_echoed_with_its_name(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    keeper = supervisor(
        tmp_path,
        python("import sys; sys.stdout.write('hello\\n')", restart=False),
        echo=lambda *pair: heard.append(pair),
    )
    keeper.start(["child"])
    await until(lambda: row(keeper)["state"] == "done")
    await keeper.close()
    assert heard == [("child", "hello")]
    assert keeper.tail("child") == ["hello"]


async def test_the_status_file_says_what_runs_and_what_the_caller_adds(tmp_path: Path) -> None:
    keeper = supervisor(tmp_path, python(SLEEP), facts=lambda: {"address": "here"})
    keeper.start(["child"])
    await until(lambda: row(keeper)["state"] == "running")
    record = json.loads((tmp_path / "status.json").read_text())
    assert record["address"] == "here"
    assert record["processes"][0]["pid"] == row(keeper)["pid"]
    await keeper.close()
    assert json.loads((tmp_path / "status.json").read_text())["processes"][0]["state"] == "stopped"


async def test_the_embedded_broker_is_ready_only_when_it_is_the_process_we_started(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.make()
    server = valkey.binary()
    assert server is not None

    async def ready(pid: int) -> bool:
        return await valkey.is_ours(pid, paths)

    keeper = supervisor(tmp_path, ProcessSpec(name="valkey", argv=valkey.argv(server, paths), ready=ready))
    assert not await valkey.is_ours(1, paths)
    keeper.start(["valkey"])
    try:
        assert await keeper.wait_ready(["valkey"], seconds=LIMIT_SECONDS) == []
        record = json.loads((paths.run / "valkey.json").read_text())
        assert record["pid"] == row(keeper, "valkey")["pid"]
        assert len(record["run_id"]) == 40
        assert not await valkey.is_ours(record["pid"] + 1, paths)
    finally:
        await keeper.close()
    assert await valkey.server_info(paths.socket) is None
