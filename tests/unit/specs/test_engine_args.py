"""From a spec to the exact command: every option, the environment, and the options that a person may add."""

import json
import shlex
from typing import Any

import pytest
import yaml

from profiles_app.specs.engine_args import (
    SET_BY_FOREBAY,
    Endpoint,
    check_extra_args,
    display_command,
    engine_command,
    engine_environment,
    engine_options,
)
from tests.unit.specs.documents import cpu_data, gpu_data, spec_from

ENDPOINT = Endpoint("127.0.0.1", 18001, "fast", "replica-1")
KNOWN = [
    {"flags": ["--seed"], "choices": None},
    {"flags": ["--tensor-parallel-size", "-tp"], "choices": None},
    {"flags": ["--enforce-eager", "--no-enforce-eager"], "choices": None},
    {"flags": ["--trust-remote-code", "--no-trust-remote-code"], "choices": None},
    {"flags": ["--compilation-config", "-cc"], "choices": None},
    {"flags": ["--load-format"], "choices": ["auto", "dummy"]},
    {"flags": ["--block-size"], "choices": [16, 32]},
]


def options(data: dict[str, Any]) -> dict[str, Any]:
    return engine_options(spec_from(data), model_source="models/tiny", endpoint=ENDPOINT)


def problems(args: dict[str, Any], *, known: Any = KNOWN, is_admin: bool = False) -> dict[str, str]:
    spec = spec_from(cpu_data(engine__extra_args=args))
    return dict(check_extra_args(spec, known=known, is_admin=is_admin))


def test_a_cpu_replica_gets_its_bounds_and_no_gpu_options() -> None:
    found = options(cpu_data(batching__max_num_batched_tokens=512))
    assert found["model"] == "models/tiny"
    assert found["served-model-name"] == ["fast", "replica-1"]
    assert (found["host"], found["port"]) == ("127.0.0.1", 18001)
    assert found["dtype"] == "bfloat16"
    assert found["kv-cache-memory-bytes"] == 128 * 2**20
    assert found["max-num-batched-tokens"] == 512
    absent = {"tensor-parallel-size", "gpu-memory-utilization", "quantization", "kv-cache-dtype"}
    assert not absent & found.keys()


def test_a_gpu_replica_gets_its_parallel_sizes_and_its_share() -> None:
    found = options(gpu_data(compute__gpu_memory_utilization=0.8))
    assert (found["tensor-parallel-size"], found["pipeline-parallel-size"]) == (2, 1)
    assert found["gpu-memory-utilization"] == 0.8
    assert "kv-cache-memory-bytes" not in found


def test_fp8_weights_are_a_quantisation_and_not_a_dtype() -> None:
    found = options(gpu_data(precision__weights="fp8", precision__kv_cache="fp8"))
    assert found["quantization"] == "fp8"
    assert found["kv-cache-dtype"] == "fp8"
    assert "dtype" not in found


def test_weights_of_a_quantised_checkpoint_are_left_to_the_engine() -> None:
    found = options(gpu_data(precision__weights="int4"))
    assert not {"dtype", "quantization"} & found.keys()


def test_sampling_defaults_are_given_only_where_the_spec_has_some() -> None:
    assert "override-generation-config" not in options(cpu_data())
    found = options(cpu_data(quality__sampling={"temperature": 0.0}))
    assert found["override-generation-config"] == {"temperature": 0.0}


def test_extra_options_come_with_dashes_and_in_order() -> None:
    found = options(cpu_data(engine__extra_args={"seed": 1, "block_size": 16}))
    assert list(found)[-2:] == ["block-size", "seed"]


def test_the_environment_of_a_cpu_replica_hides_every_gpu() -> None:
    env = engine_environment(spec_from(cpu_data(compute__cores=2.9)), gpu_uuids=())
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["SPT_NOENV"] == "1"


def test_less_than_one_core_is_still_one_thread() -> None:
    assert engine_environment(spec_from(cpu_data(compute__cores=0.5)), gpu_uuids=())["OMP_NUM_THREADS"] == "1"


def test_the_environment_of_a_gpu_replica_shows_its_own_gpus_only() -> None:
    env = engine_environment(spec_from(gpu_data()), gpu_uuids=("GPU-a", "GPU-b"))
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert "OMP_NUM_THREADS" not in env


