"""How exact and how fast the percentile sketches are, beside sorting raw samples and averaging percentiles."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from sys import path

import numpy as np

path.insert(0, str(Path(__file__).resolve().parent.parent))

from monitoring.quantiles import Sketch, encode, sketch_of

PARTS = 60
WANTED = (0.5, 0.95, 0.99, 0.999)
ROUNDS = 3


def seconds_of(work: Callable[[], object]) -> float:
    """Return the median time of a few runs, in seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return sorted(times)[ROUNDS // 2]


def merged(parts: list[Sketch]) -> Sketch:
    """Return the sum of the parts."""
    total = Sketch()
    for part in parts:
        total.merge(part)
    return total


def worst_errors(seed: int, samples: int) -> dict[str, list[float]]:
    """Return relative errors in percent for each quantile: of merged sketches, and of averaged percentiles."""
    rng = np.random.default_rng(seed)
    raw = np.concatenate([rng.lognormal(-1.5, 0.6, samples - samples // 50), rng.lognormal(1.0, 0.5, samples // 50)])
    rng.shuffle(raw)
    pieces = np.array_split(raw, PARTS)
    total = merged([sketch_of(piece.tolist()) for piece in pieces])
    exact = [float(np.quantile(raw, q, method="inverted_cdf")) for q in WANTED]
    averaged = [float(np.mean([np.quantile(piece, q, method="inverted_cdf") for piece in pieces])) for q in WANTED]
    shown = [value or 0.0 for value in total.quantiles(WANTED)]
    return {
        "sketch": [abs(got / true - 1) * 100 for got, true in zip(shown, exact, strict=True)],
        "averaged": [abs(got / true - 1) * 100 for got, true in zip(averaged, exact, strict=True)],
    }


def print_errors(samples: int) -> None:
    """Print the worst error over five seeds."""
    runs = [worst_errors(seed, samples) for seed in range(5)]
    print(f"{samples:,} latencies with a slow tail of 2 %, {PARTS} parts merged; worst of 5 seeds, relative error")
    print(f"{'method':<28}{'P50':>9}{'P95':>9}{'P99':>9}{'P99.9':>9}")
    for name, label in (("sketch", "merged sketches (ours)"), ("averaged", "averaged percentiles")):
        worst = [max(run[name][i] for run in runs) for i in range(len(WANTED))]
        print(f"{label:<28}" + "".join(f"{value:>8.2f}%" for value in worst))


def print_costs(samples: int) -> None:
    """Print times beside keeping and sorting every raw sample."""
    raw = np.random.default_rng(1).lognormal(-1.5, 0.8, samples)
    values = raw.tolist()
    parts = [sketch_of(piece.tolist()) for piece in np.array_split(raw, PARTS)]
    add = seconds_of(lambda: sketch_of(values)) / samples
    merge = seconds_of(lambda: merged(parts))
    read = seconds_of(lambda: merged(parts).quantiles(WANTED))
    sort = seconds_of(lambda: np.quantile(raw, WANTED, method="inverted_cdf"))
    size = len(json.dumps(encode(merged(parts)), separators=(",", ":")))
    print()
    print(f"{'cost':<40}{'value':>14}{'ratio':>22}")
    print(f"{'add one sample':<40}{add * 1e9:>11.0f} ns")
    print(f"{f'merge {PARTS} parts':<40}{merge * 1e6:>11.0f} us")
    print(f"{'merge and read four percentiles':<40}{read * 1e6:>11.0f} us{sort / read:>13.1f}x raw sort")
    print(f"{'stored bytes':<40}{size:>11,} B {samples * 8 / size:>13.0f}x raw floats")


def main() -> None:
    """Print both tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=200_000)
    samples = arguments.parse_args().samples
    print_errors(samples)
    print_costs(samples)


if __name__ == "__main__":
    main()
