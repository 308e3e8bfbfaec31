"""A server on the loopback that answers as it is told, and the command line pointed at it."""

import json
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from controlplane.cli import app


class Stub:
    """Answers of the server: for each "METHOD path", what to send next; the last answer repeats."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._answers: dict[str, deque[tuple[int, bytes]]] = {}

    def answer(self, route: str, *bodies: Any, status: int = 200) -> None:
        """Answer ``route`` with each of the bodies in turn."""
        row = self._answers.setdefault(route, deque())
        for body in bodies:
            row.append((status, body if isinstance(body, bytes) else json.dumps(body).encode()))

    def next(self, route: str) -> tuple[int, bytes]:
        """The next answer to the route."""
        row = self._answers.get(route)
        if not row:
            return 404, json.dumps({"error": {"code": "not_found", "message": f"{route} is not there."}}).encode()
        return row.popleft() if len(row) > 1 else row[0]


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A running server."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/api/v1")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.requests.append((self.command, self.path, dict(self.headers), body))
            status, answer = made.next(f"{self.command} {path}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Stub(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


class Cli:
    """Runs `forebay` in this process."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self._env = {"XDG_CONFIG_HOME": str(home), "FOREBAY_URL": url, "FOREBAY_TOKEN": "t0ken", "COLUMNS": "200"}

    def __call__(self, *args: str, text: str | None = None, **env: str | None) -> Result:
        """Run the command with these arguments; ``env`` changes its environment."""
        return CliRunner().invoke(app, args, input=text, env={**self._env, **env})


@pytest.fixture
def cli(stub: Stub, tmp_path: Path) -> Cli:
    """The command line, pointed at the stub."""
    return Cli(tmp_path, stub.url)
