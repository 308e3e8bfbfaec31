"""How an engine ended is known as soon as its end is: the shim's note is waited for, but not for ever."""

import os
import signal
import threading

from profiles_app.runtimes import process
from tests.integration.test_runtime_process import Host, eventually, host, is_alive

__all__ = ["host"]


def test_the_note_of_a_living_shim_is_waited_for(host: Host) -> None:
    record = host.start()
    os.kill(record.shim_pid, signal.SIGSTOP)
    os.kill(record.pid, signal.SIGKILL)
    assert eventually(lambda: not is_alive(record.pid))
    later = threading.Timer(0.2, os.kill, (record.shim_pid, signal.SIGCONT))
    later.start()
    seen = process.observe(record)
    later.join()
    assert (seen.alive, seen.identity, seen.exit_status) == (False, "gone", -signal.SIGKILL)


def test_a_shim_that_does_not_answer_leaves_the_exit_unknown(host: Host) -> None:
    record = host.start()
    os.kill(record.shim_pid, signal.SIGSTOP)
    try:
        os.kill(record.pid, signal.SIGKILL)
        assert eventually(lambda: not is_alive(record.pid))
        assert process.observe(record).exit_status is None
    finally:
        os.kill(record.shim_pid, signal.SIGCONT)
    assert eventually(lambda: process.observe(record).exit_status == -signal.SIGKILL)
