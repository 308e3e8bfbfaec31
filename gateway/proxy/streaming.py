"""Server-sent events on their way through: bytes unchanged, first token and usage noted."""

import msgspec

# An event that is longer than this is passed on in pieces, so that a broken engine can't fill memory.
EVENT_LIMIT_BYTES = 1 << 20
_MARKS = (b"\n\n", b"\r\n\r\n")


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Token counts as an engine reports them; None where it reports none."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that came from the prefix cache, None when the engine does not say."""
        return None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None

    def has_content(self) -> bool:
        return bool(self.content or self.reasoning or self.reasoning_content or self.tool_calls)


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None

    def has_content(self) -> bool:
        return bool(self.text) or (self.delta is not None and self.delta.has_content())


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Whole(msgspec.Struct):
    usage: Usage | None = None


_event = msgspec.json.Decoder(_Event)
_whole = msgspec.json.Decoder(_Whole)


def usage_of(raw: bytes) -> Usage | None:
    """Usage in the JSON of an answer that was not streamed, None when there is none to read."""
    try:
        return _whole.decode(raw).usage
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _payload(event: bytes) -> bytes:
    """The data of one event (the last data line: engines send one)."""
    payload = b""
    for line in event.splitlines():
        if line.startswith(b"data:"):
            payload = line[5:].strip()
    return payload


class SseTap:
    """Follows one stream. `feed` returns the bytes to pass on, always whole events.

    After the first token only pieces with `"usage"`, `"error"` or `[DONE]` in them are looked
    into. Text that a model writes can't be mistaken for these: its quotes are escaped in JSON,
    and a look costs time only.
    """

    def __init__(self, *, hide_usage: bool) -> None:
        self.saw_content = False
        self.saw_error = False
        self.done = False
        self.usage: Usage | None = None
        self._hide_usage = hide_usage
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """Take bytes from the engine, give those that the client shall have now."""
        data = self._rest + piece if self._rest else piece
        end = max(_after_last(data, mark) for mark in _MARKS)
        if not end:
            whole, self._rest = (data, b"") if len(data) > EVENT_LIMIT_BYTES else (b"", data)
            return whole
        whole, self._rest = (data, b"") if end == len(data) else (data[:end], data[end:])
        if self.saw_content and not (b'"usage"' in whole or b'"error"' in whole or b"[DONE]" in whole):
            return whole
        return self._inspect(whole)

    def _inspect(self, whole: bytes) -> bytes:
        return b"".join([event for event in _split(whole) if self._note(_payload(event))])

    def _note(self, payload: bytes) -> bool:
        """Take notes of one event; False when the client must not see it."""
        if payload == b"[DONE]":
            self.done = True
            return True
        try:
            event = _event.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return True
        self.saw_error |= bytes(event.error) != b"null"
        self.saw_content = self.saw_content or any(choice.has_content() for choice in event.choices or ())
        if event.usage is None:
            return True
        self.usage = event.usage
        return bool(event.choices) or not self._hide_usage


def _after_last(data: bytes, mark: bytes) -> int:
    """Index just after the last `mark`, 0 when there is none."""
    at = data.rfind(mark)
    return 0 if at < 0 else at + len(mark)


def _split(whole: bytes) -> list[bytes]:
    """Events of a run of whole events, each with the bytes that end it."""
    events: list[bytes] = []
    begin = 0
    while begin < len(whole):
        end = min(at + len(mark) for mark in _MARKS if (at := whole.find(mark, begin)) >= 0)
        events.append(whole[begin:end])
        begin = end
    return events
