"""Streams: bytes unchanged however they are cut, first token and usage noted."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.streaming import EVENT_LIMIT_BYTES, SseTap, usage_of
from tests.unit.gateway_proxy.harness import DONE, ROLE, USAGE, USAGE_EVENT, WHOLE, delta, sse

TEXT = delta(content='He said "usage" and "error" and [DONE]: \n\n')
STREAM = ROLE + TEXT + delta(content=" Paris") + USAGE_EVENT + DONE


def run(tap: SseTap, *pieces: bytes) -> bytes:
    return b"".join(tap.feed(piece) for piece in pieces)


@given(st.lists(st.integers(0, len(STREAM))), st.booleans(), st.booleans())
def test_bytes_pass_unchanged_however_they_are_cut(cuts: list[int], hide: bool, crlf: bool) -> None:
    places = sorted({0, *cuts, len(STREAM)})
    events = [ROLE, TEXT, delta(content=" Paris"), USAGE_EVENT, DONE]
    if crlf:
        events = [event[:-2] + b"\r\n\r\n" for event in events]
    whole = b"".join(events)
    places = sorted({*places, len(whole)})
    tap = SseTap(hide_usage=hide)
    got = run(tap, *(whole[a:b] for a, b in pairwise(places)))
    assert got == b"".join(event for event in events if not (hide and event == events[3]))
    assert (tap.done, tap.saw_content, tap.saw_error) == (True, True, False)
    assert tap.usage is not None
    assert (tap.usage.prompt_tokens, tap.usage.completion_tokens, tap.usage.cached_tokens) == (11, 3, 8)


@pytest.mark.parametrize(
    "event",
    [
        ROLE,
        delta(content=""),
        delta(tool_calls=[]),
        sse({"choices": []}),
        sse({"choices": [{"text": ""}]}),
        sse(b"{broken"),
        b": ping\n\n",
        b"\n\n",
    ],
)
def test_a_chunk_without_text_is_no_token(event: bytes) -> None:
    tap = SseTap(hide_usage=True)
    assert tap.feed(event) == event
    assert not tap.saw_content


@pytest.mark.parametrize(
    "event",
    [
        delta(content="a"),
        delta(reasoning="a"),
        delta(reasoning_content="a"),
        delta(tool_calls=[{"index": 0}]),
        sse({"choices": [{"text": "a"}]}),
        b"event: message\ndata:" + delta(content="a")[6:],
    ],
)
def test_a_chunk_with_text_reasoning_or_a_tool_call_is_a_token(event: bytes) -> None:
    tap = SseTap(hide_usage=True)
    assert tap.feed(event) == event
    assert tap.saw_content


def test_usage_beside_choices_is_counted_and_passed_on() -> None:
    event = sse({"choices": [{"delta": {"content": "a"}}], "usage": USAGE})
    tap = SseTap(hide_usage=True)
    assert tap.feed(event) == event
    assert tap.usage == usage_of(json.dumps(WHOLE).encode())


def test_a_usage_of_null_is_none_and_stays() -> None:
    event = sse({"choices": [], "usage": None})
    tap = SseTap(hide_usage=True)
    assert tap.feed(event) == event
    assert tap.usage is None


def test_an_error_in_the_stream_is_seen_also_after_the_first_token() -> None:
    tap = SseTap(hide_usage=True)
    event = sse({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
    assert run(tap, TEXT, event, DONE) == TEXT + event + DONE
    assert (tap.saw_error, tap.done) == (True, True)


def test_after_the_first_token_a_plain_piece_is_passed_on_as_the_same_object() -> None:
    tap = SseTap(hide_usage=True)
    tap.feed(TEXT)
    piece = delta(content="more")
    assert tap.feed(piece) is piece


def test_an_endless_event_is_passed_on_in_pieces() -> None:
    tap = SseTap(hide_usage=True)
    assert tap.feed(b"data: ") == b""
    assert len(tap.feed(b"x" * EVENT_LIMIT_BYTES)) == EVENT_LIMIT_BYTES + 6


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"usage":7}', b"\xff", b'{"usage":null}'])
def test_an_answer_without_readable_usage_has_none(raw: bytes) -> None:
    assert usage_of(raw) is None


def test_cached_tokens_that_the_engine_does_not_report_are_not_zero() -> None:
    usage = usage_of(b'{"usage":{"prompt_tokens":4}}')
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (4, None, None)
