"""Keeps the gradebook's cells of an assignment those of its source, while submissions exist.

nbgrader refuses to add or remove cells once somebody has submitted. A regrade by a changed source
needs just that.
"""

from __future__ import annotations

from typing import Any

from nbgrader.api import GradeCell, Notebook, SolutionCell, SourceCell, TaskCell
from nbgrader.utils import is_grade, is_locked, is_solution, is_task

from autograder.trusted import TrustedNotebook


class MarksWouldBeLost(Exception):
    """A question that was marked by hand is no longer in the source."""


def match_cells(db: Any, notebook: Notebook, source: TrustedNotebook) -> None:
    """Make a notebook's cells those of the source, as nbgrader's SaveCells does.

    Args:
        db: nbgrader's session; nothing is committed.
        notebook: the notebook's row.
        source: the notebook's source.

    Raises:
        MarksWouldBeLost: a cell that has marks by hand is gone from the source.
    """
    wanted: dict[tuple[type, str], dict[str, Any]] = {}
    for name, place in source.places.items():
        cell = source.notebook.cells[place]
        if is_grade(cell) or is_task(cell):
            graded = GradeCell if is_grade(cell) else TaskCell
            points = float(cell.metadata.nbgrader.points)
            wanted[graded, name] = {"max_score": points, "cell_type": cell.cell_type}
        if is_solution(cell):
            wanted[SolutionCell, name] = {}
        wanted[SourceCell, name] = {
            "cell_type": cell.cell_type,
            "locked": bool(is_locked(cell)),
            "source": source.released[name] if is_solution(cell) else cell.source,
            "checksum": cell.metadata.nbgrader.get("checksum"),
        }
    present = {
        (type(cell), cell.name): cell
        for group in ("grade_cells", "solution_cells", "task_cells", "source_cells")
        for cell in getattr(notebook, group)
    }
    for kind, name in present.keys() - wanted.keys():
        _remove_cell(db, present[kind, name])
    for (kind, name), values in wanted.items():
        if (kind, name) not in present:
            db.add(kind(name=name, notebook=notebook, **values))
            continue
        for attribute, value in values.items():
            if getattr(present[kind, name], attribute) != value:
                setattr(present[kind, name], attribute, value)


def _remove_cell(db: Any, cell: Any) -> None:
    """Remove a cell and its rows, unless a person has given marks for it."""
    rows = () if isinstance(cell, SourceCell) else (*cell.grades, *cell.comments)
    for row in rows:
        by_hand = (getattr(row, name, None) for name in ("manual_score", "manual_comment"))
        if any(value is not None for value in by_hand):
            raise MarksWouldBeLost(
                f"The source no longer has the cell {cell.name!r}, for which marks or comments "
                "were given by hand. Put it back, or remove those first."
            )
        db.delete(row)
    db.delete(cell)
