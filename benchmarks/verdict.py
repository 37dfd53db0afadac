"""What was measured, against what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Verdict:
    """What was measured against a target.

    Args:
        what: the quantity.
        measured: its value with its unit, as shown.
        target: what it should be, as shown.
        met: whether it is.
    """

    what: str
    measured: str
    target: str
    met: bool


def at_most(what: str, value: float, limit: float, unit: str, digits: int = 0) -> Verdict:
    """Compare a measured value with its upper limit."""
    shown, target = f"{value:.{digits}f} {unit}", f"at most {limit:g} {unit}"
    return Verdict(what, shown, target, value <= limit)


def at_least(what: str, value: float, limit: float, unit: str, digits: int = 1) -> Verdict:
    """Compare a measured value with its lower limit."""
    return Verdict(what, f"{value:.{digits}f} {unit}", f"at least {limit:g} {unit}", value >= limit)


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the verdicts as a table."""
    table = Table("target", "measured", "should be", "", box=None)
    for each in verdicts:
        table.add_row(each.what, each.measured, each.target, "met" if each.met else "MISSED")
    return table


def exit_status(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if a target was missed, else 0."""
    return int(not all(each.met for each in verdicts))
