"""`python -m controlplane.engine`: makes the engine install and the demo weights, with progress on the console."""

import argparse
import sys
import time
from pathlib import Path

from controlplane.engine.findings import SetupError
from controlplane.engine.install import ensure_engine
from controlplane.engine.weights import ensure_demo_weights

QUIET_SECONDS = 5.0


class ConsoleProgress:
    """A line when the step changes, and then at most one each five seconds."""

    def __init__(self) -> None:
        self._step = ""
        self._at = 0.0

    def __call__(self, step: str, detail: str, fraction: float | None) -> None:
        """Show one report, unless one of the same step was shown just now."""
        now = time.monotonic()
        if step == self._step and now - self._at < QUIET_SECONDS and fraction != 1.0:
            return
        self._step, self._at = step, now
        share = "" if fraction is None else f" {fraction:4.0%}"
        sys.stdout.write(f"{step}{share}  {detail}\n")
        sys.stdout.flush()


def main() -> int:
    """Make what is missing; exit code 1 with the finding and its fix when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m controlplane.engine")
    parser.add_argument("--engine-home", type=Path, required=True)
    parser.add_argument("--models", type=Path)
    options = parser.parse_args()
    progress = ConsoleProgress()
    try:
        engine = ensure_engine(engine_home=options.engine_home.absolute(), report=progress)
        if options.models is not None:
            ensure_demo_weights(models_dir=options.models.absolute(), engine=engine, report=progress)
    except SetupError as error:
        sys.stderr.write(f"{error}\n{error.finding.fix}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
