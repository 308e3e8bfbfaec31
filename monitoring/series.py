"""A profile over time as the charts take it: steps, values, gaps. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

type Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One profile over time: `times` are step starts in epoch seconds; `gaps` are spans without data.

    Every list of `values` is as long as `times`; a step that was not measured is None. `marks` are the
    moments at which a revision was first seen.
    """

    step: int
    times: Sequence[float]
    values: Mapping[str, Values]
    gaps: Sequence[tuple[float, float]] = ()
    marks: Sequence[tuple[float, str]] = ()


def gaps_of(times: Sequence[float], known: Sequence[bool], *, step: int) -> list[tuple[float, float]]:
    """Return the spans (start, end) of steps in which nothing was measured."""
    gaps: list[tuple[float, float]] = []
    for start, is_known in zip(times, known, strict=True):
        if is_known:
            continue
        if gaps and gaps[-1][1] == start:
            gaps[-1] = (gaps[-1][0], start + step)
        else:
            gaps.append((start, start + step))
    return gaps


CURRENT_SECONDS = 60


def current(values: Values, *, step: int) -> float | None:
    """Return the newest value of the last minute (at least two steps: the newest may still fill), or None.

    An older value is no longer what is: it stays in the chart and is not repeated as the value now.
    """
    recent = values[-max(2, CURRENT_SECONDS // step) :]
    return next((value for value in reversed(recent) if value is not None), None)
