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


class CheckFailed(AssertionError):
    """A check did not pass; its message is all that the learner sees, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback."""
        return textwrap.wrap(str(self), LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


class Unfinished(CheckFailed):
    """Something that the cell needs has not been filled in."""

    def __init__(self, *names: str) -> None:
        listed = ", ".join(f"`{name}`" for name in names)
        them = "it" if len(names) == 1 else "them"
        super().__init__(
            f"Not finished yet: {listed}. Fill {them} in above, then run this cell again."
        )


def finished(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return the functions, each made to raise `Unfinished` while it is still a stub.

    A stub returns None or ``...``, or raises NotImplementedError. Other errors pass through.
    """
    return tuple(_finished(getattr(f, "__name__", repr(f)), f) for f in functions)


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
        return tuple(name for name in FUNCTIONS if self._is_missing(name))

    def _is_missing(self, name: str) -> bool:
        try:
            getattr(self, name)(*SAMPLE_ARGUMENTS[name])
        except Unfinished:
            return True
        except Exception:  # whatever it raises, it is written: its own check says what is wrong
            return False
        return False
