"""A course directory of its own, worked on with nbgrader's own commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import nbformat
from nbgrader.api import Gradebook

from autograder.coursedir import open_course
from tests.sample_class import ASSIGNMENT, DEADLINE, NOTEBOOK, Learner, hand_in

ROOT: Final = Path(__file__).parents[1]


class NbgraderFailed(Exception):
    """An nbgrader command ended with an error; the message is its output."""


OWN_GRADING: Final = """
c.pop('Autograde', None)
c.Execute.timeout = 10
c.Execute.iopub_timeout = 60  # an interrupted kernel on a busy machine may need more than 4 s
"""


def make_course(folder: Path) -> None:
    """Make a course directory that holds what the repository's holds: source and configuration."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(ROOT / "source", folder / "source")


def use_stock_autograder(folder: Path) -> None:
    """Let `nbgrader autograde` run submissions in a kernel of its own, as it does by itself."""
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(OWN_GRADING)


def release(folder: Path) -> None:
    """Generate the release and set the deadline."""
    nbgrader(folder, "generate_assignment", ASSIGNMENT, "--force")
    nbgrader(folder, "db", "assignment", "add", ASSIGNMENT, f"--duedate={DEADLINE} UTC")


def collect(folder: Path, learners: Sequence[Learner]) -> None:
    """Put the learners on the list, and collect what they handed in."""
    archive = folder / "downloaded" / ASSIGNMENT / "archive"
    hand_in(learners, folder / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", archive)
    nbgrader(folder, "zip_collect", ASSIGNMENT)
    with Gradebook(open_course(folder).db_url) as gradebook:
        for learner in learners:
            gradebook.update_or_create_student(learner.name)


def nbgrader(
    folder: Path,
    *arguments: str,
    tolerate: Sequence[int] = (),
    on_line: Callable[[str], None] = lambda line: None,
) -> str:
    """Run an nbgrader command in the course directory and return what it printed.

    Args:
        tolerate: exit statuses that are fine beside 0.
        on_line: is given each line of output as it comes.

    Raises:
        NbgraderFailed: any other exit status.
    """
    command = [sys.executable, "-m", "nbgrader", *arguments]
    lines = []
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            on_line(line)
    if process.returncode not in (0, *tolerate):
        raise NbgraderFailed(f"{' '.join(command)}\n{''.join(lines)}")
    return "".join(lines)


SOME_NOT_GRADED: Final = 1
"""The exit status of ``nbgrader autograde`` when some hand-in could not be graded."""


def points(folder: Path, learner: str) -> dict[str, float]:
    """Return a learner's automatic points for each grade cell, by grade id."""
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        notebook = gradebook.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
        return {
            grade.name: grade.auto_score
            for grade in notebook.grades
            if grade.cell.cell_type == "code"
        }


def released_notebook() -> nbformat.NotebookNode:
    """Return the lesson as it is released."""
    return nbformat.read(ROOT / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4)


def grade(folder: Path, learners: Sequence[Learner]) -> None:
    """Make a course in the folder, and release, collect and grade the lesson as stock does.

    Raises:
        NbgraderFailed: a gradable notebook was not graded, twice; the message is the second log.
    """
    make_course(folder)
    use_stock_autograder(folder)
    release(folder)
    collect(folder, learners)
    gradable = {learner.name for learner in learners if learner.gradable}
    # A kernel may die or fall silent by itself; another run takes those that failed alone.
    for _ in range(2):
        log = nbgrader(folder, "autograde", ASSIGNMENT, tolerate=[SOME_NOT_GRADED])
        graded = {path.parent.name for path in (folder / "autograded").glob(f"*/{ASSIGNMENT}")}
        if gradable <= graded:
            return
        print(log)
    raise NbgraderFailed(log)


def grade_side_by_side(folder: Path, learners: Sequence[Learner]) -> dict[str, Path]:
    """Grade the learners in two courses at once; return each one's course directory.

    nbgrader grades one after the other, so one course would leave a core idle.
    """
    halves = {folder / "even": learners[::2], folder / "odd": learners[1::2]}
    with ThreadPoolExecutor(len(halves)) as pool:
        list(pool.map(grade, halves, halves.values()))
    return {learner.name: course for course, half in halves.items() for learner in half}
