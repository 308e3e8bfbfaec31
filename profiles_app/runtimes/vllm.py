"""Talks to vLLM: proves that a server is the engine that we started, and asks an engine program for its options."""

import json
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from profiles_app.runtimes.logs import LogReader, read_tail
from profiles_app.runtimes.progress import StartupFacts, StartupProgress, read_facts, read_progress

__all__ = [
    "FLAGS_SCRIPT",
    "FlagsUnreadable",
    "KnownFlag",
    "KnownFlags",
    "LogReader",
    "ProbeResult",
    "StartupFacts",
    "StartupProgress",
    "interpreter_of",
    "probe",
    "read_engine_version",
    "read_facts",
    "read_known_flags",
    "read_progress",
    "read_tail",
]

FLAGS_TIMEOUT_SECONDS = 120.0
FLAGS_MARK = "FOREBAY_FLAGS "

# Runs inside the engine's own interpreter. Importing vLLM prints, so the answer is a line with a mark of its own.
FLAGS_SCRIPT = """
import contextlib, importlib, json, sys

def find(name, *modules):
    for module in modules:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(module), name)
    raise ImportError(f"{name} is in none of {modules}")

with contextlib.redirect_stdout(sys.stderr):
    import vllm
    parser_class = find("FlexibleArgumentParser", "vllm.utils.argparse_utils", "vllm.utils")
    make = find("make_arg_parser", "vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
    parser = make(parser_class(prog="vllm serve"))

def plain(value):
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)

flags = [
    {
        "flags": list(action.option_strings),
        "dest": action.dest,
        "default": plain(action.default),
        "choices": None if action.choices is None else [plain(choice) for choice in action.choices],
        "type": getattr(action.type, "__name__", None),
        "nargs": plain(action.nargs),
    }
    for action in parser._actions
]
print("FOREBAY_FLAGS " + json.dumps({"version": vllm.__version__, "flags": flags}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What a probe found: None is "not asked". `detail` is a sentence about the first thing that wasn't right."""

    health: bool
    identity: bool | None
    token: bool | None
    detail: str

    @property
    def ready(self) -> bool:
        """Whether everything that was asked was right; a server whose identity wasn't asked is never ready."""
        return self.health and self.identity is True and self.token is not False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFlag:
    """One option of an engine version. `default` is JSON's view of it; other objects come as their repr."""

    flags: tuple[str, ...]
    dest: str
    default: object
    choices: tuple[object, ...] | None
    type: str | None
    nargs: object


@dataclass(frozen=True, slots=True)
class KnownFlags:
    """All options that one engine program understands."""

    version: str
    flags: tuple[KnownFlag, ...]


@dataclass(frozen=True, slots=True)
class FlagsUnreadable:
    """The engine's interpreter could not tell its options; `message` says why, for people."""

    message: str


def probe(
    *,
    base_url: str,
    api_key: str,
    served_name: str,
    identity_name: str,
    want_token: bool,
    timeout: float,
) -> ProbeResult:
    """Ask a server whether it lives, whether it is this replica, and (if wanted) whether it generates one token.

    `identity_name` is a name that no other server lists: the replica's id. `timeout` is in seconds, for each of the
    up to three requests. Never raises for what the server does.
    """
    headers = {"Authorization": f"Bearer {api_key}", "X-Request-Id": f"forebay-probe-{secrets.token_hex(6)}"}
    # No proxy of the environment may stand between a node and its own engine.
    with httpx.Client(base_url=base_url, headers=headers, timeout=timeout, trust_env=False) as client:
        problem = _health_problem(client)
        if problem is not None:
            return ProbeResult(health=False, identity=None, token=None, detail=problem)
        problem = _identity_problem(client, {served_name, identity_name})
        if problem is not None:
            return ProbeResult(health=True, identity=False, token=None, detail=problem)
        problem = _token_problem(client, served_name) if want_token else None
    if problem is not None:
        return ProbeResult(health=True, identity=True, token=False, detail=problem)
    return ProbeResult(health=True, identity=True, token=True if want_token else None, detail="answers as it should")


