"""The spec of a revision: every part of the contract, its bounds, and its reading with errors that name the field.

A field that Forebay does not act on yet is refused as soon as it differs from its default: nothing is ignored.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Precision = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4"]
GIB = 2**30
MIB = 2**20


class Part(BaseModel):
    """Base of every part: frozen, and an unknown key is an error, as is a number that JSON cannot hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def inert(default: Any, why: str, **kwargs: Any) -> Any:
    """A field that has no effect yet: ``why`` says what a person can do instead."""
    return Field(default, json_schema_extra={"inert": why}, **kwargs)


class ModelPart(Part):
    """Which weights are served."""

    name: str = Field(min_length=1, max_length=200, description="Model, as listed under models")
    version: str = Field(min_length=1, max_length=100, description="Version of the model")
    adapters: tuple[str, ...] = inert((), "LoRA adapters cannot be served yet; leave the list empty.")


class ComputePart(Part):
    """What one replica runs on."""

    accelerator: Literal["cpu", "gpu"] = Field("cpu", description="Kind of device")
    accelerators: int = Field(0, ge=0, le=64, description="GPUs a replica; 0 on the CPU")
    cores: float = Field(1.0, gt=0, le=1024, description="CPU cores a replica claims, and is priced for")
    tensor_parallel: int = Field(1, ge=1, le=64, description="Tensor parallel size")
    pipeline_parallel: int = Field(1, ge=1, le=64, description="Pipeline parallel size")
    data_parallel: int = inert(1, "Data parallel engines cannot be deployed yet; use more replicas.", ge=1)
    memory_gib: float = Field(4.0, gt=0, le=100_000, description="Host memory a replica claims (CPU), GiB")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="Share of each GPU that the engine may take")
    power_cap_watts: int | None = inert(None, "Power caps are not enforced yet; set them with nvidia-smi.")
    max_concurrency: int = Field(8, ge=1, le=100_000, description="Requests in flight a profile, then 429")


class PrecisionPart(Part):
    """Number formats of weights and KV cache."""

    weights: Precision = Field("bf16", description="Format of the weights as they are computed with")
    kv_cache: Literal["auto", "bf16", "fp16", "fp8"] = Field("auto", description="Format of the KV cache")
    allow_precision_change: bool = inert(False, "Routes across precisions do not exist yet; leave it false.")


class BatchingPart(Part):
    """Bounds of a batch: none of them can overflow memory."""

    max_num_seqs: int = Field(8, ge=1, le=8192, description="Sequences in a batch")
    max_num_batched_tokens: int | None = Field(None, ge=1, description="Tokens in a batch; empty: the engine's own")
    max_model_len: int = Field(2048, ge=16, le=10_000_000, description="Prompt and answer together, tokens")
    kv_cache_mib: int | None = Field(None, ge=1, description="KV cache, MiB; needed on the CPU")


class SloPart(Part):
    """What is promised."""

    ttft_p99_ms: float | None = Field(None, gt=0, description="P99 time to first token, ms")
    e2e_p99_ms: float | None = Field(None, gt=0, description="P99 end to end, ms")
    ttft_p95_ms: float | None = inert(None, "Only P99 is judged yet; set ttft_p99_ms.")
    itl_p99_ms: float | None = inert(None, "Inter-token latency is not judged yet; leave it empty.")
    tokens_per_second: float | None = inert(None, "Throughput is not judged yet; leave it empty.")
    availability: float | None = inert(None, "Availability is not judged yet; leave it empty.")


