"""How a state is drawn: its glyph, its colour and its word. Any one of the three is enough to read it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A state's three signals. ``glyph`` is the sprite's id without its prefix; ``tone`` is a colour class."""

    glyph: str
    tone: str
    word: str


MARKS: dict[str, Mark] = {
    "ready": Mark("ready", "ok", "Ready"),
    "starting": Mark("progress", "acc", "Starting"),
    "draining": Mark("drain", "acc", "Draining"),
    "pending": Mark("queued", "idle", "Queued"),
    "queued": Mark("queued", "idle", "Queued"),
    "not_ready": Mark("warn", "warn", "Not ready"),
    "degraded": Mark("warn", "warn", "Degraded"),
    "stopped": Mark("stopped", "idle", "Stopped"),
    "failed": Mark("bad", "bad", "Failed"),
    "unknown": Mark("unknown", "idle", "Unknown"),
    "none": Mark("stopped", "idle", "Not deployed"),
    "unreachable": Mark("unknown", "idle", "Unreachable"),
    "cordoned": Mark("stopped", "idle", "Cordoned"),
    "running": Mark("ready", "ok", "Running"),
    "exited": Mark("bad", "bad", "Exited"),
    "waiting": Mark("queued", "idle", "Waiting"),
    "backing off": Mark("bad", "bad", "Backing off"),
    "stopping": Mark("drain", "acc", "Stopping"),
    "dead": Mark("bad", "bad", "Dead"),
    "done": Mark("done", "ok", "Done"),
    "active": Mark("ready", "ok", "Active"),
    "revoked": Mark("stopped", "idle", "Revoked"),
    "expired": Mark("warn", "warn", "Expired"),
    "error": Mark("bad", "bad", "Error"),
    "warning": Mark("warn", "warn", "Warning"),
    "info": Mark("queued", "idle", "Note"),
    "ok": Mark("ready", "ok", "Well"),
    "progress": Mark("progress", "acc", "In progress"),
    "bad": Mark("bad", "bad", "Problem"),
    "warn": Mark("warn", "warn", "Attention"),
}


def mark(state: str) -> Mark:
    """The mark of ``state``; a state that has none is shown as unknown, with its own word."""
    known = MARKS.get(str(state))
    return known or Mark("unknown", "idle", str(state).replace("_", " ").capitalize() or "Unknown")
