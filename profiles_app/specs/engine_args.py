"""From a spec to the engine's YAML, argv and environment: the exact command that a replica runs.

Nothing secret is in argv or YAML. Facts of the flags: vLLM's own parser (EngineInstall.flags).
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from profiles_app.specs.schema import MIB, Problem, Spec

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
KV_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"}
QUANTIZATIONS = {"fp8": "fp8"}
SET_BY_FOREBAY = frozenset(
    (
        "api_key",
        "config",
        "data_parallel_size",
        "disable_log_stats",
        "dtype",
        "enforce_eager",
        "gpu_memory_utilization",
        "hf_token",
        "host",
        "kv_cache_dtype",
        "kv_cache_memory_bytes",
        "log_config_file",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "model",
        "override_generation_config",
        "pipeline_parallel_size",
        "port",
        "root_path",
        "served_model_name",
        "shutdown_timeout",
        "ssl_ca_certs",
        "ssl_certfile",
        "ssl_keyfile",
        "tensor_parallel_size",
        "uds",
    )
)
ADMIN_ONLY = frozenset(
    (
        "allowed_local_media_path",
        "chat_template",
        "compilation_config",
        "distributed_executor_backend",
        "ec_transfer_config",
        "enable_prompt_embeds",
        "hf_config_path",
        "hf_overrides",
        "io_processor_plugin",
        "kv_transfer_config",
        "logits_processors",
        "middleware",
        "reasoning_parser_plugin",
        "scheduler_cls",
        "speculative_config",
        "tool_parser_plugin",
        "tool_server",
        "trust_remote_code",
        "trust_request_chat_template",
        "trust_request_mm_kwargs",
        "worker_cls",
        "worker_extension_cls",
    )
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one replica listens and by which names it answers. ``identity`` is the replica's id."""

    host: str
    port: int
    served_name: str
    identity: str


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """What is run: ``argv`` after the install's prefix, the YAML file's text, and the environment without secrets."""

    argv: tuple[str, ...]
    config_yaml: str
    env: Mapping[str, str]


def engine_options(spec: Spec, *, model_source: str, endpoint: Endpoint) -> dict[str, Any]:
    """Options of the engine, by long flag name without dashes, as its ``--config`` file takes them."""
    batching, compute, precision = spec.batching, spec.compute, spec.precision
    options: dict[str, Any] = {
        "model": model_source,
        "host": endpoint.host,
        "port": endpoint.port,
        "served-model-name": [endpoint.served_name, endpoint.identity],
        "max-model-len": batching.max_model_len,
        "max-num-seqs": batching.max_num_seqs,
        "enforce-eager": spec.engine.enforce_eager,
        "disable-access-log-for-endpoints": "/health,/metrics,/ping,/v1/models",
        "disable-fastapi-docs": True,
        "shutdown-timeout": 0,
    }
    if precision.weights in DTYPES:
        options["dtype"] = DTYPES[precision.weights]
    if precision.weights in QUANTIZATIONS:
        options["quantization"] = QUANTIZATIONS[precision.weights]
    if precision.kv_cache != "auto":
        options["kv-cache-dtype"] = KV_DTYPES[precision.kv_cache]
    if batching.max_num_batched_tokens is not None:
        options["max-num-batched-tokens"] = batching.max_num_batched_tokens
    if batching.kv_cache_mib is not None:
        options["kv-cache-memory-bytes"] = batching.kv_cache_mib * MIB
    if compute.accelerator == "gpu":
        options["gpu-memory-utilization"] = compute.gpu_memory_utilization
        options["tensor-parallel-size"] = compute.tensor_parallel
        options["pipeline-parallel-size"] = compute.pipeline_parallel
    sampling = spec.quality.sampling.model_dump(exclude_none=True)
    if sampling:
        options["override-generation-config"] = sampling
    return options | {key.replace("_", "-"): value for key, value in sorted(spec.engine.extra_args.items())}


