"""Who scored what: nbgrader's gradebook and the submitted folder, read into plain records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory

from autograder.coursedir import learners_who_submitted, source_notebooks, submission_folder
from autograder.notebook_file import UnreadableNotebook, read_notebook


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


class UnknownAssignment(Exception):
    """The gradebook has no assignment of that name."""


def class_scores(course: CourseDirectory, assignment: str) -> ClassScores:
    """Read the scores of everyone who is in the gradebook or handed something in.

    Raises:
        UnknownAssignment: the gradebook does not know the assignment.
    """
    with Gradebook(course.db_url, course.course_id) as gradebook:
        try:
            entry = gradebook.find_assignment(assignment)
        except MissingEntry:
            raise UnknownAssignment(assignment) from None
        order = _notebook_order(course, assignment)
        questions = tuple(
            Question(notebook.name, cell.name, cell.max_score)
            for notebook in entry.notebooks
            for cell in sorted(notebook.grade_cells, key=lambda c: order.index(c.name))
        )
        notebooks = [notebook.name for notebook in entry.notebooks if notebook.grade_cells]
        submissions = {s.student_id: s for s in gradebook.assignment_submissions(assignment)}
        learners = {student.id for student in gradebook.students}
        learners |= set(learners_who_submitted(course, assignment))
        rows = tuple(
            _graded(submissions[learner], course, notebooks)
            if learner in submissions
            else _ungraded(learner, course, assignment, notebooks)
            for learner in sorted(learners)
        )
    return ClassScores(assignment, questions, rows)


def _notebook_order(course: CourseDirectory, assignment: str) -> list[str]:
    cells = (
        cell for path in source_notebooks(course, assignment) for cell in read_notebook(path).cells
    )
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]


def _graded(
    submission: SubmittedAssignment, course: CourseDirectory, notebooks: list[str]
) -> LearnerScores:
    folder = submission_folder(course, submission.student_id, submission.name)
    notes = list(_file_notes(folder, notebooks))
    if notes:
        return LearnerScores(submission.student_id, {}, None, tuple(notes))
    points: dict[Question, float | None] = {}
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            question = Question(notebook.name, grade.name, grade.max_score)
            points[question] = None if grade.needs_manual_grade else grade.score
    late = submission.total_seconds_late
    if late > 0:
        notes.append(f"late by {timedelta(seconds=round(late))}")
    return LearnerScores(submission.student_id, points, submission.score, tuple(notes))


def _ungraded(
    learner: str, course: CourseDirectory, assignment: str, notebooks: list[str]
) -> LearnerScores:
    folder = submission_folder(course, learner, assignment)
    if not folder.is_dir():
        return LearnerScores(learner, {}, None, ("nothing handed in",))
    notes = tuple(_file_notes(folder, notebooks)) or ("not graded yet",)
    return LearnerScores(learner, {}, None, notes)


def _file_notes(folder: Path, notebooks: list[str]) -> Iterator[str]:
    """Say what is wrong with the graded notebooks that were handed in, if anything."""
    there = sorted(path.name for path in folder.glob("*.ipynb"))
    for name in (f"{notebook}.ipynb" for notebook in notebooks):
        if name not in there:
            yield f"no {name}, but {', '.join(there)}" if there else f"no {name}"
            continue
        try:
            read_notebook(folder / name)
        except UnreadableNotebook as reason:
            yield f"{name} cannot be graded: {reason}"
