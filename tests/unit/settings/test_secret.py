"""The signing key: given, or made once for all processes and kept where only its owner can read it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane.settings.secret import secret_key


@pytest.fixture(autouse=True)
def no_key_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOREBAY_SECRET_KEY", raising=False)


def test_a_given_key_is_used_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_SECRET_KEY", "given")
    assert secret_key(tmp_path / "data") == "given"
    assert list((tmp_path / "data").iterdir()) == []


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    key = secret_key(tmp_path / "data")
    assert len(key) >= 50
    assert secret_key(tmp_path / "data") == key
    assert secret_key(tmp_path / "other") != key


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    secret_key(tmp_path / "data")
    (file,) = (tmp_path / "data").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_starts_at_the_same_moment_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        keys = set(pool.map(lambda _: secret_key(tmp_path), range(32)))
    assert len(keys) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["secret.key"]


def test_a_file_left_by_a_process_that_died_while_making_the_key_does_no_harm(tmp_path: Path) -> None:
    for pid in range(1, 3):
        (tmp_path / f"secret.key.{pid}").write_text("half")
    assert secret_key(tmp_path) == secret_key(tmp_path) != "half"
