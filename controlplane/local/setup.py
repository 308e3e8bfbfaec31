"""The long steps of a first start, run as a module beside the dashboard: engine, demo weights, their rows."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from controlplane.engine.adopt import adopt_engine
from controlplane.engine.child import capture
from controlplane.engine.findings import Finding, SetupError
from controlplane.engine.install import ensure_engine
from controlplane.engine.spec import EngineSpec
from controlplane.engine.weights import ensure_demo_weights
from controlplane.local.console import FOLLOW_PERIOD_SECONDS, SetupFollower, say
from controlplane.local.options import Setup, UpOptions, django_argv, resolve
from controlplane.local.setup_log import SetupLog

STEPS = (
    ("engine", "Install the engine"),
    ("register", "Register the engine on this node"),
    ("weights", "Make the demo model"),
    ("seed", "Create the demo profiles"),
)
COMMAND_SECONDS = 120.0


def run(setup: Setup) -> int:
    """Do every step that is not done; 0 when all are. The first one that fails ends it, with its finding on record."""
    setup.paths.make()
    log = SetupLog(setup.paths.setup, STEPS if setup.demo else STEPS[:2])
    try:
        engine = _step(log, "engine", lambda: _engine(setup, log), name=lambda made: f"{made.name}, {made.python}")
        _step(log, "register", lambda: _command("register_engine", "--file", str(engine.marker)))
        if setup.demo:
            made = _step(log, "weights", lambda: _weights(setup, engine, log), name=str)
            _step(log, "seed", lambda: _command("seed_demo", "--model-path", str(made)))
    except SetupError as error:
        sys.stderr.write(f"{error}\n{error.finding.fix}\n")
        return 1
    return 0


def run_here(setup: Setup) -> int:
    """Like `run`, for a person at a terminal: with our environment for the commands, and its steps on the console."""
    os.environ.update(setup.environment())
    follower = SetupFollower(setup.paths.setup)
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(FOLLOW_PERIOD_SECONDS):
            for line in follower.news(time.monotonic()):
                say(line)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    code = run(setup)
    ended.set()
    thread.join()
    for line in follower.news(time.monotonic()):
        say(line)
    return code


def _step[T](log: SetupLog, step: str, act: Callable[[], T], *, name: Callable[[T], str] = lambda made: "") -> T:
    log.start(step)
    try:
        made = act()
    except SetupError as error:
        log.failed(step, error.finding)
        raise
    except OSError as error:
        finding = _failed(f"{dict(STEPS)[step]}: {error}")
        log.failed(step, finding)
        raise SetupError(finding) from error
    log.done(step, name(made))
    return made


def _engine(setup: Setup, log: SetupLog) -> EngineSpec:
    if setup.engine_python is not None:
        return adopt_engine(python=setup.engine_python, engine_home=setup.engine_home)
    return ensure_engine(engine_home=setup.engine_home, report=log.report)


def _weights(setup: Setup, engine: EngineSpec, log: SetupLog) -> Path:
    return ensure_demo_weights(models_dir=setup.models_dir, engine=engine, report=log.report)


def _command(*words: str) -> None:
    done = capture(django_argv(*words), timeout=COMMAND_SECONDS)
    sys.stdout.write("".join(f"{line}\n" for line in done.tail))
    if done.code != 0:
        raise SetupError(_failed(f"{words[0]}: {done.error}"))


def _failed(detail: str) -> Finding:
    return Finding(
        id="FB016",
        level="error",
        title="A set-up step failed",
        detail=detail,
        fix="Look into logs/setup.log, then run `forebay setup` again.",
    )


def main() -> int:
    """The module's command line."""
    parser = argparse.ArgumentParser(prog="python -m controlplane.local.setup")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--no-demo", action="store_true")
    parser.add_argument("--engine-python", type=Path)
    given = parser.parse_args()
    return run(resolve(UpOptions(data_dir=given.data_dir, demo=not given.no_demo, engine_python=given.engine_python)))


if __name__ == "__main__":
    sys.exit(main())
