"""What nbgrader's metadata calls a cell: grade, solution or task.

As `nbgrader.utils` has it, but workers do without nbgrader: importing it takes seconds, and each
examiner that a worker forks would pay for its memory.
"""

from __future__ import annotations

from nbformat import NotebookNode


def is_grade(cell: NotebookNode) -> bool:
    """Say whether the cell gives points."""
    return _has_role(cell, "grade")


def is_solution(cell: NotebookNode) -> bool:
    """Say whether the learner is to answer in the cell."""
    return _has_role(cell, "solution")


def is_task(cell: NotebookNode) -> bool:
    """Say whether the cell sets a task that is marked by a person."""
    return _has_role(cell, "task")


def is_test(cell: NotebookNode) -> bool:
    """Say whether the cell is code that gives points by itself."""
    return cell.cell_type == "code" and is_grade(cell) and not is_solution(cell)


def _has_role(cell: NotebookNode, role: str) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get(role, False))
