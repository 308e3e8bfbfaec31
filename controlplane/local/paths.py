"""Where everything lies in a data directory, and how it is made so that only its owner reads it."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_LIMIT = 100
"""Bytes. The kernel takes 107; what opens the socket adds to it."""

FOLDERS = ("run", "logs", "replicas", "engines", "models", "spool")


@dataclass(frozen=True)
class DataPaths:
    """The layout below one data directory."""

    root: Path

    @property
    def run(self) -> Path:
        """Sockets, records and locks of what runs now."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """Held by the one `forebay up` of this directory; its text is that process's identity."""
        return self.run / "up.pid"

    @property
    def status(self) -> Path:
        """What the supervisor sees; replaced whole at each change."""
        return self.run / "status.json"

    @property
    def setup(self) -> Path:
        """How far the set-up steps are."""
        return self.run / "setup.json"

    @property
    def valkey_dir(self) -> Path:
        """Where the embedded Valkey keeps its append-only file."""
        return self.run / "valkey"

    @property
    def socket(self) -> Path:
        """The socket of the embedded Valkey: in `run`, or in a short folder of ours where that path is too long."""
        usual = self.run / "valkey.sock"
        if len(os.fsencode(usual)) < SOCKET_PATH_LIMIT:
            return usual
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:10]
        return Path(tempfile.gettempdir()) / f"forebay-{os.getuid()}-{digest}" / "valkey.sock"

    def make(self) -> None:
        """Make the folders, closed to others. Raises PermissionError when one belongs to someone else."""
        for folder in (self.root, *(self.root / name for name in FOLDERS), self.valkey_dir, self.socket.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.root, self.run, self.socket.parent):
            if folder.stat().st_uid != os.getuid():
                raise PermissionError(f"{folder} belongs to another user.")
            folder.chmod(0o700)
