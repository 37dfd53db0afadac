"""From what a test cell did to its points: nbgrader's rules, made safe.

Full points for no error, none for an error; a number as the last value is partial credit, kept
within 0 and the cell's points. Unlike stock nbgrader, output on stderr is no failure, fractions and
numpy's numbers count, and a negative or too large number is clamped instead of full marks or a
crash.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Score:
    """Points for one test cell, and a note for the instructor where something was odd."""

    points: float
    note: str = ""


def score(max_points: float, *, failed: bool, value: object) -> Score:
    """Return the points of a test cell.

    Args:
        max_points: what the cell is worth.
        failed: whether it ended in an error, or a failure that sticks (see `examiner`).
        value: what its last line displayed, or None.
    """
    if failed:
        return Score(0.0)
    if not is_number(value):
        return Score(max_points)
    credit = _as_float(value)
    if math.isnan(credit):
        return Score(0.0, "partial credit of NaN counts as 0")
    points = min(max(credit, 0.0), max_points)
    note = "" if points == credit else f"partial credit of {credit:g} counts as {points:g}"
    return Score(points, note)


def is_number(value: object) -> bool:
    """Say whether a last value is partial credit: a real number, numpy's too, but no bool.

    An array of one element is, because a test's arithmetic makes one of an answer that is one.
    """
    if type(value) in (int, float, Fraction):
        return True
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return type(value).__module__ == "numpy" and kind in "iuf" and getattr(value, "size", 0) == 1


def _as_float(number: Any) -> float:
    try:
        return float(number.item() if hasattr(number, "item") else number)
    except OverflowError:
        return math.copysign(math.inf, 1 if number > 0 else -1)
