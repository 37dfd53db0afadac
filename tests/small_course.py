"""A small course whose hidden values are easy to look for, graded for real, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder.batch import grade_class
from autograder.coursedir import open_course
from tests.stock import nbgrader

ASSIGNMENT: Final = "homework"
NOTEBOOK: Final = "numbers"

HIDDEN_INPUT: Final = 738291
HIDDEN_TEXT: Final = "turnip"
SECRETS: Final = (str(HIDDEN_INPUT), str(2 * HIDDEN_INPUT), HIDDEN_TEXT, "HIDDEN TESTS")
"""What no page for learners may hold."""

CONFIG: Final = """\
from autograder.feedback import FeedbackExporter, HideTests, ReadMarks

c = get_config()
c.GenerateFeedback.exporter_class = FeedbackExporter
c.GenerateFeedback.preprocessors = [ReadMarks, HideTests]
"""

RIGHT: Final[Mapping[str, str]] = {
    "double": "def double(number):\n    return 2 * number",
    "greet": "def greet(name):\n    return 'Hello ' + name",
    "why": "Because two is twice one.",
}


def make_course(folder: Path) -> None:
    """Make the course directory and release its one assignment."""
    shutil.copytree(_released().name, folder)


@cache
def _released() -> TemporaryDirectory[str]:
    """Make a course to copy: nbgrader takes seconds for it."""
    folder = TemporaryDirectory(prefix="small-course-")
    source = Path(folder.name, "source", ASSIGNMENT)
    source.mkdir(parents=True)
    Path(folder.name, "nbgrader_config.py").write_text(CONFIG)
    nbformat.write(_source(), source / f"{NOTEBOOK}.ipynb")
    nbgrader(Path(folder.name), "generate_assignment", ASSIGNMENT, "--force")
    return folder


def released(folder: Path) -> NotebookNode:
    """Return the notebook as learners receive it."""
    return nbformat.read(folder / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)


def hand_in(
    folder: Path,
    learner: str,
    answers: Mapping[str, str] | None = None,
    edit: Callable[[NotebookNode], object] = lambda notebook: None,
) -> None:
    """Hand in right answers, but for those given."""
    notebook = released(folder)
    for name, answer in {**RIGHT, **(answers or {})}.items():
        cell(notebook, name).source = answer
    edit(notebook)
    target = folder / "submitted" / learner / ASSIGNMENT
    target.mkdir(parents=True)
    nbformat.write(notebook, target / f"{NOTEBOOK}.ipynb")


def cell(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    """Return the cell of this grade id."""
    (found,) = (
        c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )
    return found


def grade(folder: Path, **options: Any) -> None:
    """Grade everybody, in the sandbox unless told otherwise."""
    grade_class(open_course(folder), ASSIGNMENT, **options)


def shown(data: Mapping[str, str]) -> NotebookNode:
    """Return an output of a code cell."""
    return new_output("display_data", data=dict(data))


def _source() -> NotebookNode:
    return new_notebook(
        cells=[
            new_markdown_cell("# Twice\n\nWrite a function that **doubles**."),
            _of_learner(
                "double",
                "def double(number):\n"
                "    ### BEGIN SOLUTION\n    return 2 * number\n    ### END SOLUTION",
            ),
            _test(
                "double-test",
                2,
                "# double: twice its argument (2 points)\n"
                "assert double(1) == 2, 'Try it with 1.'\n"
                "### BEGIN HIDDEN TESTS\n"
                f"assert double({HIDDEN_INPUT}) == {2 * HIDDEN_INPUT}, (\n"
                f"    f'double({{{HIDDEN_INPUT}}}) should be twice as much.'\n"
                ")\n"
                "### END HIDDEN TESTS",
            ),
            _of_learner(
                "greet",
                "def greet(name):\n"
                "    ### BEGIN SOLUTION\n    return 'Hello ' + name\n    ### END SOLUTION",
            ),
            _test(
                "greet-test",
                1,
                "### BEGIN HIDDEN TESTS\n"
                f"greeting = greet('{HIDDEN_TEXT}')\n"
                f"assert greeting == 'Hello {HIDDEN_TEXT}', f'{{greeting}} is no greeting.'\n"
                "### END HIDDEN TESTS",
            ),
            new_markdown_cell("**In your own words.** Why?"),
            _marked(
                new_markdown_cell("Your answer here."), "why", grade=True, points=3, solution=True
            ),
        ]
    )


def _of_learner(grade_id: str, source: str) -> NotebookNode:
    return _marked(new_code_cell(source), grade_id, solution=True)


def _test(grade_id: str, points: float, source: str) -> NotebookNode:
    return _marked(new_code_cell(source), grade_id, grade=True, points=points, locked=True)


def _marked(cell: NotebookNode, grade_id: str, **roles: Any) -> NotebookNode:
    usual = {"grade": False, "solution": False, "locked": False, "task": False}
    cell.metadata["nbgrader"] = {**usual, **roles, "grade_id": grade_id, "schema_version": 3}
    return cell
