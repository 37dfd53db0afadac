"""The submissions that are measured, the courses that they lie in, and the command that grades."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import nbformat

from tests.sample_class import ASSIGNMENT, CLASS, IN_TIME, NOTEBOOK, Learner
from tests.stock import make_course, release, released_notebook

AUTOGRADER: Final = Path(sys.executable).with_name("autograder")
"""The command that is measured."""

PERFECT: Final = CLASS[:1]
"""The submission in which everything is right."""

MIXED: Final = tuple(learner for learner in CLASS if learner.gradable and learner.name != "wim")
"""The sample class: all that can be graded but the endless loop, which costs its time limit."""

SAMPLE: Final = MIXED[::4]
"""Every fourth of them, where a grader takes seconds for each."""


TOTALS: Final = """\
SELECT submitted_assignment.student_id, total(grade.auto_score) FROM submitted_assignment
JOIN submitted_notebook ON submitted_notebook.assignment_id = submitted_assignment.id
JOIN grade ON grade.notebook_id = submitted_notebook.id GROUP BY submitted_assignment.id
"""


class WronglyGraded(Exception):
    """A grader did not give the points that it should, so its time says nothing."""


def repeat(learners: Sequence[Learner], count: int) -> tuple[Learner, ...]:
    """Return so many submissions, the learners' over and over, each under a name of its own."""
    return tuple(
        replace(learner, name=f"{learner.name}-{number}")
        for number, learner in enumerate(islice(cycle(learners), count))
    )


def make_released_course(folder: Path) -> None:
    """Make a course directory and release the lesson in it."""
    make_course(folder)
    release(folder)


def hand_in(released_course: Path, folder: Path, learners: Sequence[Learner]) -> None:
    """Make a copy of the course in which these learners have handed in."""
    shutil.copytree(released_course, folder)
    notebook = released_notebook()
    for learner in learners:
        target = folder / "submitted" / learner.name / ASSIGNMENT
        target.mkdir(parents=True)
        nbformat.write(learner.notebook(notebook), target / f"{NOTEBOOK}.ipynb")
        (target / "timestamp.txt").write_text(f"{IN_TIME} UTC")


def require_points(folder: Path, expected: Mapping[str, float]) -> None:
    """Make sure that the gradebook holds the points that each learner should have.

    Raises:
        WronglyGraded: it does not.
    """
    with closing(sqlite3.connect(folder / "gradebook.db")) as database:
        given = dict.fromkeys(expected, 0.0) | dict(database.execute(TOTALS))
    wrong = {name: total for name, total in given.items() if total != expected[name]}
    if wrong:
        name, total = next(iter(wrong.items()))
        raise WronglyGraded(f"{name} got {total:g} points instead of {expected[name]:g}")
