"""The command line against the real API."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.core.wsgi import get_wsgi_application
from typer.testing import CliRunner, Result

from controlplane.cli import app
from profiles_app.models import ModelVersion
from tests.integration.conftest import PASSWORD

# Django closes the connection after each request, as in production, and a test's own transaction with it.
pytestmark = pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
Run = Callable[..., Result]


@pytest.fixture
def run(operator_user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`forebay`, logged in as the operator; its requests reach Django without a socket."""
    transport = httpx.WSGITransport(app=get_wsgi_application())
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=transport))
    env = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FOREBAY_URL": "http://localhost:8300",
        "FOREBAY_TOKEN": None,
        "COLUMNS": "200",
    }

    def command(*args: str, text: str | None = None) -> Result:
        return CliRunner().invoke(app, args, input=text, env=env)

    done = command("login", "--username", operator_user.username, "--password", PASSWORD)
    assert done.exit_code == 0, done.output
    return command


def test_a_profile_goes_from_file_to_deployment_and_back(run: Run, spec: Any, tmp_path: Path) -> None:
    file = tmp_path / "fast.yaml"
    file.write_text(yaml.safe_dump({"kind": "Profile", "name": "fast", "spec": spec}))
    assert run("profile", "apply", "-f", str(file)).stdout.startswith("fast created, revision 1")
    exported = run("profile", "export", "fast").stdout
    assert run("profile", "apply", "-f", "-", text=exported).stdout.startswith("fast unchanged, revision 1")
    assert "tiny@v1" in run("profile", "list").stdout
    assert "max_num_seqs: 4" in run("profile", "show", "fast").stdout
    assert run("deploy", "fast").stdout == "fast: 1 wanted of revision 1, queued\n"
    assert json.loads(run("ps", "--json").stdout)[0]["wanted"] == 1
    assert run("scale", "fast", "2").stdout == "fast: 2 wanted, queued\n"
    assert json.loads(run("drain", "fast", "--wait", "--json").stdout)["ok"] is True


def test_keys_are_made_listed_and_revoked(run: Run, model_version: ModelVersion) -> None:
    made = json.loads(run("keys", "create", "ci", "--json").stdout)
    assert made["key"].startswith(made["prefix"])
    assert made["key"] not in run("keys", "list").stdout
    assert run("keys", "revoke", made["id"]).stdout == "Revoked.\n"
    assert "revoked" in run("keys", "list").stdout


def test_what_the_server_refuses_is_said(run: Run, spec: Any, tmp_path: Path) -> None:
    spec["batching"]["max_model_len"] = 1
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump({"name": "bad", "spec": spec}))
    result = run("profile", "apply", "-f", str(file))
    assert result.exit_code == 1
    assert "batching.max_model_len" in result.stderr
    assert run("logs", "missing").exit_code == 1
    assert run("nodes").exit_code == 0
