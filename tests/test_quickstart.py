"""nbgrader's own example course grades the same in the examination room as under stock nbgrader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory

from autograder.batch import grade_class
from autograder.coursedir import open_course, source_notebooks
from autograder.examine import Bench, examine
from autograder.limits import Limits
from autograder.prepare import prepare
from autograder.publish import publish
from autograder.trusted import TrustedNotebook
from tests.constructs import answered, open_bench, stock_points
from tests.stock import nbgrader

ASSIGNMENT = "ps1"
WRONG = {
    "squares": """
        def squares(n):
            return [i ** 2 for i in range(1, n + 1)]
        """,
    "sum_of_squares": """
        def sum_of_squares(n):
            return n * (n + 1) * (2 * n + 1) // 6
        """,
}
LOST = {"squares_invalid_input": 0, "sum_of_squares_uses_squares": 0}
FULL = {
    "correct_squares": 1,
    "squares_invalid_input": 1,
    "correct_sum_of_squares": 0.5,
    "sum_of_squares_uses_squares": 0.5,
}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseDirectory]:
    folder = tmp_path_factory.mktemp("quickstart")
    nbgrader(folder, "quickstart", "course101")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "course101")
        yield open_course(folder / "course101")


@pytest.fixture(scope="module")
def problem(course: CourseDirectory) -> TrustedNotebook:
    """The one of the two notebooks that has automatic points."""
    path, _ = source_notebooks(course, ASSIGNMENT)
    return prepare(path, course)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with open_bench() as bench:
        yield bench


def hand_in(problem: TrustedNotebook, who: str) -> NotebookNode:
    stubs = {name: problem.released[name] for name in WRONG}
    answers: dict[str, Mapping[str, str]] = {"right": {}, "wrong": WRONG, "untouched": stubs}
    return answered(problem.notebook, answers[who])


@pytest.mark.parametrize(
    ("who", "expected"),
    [("right", FULL), ("untouched", dict.fromkeys(FULL, 0)), ("wrong", {**FULL, **LOST})],
)
def test_a_submission_scores_as_under_stock_nbgrader(
    who: str,
    expected: dict[str, float],
    problem: TrustedNotebook,
    bench: Bench,
    tmp_path: Path,
) -> None:
    submission = hand_in(problem, who)

    result = examine(bench, problem, submission, Limits(), {}, {})
    points = {cell.grade_id: cell.points for cell in result.cells if cell.points is not None}

    assert points == stock_points(submission, tmp_path) == expected


def test_the_example_assignment_can_be_released_and_graded(course: CourseDirectory) -> None:
    root = Path(course.root)

    released = publish(course, ASSIGNMENT)
    submitted = root / "submitted" / "bitdiddle" / ASSIGNMENT
    submitted.parent.mkdir(parents=True)
    released.folder.rename(submitted)
    (graded,) = grade_class(course, ASSIGNMENT)

    assert released.notebooks == ("problem1", "problem2")
    assert graded.status == "graded"
