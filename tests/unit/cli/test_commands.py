"""What the commands send, write and exit with."""

import json
from typing import Any

import pytest

from controlplane.client.commands import logs as logs_module
from tests.unit.cli.conftest import Cli, Stub

DEPLOYMENT = {
    "id": "d1",
    "profile": "fast",
    "status": "draining",
    "ready": 0,
    "wanted": 0,
    "revision": 1,
    "generation": 1,
    "observed_generation": 1,
    "drain_seconds": 30,
    "replicas": [],
    "last_failure": None,
}
REPLICA = {"id": "0b0e7f0e-0000-4000-8000-000000000001", "slot": 0}


def page(*rows: Any) -> dict[str, Any]:
    """A list's only page."""
    return {"count": len(rows), "next": None, "previous": None, "results": list(rows)}


def piece(text: str, start: int, *, ended: bool = False, rotated: bool = False) -> dict[str, Any]:
    """Part of a log."""
    end = start + len(text)
    return {"offset": start, "next_offset": end, "size": end, "text": text, "rotated": rotated, "ended": ended}


def test_a_command_sends_the_token(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /nodes/", page())
    assert cli("nodes", "--json").exit_code == 0
    assert stub.requests[0][2]["Authorization"] == "Token t0ken"


def test_lists_are_read_page_by_page(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /keys/", {"next": "more", "results": [{"n": 1}]}, page({"n": 2}))
    assert json.loads(cli("keys", "list", "--json").stdout) == [{"n": 1}, {"n": 2}]


def test_a_refusal_is_said_with_its_details_and_exits_1(cli: Cli, stub: Stub) -> None:
    details = [{"field": "batching.x", "message": "Remove it."}]
    error = {"code": "invalid_spec", "message": "It is wrong.", "field": None, "details": details}
    stub.answer("GET /nodes/", {"error": error}, status=422)
    result = cli("nodes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "It is wrong.\n  batching.x: Remove it.\n"
    body = json.loads(cli("nodes", "--json").stderr)
    assert (body["error"]["code"], body["error"]["details"]) == ("invalid_spec", details)


def test_a_shape_error_names_each_field(cli: Cli, stub: Stub) -> None:
    details = {"spec": {"model": [{"message": "This field is required.", "code": "required"}]}}
    stub.answer("GET /nodes/", {"error": {"code": "invalid", "message": "Wrong.", "details": details}}, status=400)
    assert "  spec.model: This field is required.\n" in cli("nodes").stderr


def test_a_missing_log_in_says_what_to_do(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /nodes/", {"error": {"code": "not_authenticated", "message": "No."}}, status=401)
    assert "forebay login" in cli("nodes").stderr


def test_a_server_that_is_not_there_exits_3(cli: Cli) -> None:
    result = cli("nodes", FOREBAY_URL="http://127.0.0.1:9")
    assert result.exit_code == 3
    assert "forebay status" in result.stderr


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (502, b"<html>"), (500, {"error": {"code": "x", "message": "y"}})]
)
def test_an_answer_that_is_not_the_apis_exits_3(cli: Cli, stub: Stub, status: int, body: Any) -> None:
    stub.answer("GET /nodes/", body, status=status)
    assert cli("nodes").exit_code == 3


def test_wrong_usage_exits_2(cli: Cli) -> None:
    assert cli("scale", "fast").exit_code == 2
    assert cli("deploy", "fast", "--replicas", "-1").exit_code == 2


def test_login_keeps_the_token_for_its_address(cli: Cli, stub: Stub) -> None:
    stub.answer("POST /tokens/", {"token": "abc", "username": "ada"}, status=201)
    result = cli("login", "--username", "ada", text="secret words\n", FOREBAY_TOKEN=None)
    assert result.exit_code == 0
    assert json.loads(stub.requests[0][3]) == {"username": "ada", "password": "secret words", "rotate": False}
    assert json.loads((cli.home / "forebay" / "config.json").read_text()) == {"url": stub.url, "token": "abc"}
    assert "abc" not in result.output
    stub.answer("GET /nodes/", page())
    cli("nodes", FOREBAY_TOKEN=None)
    assert stub.requests[-1][2]["Authorization"] == "Token abc"


def test_a_login_that_cannot_be_kept_says_so(cli: Cli, stub: Stub) -> None:
    stub.answer("POST /tokens/", {"token": "abc", "username": "ada"}, status=201)
    (cli.home / "forebay").write_text("a file where the folder should be")
    result = cli("login", "--username", "ada", "--password", "x")
    assert result.exit_code == 1
    assert "XDG_CONFIG_HOME" in result.stderr


def test_a_name_with_odd_signs_stays_one_part_of_the_address(cli: Cli, stub: Stub) -> None:
    cli("profile", "show", "../keys")
    assert stub.requests[0][1] == "/api/v1/profiles/..%2Fkeys/"


def test_a_file_that_cannot_be_read_is_refused(cli: Cli) -> None:
    result = cli("profile", "apply", "-f", str(cli.home / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml cannot be read" in result.stderr


def test_a_document_can_come_from_standard_input(cli: Cli, stub: Stub) -> None:
    answer = {"profile": "fast", "revision": 1, "hash": "abcdef0123456789", "created": True, "changed": True}
    stub.answer("POST /profiles/apply/", answer, status=201)
    result = cli("profile", "apply", "-f", "-", text="name: fast\n")
    assert result.stdout == "fast created, revision 1 (abcdef012345)\n"
    assert stub.requests[0][3] == b"name: fast\n"


def test_a_deploy_leaves_out_what_was_not_said(cli: Cli, stub: Stub) -> None:
    stub.answer("POST /deployments/", DEPLOYMENT | {"status": "queued", "wanted": 1}, status=201)
    assert cli("deploy", "fast").stdout == "fast: 1 wanted of revision 1, queued\n"
    assert json.loads(stub.requests[0][3]) == {"profile": "fast"}
    cli("deploy", "fast", "--replicas", "0", "--revision", "2", "--drain-seconds", "5")
    assert json.loads(stub.requests[1][3]) == {"profile": "fast", "replicas": 0, "revision": 2, "drain_seconds": 5}


def test_a_failed_wait_exits_1_with_the_reason(cli: Cli, stub: Stub) -> None:
    stub.answer("POST /deployments/", DEPLOYMENT | {"wanted": 1}, status=201)
    failure = {"message": "It crashed.", "fix": "Mend it."}
    stub.answer("GET /deployments/d1/", DEPLOYMENT | {"wanted": 1, "status": "failed", "last_failure": failure})
    result = cli("deploy", "fast", "--wait")
    assert (result.exit_code, result.stderr) == (1, "fast failed: It crashed. Mend it.\n")
    body = json.loads(cli("deploy", "fast", "--wait", "--json").stdout)
    assert (body["ok"], body["deployment"]["status"]) == (False, "failed")


def test_a_drain_waits_until_nothing_runs(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /deployments/", page(DEPLOYMENT))
    stub.answer("GET /deployments/d1/", DEPLOYMENT, DEPLOYMENT | {"status": "stopped"})
    stub.answer("POST /deployments/d1/drain/", DEPLOYMENT)
    result = cli("drain", "fast", "--seconds", "9", "--wait")
    assert (result.exit_code, result.stdout) == (0, "fast is stopped.\n")
    assert [json.loads(body) for method, _, _, body in stub.requests if method == "POST"] == [{"drain_seconds": 9}]


def test_a_profile_that_is_not_deployed_is_told_apart_from_one_that_is_not_there(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /deployments/", page())
    assert "not_found" in cli("drain", "fast", "--json").stderr
    stub.answer("GET /profiles/fast/", {"name": "fast"})
    result = cli("drain", "fast")
    assert (result.exit_code, "forebay deploy fast" in result.stderr) == (1, True)


def test_ps_shows_each_replica_with_the_reason_of_what_is_not_well(cli: Cli, stub: Stub) -> None:
    waiting = {
        "id": REPLICA["id"],
        "revision": 1,
        "phase": "pending",
        "node": None,
        "message": "Nothing fits.",
        "fix": "",
        "unreachable": False,
    }
    ready = waiting | {"id": "second", "phase": "ready", "node": "a", "message": "Proven.", "unreachable": True}
    stub.answer("GET /deployments/", page(DEPLOYMENT))
    stub.answer("GET /deployments/d1/", DEPLOYMENT | {"replicas": [waiting, ready]})
    text = cli("ps").stdout
    assert "Nothing fits." in text
    assert "Proven." not in text
    assert "ready (node unreachable)" in text
    failed = {"status": "failed", "last_failure": {"message": "It crashed.", "fix": "Mend it."}}
    stub.answer("GET /deployments/d1/", DEPLOYMENT | failed)
    cli("ps")
    assert "It crashed. Mend it." in cli("ps").stdout


def test_an_empty_list_says_what_to_do_next(cli: Cli, stub: Stub) -> None:
    for path in ("profiles", "deployments", "keys", "nodes"):
        stub.answer(f"GET /{path}/", page())
    for command in (("profile", "list"), ("ps",), ("keys", "list"), ("nodes",)):
        assert "`forebay " in cli(*command).stdout


def test_a_new_key_is_alone_on_stdout(cli: Cli, stub: Stub) -> None:
    stub.answer("POST /keys/", {"key": "fb_1_secret", "message": "Keep it."}, status=201)
    result = cli("keys", "create", "ci", "--profile", "a", "--profile", "b", "--max-concurrency", "2")
    assert (result.stdout, result.stderr) == ("fb_1_secret\n", "Keep it.\n")
    assert json.loads(stub.requests[0][3]) == {"name": "ci", "profiles": ["a", "b"], "max_concurrency": 2}


def test_a_log_is_followed_in_whole_lines_until_its_end(cli: Cli, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "POLL_SECONDS", 0.01)
    path = f"GET /replicas/{REPLICA['id']}/log/"
    stub.answer(f"GET /replicas/{REPLICA['id']}/", REPLICA)
    stub.answer(path, piece("one\ntw", 0), piece("", 6), piece("o\n\x1b[2Jthree", 6))
    stub.answer(path, piece("again", 0, ended=True, rotated=True))
    result = cli("logs", "-f", REPLICA["id"])
    assert result.exit_code == 0
    assert result.stdout == "one\ntwo\n␛[2Jthree\nagain\n"
    assert "became shorter" in result.stderr
    asked = [address.partition("?")[2] for _, address, _, _ in stub.requests if "/log/" in address]
    assert asked == ["tail=16384", "offset=6", "offset=6", "offset=17"]


def test_logs_of_several_replicas_are_told_apart(cli: Cli, stub: Stub) -> None:
    second = {"id": "1b0e7f0e-0000-4000-8000-000000000002", "slot": 1}
    stub.answer("GET /deployments/", page(DEPLOYMENT))
    stub.answer("GET /deployments/d1/", DEPLOYMENT | {"replicas": [REPLICA, second]})
    for row in (REPLICA, second):
        stub.answer(f"GET /replicas/{row['id']}/log/", piece("line\n", 0))
    assert cli("logs", "fast").stdout == "#0 0b0e7f0e | line\n#1 1b0e7f0e | line\n"
    rows = [json.loads(line) for line in cli("logs", "fast", "--json").stdout.splitlines()]
    assert rows == [{"replica": REPLICA["id"], "line": "line"}, {"replica": second["id"], "line": "line"}]


def test_without_an_open_replica_the_last_failures_log_is_shown(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /deployments/", page(DEPLOYMENT))
    stub.answer("GET /deployments/d1/", DEPLOYMENT | {"last_failure": REPLICA}, DEPLOYMENT)
    stub.answer(f"GET /replicas/{REPLICA['id']}/log/", piece("Traceback\n", 0, ended=True))
    assert cli("logs", "fast").stdout == "Traceback\n"
    result = cli("logs", "fast")
    assert (result.exit_code, "no replica" in result.stderr) == (1, True)