def _health_problem(client: httpx.Client) -> str | None:
    try:
        status = client.get("/health").status_code
    except httpx.HTTPError as error:
        return f"/health can't be reached: {_words(error)}"
    return None if status == httpx.codes.OK else f"/health answered {status}"


def _identity_problem(client: httpx.Client, wanted: set[str]) -> str | None:
    try:
        answer = client.get("/v1/models")
        answer.raise_for_status()
        listed = {str(card["id"]) for card in answer.json()["data"]}
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        return f"/v1/models gave no list of models: {_words(error)}"
    missing = sorted(wanted - listed)
    return f"another server answers on this port: it doesn't serve {', '.join(missing)}" if missing else None


def _token_problem(client: httpx.Client, model: str) -> str | None:
    body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
    try:
        answer = client.post("/v1/completions", json=body)
        answer.raise_for_status()
        generated = answer.json()["usage"]["completion_tokens"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        return f"no token was generated: {_words(error)}"
    return None if generated == 1 else f"one token was asked for, and {generated} were generated"


def _words(error: Exception) -> str:
    return f"{error}".partition("\n")[0] or type(error).__name__


def interpreter_of(argv_prefix: Sequence[str]) -> str | None:
    """The Python that runs an engine program: the program itself, what its script's first line names, or a neighbour.

    A script with a very long path starts with `/bin/sh`, and has its interpreter beside it. None when there is none.
    """
    program = Path(argv_prefix[0])
    if program.name.startswith("python"):
        return str(program)
    try:
        with program.open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace")
    except OSError:
        return None
    words = first.removeprefix("#!").split()
    if first.startswith("#!") and words and Path(words[0]).name.startswith("python"):
        return words[0]
    neighbour = program.parent / "python"
    return str(neighbour) if neighbour.exists() else None


def read_known_flags(
    argv_prefix: Sequence[str], *, env: Mapping[str, str], timeout: float = FLAGS_TIMEOUT_SECONDS
) -> KnownFlags | FlagsUnreadable:
    """Ask the engine's own interpreter for its options, in a child process (about 10 s of import; no GPU is used)."""
    interpreter = interpreter_of(argv_prefix)
    if interpreter is None:
        return FlagsUnreadable(f"{argv_prefix[0]} is no Python program, so its options are unknown")
    output = _run([interpreter, "-c", FLAGS_SCRIPT], env=env, timeout=timeout)
    if isinstance(output, FlagsUnreadable):
        return output
    answers = [line for line in output.splitlines() if line.startswith(FLAGS_MARK)]
    if not answers:
        return FlagsUnreadable(f"{interpreter} gave no list of options")
    answer = json.loads(answers[-1].removeprefix(FLAGS_MARK))
    flags = tuple(
        KnownFlag(
            flags=tuple(flag["flags"]),
            dest=flag["dest"],
            default=flag["default"],
            choices=None if flag["choices"] is None else tuple(flag["choices"]),
            type=flag["type"],
            nargs=flag["nargs"],
        )
        for flag in answer["flags"]
    )
    return KnownFlags(answer["version"], flags)


def read_engine_version(
    argv_prefix: Sequence[str], *, env: Mapping[str, str], timeout: float = FLAGS_TIMEOUT_SECONDS
) -> str | FlagsUnreadable:
    """The version that the engine program itself reports by `--version` (about 12 s with the real one)."""
    output = _run([*argv_prefix, "--version"], env=env, timeout=timeout)
    if isinstance(output, FlagsUnreadable):
        return output
    found = re.findall(r"^\D*(\d+\.\d+[\w.+-]*)\s*$", output, re.MULTILINE)
    return found[-1] if found else FlagsUnreadable(f"{argv_prefix[0]} --version printed no version")


def _run(command: Sequence[str], *, env: Mapping[str, str], timeout: float) -> str | FlagsUnreadable:
    try:
        done = subprocess.run(  # noqa: S603 - the program of an engine install, which an administrator has entered
            command, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return FlagsUnreadable(f"{command[0]} did not answer within {timeout:.0f} s")
    except OSError as error:
        return FlagsUnreadable(f"{command[0]} can't be run: {error.strerror}")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return FlagsUnreadable(f"{command[0]} ended with status {done.returncode}: {said or 'it said nothing'}")
    return done.stdout.decode("utf-8", "replace")
