"""The sample class: everybody gets the points written beside them, and the odd ones are named."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from autograder.coursedir import open_course
from autograder.scores import ClassScores, LearnerScores, class_scores
from autograder.tables import print_scores
from tests.sample_class import ASSIGNMENT, CLASS, Learner
from tests.stock import grade_side_by_side, points

GRADABLE = [learner for learner in CLASS if learner.gradable]
UNGRADABLE = {
    "eszter": "lesson.ipynb: it is not valid JSON: cut off, or not a notebook",
    "femi": "lesson.ipynb: it is not valid JSON: cut off, or not a notebook",
    "gwen": "not graded yet",
    "hugo": "nothing handed in",
}


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The course directory in which each learner of the sample class was graded."""
    return grade_side_by_side(tmp_path_factory.mktemp("sample"), CLASS)


@pytest.fixture(scope="module")
def scores(courses: Mapping[str, Path]) -> list[ClassScores]:
    """What `autograder scores` reads out of each of the two courses."""
    return [
        class_scores(open_course(course), ASSIGNMENT) for course in sorted(set(courses.values()))
    ]


@pytest.fixture(scope="module")
def rows(scores: list[ClassScores]) -> dict[str, LearnerScores]:
    """Each learner's row."""
    return {row.learner: row for half in scores for row in half.learners}


@pytest.mark.parametrize("learner", GRADABLE, ids=lambda learner: learner.name)
def test_everybody_gets_the_points_written_beside_them(
    learner: Learner, courses: dict[str, Path], rows: dict[str, LearnerScores]
) -> None:
    found = points(courses[learner.name], learner.name)

    assert found == learner.stock_scores, learner.story
    assert rows[learner.name].total == sum(learner.stock_scores.values())


def test_whoever_handed_in_no_gradable_notebook_has_a_row_that_says_why(
    rows: dict[str, LearnerScores],
) -> None:
    ungraded = {name: row for name, row in rows.items() if row.total is None}

    assert {name: row.notes for name, row in ungraded.items()} == {
        name: (reason,) for name, reason in UNGRADABLE.items()
    }


def test_the_late_one_is_marked_late_and_nobody_else_has_a_note(
    rows: dict[str, LearnerScores],
) -> None:
    noted = {row.learner: row.notes for row in rows.values() if row.notes and row.total is not None}

    assert noted == {"dilnoza": ("late by 3:00:00",)}


def test_the_printed_table_has_a_line_for_everyone_and_names_those_that_need_a_look(
    scores: list[ClassScores],
) -> None:
    console = Console(file=StringIO(), width=120)
    for half in scores:
        print_scores(half, console)
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()

    for learner in CLASS:
        assert any(line.split()[:1] == [learner.name] for line in lines)
    for name, reason in UNGRADABLE.items():
        assert any(name in line and reason in line for line in lines)


def test_the_class_covers_full_marks_and_none_and_marks_that_stock_nbgrader_gets_wrong() -> None:
    totals = {sum(learner.stock_scores.values()) for learner in GRADABLE}
    unfair = [learner for learner in GRADABLE if learner.deserved_scores != learner.stock_scores]

    assert {0, 16} <= totals
    assert unfair
