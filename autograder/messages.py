"""What a test cell may say to a learner: the constant text of its own assert messages.

Read from the source's syntax tree and never from what a run printed, since that may carry the
hidden tests' inputs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

PLACEHOLDER = "…"


@dataclass(frozen=True)
class Message:
    """An assert's message: constant pieces with gaps where values are filled in."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        """The message for learners, each filled-in value shown as "…"."""
        return PLACEHOLDER.join(self.pieces)

    def fits(self, error: str) -> bool:
        """Say whether an AssertionError with this text may come from this assert."""
        pattern = ".*".join(re.escape(piece) for piece in self.pieces)
        return re.fullmatch(pattern, error, re.DOTALL) is not None


def assert_messages(source: str) -> Iterator[Message]:
    """Yield the messages of the asserts, and of the AssertionErrors raised, in a cell's source.

    A message that has no constant part, or a cell that is not plain Python, yields nothing.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Assert(msg=ast.expr() as message):
                pass
            case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"), args=[message])):
                pass
            case _:
                continue
        pieces = _pieces(message)
        if any(piece.strip() for piece in pieces):
            yield Message(pieces)


def _pieces(message: ast.expr) -> tuple[str, ...]:
    match message:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.JoinedStr(values=parts):
            pieces = [""]
            for part in parts:
                if isinstance(part, ast.Constant):
                    pieces[-1] += str(part.value)
                else:
                    pieces.append("")
            return tuple(pieces)
        case _:
            return ()
