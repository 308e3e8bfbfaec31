"""A wake-up is a hint: it is sent at once or given up at once."""

import socket
from pathlib import Path
from typing import Any

from profiles_app.wakeups import DEPLOYMENT_PASS, broker_answers, send


def test_a_broker_that_is_not_there_is_known_without_a_wait(settings: Any, tmp_path: Path) -> None:
    settings.CELERY_BROKER_URL = f"redis+socket://{tmp_path}/none.sock?virtual_host=0"
    assert not broker_answers()
    assert not send(DEPLOYMENT_PASS)


def test_a_listening_unix_socket_answers(settings: Any, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "v.sock"))
        server.listen()
        settings.CELERY_BROKER_URL = f"redis+socket://{tmp_path}/v.sock?virtual_host=0"
        assert broker_answers()


def test_a_listening_tcp_port_answers_and_a_closed_one_does_not(settings: Any) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{port}/0"
        assert not broker_answers()
        server.listen()
        assert broker_answers()
