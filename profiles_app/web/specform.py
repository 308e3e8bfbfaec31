"""The spec as a form: sections and fields from the schema, and a posted form back to data. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from profiles_app.specs.schema import Problem, Spec

LABELS = {
    "model.name": "Model",
    "model.version": "Version",
    "compute.accelerators": "GPUs a replica",
    "compute.memory_gib": "Memory a replica",
    "compute.gpu_memory_utilization": "GPU memory share",
    "compute.max_concurrency": "Requests at once, most",
    "precision.kv_cache": "KV cache",
    "batching.max_num_seqs": "Sequences, most",
    "batching.max_num_batched_tokens": "Batched tokens, most",
    "batching.max_model_len": "Context, most",
    "batching.kv_cache_mib": "KV cache size",
    "slo.ttft_p99_ms": "P99 time to first token",
    "slo.e2e_p99_ms": "P99 end to end",
    "slo.ttft_p95_ms": "P95 time to first token",
    "slo.itl_p99_ms": "P99 inter-token latency",
    "quality.output_cap": "Answer, most",
    "engine.enforce_eager": "Eager mode",
    "engine.extra_args": "Further engine options",
}
UNITS = {
    "compute.cores": "cores",
    "compute.memory_gib": "GiB",
    "compute.max_concurrency": "requests",
    "batching.max_num_seqs": "at once",
    "batching.max_num_batched_tokens": "tokens a step",
    "batching.max_model_len": "tokens",
    "batching.kv_cache_mib": "MiB",
    "slo.ttft_p99_ms": "ms",
    "slo.e2e_p99_ms": "ms",
    "quality.output_cap": "tokens",
}
TITLES = {
    "model": "Model",
    "compute": "Compute",
    "precision": "Precision",
    "batching": "Batching",
    "slo": "Promise",
    "quality": "Quality",
    "routing": "Routing",
    "fallback": "Fallback",
    "limits": "Limits",
    "topology": "Topology",
    "engine": "Engine",
}
FOLDED = frozenset({"routing", "fallback", "limits", "topology"})
GPU_ONLY = frozenset(
    {"compute.accelerators", "compute.tensor_parallel", "compute.pipeline_parallel", "compute.gpu_memory_utilization"}
)


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of the editor. ``inert`` says why it cannot be changed yet; ``was`` is the value it departs from."""

    path: str
    label: str
    kind: Literal["text", "number", "select", "bool", "yaml"]
    value: str
    default: str
    help: str
    unit: str
    choices: tuple[str, ...]
    inert: str
    was: str | None
    problems: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the value departs from the running revision or, without one, from the default."""
        return self.was is not None

    @property
    def gpu_only(self) -> bool:
        """Whether the field says nothing about a replica on the CPU."""
        return self.path in GPU_ONLY

    @property
    def element_id(self) -> str:
        """The id of the control in the page."""
        return "f-" + self.path.replace(".", "-")


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the spec in the editor."""

    name: str
    title: str
    summary: str
    fields: tuple[FormField, ...]
    open: bool
    problems: tuple[str, ...] = field(default=())

    @property
    def live(self) -> tuple[FormField, ...]:
        """Fields that have an effect."""
        return tuple(row for row in self.fields if not row.inert)

    @property
    def inert(self) -> tuple[FormField, ...]:
        """Fields that have none yet."""
        return tuple(row for row in self.fields if row.inert)

    @property
    def said(self) -> tuple[FormField, ...]:
        """Fields that say something about this spec: set, with an effect, and of its kind of device."""
        on_cpu = any(row.path == "compute.accelerator" and row.value == "cpu" for row in self.fields)
        return tuple(row for row in self.live if row.value and not (on_cpu and row.gpu_only))


def sections(
    data: Mapping[str, Any],
    *,
    base: Mapping[str, Any] | None = None,
    problems: Sequence[Problem] = (),
    choices: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Section, ...]:
    """The editor's sections for ``data``; ``base`` is the spec to mark differences from (default: the defaults).

    ``choices`` offers known values for text fields, by path. Problems stand at the field that they name.
    """
    texts = {path: _text(_at(data, path, info.get_default(call_default_factory=True))) for path, info in leaves()}
    bases = {
        path: texts[path] if base is None and info.is_required() else _text(_at(base, path, _plain_default(info)))
        for path, info in leaves()
    }
    rows = [
        _field(path, info, texts[path], bases[path], problems=problems, choices=(choices or {}).get(path, ()))
        for path, info in leaves()
    ]
    result = []
    for name in Spec.model_fields:
        mine = tuple(row for row in rows if row.path.split(".")[0] == name)
        loose = tuple(text for path, text in problems if path == name and not any(row.path == path for row in mine))
        result.append(
            Section(
                name=name,
                title=TITLES[name],
                summary=_summary(mine),
                fields=mine,
                open=name not in FOLDED or any(row.problems or row.changed for row in mine),
                problems=loose,
            )
        )
    return tuple(result)