def engine_environment(spec: Spec, *, gpu_uuids: Sequence[str]) -> dict[str, str]:
    """Variables that the engine needs, without secrets."""
    env = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "SPT_NOENV": "1",
    }
    if spec.compute.accelerator == "cpu":
        threads = max(1, int(spec.compute.cores))
        return env | {
            "OMP_NUM_THREADS": str(threads),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_TARGET_DEVICE": "cpu",
            "CUDA_VISIBLE_DEVICES": "",
        }
    return env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}


def engine_command(
    spec: Spec, *, model_source: str, endpoint: Endpoint, config_path: str, gpu_uuids: Sequence[str] = ()
) -> EngineCommand:
    """The command of one replica: ``serve --config <config_path>`` and what stands in that file."""
    options = engine_options(spec, model_source=model_source, endpoint=endpoint)
    return EngineCommand(
        argv=("serve", "--config", config_path),
        config_yaml=yaml.safe_dump(options, sort_keys=False),
        env=engine_environment(spec, gpu_uuids=gpu_uuids),
    )


def check_extra_args(spec: Spec, *, known: Iterable[Mapping[str, Any]], is_admin: bool) -> list[Problem]:
    """Problems of ``engine.extra_args`` against the parser of an installed engine.

    ``known`` are the parser's options ({"flags": [...], "choices": ...}); empty means that no engine is known yet, and
    then only what Forebay sets itself is refused.
    """
    flags = {_dest(flag): option for option in known for flag in option["flags"]}
    problems = []
    for name, value in spec.engine.extra_args.items():
        sentence = _extra_arg_problem(name, value, flags, is_admin=is_admin)
        if sentence:
            problems.append((f"engine.extra_args.{name}", sentence))
    return problems


def _dest(name: str) -> str:
    """An option's name as the parser keeps it: no leading dashes, and of a dotted name the option before the dot."""
    return name.lstrip("-").replace("-", "_").partition(".")[0]


def _spellings(key: str, flags: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Every name of the option that ``key`` means: short names and negations reach it as well as its long one."""
    aliases = {_dest(flag) for flag in flags.get(key, {}).get("flags", ())} | {key}
    return frozenset(aliases | {alias.removeprefix("no_") for alias in aliases})


def _extra_arg_problem(name: str, value: Any, flags: Mapping[str, Mapping[str, Any]], *, is_admin: bool) -> str | None:
    key = _dest(name)
    spellings = _spellings(key, flags)
    if spellings & SET_BY_FOREBAY:
        return "Forebay sets this option itself; use the field of the spec that stands for it."
    if spellings & ADMIN_ONLY and not is_admin:
        return "This option can load code or open files; only an admin of the team may set it."
    if isinstance(value, str) and any(sign in value for sign in "\n\r\0"):
        return "A value may not hold line breaks or NUL."
    if not flags:
        return None
    if key not in flags:
        return "The installed engine knows no such option; remove it or correct its name."
    choices = flags[key].get("choices")
    if choices and str(value) not in {str(choice) for choice in choices}:
        return f"{value!r} is not among the engine's choices: {', '.join(map(str, choices))}."
    return None


def display_command(command: EngineCommand, *, argv_prefix: Sequence[str]) -> str:
    """The command as a person would type it: environment, argv, and the YAML's options as flags."""
    lines = [f"{name}={shlex.quote(value)}" for name, value in sorted(command.env.items())]
    lines.append("VLLM_API_KEY=•••• (made for each replica)")
    options: dict[str, Any] = yaml.safe_load(command.config_yaml)
    model = options.pop("model")
    lines.append(shlex.join([*argv_prefix, "serve", str(model)]))
    lines.extend(_flag(name, value) for name, value in options.items())
    return " \\\n  ".join(lines)


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, list):
        return f"--{name} {shlex.join(map(str, value))}"
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return f"--{name} {shlex.quote(text)}"
