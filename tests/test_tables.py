"""What a terminal shows of a class: all of a small one, and of a large one how many there are."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from autograder.scores import ClassScores, LearnerScores, Question
from autograder.tables import print_scores

QUESTION = Question("numbers", "double", 2.0)


def printed(learners: int) -> str:
    rows = tuple(
        LearnerScores(f"learner{number}", {QUESTION: 1.0}, 1.0, ("late by 0:01:00",))
        for number in range(learners)
    )
    console = Console(file=StringIO(), width=100)
    print_scores(ClassScores("homework", (QUESTION,), rows), console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("learners", [1, 300])
def test_a_class_is_listed_whole(learners: int) -> None:
    assert printed(learners).count("learner") == 1 + 2 * learners  # the heading, and both tables


def test_of_a_large_class_the_rest_is_counted() -> None:
    text = printed(10_000)

    assert text.count("and 9,700 more") == 2
    assert len(text.splitlines()) < 700
