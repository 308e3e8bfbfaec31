"""OpenAI's shapes: error bodies, what a request body says, and the body that an engine gets."""

from dataclasses import dataclass
from typing import Literal

import msgspec

Endpoint = Literal["chat", "completions"]

# Fields that steer the engine itself. A client must not set them: one of them can kill an engine,
# others jump the queue or read another tenant's prefix cache.
STRIPPED = frozenset(
    {
        "kv_transfer_params",
        "ec_transfer_params",
        "vllm_xargs",
        "priority",
        "cache_salt",
        "request_id",
        "session_id",
        "data_parallel_rank",
    }
)
_CAPS = ("max_tokens", "max_completion_tokens")
_SPACE = b" \t\r\n"
_QUOTE, _BACKSLASH = b'"', 0x5C


class Refusal(Exception):
    """An answer of ours instead of an engine's: status, stable code, sentence for people."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after

    def body(self) -> bytes:
        """The JSON body in OpenAI's error shape."""
        return error_body(self.status, code=self.code, message=self.message, param=self.param)


def error_type(status: int) -> str:
    """OpenAI's `type` word for a status."""
    special = {401: "authentication_error", 429: "rate_limit_error"}
    return special.get(status, "server_error" if status >= 500 else "invalid_request_error")


def error_body(status: int, *, code: str, message: str, param: str | None = None) -> bytes:
    """One error as JSON bytes."""
    error = {"message": message, "type": error_type(status), "param": param, "code": code}
    return msgspec.json.encode({"error": error})


def error_event(code: str, message: str) -> bytes:
    """One error as a server-sent event, for a stream whose status is already out."""
    return b"data: " + error_body(500, code=code, message=message) + b"\n\n"


class _EngineError(msgspec.Struct):
    message: str
    param: str | None = None


class _EngineErrorBody(msgspec.Struct):
    error: _EngineError


_engine_error = msgspec.json.Decoder(_EngineErrorBody)


def engine_refusal(status: int, raw: bytes) -> Refusal:
    """An engine's error answer as a Refusal: its sentence and param, our code."""
    code = "engine_error" if status >= 500 else "engine_refused"
    retry_after = 1 if status == 429 else None
    try:
        error = _engine_error.decode(raw).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Refusal(status, code, f"The engine answered with status {status}.", retry_after=retry_after)
    return Refusal(status, code, error.message, param=error.param, retry_after=retry_after)


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool | None)
_count = msgspec.json.Decoder(int | None)
_options = msgspec.json.Decoder(_StreamOptions | None)


@dataclass(frozen=True, slots=True)
class Request:
    """What the gateway reads of a body; `fields` are the top-level values, left as raw JSON."""

    model: str
    stream: bool
    asked_usage: bool
    max_tokens: dict[str, int]
    fields: dict[str, msgspec.Raw]


def _invalid(message: str, *, code: str = "invalid_value", param: str | None = None) -> Refusal:
    return Refusal(400, code, message, param=param)


def _read[T](fields: dict[str, msgspec.Raw], name: str, decoder: msgspec.json.Decoder[T]) -> T | None:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"`{name}` has a wrong value: {error}.", param=name) from error


def parse_request(raw: bytes) -> Request:
    """Read a request body; raises Refusal (400) for anything that is not one JSON object with a model."""
    try:
        fields = _fields.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"The body is not a JSON object: {error}.", code="invalid_json") from error
    twice = duplicate_key(raw, fields)
    if twice is not None:
        raise _invalid(f"The body names `{twice}` twice.", code="duplicate_field", param=twice)
    model = _read(fields, "model", _text)
    if not model:
        raise _invalid(
            "`model` is missing: name one of the profiles in /v1/models.", code="missing_model", param="model"
        )
    stream = _read(fields, "stream", _flag)
    options = _read(fields, "stream_options", _options)
    limits = {name: count for name in _CAPS if (count := _read(fields, name, _count)) is not None}
    return Request(
        model=model,
        stream=bool(stream),
        asked_usage=bool(options and options.include_usage),
        max_tokens=limits,
        fields=fields,
    )


def duplicate_key(raw: bytes, fields: dict[str, msgspec.Raw]) -> str | None:
    """First top-level key that appears twice in `raw`, of which `fields` is the valid decoding.

    Walks from key to key by the length of each decoded value, so a long prompt costs one
    comparison of bytes. Of a key that appears twice only the last value was kept, so the walk
    meets the key again, or finds a value that is not the kept one, or (the kept number is the
    beginning of the first) stops at something that is neither a key nor the end.
    """
    at = _skip(raw, raw.index(b"{") + 1, _SPACE)
    seen: set[str] = set()
    key = None
    while raw[at : at + 1] == _QUOTE:
        end = _string_end(raw, at + 1)
        key = _text.decode(raw[at : end + 1])
        at = _skip(raw, end + 1, _SPACE + b":")
        value = fields[key]
        if key in seen or not raw.startswith(value, at):
            return key
        seen.add(key)
        at = _skip(raw, at + memoryview(value).nbytes, _SPACE + b",")
    return None if raw[at : at + 1] == b"}" else key


def _skip(raw: bytes, at: int, ignored: bytes) -> int:
    while raw[at] in ignored:
        at += 1
    return at


def _string_end(raw: bytes, start: int) -> int:
    """Index of the quote that closes the string whose text begins at `start`."""
    end = raw.index(_QUOTE, start)
    while (end - _escapes_begin(raw, end)) % 2:
        end = raw.index(_QUOTE, end + 1)
    return end


def _escapes_begin(raw: bytes, at: int) -> int:
    """Index of the first of the backslashes directly before `at`, or `at` itself."""
    while raw[at - 1] == _BACKSLASH:
        at -= 1
    return at


def engine_body(request: Request, *, output_cap: int | None) -> bytes:
    """The body for the engine: engine-only fields gone, output capped, usage asked for on streams.

    Raises Refusal (400) when the client asks for more tokens than the profile's cap.
    """
    fields = {name: value for name, value in request.fields.items() if name not in STRIPPED}
    for name, count in request.max_tokens.items():
        if count < 0:
            raise _invalid(f"`{name}` is {count}; it must be 0 or more.", param=name)
        if output_cap is not None and count > output_cap:
            message = f"`{name}` is {count}, more than this profile's output cap of {output_cap} tokens."
            raise _invalid(message, code="output_cap_exceeded", param=name)
    if output_cap is not None and not request.max_tokens:
        fields["max_tokens"] = msgspec.Raw(str(output_cap).encode())
    if request.stream and not request.asked_usage:
        fields["stream_options"] = msgspec.Raw(b'{"include_usage":true}')
    return msgspec.json.encode(fields)
