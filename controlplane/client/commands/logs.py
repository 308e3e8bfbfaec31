"""`forebay logs`: shows the end of engines' logs, and follows them."""

import time
from typing import Annotated, Any

import typer

from controlplane.client.api import Client
from controlplane.client.lookups import replicas_of
from controlplane.client.output import AsJson, connected, note, say_json, write

POLL_SECONDS = 1.0
TAIL_BYTES = 16 * 1024
MOST_UNFINISHED = 64 * 1024


def logs(
    name: Annotated[str, typer.Argument(help="Name of a profile, or id of a replica.")],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the engines have ended.")] = False,
    tail: Annotated[int, typer.Option(min=4, max=262144, help="Bytes of the end to begin with.")] = TAIL_BYTES,
    as_json: AsJson = False,
) -> None:
    """Show the engines' logs."""
    with connected(as_json=as_json) as client:
        replicas = replicas_of(client, name)
        readers = [Follower(client, row, prefixed=len(replicas) > 1, as_json=as_json) for row in replicas]
        for reader in readers:
            reader.start(tail)
        while follow and any(not reader.ended for reader in readers):
            if not any([reader.step() for reader in readers]):
                time.sleep(POLL_SECONDS)
        for reader in readers:
            reader.finish()


class Follower:
    """Follows one replica's log by byte offset and writes what is new, whole lines at a time."""

    def __init__(self, client: Client, replica: Any, *, prefixed: bool, as_json: bool) -> None:
        self.ended = False
        self._client = client
        self._path = f"replicas/{replica['id']}/log/"
        self._id = replica["id"]
        self._prefix = f"#{replica['slot']} {str(replica['id'])[:8]} | " if prefixed else ""
        self._as_json = as_json
        self._offset = 0
        self._unfinished = ""

    def start(self, tail: int) -> None:
        """Write the end of the log."""
        self._take(self._client.get(self._path, {"tail": tail}))

    def step(self) -> bool:
        """Write what is new; whether there was anything."""
        return False if self.ended else self._take(self._client.get(self._path, {"offset": self._offset}))

    def finish(self) -> None:
        """Write what came after the last newline."""
        if self._unfinished:
            self._write(self._unfinished + "\n")
            self._unfinished = ""

    def _take(self, piece: Any) -> bool:
        if piece["rotated"]:
            self.finish()
            note(f"The log of {self._id} became shorter; this is its start.")
        self._offset, self.ended = piece["next_offset"], piece["ended"]
        lines, newline, rest = (self._unfinished + piece["text"]).rpartition("\n")
        # A line without an end must not grow for ever in memory.
        if len(rest) > MOST_UNFINISHED:
            lines, newline, rest = lines + newline + rest, "\n", ""
        self._unfinished = rest
        if newline:
            self._write(lines + newline)
        return bool(piece["text"])

    def _write(self, text: str) -> None:
        if self._as_json:
            for line in text.splitlines():
                say_json({"replica": self._id, "line": line}, indent=None)
            return
        write("".join(f"{self._prefix}{line}\n" for line in text.split("\n")[:-1]) if self._prefix else text)