def leaves(model: type[BaseModel] = Spec, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field of the spec that holds a value, by dotted path, in the schema's order."""
    for name, info in model.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", info


def data_from_form(posted: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Spec data from posted text by dotted path. An empty text means the default; numbers may have separators."""
    data: dict[str, Any] = {}
    problems: list[Problem] = []
    for path, info in leaves():
        if path not in posted or _inert(info):
            continue
        text = str(posted[path]).strip()
        if not text and not info.is_required():
            continue
        try:
            _put(data, path, _value(text, kind=_kind(info)))
        except yaml.YAMLError:
            problems.append((path, "This is not YAML: write one 'option: value' a line."))
    return data, problems


def unplaced(problems: Sequence[Problem]) -> list[Problem]:
    """Problems whose path is no field of the form, so that the page must say them on top."""
    known = {path for path, _ in leaves()} | set(Spec.model_fields)
    return [(path, text) for path, text in problems if _anchor(path) not in known]


def _field(
    path: str, info: FieldInfo, value: str, base: str, *, problems: Sequence[Problem], choices: Sequence[str]
) -> FormField:
    kind = _kind(info)
    offered = tuple(choices) or _choices(info)
    return FormField(
        path=path,
        label=LABELS.get(path) or path.rsplit(".", 1)[-1].replace("_", " ").capitalize(),
        kind="select" if offered else kind,
        value=value,
        default=_text(_plain_default(info)),
        help=info.description or "",
        unit=UNITS.get(path, ""),
        choices=offered if value in offered or not value else (value, *offered),
        inert=_inert(info),
        was=base if value != base else None,
        problems=tuple(text for where, text in problems if _anchor(where) == path),
    )


def _anchor(path: str) -> str:
    """The field of the form that a problem's path belongs to: keys of extra_args belong to the one text area."""
    return "engine.extra_args" if path.startswith("engine.extra_args") else path


def _kind(info: FieldInfo) -> Literal["text", "number", "bool", "yaml"]:
    types = _types(info.annotation)
    if bool in types:
        return "bool"
    if types & {int, float}:
        return "number"
    return "yaml" if any(get_origin(kind) in {dict, tuple} for kind in types) else "text"


def _types(annotation: Any) -> set[Any]:
    if get_origin(annotation) in {Union, UnionType}:
        return {kind for part in get_args(annotation) for kind in _types(part)} - {NoneType}
    return {annotation}


def _choices(info: FieldInfo) -> tuple[str, ...]:
    if get_origin(info.annotation) is Literal:
        return tuple(str(value) for value in get_args(info.annotation))
    return ()


def _inert(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    return str(extra["inert"]) if isinstance(extra, dict) and "inert" in extra else ""


def _plain_default(info: FieldInfo) -> Any:
    return None if info.is_required() else info.get_default(call_default_factory=True)


def _at(data: Mapping[str, Any] | None, path: str, default: Any) -> Any:
    node: Any = data
    for step in path.split("."):
        if not isinstance(node, Mapping) or step not in node:
            return None if default.__class__.__name__ == "PydanticUndefinedType" else default
        node = node[step]
    return node


def _text(value: Any) -> str:
    if value is None or value == () or value == [] or value == {}:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict | list | tuple):
        return yaml.safe_dump(value, sort_keys=False, default_flow_style=False).strip()
    return str(value)


def _value(text: str, *, kind: str) -> Any:
    if kind == "number":
        return "".join(sign for sign in text if sign not in ",\u202f\u00a0 ")
    if kind == "bool":
        return text == "true"
    return yaml.safe_load(text) if kind == "yaml" else text


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    node = data
    for step in parents:
        node = node.setdefault(step, {})
    node[last] = value


def _summary(rows: Sequence[FormField]) -> str:
    """The first three values that say something, as the folded section's line."""
    said = [f"{row.label.lower()} {row.value}{' ' + row.unit if row.unit else ''}" for row in rows if row.value]
    live = [text for text, row in zip(said, [row for row in rows if row.value], strict=True) if not row.inert]
    return ", ".join(live[:3]) or "nothing set"
