"""Who scored what: nbgrader's gradebook and the submitted folder, read into plain records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from nbgrader.api import Gradebook, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory

from autograder.autograded import graded_stamp
from autograder.coursedir import (
    autograded_folder,
    learners_who_submitted,
    source_notebooks,
    submission_folder,
)
from autograder.gradebook import find_assignment
from autograder.notebook_file import UnreadableNotebook, parse_notebook, read_notebook
from autograder.submissions import read_submission


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
        UnknownAssignment: the gradebook does not know the assignment.
    """
    with Gradebook(course.db_url, course.course_id) as gradebook:
        entry = find_assignment(gradebook, assignment)
        order = _notebook_order(course, assignment)
        questions = tuple(
            Question(notebook.name, cell.name, cell.max_score)
            for notebook in entry.notebooks
            for cell in sorted(
                (*notebook.grade_cells, *notebook.task_cells), key=lambda c: order.index(c.name)
            )
        )
        notebooks = {
            notebook.name: bool(notebook.grade_cells or notebook.task_cells)
            for notebook in entry.notebooks
        }
        submissions = {s.student_id: s for s in gradebook.assignment_submissions(assignment)}
        learners = {student.id for student in gradebook.students}
        learners |= set(learners_who_submitted(course, assignment))
        rows = []
        for learner in sorted(learners):
            folder = autograded_folder(course, learner, assignment)
            if learner in submissions and folder.is_dir():
                rows.append(_graded(submissions[learner], folder))
            else:
                reason = _why_ungraded(course, learner, assignment, notebooks)
                rows.append(LearnerScores(learner, {}, None, (reason,)))
    return ClassScores(assignment, questions, tuple(rows))


def _notebook_order(course: CourseDirectory, assignment: str) -> list[str]:
    cells = (
        cell for path in source_notebooks(course, assignment) for cell in read_notebook(path).cells
    )
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]


def _graded(submission: SubmittedAssignment, folder: Path) -> LearnerScores:
    points: dict[Question, float | None] = {}
    notes: list[str] = []
    for notebook in submission.notebooks:
        notes += graded_stamp(folder, notebook.name).notes
        for grade in notebook.grades:
            question = Question(notebook.name, grade.name, grade.max_score)
            points[question] = None if grade.needs_manual_grade else grade.score
    late = submission.total_seconds_late
    if late > 0:
        notes.append(f"late by {timedelta(seconds=round(late))}")
    total = max(0.0, submission.score - submission.late_submission_penalty)
    return LearnerScores(submission.student_id, points, total, tuple(dict.fromkeys(notes)))


def _why_ungraded(
    course: CourseDirectory, learner: str, assignment: str, notebooks: dict[str, bool]
) -> str:
    if not submission_folder(course, learner, assignment).is_dir():
        return "nothing handed in"
    submission = read_submission(course, learner, assignment, notebooks)
    if submission.failure:
        return submission.failure
    for name, content in submission.notebooks.items():
        try:
            parse_notebook(content)
        except UnreadableNotebook as reason:
            return f"{name}.ipynb: {reason}"
    return "not graded yet"
