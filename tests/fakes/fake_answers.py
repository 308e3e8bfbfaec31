"""What the fake engine answers with: its script, and the shapes of one generation. Imported by it as a neighbour."""

import json
import os
import re
import time
import uuid
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Script:
    """The switches. Times count from the start; `log_lines` come last before the engine serves or crashes."""

    start_seconds: float = 0.0
    text: str = "word "
    tokens: int = 8
    chunk_seconds: float = 0.0
    crash_after_seconds: float | None = None
    exit_code: int = 1
    log_lines: list[str] = field(default_factory=list)
    hang: bool = True
    bad_identity: bool = False
    no_token: bool = False
    ignore_term: bool = False
    grandchildren: int = 0
    health_status: int = 200
    stall: bool = False

    @classmethod
    def load(cls) -> "Script":
        """Read the file that FAKE_ENGINE_SCRIPT names; without one, a well-behaved engine."""
        path = os.environ.get("FAKE_ENGINE_SCRIPT")
        values = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        unknown = set(values) - {known.name for known in fields(cls)}
        if unknown:
            raise SystemExit(f"fake engine: unknown switches {sorted(unknown)}")
        return cls(**values)


class Answer:
    """One generation: how much, how fast, and the shapes that it is sent in."""

    def __init__(
        self, script: Script, request: dict[str, Any], *, model: str, chat: bool, request_id: str | None
    ) -> None:
        self.chat = chat
        self.request_id = ("chatcmpl-" if chat else "cmpl-") + (request_id or uuid.uuid4().hex[:16])
        self.model = model
        self.created = int(time.time())
        prompt = json.dumps(request.get("messages")) if chat else str(request.get("prompt", ""))
        self.prompt_tokens = max(1, len(prompt.split()))
        limit = request.get("max_completion_tokens") or request.get("max_tokens")
        wanted = int(_switch(prompt, "tokens") or script.tokens)
        self.tokens = min(wanted, int(limit)) if limit is not None else wanted
        self.finish = "length" if limit is not None and wanted >= int(limit) else "stop"
        seconds = _switch(prompt, "seconds")
        self.chunk_seconds = script.chunk_seconds if seconds is None else seconds / max(1, self.tokens)
        self.hang = script.hang and "HANG" in prompt
        self.die = "DIE" in prompt
        self.include_usage = bool((request.get("stream_options") or {}).get("include_usage"))

    def usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
            "completion_tokens": self.tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def chunk(self, content: object, *, finish: str | None = None) -> dict[str, Any]:
        name = "delta" if self.chat else "text"
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return self._envelope(kind, [{"index": 0, name: content, "logprobs": None, "finish_reason": finish}])

    def usage_chunk(self) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return self._envelope(kind, []) | {"usage": self.usage()}

    def whole(self, text: str) -> dict[str, Any]:
        content: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": self.finish}
        return self._envelope(kind, [choice]) | {"usage": self.usage()}


def _switch(prompt: str, name: str) -> float | None:
    found = re.search(rf"\b{name}=(\d+(?:\.\d+)?)", prompt)
    return float(found[1]) if found else None
