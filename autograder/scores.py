"""Who scored what: nbgrader's gradebook and the submitted folder, read into plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from nbgrader.api import Assignment, Grade, Gradebook, SubmittedAssignment, SubmittedNotebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import select

from autograder.autograded import graded_stamp
from autograder.coursedir import (
    autograded_folder,
    learners_who_submitted,
    source_notebooks,
    submission_folder,
)
from autograder.gradebook import find_assignment, open_gradebook, seconds_late
from autograder.notebook_file import UnreadableNotebook, read_notebook
from autograder.submissions import read_submission, why_ungradable

LARGEST_TABLE: Final = 300
"""Rows of a table for people; the rest is counted."""


@dataclass(frozen=True)
class Question:
    """One grade cell of the assignment and its points."""

    notebook: str
    grade_id: str
    points: float


@dataclass(frozen=True)
class LearnerScores:
    """One learner's points.

    Args:
        learner: the student id.
        points: a question's points, or None where it still waits for manual grading.
        total: nbgrader's score: all points, less a late penalty; None when nothing was graded.
        notes: what a person should know, such as a late hand-in or why nothing could be graded.
    """

    learner: str
    points: dict[Question, float | None]
    total: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ClassScores:
    """The scores of a class in one assignment."""

    assignment: str
    questions: tuple[Question, ...]
    learners: tuple[LearnerScores, ...]


def class_scores(course: CourseDirectory, assignment: str) -> ClassScores:
    """Read the scores of everyone who is in the gradebook or handed something in.

    Raises:
        NoGradebook: the gradebook cannot be opened.
        UnknownAssignment: it does not know the assignment.
    """
    with open_gradebook(course) as gradebook:
        entry = find_assignment(gradebook, assignment)
        places = _places(course, assignment)
        by_cell = {
            cell.id: Question(notebook.name, cell.name, cell.max_score)
            for notebook in entry.notebooks
            for cell in sorted(
                (*notebook.grade_cells, *notebook.task_cells),
                key=lambda cell: places.get(cell.name, len(places)),
            )
        }
        notebooks = {
            notebook.name: bool(notebook.grade_cells or notebook.task_cells)
            for notebook in entry.notebooks
        }
        submissions = _submissions(gradebook, entry, by_cell)
        learners = {student.id for student in gradebook.students}
    questions = tuple(by_cell.values())
    learners |= set(learners_who_submitted(course, assignment))
    rows = []
    for learner in sorted(learners):
        folder = autograded_folder(course, learner, assignment)
        if learner in submissions and folder.is_dir():
            rows.append(_graded(learner, submissions[learner], folder, questions, notebooks))
        else:
            reason = _why_ungraded(course, learner, assignment, notebooks)
            rows.append(LearnerScores(learner, {}, None, (reason,)))
    return ClassScores(assignment, questions, tuple(rows))


@dataclass
class _Submission:
    """What the gradebook holds of a submission; times in seconds."""

    late: float
    points: dict[Question, float | None] = field(default_factory=dict)
    total: float = 0.0


def _submissions(
    gradebook: Gradebook, entry: Assignment, by_cell: Mapping[str, Question]
) -> dict[str, _Submission]:
    """Read all submissions with few queries: nbgrader's objects would ask anew for each grade.

    What another grader writes between the queries is left for the next reading.
    """
    found: dict[str, _Submission] = {}
    mine = SubmittedAssignment.assignment_id == entry.id
    submissions = select(SubmittedAssignment.student_id).where(mine)
    for learner, handed_in, extension in gradebook.db.execute(
        submissions.add_columns(SubmittedAssignment.timestamp, SubmittedAssignment.extension)
    ):
        found[learner] = _Submission(seconds_late(handed_in, entry.duedate, extension))
    of_it = SubmittedNotebook.assignment_id == SubmittedAssignment.id
    notebooks = submissions.join(SubmittedNotebook, of_it)
    grades = notebooks.join(Grade, Grade.notebook_id == SubmittedNotebook.id)
    for learner, cell, score, waits in gradebook.db.execute(
        grades.add_columns(Grade.cell_id, Grade.score, Grade.needs_manual_grade)
    ):
        if learner in found:
            found[learner].total += score
            if cell in by_cell:
                found[learner].points[by_cell[cell]] = None if waits else score
    for learner, penalty in gradebook.db.execute(
        notebooks.add_columns(SubmittedNotebook.late_submission_penalty)
    ):
        if learner in found:
            found[learner].total -= penalty or 0.0
    return found


def _places(course: CourseDirectory, assignment: str) -> dict[str, int]:
    """Return each cell's place in the source, as far as the source has it and can be read.

    The gradebook may hold others: cells renamed since, or of a header that nbgrader put on top.
    """
    names: list[str] = []
    for path in source_notebooks(course, assignment):
        with suppress(UnreadableNotebook):
            cells = read_notebook(path).cells
            names += [str(cell.metadata.get("nbgrader", {}).get("grade_id")) for cell in cells]
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _graded(
    learner: str,
    submission: _Submission,
    folder: Path,
    questions: Sequence[Question],
    notebooks: Iterable[str],
) -> LearnerScores:
    given = submission.points
    points = {question: given[question] for question in questions if question in given}
    notes = [note for name in notebooks for note in graded_stamp(folder, name).notes]
    if submission.late > 0:
        notes.append(f"late by {timedelta(seconds=round(submission.late))}")
    total = max(0.0, submission.total)
    return LearnerScores(learner, points, total, tuple(dict.fromkeys(notes)))


def _why_ungraded(
    course: CourseDirectory, learner: str, assignment: str, notebooks: dict[str, bool]
) -> str:
    if not submission_folder(course, learner, assignment).is_dir():
        return "nothing handed in"
    submission = read_submission(course, learner, assignment, notebooks)
    return why_ungradable(submission) or "not graded yet"
