"""The second assignment's class: what each hands in and what it scores.

Scores are those of stock nbgrader, which `deviates` overrides where ours are meant to differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

POINTS: Final[Mapping[str, float]] = {
    "load-check": 2,
    "inches-check": 1,
    "statistics-check": 3,
    "share-check": 1,
    "draw-check": 1,
    "guess-check": 2,
    "opinion-check": 0,
    "count-check": 2,
    "empty-check": 1,
    "show-check": 1,
    "wait-check": 1,
    "shared-check": 1.5,
}
"""The automatic points of each test cell."""

STOPS_NBGRADER: Final = float("inf")
"""Stands for the score of partial credit above a cell's points: `nbgrader autograde` gives up."""


@dataclass(frozen=True)
class Learner:
    """One hand-in.

    Args:
        name: the student id.
        answers: solution cells that differ from the source's, by grade id; a text.
        stock: stock nbgrader's points where they are not the full ones.
        deviates: our points where they differ from stock's.
        touched: False when nothing was filled in.
    """

    name: str
    answers: Mapping[str, str] = field(default_factory=dict)
    stock: Mapping[str, float] = field(default_factory=dict)
    deviates: Mapping[str, float] = field(default_factory=dict)
    touched: bool = True

    @property
    def stock_scores(self) -> dict[str, float]:
        """Points of each test cell under stock nbgrader."""
        return {**POINTS, **self.stock}

    @property
    def scores(self) -> dict[str, float]:
        """Points of each test cell in the examination room."""
        return {**self.stock_scores, **self.deviates}


CLASS: Final = (
    Learner("reference"),
    Learner(
        "untouched",
        stock=dict.fromkeys(POINTS, 0),
        touched=False,
    ),
    Learner(
        "half-way",
        {
            "statistics": "def summary(values):\n    return {'mean': sum(values) / len(values)}",
            "load": "def load(path='rainfall.csv'):\n    return [float(row['mm']) for row in rows]",
        },
        {"statistics-check": 1, "load-check": 0},
        {"share-check": 0.5},
    ),
    Learner(
        "far-off",
        {"guess": "guess = 5"},
        # A negative number is full marks to stock nbgrader.
        deviates={"guess-check": 0},
    ),
    Learner(
        "too-good",
        {"guess": "guess = -40"},
        {"guess-check": STOPS_NBGRADER},
        {"guess-check": 2},
    ),
    Learner(
        "numpy-user",
        {
            "guess": "guess = np.float64(1.5)",
            "statistics": """\
def summary(values):
    a = np.asarray(values)
    return {"mean": a.mean(), "largest": a.max(), "range": np.ptp(a)}""",
        },
        # np.float64(1.5) is no number to stock nbgrader, hence full marks.
        deviates={"guess-check": 1.5},
    ),
    Learner(
        "warned",
        {
            "count": """\
import sys, warnings
class EmptyText(ValueError):
    pass
def count_words(text):
    warnings.warn("old style", DeprecationWarning)
    print("counting", file=sys.stderr)
    words = text.lower().split()
    if not words:
        raise EmptyText(text)
    return {word: words.count(word) for word in words}"""
        },
        # Text on stderr is a failure to stock nbgrader.
        {"count-check": 0, "empty-check": 0},
        {"count-check": 2, "empty-check": 1},
    ),
    Learner(
        "mistaken",
        {
            "inches": "def in_inches(mm):\n    mm = station.to_inches(mm)",
            "draw": "def rainy_days(n):\n    return [random.randrange(30) for _ in range(n)]",
            "count": """\
class EmptyText(Exception):
    pass
def count_words(text):
    if not text:
        raise EmptyText
    return {word: text.count(word) for word in text.split()}""",
            "show": "def show(counts):\n    for word in counts:\n        print(word, counts[word])",
            "wait": "waited = 'a' + 'b'",
            "shared": "def shared(a, b):\n    return [w for w in a.split() if w in b.split()]",
        },
        dict.fromkeys(
            [
                "inches-check",
                "draw-check",
                "count-check",
                "empty-check",
                "show-check",
                "wait-check",
                "shared-check",
            ],
            0,
        ),
    ),
    Learner(
        "unfinished",
        {
            "inches": "def in_inches(mm):\n    return mm[",
            "opinion": "enjoyed = None",
            "shared": "def shared(a, b):\n    raise NotImplementedError",
        },
        {"inches-check": 0, "shared-check": 0},
    ),
)
