"""What a terminal shows of a class: all of a small one, and of a large one how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

import pytest
from rich.console import Console

from autograder.batch import Graded
from autograder.scores import ClassScores, LearnerScores, Question
from autograder.tables import print_scores, with_failures

QUESTION = Question("numbers", "double", 2.0)


def printed(learners: int) -> str:
    return shown(
        LearnerScores(f"learner{number}", {QUESTION: 1.0}, 1.0, ("late by 0:01:00",))
        for number in range(learners)
    )


def shown(rows: Iterable[LearnerScores], assignment: str = "homework") -> str:
    console = Console(file=StringIO(), width=100)
    print_scores(ClassScores(assignment, (QUESTION,), tuple(rows)), console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("learners", [1, 300])
def test_a_class_is_listed_whole(learners: int) -> None:
    assert printed(learners).count("learner") == 1 + 2 * learners  # the heading, and both tables


def test_of_a_large_class_the_rest_is_counted() -> None:
    text = printed(10_000)

    assert text.count("and 9,700 more") == 2
    assert len(text.splitlines()) < 700


def test_names_that_learners_chose_are_printed_as_they_are_whatever_they_look_like() -> None:
    names = ("a[/b]c", "notes [final].ipynb", ":bug:")
    text = shown([LearnerScores(f"[i]{name}", {}, 1.0, (name,)) for name in names], "week [1]")

    assert "Scores for week [1]" in text
    for name in names:
        assert text.count(f"[i]{name}") == 2
        assert text.count(name) == 3


def test_what_no_terminal_should_get_is_spelled_out() -> None:
    text = shown([LearnerScores("a\x1b[2J\udcff", {}, None, ("not graded yet",))])

    assert r"a\x1b[2J\udcff" in text


def test_why_grading_failed_stands_beside_the_points_of_before() -> None:
    scores = ClassScores("homework", (QUESTION,), (LearnerScores("ada", {}, 1.0, ("late",)),))
    failed = with_failures(scores, [Graded("ada", "failed", ("Traceback:\n  ...\nMemoryError",))])

    assert "ada  Traceback: … MemoryError; late" in shown(failed.learners)
