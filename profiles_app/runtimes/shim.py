"""The parent of one engine: records it before it runs, outlives whoever started it, and keeps its exit status.

It runs as a plain script in an isolated interpreter (`python -I -S shim.py`), so it imports nothing but the standard
library. Its input, one JSON object on stdin, never touches the disk, as it holds the engine's secrets.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
LOG_LIMIT_BYTES = 20 * 1024 * 1024
LOGS_KEPT = 2
POLL_SECONDS = 5.0
EXEC_FAILED = 127


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot: field 22 of /proc/<pid>/stat, counted after the name."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[19])


def boot_id() -> str:
    """The random id of this boot of the host; pids and ticks of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def argv_sha256(argv: list[str]) -> str:
    """Hash of a command line, its arguments separated by NUL as in /proc/<pid>/cmdline."""
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()


def write_private(path: Path, text: str) -> None:
    """Replace a file at once, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def rotate(log: Path, *, limit_bytes: int = LOG_LIMIT_BYTES, keep: int = LOGS_KEPT) -> bool:
    """Copy a log that has outgrown its limit to `.1` (`.1` to `.2`, ...) and truncate it; says whether it did.

    The engine writes to the file itself, appending, so it never waits for us and survives our death. A line written
    between copy and truncation is lost: a rare loss, against a pipe that could stop the engine.
    """
    try:
        if log.stat().st_size <= limit_bytes:
            return False
    except OSError:
        return False
    for number in range(keep - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    newest = log.with_name(f"{log.name}.1")
    with contextlib.suppress(OSError):
        shutil.copyfile(log, newest)
        newest.chmod(0o600)
    os.truncate(log, 0)
    return True


class _EngineProcess:
    """The forked engine: it waits for `release`, so that the record is written before the program runs."""

    def __init__(self, *, argv: list[str], env: dict[str, str], run_dir: Path) -> None:
        go_read, self._go_write = os.pipe()
        self._failed_read, failed_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go_write)
            os.close(self._failed_read)
            _become_engine(argv=argv, env=env, run_dir=run_dir, go=go_read, failed=failed_write)
        os.close(go_read)
        os.close(failed_write)

    def release(self) -> str | None:
        """Let it become the engine program; returns why that failed, or None once it runs."""
        os.write(self._go_write, b"go")
        os.close(self._go_write)
        # The pipe closes by itself at a successful exec; what comes otherwise is the reason.
        with os.fdopen(self._failed_read, "rb") as pipe:
            return pipe.read().decode("utf-8", "replace") or None


def _become_engine(*, argv: list[str], env: dict[str, str], run_dir: Path, go: int, failed: int) -> None:
    """In the forked child: wait for the word, take the log as output, and turn into the engine. Never returns."""
    try:
        if os.read(go, 2) != b"go":
            os._exit(EXEC_FAILED)
        log = os.open(run_dir / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # What the shim ignores and blocks would be inherited through exec, and the engine would be deaf to SIGTERM.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execvpe(argv[0], argv, env)  # noqa: S606 - no shell is wanted
    except Exception as error:  # noqa: BLE001 - a forked child must never run on into its parent's code
        os.write(failed, f"cannot run {argv[0] if argv else 'nothing'}: {error}".encode())
    os._exit(EXEC_FAILED)


def supervise(*, pid: int, record: dict[str, Any], run_dir: Path) -> None:
    """Reap until the last child has ended, note the API server's exit in the record, and keep the log bounded."""
    log = run_dir / "engine.log"
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        # A full disk costs the log's rotation or the exit status, never the parent of a running engine.
        with contextlib.suppress(OSError):
            if ended == pid:
                exited = {"exit_status": os.waitstatus_to_exitcode(status), "exited_at": time.time()}
                write_private(run_dir / "run.json", json.dumps(record | exited))
            if ended == 0:
                signal.sigtimedwait([signal.SIGCHLD], POLL_SECONDS)
                rotate(log)


def claim(run_dir: Path) -> bool:
    """Take this replica for good: false when another shim holds it, or has launched it before.

    The lock says that somebody is at it, and the record that it was done; both are looked at under the lock, so two
    launches can't both go on, and a shim that died before its record leaves the way free.
    """
    descriptor = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # The descriptor stays open, and so the lock held, for as long as this process lives; the engine doesn't inherit it.
    return not (run_dir / "run.json").exists()


def run(order: dict[str, Any], *, answer: Any) -> None:
    """Launch the engine that `order` describes, answer the launcher, and stay until its last process has ended."""
    run_dir = Path(order["run_dir"])
    if not claim(run_dir):
        answer({"outcome": "already"})
        return
    write_private(run_dir / "config.yaml", order["config_yaml"])
    engine = _EngineProcess(argv=order["argv"], env=order["env"], run_dir=run_dir)
    shim_pid = os.getpid()
    record = {
        "replica_id": order["replica_id"],
        "generation": order["generation"],
        "marker": order["marker"],
        "port": order["port"],
        "argv_sha256": argv_sha256(order["argv"]),
        "pid": engine.pid,
        "start_ticks": start_ticks(engine.pid),
        "shim_pid": shim_pid,
        "shim_start_ticks": start_ticks(shim_pid),
        "pgid": os.getpgid(0),
        "sid": os.getsid(0),
        "boot_id": boot_id(),
        "started_at": time.time(),
    }
    write_private(run_dir / "run.json", json.dumps(record))
    problem = engine.release()
    answer({"outcome": "failed", "message": problem} if problem else {"outcome": "launched"})
    supervise(pid=engine.pid, record=record, run_dir=run_dir)


def _detach() -> None:
    """Become a process of our own: not the launcher's child, in a new session, deaf to polite signals, reaping all."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")


def _answer(message: dict[str, Any]) -> None:
    """Tell the launcher, who may be dead by now, and let go of its pipes."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)


def main() -> None:
    """Read the order; a launcher that died while writing it leaves text that is no JSON, and nothing is started."""
    order = json.loads(sys.stdin.buffer.read())
    _detach()
    run(order, answer=_answer)


if __name__ == "__main__":
    main()
