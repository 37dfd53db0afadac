"""Each slip of the lesson's table is met with a hint that fits all its causes."""

from __future__ import annotations

import re

import pytest

from course import checks, hints
from course.learner import LINE_WIDTH, CheckFailed, Unfinished

FAST, SLOW = 15.625, 250.0

SLIPS = [
    # answer to the fast link, to the slow link, and words that the hint must hold
    (16.0, 256, ["1,000", "1,024", "prefixes"]),
    (512e6 / 32e9 * 1000, 512e6 / 2e9 * 1000, ["1,000", "1,024", "prefixes"]),
    (16.777, 268.435, ["link", "GB/s"]),
    (16.78, 268.4, ["link", "GB/s"]),
    (14.901, 238.419, ["payload", "MB"]),
    (125, 2000, ["payload in bits", "link read as Gibit/s"]),
    (1.953, 31.25, ["link in bits", "payload read as Mibit"]),
    (128, 2048, ["bits", "1,000", "1,024"]),
    (134.2, 2147.5, ["bits", "1,000", "1,024"]),
    (0.015625, 0.25, ["in seconds", "milliseconds"]),
    (0.016, 0.2, ["in seconds", "milliseconds"]),
    (15625, 250000, ["microseconds", "milliseconds"]),
    (64, 4, ["upside down"]),
    (64000, 4000, ["upside down"]),
    (512 * 1024**2 / 32 * 1024**3 * 1000, 512 * 1024**2 / 2 * 1024**3 * 1000, ["parentheses"]),
    (1.8e19, 2.9e20, ["parentheses"]),
    (31.25, 500, ["there and back"]),
    (15.6, None, ["rounded too early"]),
    (15.62, None, ["rounded too early"]),
    (15.63, None, ["rounded too early"]),
    (16, None, ["whole ms"]),
    (250, 15.6, ["other link"]),
    (250.0, 15.63, ["other link"]),
    (None, 15.625, ["other link"]),
    (None, 200, ["stall"]),
]


def failure(check: object, answer: object) -> str:
    with pytest.raises(CheckFailed) as caught:
        check(answer)  # type: ignore[operator]
    return str(caught.value)


@pytest.mark.parametrize(("fast", "slow", "words"), SLIPS)
def test_a_slip_is_met_with_a_hint_that_names_it(
    fast: float | None, slow: float | None, words: list[str]
) -> None:
    for check, answer in ((checks.fast_link_ms, fast), (checks.slow_link_ms, slow)):
        if answer is not None:
            message = failure(check, answer)
            assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(("fast", "slow", "words"), SLIPS)
def test_a_hint_asks_and_never_gives_the_number(
    fast: float | None, slow: float | None, words: list[str]
) -> None:
    for check, answer, right in (
        (checks.fast_link_ms, fast, "15.6"),
        (checks.slow_link_ms, slow, "250"),
    ):
        if answer is not None:
            message = failure(check, answer)
            assert "?" in message
            assert right not in message


def test_rounding_to_whole_ms_is_no_suspect_where_it_would_be_right() -> None:
    assert "whole ms" not in failure(checks.slow_link_ms, 256)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("15.625", "quotation marks"),
        ((15, 625), "comma"),
        (True, "True or False"),
        (float("nan"), "takes some time"),
        (float("inf"), "takes some time"),
        (10**400, "takes some time"),
        (-15.625, "takes some time"),
        ([15.625], "a list"),
        (15.625j, "a complex"),
        (17.3, "bytes"),
    ],
)
def test_an_answer_of_another_kind_gets_a_hint_too(answer: object, words: str) -> None:
    assert words in failure(checks.fast_link_ms, answer)


@pytest.mark.parametrize("answer", [15.625, 15.6245, 15.6255, 15.6249])
def test_a_right_fast_answer_passes_and_says_so(
    answer: float, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checks.fast_link_ms(answer) is None
    printed = capsys.readouterr()
    assert "✓ fast_link_ms" in printed.out
    assert printed.err == ""


@pytest.mark.parametrize("answer", [250, 250.0, 249.95, 250.05])
def test_a_right_slow_answer_passes(answer: float) -> None:
    checks.slow_link_ms(answer)


@pytest.mark.parametrize("answer", [" No ", "yes", "NO", "Yes\n"])
def test_yes_and_no_pass_however_they_are_spelled(answer: str) -> None:
    checks.clear_win(answer)
    checks.always_beneficial(answer)


@pytest.mark.parametrize("answer", [False, "maybe", 0, ["no"]])
def test_anything_but_yes_or_no_gets_a_hint_on_the_form(answer: object) -> None:
    assert '"yes" or "no"' in failure(checks.clear_win, answer)


@pytest.mark.parametrize("stub", [None, ...])
def test_an_empty_answer_is_called_unfinished(stub: object) -> None:
    with pytest.raises(Unfinished, match="Not finished yet: `fast_link_ms`"):
        checks.fast_link_ms(stub)


def test_no_line_of_a_hint_is_cut_off_by_validate() -> None:
    texts = [v for v in vars(hints).values() if isinstance(v, str) and " " in v]
    for text in texts:
        lines = CheckFailed(f"`slow_link_ms`: not yet. {text}")._render_traceback_()
        assert max(map(len, lines)) <= LINE_WIDTH


def test_no_hint_holds_an_answer() -> None:
    texts = [v for v in vars(hints).values() if isinstance(v, str)]
    assert not re.search(r"15\.6|\b250\b|\b1/64\b", " ".join(texts))
