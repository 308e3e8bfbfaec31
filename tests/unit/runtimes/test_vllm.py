"""A server is ready only when it proves to be our engine, and an engine program tells its own options."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from profiles_app.runtimes.vllm import (
    FlagsUnreadable,
    KnownFlags,
    ProbeResult,
    interpreter_of,
    probe,
    read_engine_version,
    read_known_flags,
)

FAKE_ENGINE = Path(__file__).parents[2] / "fakes" / "fake_engine.py"
TOKEN = json.dumps({"usage": {"completion_tokens": 1}})
MODELS = json.dumps({"data": [{"id": "fast"}, {"id": "replica-1"}]})


class Server(ThreadingHTTPServer):
    """Answers each path with what a test put there, and remembers the headers it saw."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = {"/health": (200, ""), "/v1/models": (200, MODELS), "/v1/completions": (200, TOKEN)}
        self.seen: list[tuple[str, str | None, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization"), self.headers.get("X-Request-Id")))
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = self.server.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(port: int, *, want_token: bool = True) -> ProbeResult:
    return probe(
        base_url=f"http://127.0.0.1:{port}",
        api_key="sesame",
        served_name="fast",
        identity_name="replica-1",
        want_token=want_token,
        timeout=5.0,
    )


def test_an_engine_that_lives_and_lists_us_and_generates_is_ready(server: Server) -> None:
    found = ask(server.server_port)
    assert (found.health, found.identity, found.token, found.ready) == (True, True, True, True)
    assert [path for path, _, _ in server.seen] == ["/health", "/v1/models", "/v1/completions"]
    assert {key for _, key, _ in server.seen} == {"Bearer sesame"}
    assert all(request_id and request_id.startswith("forebay-probe-") for _, _, request_id in server.seen)


def test_a_probe_without_a_token_does_not_bother_the_engine_with_one(server: Server) -> None:
    found = ask(server.server_port, want_token=False)
    assert (found.token, found.ready) == (None, True)
    assert [path for path, _, _ in server.seen] == ["/health", "/v1/models"]


def test_a_port_that_nobody_listens_on_is_not_healthy(server: Server) -> None:
    port = server.server_port
    server.socket.close()
    found = ask(port)
    assert (found.health, found.identity, found.token, found.ready) == (False, None, None, False)
    assert "can't be reached" in found.detail


def test_a_dead_engine_says_503(server: Server) -> None:
    server.answers["/health"] = (503, "")
    found = ask(server.server_port)
    assert not found.health
    assert found.detail == "/health answered 503"


@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [
        (200, json.dumps({"data": [{"id": "fast"}]}), "doesn't serve replica-1"),
        (401, '{"error":"Unauthorized"}', "401"),
        (200, "no json", "no list of models"),
        (200, '{"data": 3}', "no list of models"),
        (200, "[]", "no list of models"),
    ],
)
def test_a_server_that_does_not_list_this_replica_is_another(
    server: Server, status: int, body: str, detail: str
) -> None:
    server.answers["/v1/models"] = (status, body)
    found = ask(server.server_port)
    assert (found.health, found.identity, found.token, found.ready) == (True, False, None, False)
    assert detail in found.detail


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, "{}"), (200, "{}"), (200, '{"usage": {"completion_tokens": 0}}'), (200, "null")],
)
def test_an_engine_that_generates_nothing_is_not_ready(server: Server, status: int, body: str) -> None:
    server.answers["/v1/completions"] = (status, body)
    found = ask(server.server_port)
    assert (found.identity, found.token, found.ready) == (True, False, False)
    assert "token" in found.detail


def test_the_interpreter_is_the_program_itself_when_it_is_python() -> None:
    assert interpreter_of([sys.executable, "-m", "vllm"]) == sys.executable


