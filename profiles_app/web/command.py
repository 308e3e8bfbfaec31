"""The command that a replica of a spec would run, on the engine that is installed now."""

from collections.abc import Sequence
from dataclasses import dataclass

from profiles_app.models import EngineInstall, ModelVersion
from profiles_app.selectors import Viewer, engine_installs
from profiles_app.specs.schema import Spec
from profiles_app.web.preview import Line, command_lines

KIND_OF = {"cpu": "cpu", "gpu": "cuda"}


@dataclass(frozen=True, slots=True)
class Command:
    """Lines to show, and the install that they are for; None: none is installed yet, the program is a stand-in."""

    lines: list[Line]
    install: EngineInstall | None


def command_of(viewer: Viewer, spec: Spec, version: ModelVersion, *, name: str, base: Sequence[Line] = ()) -> Command:
    """The command of ``spec`` on the newest fitting install."""
    fitting = engine_installs(viewer).filter(enabled=True, kind=KIND_OF[spec.compute.accelerator])
    install = fitting.order_by("-created_at").first()
    prefix = install.argv_prefix if install else ["vllm"]
    lines = command_lines(spec, name=name, model_source=version.source, argv_prefix=prefix, base=base)
    return Command(lines=lines, install=install)
