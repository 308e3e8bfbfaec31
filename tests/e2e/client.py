"""What applications do: requests to the gateway, streamed or not, and how a stream looks to its client."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx

from tests.e2e.stack import Stack


class Caller:
    """An application: sends requests to the gateway, and keeps each request's id."""

    def __init__(self, stack: Stack, key: str) -> None:
        self.ids: list[str] = []
        self._lock = threading.Lock()
        self._client = httpx.Client(
            base_url=stack.gateway,
            headers={"Authorization": f"Bearer {key}"},
            timeout=60,
            trust_env=False,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=0),
        )

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _keep(self, answer: httpx.Response) -> httpx.Response:
        with self._lock:
            self.ids.append(answer.headers["x-request-id"])
        return answer

    def ask(self, model: str, prompt: str = "hello", **more: Any) -> httpx.Response:
        """One chat request that is not streamed."""
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], **more}
        return self._keep(self._client.post("/v1/chat/completions", json=body))

    def send(self, content: bytes, **headers: str) -> httpx.Response:
        """Any bytes to the chat endpoint."""
        return self._keep(self._client.post("/v1/chat/completions", content=content, headers=headers))

    def stream(self, model: str, prompt: str = "hello", *, started: threading.Event | None = None) -> "Streamed":
        """One streamed chat request, read to its end."""
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": True}
        with self._client.stream("POST", "/v1/chat/completions", json=body) as answer:
            self._keep(answer)
            text = b""
            for piece in answer.iter_raw():
                text += piece
                if started is not None:
                    started.set()
        return Streamed(answer.status_code, answer.headers["x-request-id"], text)

    def leave(self, model: str, prompt: str) -> str:
        """Begin a stream, and hang up after its first piece. Returns the request's id."""
        body = {"model": model, "messages": [{"role": "user", "content": prompt}], "stream": True}
        with self._client.stream("POST", "/v1/chat/completions", json=body) as answer:
            self._keep(answer)
            next(answer.iter_raw())
        return str(answer.headers["x-request-id"])


class Streamed:
    """A stream as its client saw it."""

    def __init__(self, status: int, request_id: str, text: bytes) -> None:
        self.status, self.request_id, self.raw = status, request_id, text

    @property
    def events(self) -> list[Any]:
        """The events before the end mark."""
        parts = [part.removeprefix(b"data: ") for part in self.raw.split(b"\n\n") if part]
        return [json.loads(part) for part in parts if part != b"[DONE]"]

    @property
    def text(self) -> str:
        """What was generated."""
        deltas = [event["choices"][0]["delta"] for event in self.events if event.get("choices")]
        return "".join(delta.get("content", "") for delta in deltas)

    def is_whole(self, *, tokens: int) -> bool:
        """Whether it has every token of the fake engine in order, a reason for its end, and the end mark last."""
        reasons = [event["choices"][0]["finish_reason"] for event in self.events]
        ends = reasons[-1] == "stop" and reasons[:-1] == [None] * (tokens + 1)
        return self.text == "word " * tokens and ends and self.raw.endswith(b"data: [DONE]\n\n")


@contextmanager
def streams(caller: Caller, profile: str, prompts: list[str]) -> Iterator[list[Future[Streamed]]]:
    """Streams that have all begun when the block begins."""
    begun = [threading.Event() for _ in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        running = [
            pool.submit(caller.stream, profile, prompt, started=event)
            for prompt, event in zip(prompts, begun, strict=True)
        ]
        for event in begun:
            assert event.wait(30)
        yield running