def test_the_command_is_serve_with_its_config_and_nothing_else() -> None:
    spec = spec_from(gpu_data())
    command = engine_command(
        spec, model_source="models/tiny", endpoint=ENDPOINT, config_path="r/config.yaml", gpu_uuids=("GPU-a",)
    )
    assert command.argv == ("serve", "--config", "r/config.yaml")
    assert yaml.safe_load(command.config_yaml) == options(gpu_data())
    assert command.env["CUDA_VISIBLE_DEVICES"] == "GPU-a"


def test_a_value_reaches_the_engine_as_it_was_written() -> None:
    data = cpu_data(engine__extra_args={"seed": "a\x85b\u2028é: #x"})
    command = engine_command(spec_from(data), model_source="m", endpoint=ENDPOINT, config_path="c")
    assert yaml.safe_load(command.config_yaml)["seed"] == "a\x85b\u2028é: #x"


@pytest.mark.parametrize("name", sorted(SET_BY_FOREBAY))
def test_an_option_that_forebay_sets_is_refused_to_everybody(name: str) -> None:
    for spelling in (name, name.replace("_", "-"), f"--{name}", f"no-{name}", f"{name}.part"):
        (sentence,) = problems({spelling: "x"}, known=(), is_admin=True).values()
        assert "Forebay sets this option itself" in sentence


@pytest.mark.parametrize("name", ["tp", "no-enforce-eager", "no_enforce_eager"])
def test_another_spelling_of_such_an_option_is_refused_too(name: str) -> None:
    (sentence,) = problems({name: 2}, is_admin=True).values()
    assert "Forebay sets this option itself" in sentence


@pytest.mark.parametrize("name", ["trust-remote-code", "no-trust-remote-code", "cc", "compilation-config.level"])
def test_an_option_that_can_load_code_is_for_admins(name: str) -> None:
    (sentence,) = problems({name: True}).values()
    assert "only an admin" in sentence
    assert problems({name: True}, is_admin=True) == {}


def test_a_line_break_in_a_value_is_refused() -> None:
    for value in ("a\nb", "a\rb", "a\0b"):
        assert problems({"seed": value}) == {"engine.extra_args.seed": "A value may not hold line breaks or NUL."}


def test_an_option_that_the_engine_does_not_know_is_refused_by_name() -> None:
    (item,) = problems({"no-such-thing": 1}).items()
    assert item == (
        "engine.extra_args.no-such-thing",
        "The installed engine knows no such option; remove it or correct its name.",
    )


def test_while_no_engine_is_known_an_unknown_option_passes() -> None:
    assert problems({"no-such-thing": 1}, known=()) == {}


@pytest.mark.parametrize(("name", "value"), [("load-format", "dummy"), ("load_format", "auto"), ("block-size", 16)])
def test_a_choice_of_the_engine_is_accepted(name: str, value: object) -> None:
    assert problems({name: value}) == {}


def test_a_value_outside_the_choices_names_them() -> None:
    (sentence,) = problems({"load-format": "zip"}).values()
    assert sentence == "'zip' is not among the engine's choices: auto, dummy."


def test_every_problem_is_named_at_once() -> None:
    assert len(problems({"port": 1, "no-such-thing": 1, "seed": 4})) == 2


def test_the_shown_command_reads_back_as_the_options() -> None:
    data = cpu_data(
        quality__sampling={"temperature": 0.2}, engine__extra_args={"seed": 7, "chat-template": "a b", "fast": False}
    )
    command = engine_command(spec_from(data), model_source="my models/tiny", endpoint=ENDPOINT, config_path="c")
    shown = display_command(command, argv_prefix=["vllm"])
    words = shlex.split(shown.replace("\\\n", " "))
    assert words[words.index("vllm") :][:3] == ["vllm", "serve", "my models/tiny"]
    assert json.loads(words[words.index("--override-generation-config") + 1]) == {"temperature": 0.2}
    assert words[words.index("--served-model-name") + 1 :][:2] == ["fast", "replica-1"]
    assert words[words.index("--seed") + 1] == "7"
    assert "--no-fast" in words
    assert "--enforce-eager" in words
    assert "CUDA_VISIBLE_DEVICES=" in words
    assert "VLLM_TARGET_DEVICE=cpu" in words


def test_no_secret_is_in_the_shown_command() -> None:
    command = engine_command(spec_from(gpu_data()), model_source="m", endpoint=ENDPOINT, config_path="c")
    assert "VLLM_API_KEY=••••" in display_command(command, argv_prefix=["vllm"])
    assert "VLLM_API_KEY" not in command.env
    assert "key" not in command.config_yaml
