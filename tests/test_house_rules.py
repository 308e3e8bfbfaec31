"""Rules of the source tree that no linter sees: module heads, sizes, words, names, and contracts that really hold."""

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from celery import current_app

from profiles_app import wakeups

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("controlplane", "monitoring", "gateway", "profiles_app")
SELF = Path(__file__).resolve().relative_to(ROOT)
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
MAX_LINES = 400
# Files over the limit, at the length that they may not pass. Whoever shortens one takes it out of this list.
LONGER = {
    "static/css/tokens.css": 416,
    "tests/integration/test_monitoring_pages.py": 455,
    "tests/integration/test_runtime_process.py": 408,
    "tests/unit/gateway_proxy/test_exchange.py": 406,
}


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that belongs to the project, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("the sources are no git checkout")
    paths = (Path(name) for name in listed.stdout.decode().split("\0") if name)
    return tuple(path for path in paths if (ROOT / path).is_file())


def is_ours(path: Path) -> bool:
    """Written by hand: no vendored, generated or recorded file, and not this one, which names what it forbids."""
    return not {"vendor", "migrations", "data"} & set(path.parts) and path.name != "uv.lock" and path != SELF


def sources(*suffixes: str) -> list[Path]:
    return [path for path in tracked() if is_ours(path) and path.suffix in suffixes]


def text_of(path: Path) -> str:
    """The file's text; empty for a binary file."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def lines_with(pattern: str, paths: list[Path]) -> list[str]:
    """path:line of every line that the pattern finds."""
    found = re.compile(pattern)
    return [
        f"{path}:{number}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if found.search(line)
    ]


def test_every_module_begins_with_what_it_is_responsible_for() -> None:
    for path in sources(".py"):
        lines = [line for line in text_of(path).splitlines()[:2] if not line.startswith("#!")]
        assert not lines or lines[0].startswith('"""'), path


def test_no_file_is_longer_than_a_person_reads_at_once() -> None:
    for path in sources(".py", ".js", ".css", ".html", ".sh"):
        length = len(text_of(path).splitlines())
        assert length <= LONGER.get(str(path), MAX_LINES), f"{path} has {length} lines"


def test_no_file_is_excused_that_need_not_be() -> None:
    lengths = {name: len(text_of(Path(name)).splitlines()) for name in LONGER}
    assert {name for name, length in lengths.items() if length > MAX_LINES} == set(LONGER)


def test_no_path_of_a_persons_machine_is_in_the_tree() -> None:
    everything = [path for path in tracked() if path != SELF and path.name != "uv.lock"]
    assert lines_with(r"(?<![\w.~$}])/(work|home|root|Users)/", everything) == []


def test_no_registry_is_named_but_in_the_lock() -> None:
    everything = [path for path in tracked() if path != SELF and path.name != "uv.lock"]
    assert lines_with(r"pypi\.org|pythonhosted|npmjs|debian\.org", everything) == []


def test_nothing_is_left_for_later() -> None:
    code = sources(".py", ".js", ".css", ".html", ".sh", ".toml")
    assert lines_with(r"\b(TODO|FIXME|XXX)\b", code) == []


def test_nobody_is_named_as_if_they_were_a_module_for_everything() -> None:
    names = {"utils.py", "helpers.py", "common.py", "misc.py"}
    assert [path for path in sources(".py") if path.name in names or "common" in path.parts] == []


def saves() -> Iterator[tuple[Path, str]]:
    """(file, receiver) of every call of save() that does not say which fields it writes."""
    for path in sources(".py"):
        if path.parts[0] not in PACKAGES:
            continue
        for node in ast.walk(ast.parse(text_of(path))):
            whole = isinstance(node, ast.Call) and not any(word.arg == "update_fields" for word in node.keywords)
            if whole and isinstance(node.func, ast.Attribute) and node.func.attr == "save":
                yield path, ast.unparse(node.func.value)


def test_no_row_is_saved_whole_but_those_with_one_writer() -> None:
    """A whole save of a Replica, Deployment or Node would write back what another writer has changed meanwhile."""
    allowed = {"request.session", "cursor"}  # Django's own; IngestCursor, which only the fenced monitor writes
    assert {receiver for _, receiver in saves()} <= allowed


def task_constants() -> dict[str, str]:
    return {
        name: value
        for name, value in vars(wakeups).items()
        if name.isupper() and isinstance(value, str) and name.split("_")[0] in {"DEPLOYMENT", "NODE", "GATEWAY"}
    }


def test_every_task_is_named_after_its_app_and_function() -> None:
    for module in ("profiles_app.tasks", "profiles_app.agent", "gateway.tasks"):
        importlib.import_module(module)
    ours = [task for task in current_app.tasks.values() if task.run.__module__.split(".")[0] in PACKAGES]
    assert {task.name for task in ours} >= set(task_constants().values())
    for task in ours:
        app = task.run.__module__.split(".")[0]
        assert task.name == f"{app}.{task.run.__name__.removesuffix('_task')}"


def test_every_name_that_is_woken_is_a_task() -> None:
    for name, task in task_constants().items():
        assert re.fullmatch(r"(profiles_app|gateway|monitoring)\.[a-z_]+", task), name


def contracts() -> list[dict[str, Any]]:
    document = tomllib.loads(text_of(Path("pyproject.toml")))
    found: list[dict[str, Any]] = document["tool"]["importlinter"]["contracts"]
    return found


# For each contract one import that it forbids: (module, what it must not import).
FORBIDDEN = {
    "Packages import downwards only": ("profiles_app/api/rows.py", "gateway.models"),
    "Inside profiles_app": ("profiles_app/selectors/fleet.py", "profiles_app.services.nodes"),
    "Inside monitoring": ("monitoring/rollups.py", "monitoring.live"),
    "Inside gateway": ("gateway/models.py", "gateway.services"),
    "The request path knows no framework of the control plane": ("gateway/proxy/auth.py", "django.conf"),
    "Rules are pure": ("profiles_app/specs/revision.py", "redis"),
    "NVML has one door": ("profiles_app/services/nodes.py", "pynvml"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_import_contracts_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_contract_has_an_import_to_break_it_with() -> None:
    assert {contract["name"] for contract in contracts()} == set(FORBIDDEN)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_import_is_caught_by_its_contract(name: str, tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    module, imported = FORBIDDEN[name]
    path = tmp_path / module
    path.write_text(f"{path.read_text()}\nimport {imported}\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert f"{name} BROKEN" in " ".join(done.stdout.split())


def test_every_module_of_an_app_has_its_layer() -> None:
    """A module that no layer names may import anything, and nobody would notice."""
    outside = {"__init__", "__pycache__", "migrations", "templatetags"}
    for contract in contracts():
        for container in contract.get("containers", ()):
            named = {name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")}
            there = {path.stem for path in (ROOT / container).iterdir() if path.suffix == ".py" or path.is_dir()}
            assert there - named - outside == set(), container