class SamplingPart(Part):
    """Values that the engine uses where a request gives none."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)


class QualityPart(Part):
    """Sampling defaults and output bounds."""

    sampling: SamplingPart = Field(default_factory=SamplingPart)
    output_cap: int | None = Field(None, ge=1, description="Most tokens of an answer; more is refused")
    evaluation: str | None = inert(None, "Evaluations cannot be run yet; leave it empty.")
    reasoning_budget: int | None = inert(None, "Reasoning budgets are not enforced yet; use output_cap.")


class RoutingPart(Part):
    """How routes choose this profile."""

    priority: Literal["normal"] | str = inert("normal", "Priority classes do not exist yet; leave it 'normal'.")
    weight: float = inert(1.0, "Weighted routes do not exist yet; leave it 1.")


class FallbackStep(Part):
    """Which profile is tried next, and when."""

    profile: str
    on: Literal["no_capacity", "over_slo", "error", "too_long"]


class LimitsPart(Part):
    """Traffic limits of the profile."""

    requests_per_minute: int | None = inert(None, "Rate limits are not enforced yet; use compute.max_concurrency.")
    tokens_per_minute: int | None = inert(None, "Token limits are not enforced yet; use compute.max_concurrency.")
    queue_length: int = inert(0, "Requests are not queued yet: past max_concurrency they get 429.", ge=0)


class TopologyPart(Part):
    """Prefill and decode together, or apart."""

    mode: Literal["aggregated", "disaggregated"] = inert(
        "aggregated", "Prefill and decode cannot be split yet; use 'aggregated'."
    )


class EnginePart(Part):
    """How the engine itself is started."""

    enforce_eager: bool = Field(True, description="No compilation. On the CPU compiled mode gave wrong text")
    extra_args: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Further engine options, checked against the installed engine's parser"
    )


class Spec(Part):
    """The whole contract of one revision."""

    model: ModelPart
    compute: ComputePart = Field(default_factory=ComputePart)
    precision: PrecisionPart = Field(default_factory=PrecisionPart)
    batching: BatchingPart = Field(default_factory=BatchingPart)
    slo: SloPart = Field(default_factory=SloPart)
    quality: QualityPart = Field(default_factory=QualityPart)
    routing: RoutingPart = Field(default_factory=RoutingPart)
    fallback: tuple[FallbackStep, ...] = inert((), "Fallback chains do not exist yet; leave the list empty.")
    limits: LimitsPart = Field(default_factory=LimitsPart)
    topology: TopologyPart = Field(default_factory=TopologyPart)
    engine: EnginePart = Field(default_factory=EnginePart)

    @model_validator(mode="after")
    def _coherent(self) -> "Spec":
        for path, sentence in contradictions(self):
            raise ValueError(f"{path}: {sentence}")
        return self


Problem = Annotated[tuple[str, str], "field path, sentence"]


def contradictions(spec: Spec) -> Iterator[Problem]:
    """Yield (field path, sentence) for parts that cannot hold together."""
    compute, batching = spec.compute, spec.batching
    ranks = compute.tensor_parallel * compute.pipeline_parallel
    if compute.accelerator == "cpu" and compute.accelerators:
        yield "compute.accelerators", "a replica on the CPU has 0 GPUs; set 0, or accelerator to gpu."
    if compute.accelerator == "gpu" and compute.accelerators != ranks:
        yield (
            "compute.accelerators",
            f"{compute.accelerators} GPUs do not match tensor × pipeline parallel = {ranks}; set {ranks}.",
        )
    if compute.accelerator == "cpu" and batching.kv_cache_mib is None:
        yield (
            "batching.kv_cache_mib",
            "on the CPU the KV cache needs a size, or the engine asks for all memory; set it.",
        )
    tokens = batching.max_num_batched_tokens
    if tokens is not None and tokens < batching.max_num_seqs:
        yield (
            "batching.max_num_batched_tokens",
            f"{tokens} is below max_num_seqs {batching.max_num_seqs}; raise it to at least that.",
        )
    cap = spec.quality.output_cap
    if cap is not None and cap > batching.max_model_len:
        yield "quality.output_cap", f"{cap} is more than max_model_len {batching.max_model_len}; lower it."


def inert_changes(spec: BaseModel, *, prefix: str = "") -> Iterator[Problem]:
    """Yield (field path, sentence) for each field that differs from its default but has no effect yet."""
    for name, field in type(spec).model_fields.items():
        value, path = getattr(spec, name), f"{prefix}{name}"
        extra = field.json_schema_extra
        if isinstance(value, BaseModel):
            yield from inert_changes(value, prefix=f"{path}.")
        elif isinstance(extra, dict) and "inert" in extra and value != field.default:
            yield path, str(extra["inert"])


def parse(data: Mapping[str, Any]) -> tuple[Spec | None, list[Problem]]:
    """Read ``data`` into a Spec. Returns (spec, []) or (None, problems), each problem a (field path, sentence)."""
    try:
        spec = Spec.model_validate(dict(data))
    except ValidationError as error:
        return None, [_problem(item) for item in error.errors(include_url=False)]
    problems = list(inert_changes(spec))
    return (None, problems) if problems else (spec, [])


WORDS = {
    "extra_forbidden": "Forebay knows no such field; remove it or correct its name.",
    "missing": "This field is needed; give it a value.",
    "int_parsing": "This must be a whole number.",
    "int_type": "This must be a whole number.",
    "int_from_float": "This must be a whole number.",
    "float_parsing": "This must be a number.",
    "float_type": "This must be a number.",
    "bool_parsing": "This must be true or false.",
    "bool_type": "This must be true or false.",
    "string_type": "This must be text.",
    "string_too_short": "This must not be empty.",
    "literal_error": "This must be one of {expected}.",
    "greater_than_equal": "This must be at least {ge:g}.",
    "greater_than": "This must be more than {gt:g}.",
    "less_than_equal": "This must be at most {le:g}.",
}


def _problem(item: Any) -> Problem:
    path = ".".join(str(step) for step in item["loc"])
    words = WORDS.get(item["type"])
    message: str = words.format_map(item.get("ctx", {})) if words else item["msg"].removeprefix("Value error, ")
    if not path and ": " in message:
        path, _, message = message.partition(": ")
    return path, message[:1].upper() + message[1:]


def to_data(spec: Spec) -> dict[str, Any]:
    """The spec as plain JSON data, every field present."""
    return spec.model_dump(mode="json")
