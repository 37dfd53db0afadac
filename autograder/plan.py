"""Who runs which cell: the trusted examiner, the learner's process, both or nobody.

The plan is made from the source's text and tags alone. A learner's cell runs in the learner's
process only; a grade cell in the examiner only; another locked cell in both, unless it uses
something of the learner's, for then the examiner must not run it.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from nbformat import NotebookNode

from autograder.cells import is_grade, is_solution
from autograder.names import Names, names

EXPLORE_TAG: Final = "explore"


class Side(Enum):
    """Where a cell runs."""

    LEARNER = "learner"
    EXAMINER = "examiner"
    BOTH = "both"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Plan:
    """What to run where, and whose each name is.

    Args:
        sides: for each cell of the notebook, in order, where it runs.
        learner_names: for each cell, the names that are the learner's once it has run, whatever
            trusted cells bound before: those that the source's solution cells bind.
        trusted_names: names that some trusted cell binds; others of the learner's never hide them.
        wanted: names that the examiner's cells use and that may be the learner's, so that its
            process reports them.
        seeds: whether a trusted cell seeds a random generator, whose state must then cross.
    """

    sides: tuple[Side, ...]
    learner_names: tuple[frozenset[str], ...]
    trusted_names: frozenset[str]
    wanted: frozenset[str]
    seeds: bool

    def may_bind(self, name: str, cell: int) -> bool:
        """Say whether a name of the learner's may be bound in the examiner after a cell."""
        if name in self.learner_names[cell]:
            return True
        return name not in vars(builtins) and name not in self.trusted_names


def make_plan(cells: Sequence[NotebookNode], sources: Sequence[str | None]) -> Plan:
    """Plan the examination of a reconciled notebook.

    Args:
        cells: its cells.
        sources: for each cell the trusted text of the source's cell, or None for a cell that the
            learner added.
    """
    sides: list[Side] = []
    learner_names: list[frozenset[str]] = []
    trusted: set[str] = set()
    wanted: set[str] = set()
    seeds = False
    owned: frozenset[str] = frozenset()
    for cell, source in zip(cells, sources, strict=True):
        found = _names(cell, source)
        side = _side(cell, source, found.used & owned)
        if source is not None and side is Side.LEARNER:
            owned |= found.bound
        if source is not None and side in (Side.EXAMINER, Side.BOTH):
            trusted |= found.bound
            wanted |= found.used | (found.bound & owned)
            seeds |= "seed" in source
        sides.append(side)
        learner_names.append(owned)
    wanted -= (trusted | vars(builtins).keys()) - owned
    return Plan(tuple(sides), tuple(learner_names), frozenset(trusted), frozenset(wanted), seeds)


def _names(cell: NotebookNode, source: str | None) -> Names:
    return names(source if source is not None and cell.cell_type == "code" else "")


def _side(cell: NotebookNode, source: str | None, uses_learners: frozenset[str]) -> Side:
    if cell.cell_type != "code" or EXPLORE_TAG in cell.metadata.get("tags", []):
        return Side.NOBODY
    if source is None or is_solution(cell):
        return Side.LEARNER
    if is_grade(cell):
        return Side.EXAMINER
    return Side.LEARNER if uses_learners else Side.BOTH
