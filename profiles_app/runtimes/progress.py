"""Reads how far a vLLM start has come from its log (pure): the port answers only when it is all over."""

import re
from dataclasses import dataclass, fields
from typing import Literal

Phase = Literal["launching", "config", "engine", "weights", "compile", "kv_cache", "capacity", "graphs", "serving"]

GIB = 1024**3

PHASE_TEXT: dict[Phase, str] = {
    "launching": "Starting the engine program",
    "config": "Reading the model's configuration",
    "engine": "Starting the engine core",
    "weights": "Loading weights",
    "compile": "Compiling the model",
    "kv_cache": "Sizing the KV cache",
    "capacity": "KV cache allocated",
    "graphs": "Capturing graphs and warming up",
    "serving": "Serving",
}

# In the order of a start. CPU and GPU builds word some lines differently, and old versions split the capacity line.
_MARKERS: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("config", re.compile(r"version [\d.]+\S*$|non-default args: |Resolved architecture: |Using max model len ")),
    ("engine", re.compile(r"Initializing a V1 LLM engine")),
    ("weights", re.compile(r"Starting to load model|Loading weights took |Model loading took ")),
    ("compile", re.compile(r"torch\.compile took |Warming up model for the compilation")),
    ("kv_cache", re.compile(r"Available KV cache memory: |(?:Explicitly|Auto) set \([\d.]+/[\d.]+\) GiB")),
    ("capacity", re.compile(r"(?:GPU|CPU) KV cache size: |Maximum concurrency for ")),
    ("graphs", re.compile(r"Graph capturing finished|init engine \(profile, create kv cache, warmup model\) took")),
    ("serving", re.compile(r"Starting vLLM server on|Application startup complete\.")),
)

# Fact, pattern with one number, factor to bytes, seconds or counts. Source strings of vLLM 0.32.
_NUMBERS: tuple[tuple[str, re.Pattern[str], float], ...] = (
    ("max_model_len", re.compile(r"Using max model len (\d+)"), 1),
    ("weights_seconds", re.compile(r"Loading weights took ([\d.]+) seconds"), 1),
    ("model_bytes", re.compile(r"Model loading took ([\d.]+) GiB"), GIB),
    ("compile_seconds", re.compile(r"torch\.compile took ([\d.]+) s in total"), 1),
    ("kv_cache_bytes", re.compile(r"Available KV cache memory: ([\d.]+) GiB"), GIB),
    ("kv_cache_bytes", re.compile(r"(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB"), GIB),
    ("kv_cache_tokens", re.compile(r"(?:GPU|CPU) KV cache size: ([\d,]+) tokens"), 1),
    ("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"), 1),
    ("graph_seconds", re.compile(r"Graph capturing finished in ([\d.]+) secs"), 1),
    ("graph_bytes", re.compile(r"Graph capturing finished in [\d.]+ secs, took ([\d.]+) GiB"), GIB),
    ("init_seconds", re.compile(r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s"), 1),
)
_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("version", re.compile(r"(?:\bversion |V1 LLM engine \(v)(\d[\w.+]*)")),
    ("architecture", re.compile(r"Resolved architecture: (\w+)")),
)
_TIME = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d) \[")
_SHARDS = re.compile(r"Loading .*checkpoint shards: .*?\| (\d+)/(\d+) ")
_COUNTS = frozenset({"max_model_len", "kv_cache_tokens", "kv_cache_bytes", "model_bytes", "graph_bytes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupFacts:
    """What a start-up log tells about the engine; None where it doesn't. Bytes are rounded as the log rounds GiB."""

    version: str | None = None
    architecture: str | None = None
    max_model_len: int | None = None
    weights_seconds: float | None = None
    model_bytes: int | None = None
    compile_seconds: float | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None
    graph_seconds: float | None = None
    graph_bytes: int | None = None
    init_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SeenPhase:
    """A phase that the log has reached, with the log's own time of its first line (`MM-DD HH:MM:SS`, or None)."""

    phase: Phase
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupProgress:
    """How far a start has come: the last phase reached, a sentence about it, and what is known by then."""

    phase: Phase
    detail: str
    facts: StartupFacts
    seen: tuple[SeenPhase, ...]


def read_progress(text: str) -> StartupProgress:
    """Progress of one start from the text of its log, cut off anywhere.

    A later phase wins over an earlier one whatever the order of lines, as several processes write to one log.
    """
    lines = text.splitlines()
    seen = tuple(
        SeenPhase(phase, _time(first))
        for phase, marker in _MARKERS
        if (first := next((line for line in lines if marker.search(line)), None)) is not None
    )
    phase: Phase = seen[-1].phase if seen else "launching"
    return StartupProgress(phase=phase, detail=_detail(phase, lines), facts=read_facts(text), seen=seen)


def read_facts(text: str) -> StartupFacts:
    """The numbers and names of a start-up log; the last mention of each counts."""
    found: dict[str, str | int | float] = {}
    for name, pattern in _WORDS:
        for match in pattern.finditer(text):
            found[name] = match[1]
    for name, pattern, factor in _NUMBERS:
        for match in pattern.finditer(text):
            number = float(match[1].replace(",", "")) * factor
            found[name] = round(number) if name in _COUNTS else number
    return StartupFacts(**{field.name: found.get(field.name) for field in fields(StartupFacts)})  # type: ignore[arg-type]  # each pattern yields its field's type


def _time(line: str) -> str | None:
    match = _TIME.search(line)
    return match[1] if match else None


def _detail(phase: Phase, lines: list[str]) -> str:
    if phase == "weights":
        shards = [match for line in lines if (match := _SHARDS.search(line))]
        if shards:
            return f"Loading weights: {shards[-1][1]} of {shards[-1][2]} files"
    return PHASE_TEXT[phase]
