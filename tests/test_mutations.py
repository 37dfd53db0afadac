"""Every plausible wrong answer costs points on its own question only, and no right answer does."""

from __future__ import annotations

import pytest

from autograder.batch import grade_class
from autograder.coursedir import open_course
from tests.mutations import EQUIVALENTS, GRADED_BY, MUTATIONS, RIGHT_HAND_INS, Variant
from tests.sample_class import ASSIGNMENT, POINTS, Learner
from tests.stock import collect, make_course, points, release

Points = dict[str, float]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Points]:
    """Each hand-in's points in one class."""
    course = tmp_path_factory.mktemp("mutations") / "course"
    learners = [*(mutation.learner for mutation in MUTATIONS), *RIGHT_HAND_INS]
    make_course(course)
    release(course)
    collect(course, learners)
    grade_class(open_course(course), ASSIGNMENT)
    return {learner.name: points(course, learner.name) for learner in learners}


def lost(scores: Points) -> set[str]:
    return {cell for cell, full in POINTS.items() if scores[cell] < full}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.student)
def test_a_wrong_answer_loses_points_on_its_own_question_and_on_no_other(
    mutation: Variant, graded: dict[str, Points]
) -> None:
    own = set(GRADED_BY[mutation.cell])

    assert lost(graded[mutation.student]) & own
    assert lost(graded[mutation.student]) <= own | {"report"}


@pytest.mark.parametrize("learner", RIGHT_HAND_INS, ids=lambda learner: learner.name)
def test_right_answers_in_unusual_spellings_keep_every_point(
    learner: Learner, graded: dict[str, Points]
) -> None:
    assert graded[learner.name] == POINTS, learner.story


@pytest.mark.parametrize(
    "cell", [cell for cell in GRADED_BY if cell not in {"fast-link", "slow-link"}]
)
def test_some_wrong_answers_are_found_by_the_hidden_tests_alone(
    cell: str, graded: dict[str, Points]
) -> None:
    unnoticed = [m for m in MUTATIONS if m.cell == cell and m.passes_the_visible_checks()]

    assert unnoticed
    assert all(lost(graded[mutation.student]) for mutation in unnoticed)


@pytest.mark.parametrize("cell", ["fast-link", "slow-link"])
def test_no_wrong_transfer_time_gets_past_its_visible_check(cell: str) -> None:
    assert not [m for m in MUTATIONS if m.cell == cell and m.passes_the_visible_checks()]


def test_the_table_covers_every_question_and_names_each_row_once() -> None:
    names = [variant.student for variant in (*MUTATIONS, *EQUIVALENTS)]

    assert len(names) == len(set(names))
    assert {mutation.cell for mutation in MUTATIONS} == set(GRADED_BY)
    assert {cell for cells in GRADED_BY.values() for cell in cells} | {"report"} == set(POINTS)
