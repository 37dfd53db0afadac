"""The instructor's report on an assignment: one HTML page, drawn from the gradebook and from what
the autograded notebooks' metadata and error outputs tell.

It names learners and shows what went wrong in hidden tests, so it lies in report/, which nbgrader
never hands out.
"""

from __future__ import annotations

import builtins
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from nbgrader.coursedir import CourseDirectory

from autograder import stamp
from autograder.coursedir import autograded_folder
from autograder.pages import page
from autograder.sandbox.policy import Wall
from autograder.scores import LARGEST_TABLE, ClassScores, LearnerScores, Question, class_scores

SLIPS_PER_QUESTION: Final = 8
LONGEST_SLIP: Final = 240
_GREY: Final = "0.45"


@dataclass(frozen=True)
class QuestionRow:
    """How a class did in one question.

    Args:
        question: the grade cell.
        marked: how many have points for it.
        waiting: how many wait for a person.
        mean: mean share of the points, 0 to 1; None when nobody has been marked.
        discrimination: correlation of its points with the points of all other questions, -1 to 1
            (the point-biserial coefficient where there is no partial credit); None where either
            does not vary.
        slips: what failed tests said, most frequent first, and how often.
    """

    question: Question
    marked: int
    waiting: int
    mean: float | None
    discrimination: float | None
    slips: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class _Autograded:
    """What one learner's autograded notebooks tell beyond the points."""

    slips: tuple[tuple[Question, str], ...] = ()
    unwalled: bool = False


def write_report(course: CourseDirectory, assignment: str) -> Path:
    """Write the report of an assignment and return its path, report/ASSIGNMENT.html.

    Raises:
        NoGradebook, UnknownAssignment: see `class_scores`.
    """
    scores = class_scores(course, assignment)
    slips: dict[Question, Counter[str]] = {question: Counter() for question in scores.questions}
    shown: dict[str, str] = {}
    unwalled = 0
    for row in scores.learners:
        told = _autograded(course, assignment, row.learner, scores.questions)
        for question, slip in told.slips:
            slips[question][shown.setdefault(_alike(slip), slip)] += 1
        unwalled += told.unwalled
    graded = [row for row in scores.learners if row.total is not None]
    looks = [row for row in scores.learners if row.notes]
    questions = _question_rows(scores.questions, graded, slips)
    content = page(
        "report.html.j2",
        assignment=assignment,
        learners=len(scores.learners),
        graded=len(graded),
        waiting=sum(any(p is None for p in row.points.values()) for row in graded),
        most=sum(question.points for question in scores.questions),
        totals=_summary([row.total for row in graded if row.total is not None]),
        histogram=_histogram(graded, scores),
        questions=questions,
        comparison=_comparison(questions),
        looks=looks[:LARGEST_TABLE],
        looks_left_out=max(0, len(looks) - LARGEST_TABLE),
        unwalled=unwalled,
    )
    target = Path(course.root) / "report" / f"{assignment}.html"
    target.parent.mkdir(exist_ok=True)
    target.write_text(content, encoding="utf-8")
    return target


def _autograded(
    course: CourseDirectory, assignment: str, learner: str, questions: Sequence[Question]
) -> _Autograded:
    folder = autograded_folder(course, learner, assignment)
    slips: list[tuple[Question, str]] = []
    unwalled = False
    for name in dict.fromkeys(question.notebook for question in questions):
        notebook = _read(folder / f"{name}.ipynb")
        told = notebook.get("metadata", {}).get(stamp.KEY, {})
        unwalled = unwalled or told.get("wall") == Wall.NONE
        by_name = {q.grade_id: q for q in questions if q.notebook == name}
        for cell in notebook.get("cells", ()):
            question = by_name.get(cell["metadata"].get("nbgrader", {}).get("grade_id"))
            if question and (slip := _slip(cell)):
                slips.append((question, slip))
    return _Autograded(tuple(slips), unwalled)


def _read(path: Path) -> dict[str, Any]:
    # nbformat would validate each of a class's notebooks; here a few of their fields matter.
    try:
        notebook: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return notebook


