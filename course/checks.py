"""The lesson's visible checks: a verdict at once, and a hint that names the likely mistake.

Each check belongs to one question and takes what the learner made for it. It prints a line when
all is well and raises `CheckFailed` when not. The hidden tests stand beside the calls in the
instructor's notebook; nothing here knows their inputs or an answer.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from course.catalog import FAST_LINK, PAYLOAD_BYTES, SLOW_LINK, STALL_MS
from course.hints import TransferQuestion, hint
from course.learner import CheckFailed, Unfinished, finished

FAST_QUESTION: Final = TransferQuestion(
    PAYLOAD_BYTES, FAST_LINK.bandwidth, SLOW_LINK.bandwidth, STALL_MS, decimals=3
)
SLOW_QUESTION: Final = TransferQuestion(
    PAYLOAD_BYTES, SLOW_LINK.bandwidth, FAST_LINK.bandwidth, STALL_MS, decimals=1
)
RELATIVE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True)
class Check:
    """One visible check.

    Args:
        target: the learner's variable or function.
        behaviour: what the check looks at, in a few words.
        verdict: False where the check looks at the form only, since a verdict would be the answer.
        run: the check itself; raises `CheckFailed`.
    """

    target: str
    behaviour: str
    verdict: bool
    run: Callable[[Any], None]


CHECKS: Final[list[Check]] = []
"""All visible checks, in the lesson's order."""


