"""Numbers as text: units, three figures, and words for what is missing."""

import pytest

from monitoring.words import count, money, number, share, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "no data"),
        (0.0, "0 ms"),
        (0.000012, "0.012 ms"),
        (0.612, "612 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.118, "1.12 s"),
        (60.0, "1 min"),
        (402.0, "6 min 42 s"),
        (3600.0, "1 h"),
        (5400.0, "1 h 30 min"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "no data"), (0, "0"), (0.04, "0.04"), (184.2, "184"), (8710, "8.71 k"), (2.5e6, "2.5 M"), (3e9, "3 G")],
)
def test_a_live_figure_has_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_counts_shares_and_money_say_when_there_is_none() -> None:
    assert (count(None), share(None), money(None)) == ("no data",) * 3
    assert (count(55204), share(0.58), money(0.2451), money(1270.8)) == ("55,204", "58 %", "$0.245", "$1,270.80")
