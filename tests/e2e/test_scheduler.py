"""Two schedulers: one fires, the other takes over when it dies."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from tests.e2e.procs import wait_for
from tests.e2e.stack import REPOSITORY, SCALE, Stack

WATCH_SECONDS = 4.0
PERIOD_SECONDS = 2 * SCALE


@contextlib.contextmanager
def second_scheduler(stack: Stack) -> Iterator[subprocess.Popen[bytes]]:
    """Another scheduler on the same installation, beside the supervised one."""
    environment = stack.environment | {"FOREBAY_VALKEY_URL": f"unix://{stack.socket}"}
    with (stack.place / "logs" / "scheduler-2.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "django", "run_scheduler"], env=environment, cwd=REPOSITORY, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def lease(stack: Stack) -> tuple[int, int]:
    """The process that holds the scheduler's lease, and its fencing token."""
    ((holder, token),) = stack.control("select holder, token from profiles_app_lease where name = 'scheduler'")
    return int(holder.rpartition(":")[2]), token


def fired(stack: Stack, seconds: float) -> float:
    """How often a second the deployment pass was put on its queue, as the broker saw it."""
    with contextlib.closing(redis.Redis(unix_socket_path=str(stack.socket), db=0)) as client, client.monitor() as seen:
        began = time.monotonic()
        count = 0
        while time.monotonic() - began < seconds:
            command = seen.next_command()["command"]
            count += command.startswith("LPUSH control ") and "profiles_app.deployment_pass" in command
        return count / (time.monotonic() - began)


def test_two_schedulers_fire_once_and_the_second_takes_over_when_the_first_hangs(stack: Stack) -> None:
    first, token = lease(stack)
    assert first == stack.pid("scheduler")
    with second_scheduler(stack) as second:
        log = stack.place / "logs" / "scheduler-2.log"
        # It is there once it has the database open.
        wait_for(lambda: opened(second.pid, str(stack.place / "control.sqlite3")), 30, f"it runs: {log.read_text()}")
        rate = fired(stack, WATCH_SECONDS)
        assert 0 < rate <= 1.2 / PERIOD_SECONDS

        # Stopped, not killed: the supervisor would start another one, and either could be first then.
        os.kill(first, signal.SIGSTOP)
        try:
            taken = wait_for(lambda: (now := lease(stack))[0] == second.pid and now[1], 30, "the second took over")
        finally:
            os.kill(first, signal.SIGCONT)
        assert taken > token
        rate = fired(stack, WATCH_SECONDS)
        assert 0 < rate <= 1.2 / PERIOD_SECONDS
        second.terminate()
        assert second.wait(20) == 0
        back = wait_for(lambda: (now := lease(stack))[0] == first and now[1], 30, "the first takes it back")
        assert back > taken


def opened(pid: int, path: str) -> bool:
    """Whether a process has a file open."""
    with contextlib.suppress(OSError):
        return any(str(file.readlink()) == path for file in Path(f"/proc/{pid}/fd").iterdir())
    return False
