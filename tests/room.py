"""Marks single submissions in the room, and shows what their learners would get to see."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import determine_grade, is_grade, is_task

from autograder.coursedir import open_course
from autograder.examine import Bench, examine
from autograder.feedback import FeedbackExporter, HideTests
from autograder.limits import Limits
from autograder.prepare import prepare
from autograder.result import Result
from autograder.sandbox.room import Room
from autograder.shell import make_shell
from autograder.trusted import TrustedNotebook
from course import explorer, figures, summary  # noqa: F401 (examiners have them at once)
from tests.constructs import notebook_of
from tests.stock import ROOT

SHORT: Final = Limits(call_seconds=1, cell_seconds=2, submission_seconds=20)
"""Limits that keep hostile submissions short."""

PATIENCE: Final = SHORT.submission_seconds + 5
"""Seconds after which any of them must have ended, on a busy machine."""

LESSON: Final = ROOT / "source" / "disaggregation" / "lesson.ipynb"


@contextmanager
def open_bench(**settings: Any) -> Iterator[Bench]:
    """Make what a worker examines with, in this process; the settings are the room's."""
    with Room(preload=("course",), **settings) as room:
        shell = make_shell()
        # The shell's module becomes `__main__`; a spawned process asks for its spec.
        vars(sys.modules["__main__"]).setdefault("__spec__", None)
        yield Bench(room, shell)


@cache
def lesson() -> TrustedNotebook:
    """The lesson as the grader has it."""
    return prepare(LESSON, open_course(ROOT))


def trusted_notebook(cells: Sequence[NotebookNode], folder: Path) -> TrustedNotebook:
    """Write a source notebook of these cells into the folder and prepare it."""
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    path = folder / "small.ipynb"
    nbformat.write(notebook_of(cells), path)
    return prepare(path, open_course(folder))


@dataclass(frozen=True)
class Marked:
    """A submission that was examined, and the wall time that this took."""

    result: Result
    seconds: float

    @property
    def points(self) -> dict[str, float]:
        """Points of the cells that are graded automatically, by grade id."""
        return {c.grade_id: c.points for c in self.result.cells if c.points is not None}

    @property
    def lost(self) -> set[str]:
        """The cells that did not get all their points."""
        most = {cell.grade_id: cell.max_points for cell in self.result.cells}
        return {name for name, given in self.points.items() if given < most[name]}

    @cached_property
    def notebook(self) -> NotebookNode:
        """The graded notebook."""
        return self.result.autograded

    @property
    def gradebook_points(self) -> dict[str, float]:
        """What nbgrader reads from the graded notebook."""
        grades = {
            cell.metadata.nbgrader.grade_id: determine_grade(cell)[0]
            for cell in self.notebook.cells
            if is_grade(cell) and cell.cell_type == "code"
        }
        return {name: points for name, points in grades.items() if points is not None}

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the record of the examination says to the learner."""
        return tuple(cell.reason for cell in self.result.cells)

    @property
    def errors(self) -> dict[str, str]:
        """What the record of the examination says to the instructor, by grade id."""
        return {cell.grade_id: cell.error for cell in self.result.cells}

    @cached_property
    def page(self) -> str:
        """The learner's feedback."""
        notebook = nbformat.from_dict(self.notebook)
        for cell in notebook.cells:
            if is_grade(cell) or is_task(cell):
                given = self.points.get(cell.metadata.nbgrader.grade_id)
                cell.metadata.nbgrader |= {"score": given or 0.0, "waiting": given is None}
        exporter: Any = FeedbackExporter()  # type: ignore[no-untyped-call]
        exporter.register_preprocessor(HideTests(), enabled=True)
        about = {
            "notebook": self.result.notebook,
            "assignment": "assignment",
            "score": sum(self.points.values()),
            "max_score": sum(cell.max_points for cell in self.result.cells),
            "late_penalty": 0,
        }
        page, _ = exporter.from_notebook_node(notebook, {"nbgrader": about})
        return str(page)


def mark(
    bench: Bench,
    trusted: TrustedNotebook,
    submitted: NotebookNode,
    files: Mapping[str, bytes] | None = None,
    support_files: Mapping[str, bytes] | None = None,
    limits: Limits = SHORT,
) -> Marked:
    """Examine a submission."""
    started = time.monotonic()
    result = examine(bench, trusted, submitted, limits, files or {}, support_files or {})
    return Marked(result, time.monotonic() - started)
