"""Reads an engine's log from its file, as much of its end as is bounded to be read."""

from pathlib import Path

LOG_TAIL_BYTES = 1024 * 1024


def read_tail(path: Path, *, max_bytes: int = LOG_TAIL_BYTES) -> str:
    """The end of a log, from the start of a line; empty when there is no log yet."""
    reader = LogReader(path, max_bytes=max_bytes)
    reader.poll()
    return reader.text + reader.unfinished


class LogReader:
    """Follows a growing log: each `poll` returns the complete lines since the last one, and `text` keeps the end.

    A poll reads at most `max_bytes`: what is older, at the first poll of a long log or after a burst, is skipped up to
    the start of a line. A log that has become shorter was rotated, and is read from its start. `unfinished` is what
    came after the last newline.
    """

    def __init__(self, path: Path, *, max_bytes: int = LOG_TAIL_BYTES) -> None:
        self.text = ""
        self.unfinished = ""
        self._path = path
        self._max_bytes = max_bytes
        self._offset = 0

    def poll(self) -> str:
        """New complete lines; empty when there are none, or no log yet."""
        try:
            data = self._read_on()
        except FileNotFoundError:
            return ""
        complete, newline, rest = data.rpartition(b"\n")
        self._offset -= len(rest)
        self.unfinished = rest.decode("utf-8", "replace")
        fresh = (complete + newline).decode("utf-8", "replace")
        self.text = (self.text + fresh)[-self._max_bytes :]
        return fresh

    def _read_on(self) -> bytes:
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            if size < self._offset:
                self._offset = 0
            skips = size - self._offset > self._max_bytes
            file.seek(size - self._max_bytes if skips else self._offset)
            data = file.read(self._max_bytes)
            self._offset = file.tell()
        return data.partition(b"\n")[2] if skips else data
