"""Writes numbers as the pages show them: units beside, three figures for live values, words for none."""

import math
from datetime import UTC, datetime

NO_DATA = "no data"


def time_of(at: float) -> datetime:
    """Return epoch seconds as a UTC time."""
    return datetime.fromtimestamp(at, tz=UTC)


def clock(at: float) -> str:
    """Return the time of day in UTC, `14:25:08`."""
    return time_of(at).strftime("%H:%M:%S")


def _three(value: float) -> str:
    """Return a number with three significant figures and no exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def span(seconds: float | None) -> str:
    """Return a duration: ms below a second, s below a minute, then `6 min 42 s`."""
    if seconds is None:
        return NO_DATA
    if seconds < 0.9995:
        return f"{_three(seconds * 1000)} ms"
    if seconds < 60:
        return f"{_three(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def number(value: float | None) -> str:
    """Return a live figure with three significant figures: `8.71 k`."""
    if value is None:
        return NO_DATA
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{_three(value / limit)}{suffix}"
    return _three(value)


def count(value: float | None) -> str:
    """Return a whole number with separators."""
    return NO_DATA if value is None else f"{round(value):,}"


def share(value: float | None) -> str:
    """Return a ratio of 0 to 1 in percent: `58 %`."""
    return NO_DATA if value is None else f"{_three(value * 100)} %"


def money(value: float | None) -> str:
    """Return US dollars: three significant figures below a dollar, cents above."""
    if value is None:
        return NO_DATA
    return f"${value:,.2f}" if value >= 1 else f"${_three(value)}"
