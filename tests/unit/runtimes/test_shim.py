"""The shim keeps logs bounded, files private, and imports nothing heavy."""

import subprocess
import sys
from pathlib import Path

from profiles_app.runtimes import shim


def test_a_log_below_its_limit_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(b"x" * 10)
    assert not shim.rotate(log, limit_bytes=10)
    assert not shim.rotate(tmp_path / "missing.log")


def test_a_rotated_log_goes_on_in_the_same_file_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab", buffering=0) as engine:
        for number in range(4):
            engine.write(b"%d" % number * 20)
            assert shim.rotate(log, limit_bytes=10)
        engine.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "engine.log.1").read_bytes() == b"3" * 20
    assert (tmp_path / "engine.log.2").read_bytes() == b"2" * 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine.log", "engine.log.1", "engine.log.2"]


def test_a_private_file_is_replaced_at_once_and_closed_to_others(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("old", encoding="utf-8")
    shim.write_private(target, "new")
    assert target.read_text(encoding="utf-8") == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_the_shim_imports_neither_django_nor_any_package_of_ours() -> None:
    script = f"import runpy, sys\nrunpy.run_path({shim.__file__!r}, run_name='shim')\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, check=True, text=True)
    assert not {"django", "profiles_app", "psutil", "httpx", "asyncio"} & set(done.stdout.split())
