"""How far a start has come, read from its log."""

from pathlib import Path

import pytest

from profiles_app.runtimes.progress import GIB, read_facts, read_progress

LOG = (Path(__file__).parents[2] / "data" / "vllm" / "log_ok_startup.log").read_text(encoding="utf-8")


def test_a_whole_start_has_been_through_all_its_phases_in_order() -> None:
    progress = read_progress(LOG)
    assert (progress.phase, progress.detail) == ("serving", "Serving")
    assert [(seen.phase, seen.at) for seen in progress.seen] == [
        ("config", "11-30 21:09:42"),
        ("engine", "11-30 21:09:52"),
        ("weights", "11-30 21:10:04"),
        ("kv_cache", "11-30 21:10:06"),
        ("capacity", "11-30 21:10:06"),
        ("graphs", "11-30 21:10:07"),
        ("serving", "11-30 21:10:08"),
    ]


def test_the_facts_of_a_cpu_start_are_read() -> None:
    facts = read_facts(LOG)
    assert (facts.version, facts.architecture, facts.max_model_len) == ("0.32.0", "LlamaForCausalLM", 2048)
    assert (facts.kv_cache_tokens, facts.max_concurrency, facts.kv_cache_bytes) == (262_144, 128.0, GIB // 4)
    assert (facts.weights_seconds, facts.init_seconds) == (0.01, 1.09)
    assert facts.model_bytes is None


def test_the_facts_of_a_gpu_start_are_read() -> None:
    facts = read_facts(
        "Model loading took 14.99 GiB memory and 5.1 seconds\n"
        "torch.compile took 12.5 s in total\n"
        "Available KV cache memory: 55.25 GiB\n"
        "GPU KV cache size: 452,608 tokens\n"
        "Maximum concurrency for 8,192 tokens per request: 55.25x\n"
        "Graph capturing finished in 21 secs, took 0.50 GiB\n"
    )
    assert facts.model_bytes == round(14.99 * GIB)
    assert (facts.compile_seconds, facts.graph_seconds, facts.graph_bytes) == (12.5, 21, GIB // 2)
    assert (facts.kv_cache_bytes, facts.kv_cache_tokens) == (round(55.25 * GIB), 452_608)
    assert facts.max_concurrency == 55.25


@pytest.mark.parametrize(
    ("lines", "phase"),
    [
        (0, "launching"),
        (1, "launching"),
        (12, "config"),
        (21, "engine"),
    ],
)
def test_a_log_cut_off_tells_the_phase_reached_by_then(lines: int, phase: str) -> None:
    assert read_progress("\n".join(LOG.splitlines()[:lines])).phase == phase


def test_every_prefix_of_a_log_can_be_read_and_never_goes_back() -> None:
    order = ["launching", "config", "engine", "weights", "kv_cache", "capacity", "graphs", "serving"]
    reached = [order.index(read_progress(LOG[:end]).phase) for end in range(0, len(LOG), 97)]
    assert reached == sorted(reached)


def test_loading_weights_shows_the_files_done() -> None:
    text = (
        "INFO 11-30 21:10:04 [x.py:1] Starting to load model /m...\n"
        "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]\n"
        "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01, 1.9it/s]\n"
    )
    assert read_progress(text).detail == "Loading weights: 2 of 4 files"


def test_loading_weights_without_a_count_says_so_plainly() -> None:
    progress = read_progress("Starting to load model /m...\n")
    assert progress.detail == "Loading weights"
    assert progress.seen[0].at is None
