"""Reach the learner's own functions, and say kindly when one is not there yet.

Everything in this package that calls a learner's function goes through here, so that "not
finished" is one message of one form wherever it shows, and never a traceback.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final

LINE_WIDTH: Final = 78
"""Columns of a message's line: ``nbgrader validate`` cuts at about 83."""

SAMPLE_ARGUMENTS: Final[Mapping[str, tuple[float, ...]]] = {
    "kv_transfer_ms": (1024, 1024),
    "ttft_ms": (1, 2, 3, 4),
    "stall_avoided_ms": (1, 10),
    "split_worthwhile": (1, 2, 3),
    "break_even_bandwidth": (1024, 10),
}
"""The lesson's five functions, each with harmless arguments that any version of it can take."""

FUNCTIONS: Final = tuple(SAMPLE_ARGUMENTS)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


class CheckFailed(AssertionError):
    """A check did not pass; its message is all that the learner sees, without a traceback."""

    def lines(self) -> list[str]:
        """Return the message, broken into lines."""
        return _wrapped(str(self))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback."""
        return self.lines()


class Unfinished(CheckFailed):
    """Something that the cell needs has not been filled in."""

    def __init__(self, *names: str) -> None:
        listed = ", ".join(f"`{name}`" for name in names)
        them = "it" if len(names) == 1 else "them"
        self.what = f"Not finished yet: {listed}."
        self.mend = f"Fill {them} in above, then run this cell again."
        super().__init__(f"{self.what} {self.mend}")

    def lines(self) -> list[str]:
        """Return the message on one line if it fits, else a line for each of its sentences."""
        lines = super().lines()
        return lines if len(lines) == 1 else [*_wrapped(self.what), self.mend]


def finished(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return the functions, each made to raise `Unfinished` where it behaves as a stub.

    A stub returns None or ``...``, or raises NotImplementedError. Other errors pass through.

    Raises:
        Unfinished: some of the lesson's functions are still to be written; names them all.
    """
    names = [getattr(function, "__name__", repr(function)) for function in functions]
    calls = tuple(map(_finished, names, functions))
    if missing := [
        name for name, call in zip(names, calls, strict=True) if _is_missing(name, call)
    ]:
        raise Unfinished(*missing)
    return calls


def _is_missing(name: str, call: Callable[..., Any]) -> bool:
    if name not in SAMPLE_ARGUMENTS:
        return False
    try:
        call(*SAMPLE_ARGUMENTS[name])
    except Unfinished:
        return True
    except Exception:  # whatever it raises, it is written: its own check says what is wrong
        return False
    return False


def _finished(name: str, function: object) -> Callable[..., Any]:
    if not callable(function):

        def absent(*args: Any, **kwargs: Any) -> Any:
            raise Unfinished(name)

        return absent

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            value = function(*args, **kwargs)
        except NotImplementedError:
            raise Unfinished(name) from None
        if value is None or value is ...:
            raise Unfinished(name)
        return value

    return call


class Functions:
    """The lesson's five functions as the learner's notebook defines them at this moment.

    Args:
        namespace: the notebook's variables, that is ``globals()``.

    Each function is an attribute; calling one that is missing or still a stub raises `Unfinished`.
    """

    kv_transfer_ms: Callable[..., Any]
    ttft_ms: Callable[..., Any]
    stall_avoided_ms: Callable[..., Any]
    split_worthwhile: Callable[..., Any]
    break_even_bandwidth: Callable[..., Any]

    def __init__(self, namespace: Mapping[str, object]) -> None:
        for name in FUNCTIONS:
            setattr(self, name, _finished(name, namespace.get(name)))

    def missing(self) -> tuple[str, ...]:
        """Return the names of the functions that are still to be written."""
        return tuple(name for name in FUNCTIONS if _is_missing(name, getattr(self, name)))
