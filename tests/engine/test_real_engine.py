"""The main job on the real engine: deploy, ask with the official client, count, and end without a trace."""

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.real_stack import RealStack, deployment_until, wait_for

pytestmark = pytest.mark.engine
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(stack: RealStack, key: str) -> openai.OpenAI:
    client = openai.OpenAI(base_url=stack.gateway_url, api_key=key, max_retries=0, timeout=60)
    wait_for("the key to reach the gateway", lambda: _may_list(client), seconds=10)
    return client


def _may_list(client: openai.OpenAI) -> bool:
    try:
        return bool(client.models.list().data)
    except openai.AuthenticationError:
        return False


def test_the_official_client_gets_a_whole_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="low-latency", messages=QUESTION, temperature=0)
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.model == "low-latency"
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_the_official_client_streams_and_sees_usage_only_if_it_asked(client: openai.OpenAI) -> None:
    plain = list(client.chat.completions.create(model="low-latency", messages=QUESTION, temperature=0, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in plain if chunk.choices)
    assert "Paris" in text
    assert all(chunk.usage is None for chunk in plain)
    asked = list(
        client.chat.completions.create(
            model="low-latency", messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    assert asked[-1].usage is not None


def test_text_completions_work_too(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="low-latency", prompt="The capital of France is", max_tokens=4)
    assert answer.choices[0].text


def test_refusals_have_their_own_codes(client: openai.OpenAI, stack: RealStack) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nope", messages=QUESTION)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.InternalServerError) as idle:
        client.chat.completions.create(model="standard", messages=QUESTION)
    assert idle.value.status_code == 503
    assert idle.value.response.headers["retry-after"]
    stranger = openai.OpenAI(base_url=stack.gateway_url, api_key="fb_0_x", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_a_prompt_past_the_context_is_refused_in_words(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="low-latency", messages=[{"role": "user", "content": "whale " * 4000}])
    assert "maximum context length" in str(error.value)


def test_each_request_leaves_one_record_with_its_tokens(client: openai.OpenAI, api: httpx.Client) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="low-latency", messages=QUESTION, temperature=0, extra_headers={"X-Request-Id": "mine-1"}
    )
    own = raw.headers["x-request-id"]
    assert own.startswith("req_")

    def record() -> dict[str, Any] | None:
        rows = api.get("usage/?profile=low-latency&page_size=50").raise_for_status().json()["results"]
        return next((row for row in rows if row["id"] == own), None)

    row = wait_for("the usage record", record, seconds=10)
    usage = raw.parse().usage
    assert usage is not None
    assert (row["prompt_tokens"], row["completion_tokens"]) == (usage.prompt_tokens, usage.completion_tokens)
    assert row["client_request_id"] == "mine-1"
    assert row["ttft"] is None
    assert row["outcome"] == "completed"


def test_the_live_numbers_are_those_of_the_records(client: openai.OpenAI, api: httpx.Client) -> None:
    for _ in range(5):
        list(client.chat.completions.create(model="low-latency", messages=QUESTION, max_tokens=3, stream=True))

    def records() -> list[dict[str, Any]]:
        rows = (
            api.get("usage/?profile=low-latency&outcome=completed&page_size=200").raise_for_status().json()["results"]
        )
        return [row for row in rows if row["status"] == 200]

    last: dict[str, Any] = {}

    def counted() -> bool:
        series = api.get("live/low-latency/?minutes=15").raise_for_status().json()["series"]
        rows = records()
        last["shown"] = (sum(filter(None, series["ttft_count"])), sum(filter(None, series["e2e_count"])))
        last["recorded"] = (sum(row["ttft"] is not None for row in rows), len(rows))
        return last["recorded"][0] >= 5 and last["shown"] == last["recorded"]

    try:
        wait_for("the charts to show exactly the recorded requests", counted, seconds=20)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from error


def test_the_engines_options_were_read_from_its_own_parser(api: httpx.Client, deployment: dict[str, Any]) -> None:
    engine = api.get("engines/").raise_for_status().json()["results"][0]
    assert engine["kind"] in {"cpu", "cuda"}
    assert engine["version"][0].isdigit()
    spec = api.get("profiles/low-latency/").raise_for_status().json()
    body = spec.get("spec") or spec["revision"]["spec"]
    body = json.loads(json.dumps(body))
    body["engine"]["extra_args"] = {"no_such_option": 1}
    problems = api.post("profiles/check/", json={"spec": body}).json()["problems"]
    assert any("no such option" in str(problem) for problem in problems), problems


def test_start_up_was_read_from_the_log(api: httpx.Client, deployment: dict[str, Any], record_property: Any) -> None:
    replica = api.get(f"replicas/{deployment['replicas'][0]['id']}/").raise_for_status().json()
    facts = replica["progress"]["facts"]
    # 128 MiB at 23,040 bytes a token (30 layers, 3 KV heads of 64, bf16, keys and values), in blocks of 128.
    assert facts["kv_cache_tokens"] == 5760
    record_property("init_seconds", facts["init_seconds"])


def test_a_drain_lets_a_running_stream_end_whole_and_leaves_no_process(
    client: openai.OpenAI, api: httpx.Client, deployment: dict[str, Any]
) -> None:
    stream = client.chat.completions.create(
        model="low-latency",
        messages=[{"role": "user", "content": "Tell me a long story."}],
        max_tokens=100,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    chunks = [next(stream)]
    pid = api.get(f"deployments/{deployment['id']}/").json()["replicas"][0]["pid"]
    api.post(f"deployments/{deployment['id']}/drain/", json={}).raise_for_status()
    chunks.extend(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    final = deployment_until(api, deployment["id"], "stopped", seconds=60)
    assert not Path(f"/proc/{pid}").exists()
    assert final["status"] == "stopped"
