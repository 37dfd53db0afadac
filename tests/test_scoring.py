"""The points of a test cell that ends in a value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from autograder.scoring import score


@pytest.mark.parametrize(
    ("value", "points"),
    [
        (0.5, 0.5),
        (Fraction(1, 2), 0.5),
        (np.float64(0.5), 0.5),
        (np.array(0.5), 0.5),
        (np.array([[0.5]]), 0.5),
        (-1, 0.0),
        (10**400, 2.0),
        (-Fraction(10**400), 0.0),
        (float("nan"), 0.0),
    ],
)
def test_a_number_is_partial_credit_in_whatever_form_an_answer_brought_it(
    value: object, points: float
) -> None:
    assert score(2.0, failed=False, value=value).points == points


@pytest.mark.parametrize("value", [None, True, "0.5", [0.5], np.array([0.5, 1.0])])
def test_anything_else_that_is_shown_takes_no_points_away(value: object) -> None:
    assert score(2.0, failed=False, value=value).points == 2.0


def test_a_number_shown_before_an_error_gives_nothing() -> None:
    assert score(2.0, failed=True, value=1.5).points == 0
