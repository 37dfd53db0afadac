"""The checks of the five functions: right ones pass, each slip is met with its hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from course import checks
from course.learner import CheckFailed, Unfinished
from tests import reference

Function = Callable[..., Any]

CHECKED = [
    (checks.kv_transfer_value, reference.kv_transfer_ms),
    (checks.kv_transfer_error, reference.kv_transfer_ms),
    (checks.ttft_sum, reference.ttft_ms),
    (checks.stall_value, reference.stall_avoided_ms),
    (checks.stall_arguments, reference.stall_avoided_ms),
    (checks.split_clear, reference.split_worthwhile),
    (checks.split_ties, reference.split_worthwhile),
    (checks.break_even_value, reference.break_even_bandwidth),
]
every_check = pytest.mark.parametrize(
    ("check", "right"), CHECKED, ids=[check.__name__ for check, _ in CHECKED]
)


def failure(check: Function, function: object) -> str:
    with pytest.raises(CheckFailed) as caught:
        check(function)
    return str(caught.value)


def named(name: str, function: Function) -> Function:
    function.__name__ = name
    return function


@every_check
def test_a_right_function_passes_and_hears_so(
    check: Function, right: Function, capsys: pytest.CaptureFixture[str]
) -> None:
    check(right)
    printed = capsys.readouterr()

    assert printed.out.startswith(f"✓ {right.__name__}: ")
    assert printed.out.count("\n") == 1
    assert printed.err == ""


@every_check
@pytest.mark.parametrize("stub", [None, ...], ids=["None", "dots"])
def test_a_stub_is_called_unfinished(check: Function, right: Function, stub: object) -> None:
    with pytest.raises(Unfinished, match=rf"^Not finished yet: `{right.__name__}`\. Fill it in"):
        check(named(right.__name__, lambda *args, **kwargs: stub))


@every_check
def test_not_implemented_is_called_unfinished(check: Function, right: Function) -> None:
    def stub(*args: object, **kwargs: object) -> None:
        raise NotImplementedError

    with pytest.raises(Unfinished, match=f"`{right.__name__}`"):
        check(named(right.__name__, stub))


@every_check
def test_a_function_that_raises_is_named_in_one_line_with_its_error(
    check: Function, right: Function
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("division by zero")

    message = failure(check, named(right.__name__, broken))

    assert message.startswith(f"`{right.__name__}(")
    assert "raised ZeroDivisionError: division by zero." in message
    assert "\n" not in message


SLIPS: list[tuple[Function, Function, str]] = [
    (checks.kv_transfer_value, lambda b, w: b / w, "seconds"),
    (checks.kv_transfer_value, lambda b, w: b / w * 1e6, "microseconds"),
    (checks.kv_transfer_value, lambda b, w: 8 * b / w * 1000, "bits"),
    (checks.kv_transfer_value, lambda b, w: b / w / 8 * 1000, "bits"),
    (checks.kv_transfer_value, lambda b, w: w / b, "upside down"),
    (checks.kv_transfer_value, lambda b, w: w / b * 1000, "upside down"),
    (checks.kv_transfer_value, lambda b, w: b / w * 1024, "1,000 ms"),
    (checks.kv_transfer_value, lambda b, w: b / w * 1000 if b else 1, "0.0 is right"),
    (checks.ttft_sum, lambda q, p, t, d: (q + p + t + d) / 4, "mean"),
    (checks.ttft_sum, max, "longest"),
    (checks.ttft_sum, lambda q, p, t, d: p + t + d, "queue"),
    (checks.ttft_sum, lambda q, p, t, d: q + t + d, "prefill"),
    (checks.ttft_sum, lambda q, p, t, d: q + p + d, "transfer"),
    (checks.ttft_sum, lambda q, p, t, d: q + p + t, "first decode"),
    (checks.ttft_sum, lambda q, p, t, d: q + p - t + d, "taken away"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: n * t * p, "times `decodes`"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t * p / n, "shared among"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t, "cost of a prompt token"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t * p + n * d, "`decode_cost`"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t * p - n * d, "`decode_cost`"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t * p / 1000, "seconds"),
    (checks.stall_value, lambda n, t, d=1.0, p=0.1: t / p, "Divided by the cost"),
    (checks.stall_arguments, lambda n, t, d=1.0, p=0.1: t * p, "unexpected keyword argument"),
    (checks.split_clear, lambda t, s, m: s > t, "budget"),
    (checks.split_clear, lambda t, s, m: t <= m, "stall"),
    (checks.split_clear, lambda t, s, m: "yes", "True or False"),
    (checks.split_ties, lambda t, s, m: t < m and s > t, "At most"),
    (checks.split_ties, lambda t, s, m: t <= m and s >= t, "Larger"),
    (checks.break_even_value, lambda b, ms: b / ms, "1,000 in it"),
    (checks.break_even_value, lambda b, ms: b / ms / 1000, "wrong side"),
    (checks.break_even_value, lambda b, ms: 8 * b / ms * 1000, "bits"),
    (checks.break_even_value, lambda b, ms: b * ms * 1000, "longer limit"),
]


@pytest.mark.parametrize(("check", "function", "words"), SLIPS)
def test_a_slip_is_met_with_a_hint_that_names_it(
    check: Function, function: Function, words: str
) -> None:
    assert words in failure(check, function)


def test_a_value_that_fits_no_slip_is_shown_beside_the_right_one() -> None:
    message = failure(checks.ttft_sum, named("ttft_ms", lambda *parts: 7))

    assert message == "`ttft_ms(5, 200, 30, 10)` gave 7.0, and 245 is right."


@pytest.mark.parametrize("answer", ["245", [245], 245j, True])
def test_a_value_of_another_kind_is_told_that_a_number_is_needed(answer: object) -> None:
    assert "It should give a number." in failure(checks.ttft_sum, lambda *parts: answer)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (ZeroDivisionError("division by zero"), "raised ZeroDivisionError. It should raise Value"),
        (TypeError(), "raised TypeError. It should raise ValueError."),
        (None, "gave None. It should raise ValueError."),
        (0.0, "gave 0.0. It should raise ValueError."),
        (ValueError("no link"), "gave ValueError('no link'). It should raise ValueError."),
    ],
    ids=repr,
)
def test_anything_but_a_raised_value_error_is_named(then: object, words: str) -> None:
    def kv_transfer_ms(kv_bytes: float, bandwidth: float) -> object:
        if bandwidth > 0:
            return kv_bytes / bandwidth * 1000
        if isinstance(then, Exception) and not isinstance(then, ValueError):
            raise then
        return then

    assert words in failure(checks.kv_transfer_error, kv_transfer_ms)


def test_numbers_and_truth_values_of_numpy_are_as_good_as_pythons() -> None:
    checks.ttft_sum(lambda *parts: np.sum(parts))
    checks.split_clear(lambda t, s, m: np.less_equal(t, m) & np.less(t, s))


def test_a_message_stays_short_however_long_the_value_is() -> None:
    assert len(failure(checks.split_clear, lambda *args: "yes" * 10_000)) < 150
