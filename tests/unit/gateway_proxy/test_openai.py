"""Request bodies: what is refused, what is stripped, what is added; and error shapes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.openai import STRIPPED, Refusal, engine_body, engine_refusal, error_event, parse_request
from tests.unit.gateway_proxy.harness import chat


def parsed(value: Any) -> Any:
    return parse_request(value if isinstance(value, bytes) else json.dumps(value).encode())


def sent(value: Any, output_cap: int | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(engine_body(parsed(value), output_cap=output_cap))
    return body


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"[1]", "invalid_json"),
        (b'{"model":"a"', "invalid_json"),
        (b'{"\xff":1}', "invalid_json"),
        (b"{}", "missing_model"),
        (b'{"model":""}', "missing_model"),
        (b'{"model":7}', "invalid_value"),
        (b'{"model":"a","stream":"yes"}', "invalid_value"),
        (b'{"model":"a","max_tokens":1.5}', "invalid_value"),
        (b'{"model":"a","stream_options":[]}', "invalid_value"),
        (b'{"model":"\xff"}', "invalid_value"),
    ],
)
def test_a_malformed_body_is_refused_with_its_own_code(raw: bytes, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(raw)
    assert (caught.value.status, caught.value.code) == (400, code)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","model":"a"}',
        b'{"mod\\u0065l":"a","x":1,"model":"a"}',
        b'{"model":"a", "n" : 12 , "n":1}',
        b'{"model":"a","n":1,"n":12}',
        b'{"a\\\\\\"":1,"model":"m","a\\\\\\"":1}',
    ],
)
def test_a_key_that_appears_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        parsed(raw)
    assert caught.value.code == "duplicate_field"


@pytest.mark.parametrize(
    "raw",
    [
        b' { "model" : "a" , "x\\\\" : {"y":"}"} , "z": [ 1, {"model":"b"} ] } ',
        b'{"model":"a","\\"":null,"\\\\\\"q":-1.5e3}',
    ],
)
def test_escapes_white_space_and_nesting_are_no_duplicates(raw: bytes) -> None:
    assert parsed(raw).model == "a"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=6), st.sampled_from([None, 2]), st.booleans())
def test_any_object_without_duplicates_reaches_the_engine_equal(
    fields: dict[str, Any], indent: int, ascii: bool
) -> None:
    for name in (*STRIPPED, "stream", "stream_options", "max_tokens", "max_completion_tokens"):
        fields.pop(name, None)
    fields["model"] = "fast"
    raw = json.dumps(fields, indent=indent, ensure_ascii=ascii).encode()
    assert json.loads(engine_body(parse_request(raw), output_cap=None)) == fields


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=5), json_values, st.data())
def test_any_duplicate_is_found(fields: dict[str, Any], other: Any, data: st.DataObject) -> None:
    fields["model"] = "fast"
    twice = data.draw(st.sampled_from(sorted(fields)))
    pairs = [(name, value) for name, value in fields.items()]
    pairs.insert(data.draw(st.integers(0, len(pairs))), (twice, data.draw(st.sampled_from([other, fields[twice]]))))
    raw = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    with pytest.raises(Refusal) as caught:
        parse_request(raw.encode())
    assert caught.value.code == "duplicate_field"


def test_fields_that_steer_the_engine_are_stripped() -> None:
    body = chat(**{name: 1 for name in STRIPPED}, top_k=5)
    assert sent(body) == chat(top_k=5)


def test_a_stream_always_asks_the_engine_for_usage() -> None:
    wanted = chat(stream=True, stream_options={"include_usage": True})
    assert sent(chat(stream=True)) == wanted
    assert sent(chat(stream=True, stream_options=None)) == wanted
    assert sent(chat(stream=True, stream_options={"include_usage": False, "continuous_usage_stats": True})) == wanted


def test_the_clients_own_stream_options_are_kept() -> None:
    body = chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert sent(body) == body
    assert parsed(body).asked_usage
    assert sent(chat(stream=False)) == chat(stream=False)


def test_the_output_cap_is_the_default_and_the_limit() -> None:
    assert sent(chat(), output_cap=64) == chat(max_tokens=64)
    assert sent(chat(max_tokens=None), output_cap=64) == chat(max_tokens=64)
    assert sent(chat(max_completion_tokens=64), output_cap=64) == chat(max_completion_tokens=64)
    assert sent(chat(max_tokens=5000)) == chat(max_tokens=5000)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_more_than_the_output_cap_is_refused_and_the_cap_named(field: str) -> None:
    with pytest.raises(Refusal, match="output_cap_exceeded") as caught:
        sent(chat(**{field: 65}), output_cap=64)
    assert (caught.value.status, caught.value.param) == (400, field)
    assert "64" in caught.value.message


def test_a_negative_output_is_refused_without_a_cap_too() -> None:
    with pytest.raises(Refusal, match="invalid_value") as caught:
        sent(chat(max_tokens=-1))
    assert "0 or more" in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "invalid_request_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
    ],
)
def test_errors_have_openais_shape(status: int, kind: str) -> None:
    body = json.loads(Refusal(status, "why", "A sentence.", param="x").body())
    assert body == {"error": {"message": "A sentence.", "type": kind, "param": "x", "code": "why"}}


def test_an_error_event_is_one_event() -> None:
    event = error_event("replica_drained", "Gone.")
    assert event.startswith(b"data: {") and event.endswith(b"}\n\n") and event.count(b"\n") == 2


def test_an_engines_error_keeps_its_sentence_under_our_code() -> None:
    raw = b'{"error":{"message":"too long","type":"BadRequestError","param":"input_tokens","code":400}}'
    refusal = engine_refusal(400, raw)
    assert (refusal.code, refusal.message, refusal.param) == ("engine_refused", "too long", "input_tokens")
    assert refusal.retry_after is None


def test_an_engines_error_without_the_shape_gets_a_sentence() -> None:
    refusal = engine_refusal(500, b"\xff")
    assert (refusal.status, refusal.code) == (500, "engine_error")
    assert "500" in refusal.message
    assert engine_refusal(429, b"{}").retry_after == 1
