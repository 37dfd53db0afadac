"""Ask a learner's function for a value that a picture or a verdict can use.

A learner's function may be half written: it may raise, or return text, infinity or a negative
time. Here that becomes one kind line that names the function, never a traceback.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from numbers import Real
from typing import Any, Final

import numpy as np

from course.learner import CheckFailed, Functions, Unfinished, finished

SMALLEST: Final = 1e-12
LARGEST: Final = 1e24
"""Times and bandwidths outside these bounds are slips, and too far off to draw on any axis."""


class OddAnswer(CheckFailed):
    """A learner's function raised an error or returned something that cannot be drawn."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"`{name}` {what}. Look at it again above, then run this cell again.")


def require(functions: Functions, *names: str) -> None:
    """Raise `Unfinished`, with the names of all that are missing, unless these are all written."""
    missing = [name for name in functions.missing() if name in names]
    if missing:
        raise Unfinished(*missing)


def number(function: Callable[..., Any]) -> Callable[..., float]:
    """Return the function, made to answer with a positive finite float or to raise.

    Raises (when called):
        Unfinished: it is still a stub.
        OddAnswer: it raised, or its answer is no number, or far from any sensible one.
    """
    name, call = _named(function)

    def asked(*args: Any, **kwargs: Any) -> float:
        value = call(*args, **kwargs)
        if isinstance(value, (bool, np.bool)) or not isinstance(value, Real):
            raise OddAnswer(name, f"returned {_brief(value)} where a number is needed")
        answer = _as_float(value)
        if not SMALLEST <= answer <= LARGEST:
            raise OddAnswer(name, f"returned {_brief(value)}, which cannot be drawn")
        return answer

    return asked


def verdict(function: Callable[..., Any]) -> Callable[..., bool]:
    """Return the function, made to answer with a bool or to raise, as `number` does."""
    name, call = _named(function)

    def asked(*args: Any, **kwargs: Any) -> bool:
        value = call(*args, **kwargs)
        if not isinstance(value, (bool, np.bool)):
            raise OddAnswer(name, f"returned {_brief(value)} where True or False is needed")
        return bool(value)

    return asked


@contextmanager
def quietly() -> Iterator[None]:
    """Swallow what is printed meanwhile: a picture calls a function thousands of times."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


def _named(function: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    (call,) = finished(function)
    name = getattr(call, "__name__", repr(function))

    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except CheckFailed:
            raise
        except Exception as error:
            raise OddAnswer(name, f"raised {_error_text(error)}") from None

    return name, guarded


def _as_float(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _error_text(error: Exception) -> str:
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        return kind
    return f"{kind} ({_cut(message)})" if message else kind


def _brief(value: object) -> str:
    """Write a value in one short line, whatever its ``__repr__`` does."""
    try:
        return _cut(repr(value))
    except Exception:
        return f"a value of type {type(value).__name__}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
