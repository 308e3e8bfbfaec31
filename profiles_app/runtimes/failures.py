"""Turns the log of a failed vLLM into a cause and a fix in words (pure)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from profiles_app.runtimes.failure_table import TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an engine ended: a CamelCase reason, a sentence, what to do, and the log line that says so (or None)."""

    reason: str
    message: str
    fix: str
    line: str | None


_PREFIX = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?")
# Configurations and access logs repeat what anybody wrote; only errors and what has no level may name a cause.
_QUIET = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:DEBUG|INFO|WARNING)[: ]")
_USAGE = re.compile(r"^(?:vllm(?: \w+)?|\S+\.py): error: (.+)")
_VALUE = re.compile(r"^\s*Value error, (.+)")
_ERROR = re.compile(r"^\s*((?:[\w.]+\.)?\w*(?:Error|Exception)): (.+)")
_BARE = re.compile(r"^\s*(?:[\w.]+\.)?AssertionError\s*$")
_FRAME = re.compile(r'File "([^"]*/vllm/[^"]*)", line (\d+)')
_FATAL = "EngineCore encountered a fatal error"
# These only say that something else failed: the cause is on another line.
_NO_CAUSE = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed"
    r"|Frontend process failed during engine core initialization|EngineCore failed to start"
    r"|WorkerProc failed to start|EngineDeadError|Found ulimit of"
)
# Any of these says that the start is over, also when the log's beginning has been cut off.
_SERVED = re.compile(r"Application startup complete\.|Avg prompt throughput: |HTTP/1\.1\" \d{3}\b")
_INPUT_NOTE = re.compile(r"\s*\[type=\w+, input_value=.*$")
_SIGNALS = {
    -6: ("Aborted", "aborted itself (SIGABRT)"),
    -7: ("Crashed", "crashed in native code (SIGBUS)"),
    -9: ("Killed", "was killed (SIGKILL)"),
    -11: ("Crashed", "crashed in native code (SIGSEGV)"),
    -15: ("Terminated", "was told to stop (SIGTERM)"),
}
_FIX_KILLED = (
    "If nobody stopped it, the kernel's out-of-memory killer did: look at the kernel log, "
    "and give the engine less memory or the host more."
)
_FIX_LOG = "Read the end of the engine's log."


def explain(log_text: str, exit_status: int | None) -> Failure:
    """The likeliest cause of an engine's end, from its log and the API server's exit status (negative: a signal).

    During a start: what the argument parser said; else what the configuration's validation said; else the first
    error that is no wrapper of another. Once it served, the log holds errors of single requests, too, so only what
    follows a fatal error counts, or an error that is known to end engines. The exit status decides only when the log
    is silent: vLLM exits with 0 when its engine dies.
    """
    lines = [_PREFIX.sub("", line).rstrip() for line in log_text.splitlines() if not _QUIET.match(line)]
    line = _find_cause(lines, served=_SERVED.search(log_text) is not None)
    if line is None:
        return _explain_status(exit_status)
    for known in TABLE:
        if match := known.pattern.search(line):
            groups = (match[0], *match.groups())
            message, fix = known.message.format(*groups), known.fix.format(*groups)
            return Failure(reason=known.reason, message=message, fix=fix, line=line)
    return Failure(reason="EngineError", message=f"The engine reported: {line}", fix=_FIX_LOG, line=line)


def _find_cause(lines: list[str], *, served: bool) -> str | None:
    """The line that names the cause, from log lines without their prefix; None when no line does."""
    fatal = next((number for number, line in enumerate(lines) if _FATAL in line), None)
    if fatal is not None:
        return next(_errors(lines[fatal:]), None)
    if served:
        return next((line.strip() for line in lines if _known(line)), None)
    for pattern in (_USAGE, _VALUE):
        if found := next((match[1] for line in lines if (match := pattern.match(line))), None):
            return _INPUT_NOTE.sub("", found)
    return next(_errors(lines), None) or next((line.strip() for line in lines if _known(line)), None)


def _known(line: str) -> bool:
    return not _NO_CAUSE.search(line) and any(known.pattern.search(line) for known in TABLE)


def _errors(lines: list[str]) -> Iterator[str]:
    """Error lines that are no wrappers; a bare AssertionError comes with the last place in vLLM's source before it."""
    place = ""
    for line in lines:
        if frame := _FRAME.search(line):
            place = f" at {frame[1]}:{frame[2]}"
        if _BARE.match(line):
            yield f"AssertionError{place}"
        elif _ERROR.match(line) and not _NO_CAUSE.search(line):
            yield line.strip()


def _explain_status(exit_status: int | None) -> Failure:
    if exit_status is None:
        return Failure(
            reason="ProcessLost",
            message="The engine is gone, and its log doesn't say why; its exit status is unknown.",
            fix="Look for a restart of the host or a killed process tree around that time.",
            line=None,
        )
    reason, what = _SIGNALS.get(exit_status, ("ProcessExited", f"exited with status {exit_status}"))
    fix = _FIX_KILLED if exit_status == -9 else _FIX_LOG
    return Failure(reason=reason, message=f"The engine {what}, and its log doesn't say why.", fix=fix, line=None)