@pytest.mark.parametrize(
    ("first_line", "neighbour", "found"),
    [
        ("#!/opt/engine/bin/python3.11\n", False, "/opt/engine/bin/python3.11"),
        ("#!/bin/sh\n", True, "python"),
        ("#!/bin/sh\n", False, None),
        ("\x7fELF", False, None),
    ],
)
def test_the_interpreter_of_a_script_is_named_in_it_or_beside_it(
    tmp_path: Path, first_line: str, neighbour: bool, found: str | None
) -> None:
    script = tmp_path / "vllm"
    script.write_text(first_line, encoding="utf-8")
    if neighbour:
        (tmp_path / "python").touch()
    expected = str(tmp_path / found) if found == "python" else found
    assert interpreter_of([str(script)]) == expected


def test_a_program_that_is_not_there_has_no_interpreter() -> None:
    assert interpreter_of(["/nowhere/vllm"]) is None
    assert isinstance(read_known_flags(["/nowhere/vllm"], env={}), FlagsUnreadable)


STAND_IN = """
import argparse
print("noise on import")
__version__ = "9.9.9"
def make_arg_parser(parser):
    parser.add_argument("--dtype", choices=["auto", "half"], default="auto")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--odd", default=object)
    return parser
"""


def test_an_engine_of_an_older_layout_tells_its_options(tmp_path: Path) -> None:
    for name in ("vllm", "vllm/utils", "vllm/entrypoints", "vllm/entrypoints/openai"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "vllm/utils/__init__.py").write_text(
        "import argparse\nFlexibleArgumentParser = argparse.ArgumentParser\n", encoding="utf-8"
    )
    (tmp_path / "vllm/entrypoints/openai/cli_args.py").write_text(STAND_IN, encoding="utf-8")
    known = read_known_flags([sys.executable], env={"PYTHONPATH": str(tmp_path)})
    assert isinstance(known, KnownFlags), known
    assert known.version == "9.9.9"
    by_name = {flag.dest: flag for flag in known.flags}
    assert by_name["dtype"].choices == ("auto", "half")
    assert (by_name["port"].flags, by_name["port"].default, by_name["port"].type) == (("--port",), 8000, "int")
    assert by_name["odd"].default == "<class 'object'>"


def test_an_environment_without_the_engine_says_so() -> None:
    found = read_known_flags([sys.executable], env={})
    assert isinstance(found, FlagsUnreadable)
    assert "No module named 'vllm'" in found.message


def program(tmp_path: Path, body: str) -> str:
    script = tmp_path / "python-engine"
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o700)
    return str(script)


def test_an_interpreter_that_answers_something_else_gives_no_options(tmp_path: Path) -> None:
    found = read_known_flags([program(tmp_path, "echo hello")], env={})
    assert isinstance(found, FlagsUnreadable)
    assert "no list of options" in found.message


def test_an_interpreter_that_hangs_is_given_up(tmp_path: Path) -> None:
    found = read_known_flags([program(tmp_path, "exec sleep 30")], env=dict(os.environ), timeout=0.2)
    assert isinstance(found, FlagsUnreadable)
    assert "did not answer" in found.message


def test_the_version_is_what_the_program_prints(tmp_path: Path) -> None:
    assert read_engine_version([sys.executable, str(FAKE_ENGINE)], env={}) == "0.32.0"
    assert read_engine_version([program(tmp_path, "echo noise; echo 0.32.0+cpu")], env={}) == "0.32.0+cpu"


@pytest.mark.parametrize(
    ("body", "words"), [("echo none", "printed no version"), ("echo broken >&2; exit 3", "status 3: broken")]
)
def test_a_program_that_tells_no_version_says_why(tmp_path: Path, body: str, words: str) -> None:
    found = read_engine_version([program(tmp_path, body)], env={})
    assert isinstance(found, FlagsUnreadable)
    assert words in found.message


def test_a_program_that_can_not_be_run_tells_no_version() -> None:
    found = read_engine_version(["/nowhere/vllm"], env={})
    assert isinstance(found, FlagsUnreadable)
    assert "No such file" in found.message
