"""Where the address and the token come from."""

import stat
from pathlib import Path

import pytest

from controlplane.client.config import Login, config_path, keep_login, read_login


def test_without_anything_the_address_is_where_this_host_listens(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert read_login(env) == Login("http://127.0.0.1:8300", None)
    assert read_login({**env, "FOREBAY_HOST": "10.0.0.1", "FOREBAY_PORT": "9000"}).url == "http://10.0.0.1:9000"


def test_a_kept_login_is_private_and_read_again(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    path = keep_login(env, Login("http://host:1", "secret"))
    assert path == tmp_path / ".config" / "forebay" / "config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_login(env) == Login("http://host:1", "secret")


def test_the_environment_wins_and_a_kept_token_goes_to_its_own_address_only(tmp_path: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    keep_login(env, Login("http://host:1", "secret"))
    assert read_login({**env, "FOREBAY_TOKEN": "mine"}) == Login("http://host:1", "mine")
    assert read_login({**env, "FOREBAY_URL": "http://elsewhere/"}) == Login("http://elsewhere", None)
    assert read_login({**env, "FOREBAY_URL": "http://host:1/"}).token == "secret"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 1}'])
def test_a_broken_file_is_no_login(tmp_path: Path, text: str) -> None:
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    config_path(env).parent.mkdir()
    config_path(env).write_text(text)
    assert read_login(env).token is None
