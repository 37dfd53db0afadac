"""What comes out of an examination: plain records that cross processes and files."""

from __future__ import annotations

import msgspec
from nbformat import NotebookNode


class CellResult(msgspec.Struct, frozen=True):
    """How one grade cell ended.

    Args:
        grade_id: the cell's name in nbgrader.
        points: points given; None where a person has to mark it.
        max_points: the most that the cell can give.
        reason: for the learner: constant text by the test's author, or "".
        error: for the instructor: what went wrong, in one line, or "".
    """

    grade_id: str
    points: float | None
    max_points: float
    reason: str = ""
    error: str = ""


class Result(msgspec.Struct, frozen=True):
    """The examination of one submitted notebook.

    Args:
        notebook: the notebook's name, without ending.
        cells: the grade cells, in the source's order.
        autograded: the notebook as graded.
        notes: what an instructor should know of this submission.
    """

    notebook: str
    cells: tuple[CellResult, ...]
    autograded: NotebookNode
    notes: tuple[str, ...] = ()
