"""A program that takes the place of `vllm serve`: same arguments, same paths, same log lines, no model.

Its behaviour is set by the JSON file that FAKE_ENGINE_SCRIPT names (see `Script`), and for one request by words in
the prompt: `seconds=10` (how long to generate), `tokens=50` (how many), `HANG` (never end, unless the script says
`"hang": false`), `DIE` (crash the engine after the last token).
"""

import argparse
import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from fake_answers import Answer, Script

VERSION = "0.32.0"
KV_TOKENS = 262_144


@dataclass(slots=True)
class State:
    """What /metrics reports."""

    model_name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: int = 0
    generated: int = 0
    prompted: int = 0
    aborted: int = 0
    finished: int = 0
    dead: bool = False

    @contextlib.contextmanager
    def request(self, prompt_tokens: int) -> Iterator[None]:
        with self.lock:
            self.running += 1
            self.prompted += prompt_tokens
        try:
            yield
        finally:
            with self.lock:
                self.running -= 1

    def count(self, name: str) -> None:
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)


class ClientGone(Exception):
    """The client closed its connection while we were generating."""


def say(text: str, *, role: str = "APIServer", where: str = "fake.py:1", level: str = "INFO") -> None:
    """Print a line in vLLM's format."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    sys.stdout.write(f"({role} pid={os.getpid()}) {level} {stamp} [{where}] {text}\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    """The OpenAI-compatible paths of one engine."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Engine"

    def log_message(self, format: str, *args: Any) -> None:
        """The access log is switched off, as Forebay does with the real engine."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in {"/health", "/ping"}:
            self.reply(503 if self.server.state.dead else self.server.script.health_status, b"")
        elif path == "/version":
            self.reply_json(200, {"version": VERSION})
        elif path == "/metrics":
            self.reply(200, self.server.metrics().encode(), kind="text/plain; version=1.0.0; charset=utf-8")
        elif path == "/v1/models":
            if self.authorised():
                self.reply_json(200, self.server.models())
        else:
            self.reply_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path not in {"/v1/chat/completions", "/v1/completions"}:
            self.reply_json(404, {"detail": "Not Found"})
        elif self.authorised():
            self.generate(body)

    def authorised(self) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.reply_json(401, {"error": "Unauthorized"})
        return False

    def generate(self, body: bytes) -> None:
        try:
            request = json.loads(body)
        except ValueError:
            self.reply_error(400, "Bad Request", "BadRequestError")
            return
        model = request.get("model")
        if model not in self.server.names:
            self.reply_error(404, f"The model `{model}` does not exist.", "NotFoundError")
            return
        if self.server.script.no_token or self.server.state.dead:
            self.reply_error(500, "EngineCore encountered an issue.", "InternalServerError")
            return
        answer = Answer(
            self.server.script,
            request,
            model=self.server.names[0],
            chat="chat" in self.path,
            request_id=self.headers.get("X-Request-Id"),
        )
        try:
            with self.server.state.request(answer.prompt_tokens):
                self.stream(answer) if request.get("stream") else self.whole(answer)
            self.server.state.count("finished")
        except (ClientGone, ConnectionError):
            self.server.state.count("aborted")
            self.close_connection = True

    def whole(self, answer: Answer) -> None:
        text = "".join(self.pieces(answer))
        self.reply_json(200, answer.whole(text))

    def stream(self, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if answer.chat:
            self.event(answer.chunk({"role": "assistant", "content": ""}))
        for piece in self.pieces(answer):
            if self.server.state.dead:
                self.event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
                break
            self.event(answer.chunk({"content": piece} if answer.chat else piece))
        else:
            self.event(answer.chunk({} if answer.chat else "", finish=answer.finish))
            if answer.include_usage:
                self.event(answer.usage_chunk())
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def pieces(self, answer: Answer) -> Iterator[str]:
        """One token after the other, at the pace that script and prompt ask for."""
        for _ in range(answer.tokens):
            self.pause(answer.chunk_seconds)
            self.server.state.count("generated")
            yield self.server.script.text
        while answer.hang:
            self.pause(60)
        if answer.die:
            self.server.die()

    def pause(self, seconds: float) -> None:
        """Wait, but notice at once when the client goes, as the real engine does."""
        until = time.monotonic() + seconds
        while True:
            readable, _, _ = select.select([self.connection], [], [], max(0.0, until - time.monotonic()))
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ClientGone
            if time.monotonic() >= until:
                return
            if readable:
                time.sleep(0.01)

    def event(self, data: object) -> None:
        self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def reply_error(self, status: int, message: str, kind: str) -> None:
        self.reply_json(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def reply_json(self, status: int, data: object) -> None:
        self.reply(status, json.dumps(data).encode(), kind="application/json")

    def reply(self, status: int, data: bytes, *, kind: str = "text/plain") -> None:
        if self.server.script.stall:
            time.sleep(3600)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Engine(ThreadingHTTPServer):
    """The served engine: its names, its state and its way to die."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, options: dict[str, Any], script: Script) -> None:
        names = options.get("served-model-name") or [options.get("model", "fake")]
        self.names: list[str] = [names] if isinstance(names, str) else list(names)
        self.script = script
        self.state = State(self.names[0])
        self.max_model_len = int(options.get("max-model-len") or 2048)
        self.root = str(options.get("model", "fake"))
        address = (str(options.get("host", "127.0.0.1")), int(options.get("port", 8000)))
        super().__init__(address, Handler, bind_and_activate=False)
        self.server_bind()

    def server_bind(self) -> None:
        """Bind early, as the real engine does, and without the name look-up of HTTPServer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the client's business."""

    def models(self) -> dict[str, Any]:
        names = ["somebody-else"] if self.script.bad_identity else self.names
        cards = [
            {"id": name, "object": "model", "owned_by": "vllm", "root": self.root, "max_model_len": self.max_model_len}
            for name in names
        ]
        return {"object": "list", "data": cards}

    def die(self) -> None:
        """What a crash of the engine core looks like from outside: 503, an error in each stream, exit 0 soon."""
        self.state.dead = True
        say("EngineCore encountered a fatal error.", role="EngineCore", where="core.py:1512", level="ERROR")
        say("RuntimeError: the fake engine was told to die", role="EngineCore", where="core.py:1512", level="ERROR")
        threading.Timer(0.3, os._exit, (0,)).start()

    def metrics(self) -> str:
        state = self.state
        name = f'model_name="{state.model_name}"'
        cache = f'block_size="128",kv_cache_size_tokens="{KV_TOKENS}",kv_cache_max_concurrency="128.0"'
        rows = [
            ("gauge", "num_requests_running", "", name, state.running),
            ("gauge", "num_requests_waiting", "", name, 0),
            ("gauge", "kv_cache_usage_perc", "", name, min(1.0, state.running / 128)),
            ("gauge", "cache_config_info", "", cache, 1),
            ("counter", "prompt_tokens", "_total", name, state.prompted),
            ("counter", "generation_tokens", "_total", name, state.generated),
            ("counter", "request_success", "_total", f'finished_reason="stop",{name}', state.finished),
        ]
        return "".join(
            f"# HELP vllm:{metric} A number.\n# TYPE vllm:{metric} {kind}\n"
            f'vllm:{metric}{suffix}{{engine="0",{labels}}} {float(value)}\n'
            for kind, metric, suffix, labels, value in rows
        )