def _check(
    target: str, behaviour: str, *, verdict: bool = True
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    def register(run: Callable[[Any], None]) -> Callable[[Any], None]:
        @wraps(run)
        def check(answer: Any) -> None:
            run(answer)
            print(f"✓ {target}: {behaviour}" if verdict else f"✓ {target} is answered.")

        CHECKS.append(Check(target, behaviour, verdict, run))
        return check

    return register


@_check("fast_link_ms", "512 MiB over 32 GiB/s, in ms")
def fast_link_ms(answer: object) -> None:
    """Check the transfer time over the fast link, in ms."""
    _transfer_time("fast_link_ms", answer, FAST_QUESTION)


@_check("slow_link_ms", "512 MiB over 2 GiB/s, in ms")
def slow_link_ms(answer: object) -> None:
    """Check the transfer time over the slow link, in ms."""
    _transfer_time("slow_link_ms", answer, SLOW_QUESTION)


@_check("clear_win", "yes or no", verdict=False)
def clear_win(answer: object) -> None:
    """Check that the answer is a yes or a no; which one is right, the feedback tells."""
    _yes_or_no("clear_win", answer)


@_check("kv_transfer_ms", "bytes over bandwidth in ms; no bytes take no time")
def kv_transfer_value(function: Callable[..., Any]) -> None:
    """Check the value of kv_transfer_ms."""
    _expect(
        function,
        (3_000_000, 1_500_000_000),
        2.0,
        {
            0.002: "Still in seconds? The result is in ms.",
            2000.0: "In microseconds? The result is in ms.",
            16.0: "Have bits come in? Both arguments are in bytes.",
            0.25: "Have bits come in? Both arguments are in bytes.",
            500_000.0: "Is the fraction upside down?",
            500.0: "Is the fraction upside down?",
            2.048: "A second has 1,000 ms.",
        },
    )
    _expect(function, (0, 1_000_000), 0.0, {})


@_check("kv_transfer_ms", "ValueError when the bandwidth is zero or less")
def kv_transfer_error(function: Callable[..., Any]) -> None:
    """Check that kv_transfer_ms refuses a bandwidth that is not positive."""
    _expect_value_error(function, usual=(1000, 1000), refused=(1000, 0))


@_check("ttft_ms", "the sum of its four parts")
def ttft_sum(function: Callable[..., Any]) -> None:
    """Check the value of ttft_ms."""
    _expect(
        function,
        (5, 200, 30, 10),
        245,
        {
            61.25: "A mean? Each part adds its whole time to the wait.",
            200: "The longest part? The parts come one after the other, so all count.",
            240: "Is the queue in it?",
            45: "Is the prefill in it?",
            215: "Is the transfer in it?",
            235: "Is the first decode step in it?",
            185: "Is the transfer taken away? It adds to the wait.",
        },
    )


@_check("stall_avoided_ms", "the prompt's prefill time")
def stall_value(function: Callable[..., Any]) -> None:
    """Check the value of stall_avoided_ms."""
    _expect(
        function,
        (4, 2000),
        200,
        {
            800: "Is it times `decodes`? It is the stall of each running decode.",
            50: "Is it shared among `decodes`? Every one of them waits the whole time.",
            2000: "Is the cost of a prompt token in it?",
            204: "Has `decode_cost` come in? The decodes wait for the prefill alone.",
            196: "Has `decode_cost` come in? The decodes wait for the prefill alone.",
            0.2: "In seconds? `prefill_cost` is in ms a token, so the result is in ms.",
            20_000: "Divided by the cost? Each token costs `prefill_cost` ms.",
        },
    )


@_check("stall_avoided_ms", "defaults and keywords; decodes and decode_cost do not change it")
def stall_arguments(function: Callable[..., Any]) -> None:
    """Check how stall_avoided_ms treats its arguments."""
    _expect(function, (1, 1000), 100, {})
    _expect(function, (64, 1000), 100, {}, decode_cost=3.0)
    _expect(function, (), 500, {}, decodes=2, prompt_tokens=1000, prefill_cost=0.5)


@_check("split_worthwhile", "the clear cases")
def split_clear(function: Callable[..., Any]) -> None:
    """Check split_worthwhile away from its ties."""
    _expect(function, (10, 200, 50), True, {})
    _expect(function, (60, 200, 50), False, {False: "", True: "Does the TTFT budget count?"})
    _expect(function, (40, 30, 50), False, {True: "Must the stall not be larger, too?"})


@_check("split_worthwhile", "the two ties")
def split_ties(function: Callable[..., Any]) -> None:
    """Check split_worthwhile where a condition just holds or just fails."""
    _expect(function, (50, 200, 50), True, {False: "'At most' lets the budget be used up."})
    _expect(function, (200, 200, 500), False, {True: "'Larger' leaves equal out."})


@_check("break_even_bandwidth", "the smallest bandwidth that is fast enough, in bytes/s")
def break_even_value(function: Callable[..., Any]) -> None:
    """Check the value of break_even_bandwidth."""
    _expect(
        function,
        (3_000_000, 2),
        1_500_000_000.0,
        {
            1_500_000.0: "The limit is in ms and the result per second: is 1,000 in it?",
            1500.0: "Is 1,000 on the wrong side? The limit is in ms.",
            12_000_000_000.0: "In bits a second? The result is in bytes/s.",
            6_000_000_000.0: "Multiplied by the limit? A longer limit needs less bandwidth.",
        },
    )


@_check("always_beneficial", "yes or no", verdict=False)
def always_beneficial(answer: object) -> None:
    """Check that the answer is a yes or a no; which one is right, the feedback tells."""
    _yes_or_no("always_beneficial", answer)


def run(check: Check, namespace: Mapping[str, object]) -> None:
    """Run one check on what the learner's notebook holds at this moment.

    Raises:
        CheckFailed: the check does not pass.
    """
    if check.target not in namespace:
        raise Unfinished(check.target)
    check.run(namespace[check.target])


def _transfer_time(name: str, answer: object, question: TransferQuestion) -> None:
    if answer is None or answer is ...:
        raise Unfinished(name)
    if isinstance(answer, str):
        raise CheckFailed(f"`{name}` is text. Take the quotation marks away to make it a number.")
    if isinstance(answer, tuple):
        raise CheckFailed(
            f"`{name}` is {len(answer)} numbers, for Python splits at a comma. "
            "Write the decimals after a point."
        )
    if _is_truth_value(answer):
        raise CheckFailed(f"`{name}` is True or False. The question asks for a time in ms.")
    if not isinstance(answer, numbers.Real):
        raise CheckFailed(
            f"`{name}` is a {type(answer).__name__}. The question asks for a time in ms, a number."
        )
    milliseconds = _as_float(answer)
    if not math.isfinite(milliseconds) or milliseconds <= 0:
        raise CheckFailed(f"`{name}` is {milliseconds}. A transfer takes some time, in ms.")
    if not question.is_right(milliseconds):
        raise CheckFailed(f"`{name}`: not yet. {hint(question, milliseconds)}")


def _yes_or_no(name: str, answer: object) -> None:
    if answer is None or answer is ...:
        raise Unfinished(name)
    if not isinstance(answer, str) or answer.strip().lower() not in {"yes", "no"}:
        raise CheckFailed(f'`{name}` takes "yes" or "no", in quotation marks.')


def _expect(
    function: Callable[..., Any],
    args: tuple[float, ...],
    expected: float,
    slips: Mapping[float, str],
    **kwargs: float,
) -> None:
    """Call the learner's function and compare; `slips` names the mistake behind a wrong value."""
    call = _call_text(function, args, kwargs)
    value = _value(function, args, kwargs)
    if isinstance(expected, bool):
        if not _is_truth_value(value):
            raise CheckFailed(f"`{call}` gave {value!r:.40}. It should give True or False.")
    elif _is_truth_value(value) or not isinstance(value, numbers.Real):
        kind = type(value).__name__
        raise CheckFailed(f"`{call}` gave {value!r:.40}, a {kind}. It should give a number.")
    number = _as_float(value)
    if not math.isclose(number, expected, rel_tol=RELATIVE_TOLERANCE):
        found = (text for slip, text in slips.items() if math.isclose(number, slip, rel_tol=1e-6))
        shown = bool(value) if isinstance(expected, bool) else number
        verdict = f"`{call}` gave {shown}, and {expected} is right. {next(found, '')}"
        raise CheckFailed(verdict.strip())


def _expect_value_error(
    function: Callable[..., Any], *, usual: tuple[float, ...], refused: tuple[float, ...]
) -> None:
    _value(function, usual, {})
    call = _call_text(function, refused, {})
    try:
        value = function(*refused)
    except ValueError:
        return
    except Exception as error:
        kind = type(error).__name__
        raise CheckFailed(f"`{call}` raised {kind}. It should raise ValueError.") from None
    raise CheckFailed(f"`{call}` gave {value!r:.40}. It should raise ValueError.")


def _value(function: Callable[..., Any], args: tuple[float, ...], kwargs: dict[str, float]) -> Any:
    (call,) = finished(function)
    try:
        return call(*args, **kwargs)
    except CheckFailed:
        raise
    except Exception as error:
        raise CheckFailed(
            f"`{_call_text(function, args, kwargs)}` raised {type(error).__name__}: "
            f"{error!s:.80}. Call it in a cell of your own to see where."
        ) from None


def _call_text(
    function: Callable[..., Any], args: tuple[float, ...], kwargs: Mapping[str, float]
) -> str:
    shown = [f"{value:_}" for value in args]
    shown += [f"{name}={value:_}" for name, value in kwargs.items()]
    return f"{getattr(function, '__name__', 'your function')}({', '.join(shown)})"


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_truth_value(value: object) -> bool:
    # numpy's bool is not a Python bool; its name is told without importing numpy.
    return isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}