def _slip(cell: dict[str, Any]) -> str:
    """Return what a failed test said: its author's words, or else the error."""
    if reason := cell["metadata"].get(stamp.KEY, {}).get("reason"):
        return str(reason)
    errors = [output for output in cell.get("outputs", ()) if output["output_type"] == "error"]
    if not errors:
        return ""
    error, said = str(errors[-1]["ename"]), str(errors[-1]["evalue"])
    # The names of a course's own exceptions tell nobody anything.
    said = f"{error}: {said}" if hasattr(builtins, error) else said
    return said if len(said) <= LONGEST_SLIP else said[:LONGEST_SLIP] + "…"


def _alike(slip: str) -> str:
    """Return a slip without its numbers, so that like ones count together."""
    return re.sub(r"\d[\d_,]*(\.\d+)?(e[-+]?\d+)?", "0", slip)


def _question_rows(
    questions: Sequence[Question],
    graded: Sequence[LearnerScores],
    slips: dict[Question, Counter[str]],
) -> list[QuestionRow]:
    points = np.array(
        [[_or_nan(row.points.get(question)) for question in questions] for row in graded],
    ).reshape(len(graded), len(questions))
    totals = np.nansum(points, axis=1)
    rows = []
    for index, question in enumerate(questions):
        marked = ~np.isnan(points[:, index])
        mine, rest = points[marked, index], totals[marked] - points[marked, index]
        waiting = sum(row.points.get(question, 0.0) is None for row in graded)
        share = mine.mean() / question.points if len(mine) and question.points else None
        rows.append(
            QuestionRow(
                question,
                len(mine),
                waiting,
                None if share is None else float(share),
                _correlation(mine, rest),
                slips[question].most_common(SLIPS_PER_QUESTION),
            )
        )
    return rows


def _or_nan(points: float | None) -> float:
    return float("nan") if points is None else points


def _correlation(one: Any, other: Any) -> float | None:
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


@dataclass(frozen=True)
class Summary:
    """Mean, median and standard deviation of the totals."""

    mean: float
    median: float
    spread: float


def _summary(totals: Sequence[float]) -> Summary | None:
    if not totals:
        return None
    return Summary(float(np.mean(totals)), float(np.median(totals)), float(np.std(totals)))


def _histogram(graded: Sequence[LearnerScores], scores: ClassScores) -> Markup:
    most = sum(question.points for question in scores.questions) or 1
    totals = [row.total for row in graded if row.total is not None]
    # Extra credit goes above, late penalties below what the questions add up to.
    low, high = min([0, *totals]), max([most, *totals])
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.hist(totals, bins=20, range=(low, high), color=_GREY, edgecolor="white")
    axes.set_xlabel("points")
    axes.set_ylabel("learners")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure, f"Histogram of {len(totals)} total scores from {low:g} to {high:g} points")


def _comparison(rows: Sequence[QuestionRow]) -> Markup:
    figure = Figure(figsize=(8, 0.8 + 0.3 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.1})
    places = range(len(rows))
    left.barh(places, [row.mean or 0 for row in rows], color=_GREY)
    left.set_xlim(0, 1)
    left.set_xlabel("mean share of the points")
    # Names come from the source, but matplotlib reads mathematics between dollar signs.
    names = [row.question.grade_id.replace("$", r"\$") for row in rows]
    left.set_yticks(list(places), names)
    left.invert_yaxis()
    right.axvline(0, color="black", linewidth=0.8)
    right.axvline(0.2, color="black", linewidth=0.8, linestyle=":")
    for place, row in enumerate(rows):
        if row.discrimination is not None:
            right.plot(row.discrimination, place, "o", color="black", markersize=5)
    right.set_xlim(-1, 1)
    right.set_xlabel("correlation with the other questions")
    right.grid(axis="y", color="0.88")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return _svg(figure, "For each question, mean share of the points and discrimination; as below")


def _svg(figure: Figure, description: str) -> Markup:
    buffer = io.StringIO()
    # Text stays text, and the same figures give the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": description}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    opening = Markup('<svg role="img" aria-label="{}"').format(description)
    return opening + Markup(drawing.removeprefix("<svg"))  # noqa: S704 - matplotlib escapes text