def spawn_grandchildren(count: int) -> None:
    """Fork sleepers below one engine core, as vLLM has its workers; the last one leaves the session."""
    if count <= 0 or os.fork() != 0:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in range(1, count):
        if os.fork() == 0:
            if number == count - 1:
                os.setsid()
            break
    while True:
        time.sleep(3600)


def options_of(arguments: list[str]) -> dict[str, Any]:
    """The engine's options: what `--config` says, overridden by the command line, names with dashes."""
    if "--version" in arguments:
        sys.stdout.write(f"{VERSION}\n")
        raise SystemExit(0)
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--config")
    parser.add_argument("--served-model-name", nargs="+")
    for name in ("--host", "--port", "--max-model-len"):
        parser.add_argument(name)
    given, _ = parser.parse_known_args(arguments)
    options: dict[str, Any] = {}
    if given.config:
        read = yaml.safe_load(Path(given.config).read_text(encoding="utf-8"))
        options = {str(name).replace("_", "-"): value for name, value in (read or {}).items()}
    spoken = {name.replace("_", "-"): value for name, value in vars(given).items() if value is not None}
    return options | spoken


def announce(engine: Engine, script: Script) -> None:
    """Print vLLM's start-up lines, spread over the start (or the time to the crash, if that comes first)."""
    lines: list[tuple[str, str]] = [
        ("APIServer", f"█  version {VERSION}"),
        ("APIServer", "Resolved architecture: LlamaForCausalLM"),
        ("APIServer", f"Using max model len {engine.max_model_len}"),
        ("EngineCore", f"Initializing a V1 LLM engine (v{VERSION}) with config: model='{engine.root}'"),
        ("Worker", f"Starting to load model {engine.root}..."),
        ("Worker", "Loading weights took 0.01 seconds"),
        ("Worker", "Explicitly set (0.25/17.34) GiB for KV cache on node 0."),
        (
            "EngineCore",
            f"CPU KV cache size: {KV_TOKENS:,} tokens, Maximum concurrency for {engine.max_model_len:,} "
            f"tokens per request: {KV_TOKENS / engine.max_model_len:.2f}x",
        ),
        ("EngineCore", "init engine (profile, create kv cache, warmup model) took 0.10 s"),
    ]
    crash = script.crash_after_seconds
    duration = script.start_seconds if crash is None else min(crash, script.start_seconds)
    for role, text in lines:
        say(text, role=role)
        time.sleep(duration / len(lines))
    for line in script.log_lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def stop(_number: int, _frame: object) -> None:
    """SIGTERM: an idle engine is gone at once, with status 0."""
    os._exit(0)


def main() -> None:
    """Start, serve until told to stop, or crash as the script says."""
    options = options_of(sys.argv[1:])
    script = Script.load()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if script.ignore_term else stop)
    engine = Engine(options, script)
    spawn_grandchildren(script.grandchildren)
    announce(engine, script)
    if script.crash_after_seconds is not None:
        left = script.crash_after_seconds - script.start_seconds
        if left <= 0:
            raise SystemExit(script.exit_code)
        threading.Timer(left, os._exit, (script.exit_code,)).start()
    engine.server_activate()
    say(f"Starting vLLM server on http://{engine.server_name}:{engine.server_port}")
    sys.stdout.write("INFO:     Application startup complete.\n")
    sys.stdout.flush()
    engine.serve_forever()


if __name__ == "__main__":
    main()
