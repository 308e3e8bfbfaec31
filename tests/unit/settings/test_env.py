"""The environment is read into one value, and what cannot be read is named."""

import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.settings.env import EnvironmentVariableError, read_environment


def test_nothing_set_gives_the_defaults() -> None:
    env = read_environment({})
    assert env.data_dir == Path.cwd() / ".forebay"
    assert env.valkey_url == f"unix://{env.data_dir}/run/valkey.sock"
    assert env.engine_home == env.data_dir / "engines"
    assert env.node_name == (platform.node().split(".")[0] or "node")
    assert (env.host, env.port, env.gateway_port) == ("127.0.0.1", 8300, 8400)
    assert env.engine_ports == (18000, 18999)
    assert env.allowed_hosts == ("127.0.0.1", "localhost", "127.0.0.1")
    assert env.time_scale == 1.0
    assert env.metrics_token is None


def test_what_is_set_is_used() -> None:
    env = read_environment(
        {
            "FOREBAY_DATA_DIR": "some/where",
            "FOREBAY_VALKEY_URL": "redis://cache:6379",
            "FOREBAY_TIME_SCALE": "0.1",
            "FOREBAY_ENGINE_HOME": "engines-here",
            "FOREBAY_NODE_NAME": "node-b",
            "FOREBAY_HOST": "10.0.0.1",
            "FOREBAY_PORT": "1",
            "FOREBAY_GATEWAY_PORT": "65535",
            "FOREBAY_ENGINE_PORTS": "20000-20000",
            "FOREBAY_ALLOWED_HOSTS": "a.example, b.example,",
            "FOREBAY_METRICS_TOKEN": "t",
        }
    )
    assert env.data_dir == Path.cwd() / "some/where"
    assert env.valkey_url == "redis://cache:6379"
    assert env.engine_home == Path("engines-here")
    assert (env.node_name, env.host) == ("node-b", "10.0.0.1")
    assert (env.port, env.gateway_port, env.engine_ports) == (1, 65535, (20000, 20000))
    assert env.allowed_hosts == ("a.example", "b.example")
    assert env.metrics_token == "t"


def test_seconds_are_scaled() -> None:
    assert read_environment({"FOREBAY_TIME_SCALE": "0.5"}).seconds(30) == 15.0


def test_without_an_argument_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_PORT", "8301")
    assert read_environment().port == 8301


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("FOREBAY_TIME_SCALE", text) for text in ("", "fast", "0", "-1", "nan", "inf")),
        *(("FOREBAY_PORT", text) for text in ("", "0", "65536", "-1", "http", "1.5", "²", "٣")),
        ("FOREBAY_GATEWAY_PORT", "x"),
        *(("FOREBAY_ENGINE_PORTS", text) for text in ("", "18000", "2-1", "0-9", "1-65536", "a-b", "1-²", "1-2-3")),
    ],
)
def test_a_value_that_cannot_be_read_names_its_variable_and_an_example(name: str, value: str) -> None:
    with pytest.raises(EnvironmentVariableError, match=f"{name} is .*example"):
        read_environment({name: value})


@given(st.dictionaries(st.sampled_from(["TIME_SCALE", "PORT", "GATEWAY_PORT", "ENGINE_PORTS"]), st.text(max_size=8)))
def test_any_text_is_read_or_refused_by_name(values: dict[str, str]) -> None:
    try:
        env = read_environment({f"FOREBAY_{name}": text for name, text in values.items()})
    except EnvironmentVariableError as error:
        assert str(error).startswith("FOREBAY_")
    else:
        assert 0 < env.port < 65536
        assert 0 < env.engine_ports[0] <= env.engine_ports[1] < 65536
        assert 0 < env.time_scale < float("inf")
