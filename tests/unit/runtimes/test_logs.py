"""An engine's log is followed while it grows, and never read whole when it is long."""

from pathlib import Path

import pytest

from profiles_app.runtimes.logs import LogReader, read_tail


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def append(log: Path, text: str) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_log_that_is_not_there_yet_is_empty(log: Path) -> None:
    reader = LogReader(log)
    assert reader.poll() == ""
    assert read_tail(log) == ""


def test_a_poll_gives_the_complete_lines_since_the_last(log: Path) -> None:
    reader = LogReader(log)
    append(log, "one\ntw")
    assert (reader.poll(), reader.unfinished) == ("one\n", "tw")
    assert reader.poll() == ""
    append(log, "o\n")
    assert (reader.poll(), reader.unfinished) == ("two\n", "")
    assert reader.text == "one\ntwo\n"


def test_a_rotated_log_is_read_from_its_start(log: Path) -> None:
    reader = LogReader(log)
    append(log, "old line\n")
    reader.poll()
    log.write_text("new\n", encoding="utf-8")
    assert reader.poll() == "new\n"


def test_a_long_log_is_read_from_the_start_of_a_line_near_its_end(log: Path) -> None:
    append(log, "".join(f"line {number}\n" for number in range(1000)))
    reader = LogReader(log, max_bytes=25)
    assert reader.poll() == "line 998\nline 999\n"
    append(log, "line 1000\nline 1001\n")
    reader.poll()
    assert len(reader.text) <= 25
    assert reader.text.endswith("line 1001\n")


def test_the_tail_includes_an_unfinished_line(log: Path) -> None:
    append(log, "one\ntwo")
    assert read_tail(log) == "one\ntwo"


def test_bytes_that_are_no_text_do_not_stop_the_reading(log: Path) -> None:
    log.write_bytes(b"\xff\xfe ok\n")
    assert read_tail(log).endswith(" ok\n")
