"""The lesson as an assignment for otter-grader, so that ``otter run`` can grade the same answers.

Otter has an environment of its own, made by ``make bench-otter``; this module runs outside it. Each
grade cell becomes a test file that executes the cell's text in the notebook's namespace, and the
submission is the reconciled notebook without grade cells and without those left out of grading.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import nbformat
from nbformat import NotebookNode

from autograder.cells import is_test
from autograder.plan import EXPLORE_TAG
from benchmarks.classes import WronglyGraded
from benchmarks.cost import Cost, run
from tests.sample_class import ASSIGNMENT, NOTEBOOK, Learner
from tests.stock import ROOT, released_notebook

BIN: Final = ROOT / ".venv-otter" / "bin"

_TEST_FILE: Final = """\
from otter.test_files import test_case

OK_FORMAT = False
name = {name!r}
points = {points!r}


@test_case()
def test(env):
    exec({source!r}, env)
"""


def is_installed() -> bool:
    """Say whether ``make bench-otter`` has been run."""
    return (BIN / "otter").exists()


def make_assignment(folder: Path) -> None:
    """Make the folder and in it ``autograder.zip``, from the instructor's version of the lesson."""
    tests = folder / "tests"
    tests.mkdir(parents=True)
    source = nbformat.read(ROOT / "source" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)
    for cell in filter(is_test, source.cells):
        name = cell.metadata.nbgrader.grade_id
        points = cell.metadata.nbgrader.points
        text = _TEST_FILE.format(name=name, points=points, source=cell.source)
        (tests / f"{name}.py").write_text(text)
    generate = (BIN / "otter", "generate", "-t", tests, "-o", folder / "autograder.zip")
    run((*generate, "--no-environment"), folder)


def grade(assignment: Path, folder: Path, learner: Learner) -> Cost:
    """Have otter grade a learner's answers, and return what the whole command cost.

    Args:
        assignment: what `make_assignment` made.
        folder: a new one to work in.

    Raises:
        WronglyGraded: it did not give the points that the learner deserves.
    """
    folder.mkdir()
    notebook = learner.notebook(released_notebook())
    notebook.cells = [cell for cell in notebook.cells if not (is_test(cell) or _is_extra(cell))]
    submission = folder / f"{NOTEBOOK}.ipynb"
    nbformat.write(notebook, submission)
    command = (BIN / "otter", "run", "--no-logo", "-a", assignment / "autograder.zip", "-o", folder)
    ran = run((*command, submission), folder)
    results = json.loads((folder / "results.json").read_text())
    given = sum(test.get("score", 0) for test in results["tests"])
    if given != (deserved := sum(learner.deserved_scores.values())):
        raise WronglyGraded(f"otter gave {given:g} points instead of {deserved:g}")
    return ran.cost


def _is_extra(cell: NotebookNode) -> bool:
    return EXPLORE_TAG in cell.metadata.get("tags", [])
