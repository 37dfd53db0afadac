"""Show a class's scores: in a terminal, readable without colour, and in a file for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import ProgressColumn, Task
from rich.table import Table
from rich.text import Text

from autograder.batch import Graded
from autograder.scores import LARGEST_TABLE, ClassScores, LearnerScores, Question


def with_failures(scores: ClassScores, graded: Iterable[Graded]) -> ClassScores:
    """Return the scores with a note for everybody whose grading failed in this run."""
    failures = {each.learner: each.notes for each in graded if each.status == "failed"}
    rows = (
        replace(row, notes=tuple(dict.fromkeys((*failures.get(row.learner, ()), *row.notes))))
        for row in scores.learners
    )
    return replace(scores, learners=tuple(rows))


def print_scores(scores: ClassScores, console: Console) -> None:
    """Print a row per learner, a numbered column per question, and what needs a look."""
    console.print(Group(_points_table(scores), _legend(scores.questions), _notes(scores)))


def _plain(text: str) -> Text:
    """Return text that a learner may have chosen, so that no part of it is taken for a command.

    Rich would read [brackets], a terminal control codes, and no file takes lone surrogates.
    """
    return Text("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text))


def _shortened(note: str) -> str:
    """Return a note in one line: of a traceback, what failed and why."""
    lines = note.splitlines() or [""]
    return lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"


def _points_table(scores: ClassScores) -> Table:
    title = _plain(f"Scores for {scores.assignment}")
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("learner", no_wrap=True)
    for number, _ in enumerate(scores.questions, 1):
        table.add_column(f"{number}", justify="right")
    table.add_column("total", justify="right")
    for row in scores.learners[:LARGEST_TABLE]:
        table.add_row(_plain(row.learner), *_cells(row, scores.questions))
    _count_rest(table, scores.learners)
    return table


def _count_rest(table: Table, rows: Sequence[LearnerScores]) -> None:
    if len(rows) > LARGEST_TABLE:
        table.caption = f"and {len(rows) - LARGEST_TABLE:,} more, all of them in --result FILE"
        table.caption_justify = "left"


def _cells(row: LearnerScores, questions: tuple[Question, ...]) -> list[str]:
    if row.total is None:
        return ["–"] * len(questions) + ["–"]
    points = [row.points.get(question) for question in questions]
    return ["?" if p is None else f"{p:g}" for p in points] + [f"{row.total:g}"]


def _points_text(points: float) -> str:
    return f"{points:g} {'point' if points == 1 else 'points'}"


def _legend(questions: tuple[Question, ...]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1), title="\nQuestions")
    table.title_justify = "left"
    for number, question in enumerate(questions, 1):
        table.add_row(f"{number}", _plain(question.grade_id), _points_text(question.points))
    table.add_row("?", "waits for manual grading", "")
    return table


def _notes(scores: ClassScores) -> RenderableType:
    noted = [row for row in scores.learners if row.notes]
    if not noted:
        return Text("\nNothing needs a look.")
    table = Table(box=None, show_header=False, padding=(0, 1), title="\nWorth a look")
    table.title_justify = "left"
    for row in noted[:LARGEST_TABLE]:
        notes = (_shortened(note).removesuffix(".") for note in row.notes)
        table.add_row(_plain(row.learner), _plain("; ".join(notes)))
    _count_rest(table, noted)
    return table


class TimeLeftColumn(ProgressColumn):
    """How long a task still takes at the pace of the last half minute, then how long it took."""

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds, or nothing while the pace is unknown."""
        if task.finished:
            return Text(f"in {timedelta(seconds=round(task.finished_time or 0))}")
        left = task.time_remaining
        return Text("" if left is None else f"{timedelta(seconds=round(left))} left")


def write_result(scores: ClassScores, graded: Iterable[Graded], path: Path) -> None:
    """Write everybody's points, and what became of the submissions, as JSON.

    The file holds an object with `assignment` and `learners`, a list of objects:

        learner: the student id.
        status: graded, unchanged or failed in this run; null for others.
        total: all points less a late penalty; null if nothing could be graded.
        points: by notebook, then by grade cell; null where a person has to mark.
        notes: what an instructor should know, why it failed among it.
    """
    status = {each.learner: each.status for each in graded}
    learners = []
    for row in scores.learners:
        points: dict[str, dict[str, float | None]] = {}
        for question, given in row.points.items():
            points.setdefault(question.notebook, {})[question.grade_id] = given
        learners.append(
            {
                "learner": row.learner,
                "status": status.get(row.learner),
                "total": row.total,
                "points": points,
                "notes": list(row.notes),
            }
        )
    content = {"assignment": scores.assignment, "learners": learners}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
