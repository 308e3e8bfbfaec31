"""Numbers as people read them: bytes, seconds, shares and money to text. Pure; a missing value is a dash word."""

from datetime import datetime

UNKNOWN = "unknown"
GIB = 1024**3
MIB = 1024**2
MINUTE = 60
HOUR = 3600
DAY = 86400
THIN = "\u202f"


def three_figures(value: float) -> str:
    """``value`` with three significant digits and no exponent: 8.71, 44.2, 612."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def memory(value: float | None) -> str:
    """Bytes as GiB, or MiB below a tenth of one."""
    if value is None:
        return UNKNOWN
    if abs(value) < GIB / 10:
        return f"{value / MIB:,.0f} MiB"
    return f"{three_figures(value / GIB)} GiB"


def latency(value: float | None) -> str:
    """Seconds as ms below one second, then with two decimals."""
    if value is None:
        return "not measured"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def percent(value: float | None) -> str:
    """A share of 0 to 1 as whole percent."""
    return UNKNOWN if value is None else f"{value * 100:.0f}{THIN}%"


def duration(value: float | None) -> str:
    """Seconds as the two largest units: 6 min 42 s."""
    if value is None:
        return UNKNOWN
    seconds = max(0, round(value))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min {seconds % MINUTE:02d} s"
    if seconds < DAY:
        return f"{seconds // HOUR} h {seconds % HOUR // MINUTE:02d} min"
    return f"{seconds // DAY} d {seconds % DAY // HOUR} h"


def clock(value: datetime, *, now: datetime) -> str:
    """Time of today as 14:25:08, of another day as 11 Nov 14:25."""
    return f"{value:%H:%M:%S}" if value.date() == now.date() else f"{value.day} {value:%b %H:%M}"
