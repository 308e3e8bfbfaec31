"""Runs a child process to its end: its output at once, or line by line. The one door to `subprocess` here."""

import os
import selectors
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICK_SECONDS = 2.0
TAIL_LINES = 60

Argv = Sequence[str | Path]


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code and the last lines of its output."""

    code: int
    tail: tuple[str, ...]

    @property
    def error(self) -> str:
        """The most telling line: the last `ERROR:` line, else the last line."""
        lines = [line for line in self.tail if line.startswith("ERROR:")] or list(self.tail)
        return lines[-1].strip() if lines else f"exit code {self.code}"


def capture(argv: Argv, *, env: Mapping[str, str] | None = None, timeout: float = 60.0) -> Ended:
    """Run a short child; one that cannot be started or takes too long ends with code 127."""
    try:
        # Only argument lists of our own, never a shell.
        done = subprocess.run(  # noqa: S603 -- see above
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Ended(127, (str(error),))
    text = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    return Ended(done.returncode, tuple(text.splitlines()))


def follow(
    argv: Argv,
    *,
    on_line: Callable[[str | None], None] | None = None,
    env: Mapping[str, str] | None = None,
    drop: Callable[[str], bool] | None = None,
) -> Ended:
    """Run a long child; `on_line` gets each line not picked by `drop`, and None every two seconds of silence.

    The child stays in our process group, so that who ends us ends it too.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with subprocess.Popen(  # noqa: S603 -- an argument list of our own, never a shell
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
    ) as child:
        for line in _lines(child.stdout.fileno() if child.stdout else -1):
            if line is not None and drop is not None and drop(line):
                continue
            if line is not None:
                tail.append(line)
            if on_line is not None:
                on_line(line)
    return Ended(child.returncode, tuple(tail))


def _lines(descriptor: int) -> Iterator[str | None]:
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(TICK_SECONDS):
                yield None
                continue
            chunk = os.read(descriptor, 65536)
            *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
            if not chunk:
                if rest:
                    yield rest.decode(errors="replace")
                return
