"""Reads an engine's log in bounded pieces, for clients that follow it by byte offset."""

from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 256 * 1024
DOWNLOAD_BYTES = 16 * 1024 * 1024
CONTINUATION = 0b10
LONGEST_SIGN = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a log. Offsets and size in bytes; ``rotated``: the log became shorter, so it is read from its start."""

    offset: int
    next_offset: int
    size: int
    text: str
    rotated: bool


def piece_at(path: Path, *, offset: int, limit: int) -> Piece:
    """At most ``limit`` bytes from ``offset``, not cut inside a sign. A log that does not exist yet is empty."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            rotated = offset > size
            start = 0 if rotated else offset
            file.seek(start)
            data = file.read(limit)
    except FileNotFoundError:
        return Piece(offset=0, next_offset=0, size=0, text="", rotated=offset > 0)
    # A sign that is alone and not whole is all that will ever come of a log that ends in it.
    data = data[: len(data) - _cut_bytes(data)] or data
    text = data.decode("utf-8", "replace")
    return Piece(
        offset=start, next_offset=start + len(data), size=max(size, start + len(data)), text=text, rotated=rotated
    )


def piece_tail(path: Path, *, tail: int) -> Piece:
    """The last ``tail`` bytes, from the start of a line."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return piece_at(path, offset=0, limit=tail)
    start = max(0, size - tail)
    piece = piece_at(path, offset=start, limit=tail)
    if start == 0:
        return piece
    with path.open("rb") as file:
        file.seek(start)
        skipped = len(file.readline())
    return piece_at(path, offset=start + skipped, limit=max(1, tail - skipped)) if skipped < tail else piece


def end_of(path: Path, *, most_bytes: int = DOWNLOAD_BYTES) -> tuple[bytes, int]:
    """The last ``most_bytes`` of the log, and how many bytes before them are left out."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - most_bytes)
            file.seek(start)
            return file.read(most_bytes), start
    except FileNotFoundError:
        return b"", 0


def _cut_bytes(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 sign that is not whole."""
    for back in range(1, min(LONGEST_SIGN, len(data)) + 1):
        byte = data[-back]
        if byte >> 6 == CONTINUATION:
            continue
        needed = 1 if byte < 0x80 else 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4
        return back if needed > back else 0
    return 0
