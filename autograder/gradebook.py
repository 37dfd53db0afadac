"""The one writer to nbgrader's gradebook: leaves what ``nbgrader autograde`` leaves, in one commit.

nbgrader's own methods commit about twice per cell. Here a submission's rows are written by a
handful of statements on nbgrader's models. Others may write at the same time, formgrader above all,
so that a busy database or a row that somebody else has just made is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    MissingEntry,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.api import Gradebook as NbgraderGradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import URL, bindparam, insert, make_url, select, update
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
)

from autograder.gradebook_cells import match_cells
from autograder.trusted import TrustedNotebook
from autograder.worker import MarkedNotebook

NO_RESPONSE: Final = "No response."

PATIENCE_SECONDS: Final = 60.0
"""How long a busy database is tried again."""


class UnknownAssignment(Exception):
    """The gradebook does not know the assignment as the source has it; the message says more."""


class NoGradebook(Exception):
    """The gradebook cannot be opened; the message says which, why and what to do.

    Args:
        address: its URL; a password in it is not shown.
        error: what was raised.
    """

    def __init__(self, address: str, error: Exception) -> None:
        setting = "c.CourseDirectory.db_url in nbgrader_config.py"
        try:
            url = make_url(address)
        except (ArgumentError, ValueError):
            url = None
        # What is taken for the host may be the rest of a password.
        if url is None or "@" in (url.host or ""):
            super().__init__(
                f"{setting} is no database's URL. It should look like "
                "sqlite:////srv/course/gradebook.db or "
                "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, an @ in the password as %40."
            )
            return
        cause = error.orig if isinstance(error, DBAPIError) else error
        why = " ".join(str(cause).split())
        if isinstance(error, (ImportError, NoSuchModuleError)):
            advice = (
                "Install its driver (for postgresql+psycopg: pip install '.[postgresql]'), or mend"
            )
        elif url.get_backend_name() != "sqlite":
            advice = "Start its server, let it know this user and database, or mend"
        elif url.database and not Path(url.database).parent.is_dir():
            advice = "Make the folder, or mend"
        else:
            advice = (
                "See whether you may write there, restore the file from a copy, run "
                "nbgrader db upgrade if it is an older nbgrader's, or mend"
            )
        super().__init__(
            f"The gradebook {address_shown(url)} cannot be used: {why}\n{advice} {setting}."
        )


def address_shown(url: URL) -> str:
    """Return a database's URL without its password, wherever that stands."""
    hidden = {name: "***" for name in url.query if "pass" in name.casefold()}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def open_gradebook(course: CourseDirectory) -> NbgraderGradebook:
    """Open nbgrader's gradebook of a course; a database without one is given an empty one.

    Raises:
        NoGradebook: that cannot be done.
    """
    try:
        return NbgraderGradebook(course.db_url, course.course_id)
    except Exception as error:  # whatever SQLAlchemy and the database's driver raise
        raise NoGradebook(course.db_url, error) from None


def find_assignment(gradebook: NbgraderGradebook, assignment: str) -> Assignment:
    """Return an assignment's row.

    Raises:
        UnknownAssignment: there is none.
    """
    try:
        return gradebook.find_assignment(assignment)
    except MissingEntry:
        raise UnknownAssignment(
            f"The gradebook knows no assignment {assignment!r}. "
            f"Run: autograder release {assignment}"
        ) from None


def seconds_late(
    handed_in: datetime | None, duedate: datetime | None, extension: timedelta | None = None
) -> float:
    """Return by how many seconds a submission is late, 0 where either time is unknown."""
    if handed_in is None or duedate is None:
        return 0.0
    due = duedate + extension if extension else duedate
    return max(0.0, (handed_in - due).total_seconds())


@dataclass(frozen=True)
class _Cells:
    """The ids of one notebook's cells in the gradebook, by grade id."""

    notebook_id: str
    grade: Mapping[str, str]
    solution: Mapping[str, str]
    task: Mapping[str, str]


@dataclass(frozen=True)
class _Present:
    """The rows that a submission has: notebooks by id, others by ids of notebook and cell."""

    notebooks: Mapping[str, Any] = field(default_factory=dict)
    grades: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    comments: Mapping[tuple[str, str], Any] = field(default_factory=dict)


class _Rows:
    """Rows to write to one table."""

    def __init__(self) -> None:
        self._new: list[dict[str, Any]] = []
        self._changed: list[dict[str, Any]] = []

    def put(self, row: Any, new: dict[str, Any], changes: dict[str, Any]) -> None:
        """Note the changes to a row, or the values of a new one if there is none."""
        if row is None:
            self._new.append({"id": new_uuid(), **new, **changes})
        elif changes:
            self._changed.append({"row": row.id, **changes})

    def write(self, db: Any, model: Any) -> None:
        """Write them, with a statement for the new and one for the changed rows."""
        table = model.__table__
        if self._new:
            db.execute(insert(table), self._new)
        if self._changed:
            db.execute(update(table).where(table.c.id == bindparam("row")), self._changed)


class Gradebook:
    """The rows of one assignment.

    Args:
        course: says where the gradebook is, and how late submissions are penalised.
        assignment: the assignment's name.
        create_students: whether to add learners who are not on the list, as nbgrader does.

    Raises:
        NoGradebook: see `open_gradebook`.
        UnknownAssignment: the assignment was never released.
    """

    def __init__(
        self, course: CourseDirectory, assignment: str, create_students: bool = True
    ) -> None:
        self._gradebook = open_gradebook(course)
        self._db = self._gradebook.db
        self._create_students = create_students
        entry = find_assignment(self._gradebook, assignment)
        self._assignment_id = entry.id
        self._duedate = entry.duedate
        self._cells: dict[str, _Cells] = {}
        late = AssignLatePenalties(parent=course.parent)
        late.init_plugin()
        self._penalty: Callable[..., float | None] = late.plugin_inst.late_submission_penalty

    def close(self) -> None:
        """Close the connection."""
        self._gradebook.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- The assignment's own rows ----------------------------------------------------------------

    def match_source(self, trusted: Iterable[TrustedNotebook]) -> None:
        """Bring the assignment's cells and points up to the source, as a regrade uses it.

        Raises:
            UnknownAssignment: a notebook is in the source or the gradebook only.
            MarksWouldBeLost: a cell that has marks by hand is gone from the source.
        """
        entry = self._db.get(Assignment, self._assignment_id)
        sources = {notebook.name: notebook for notebook in trusted}
        known = {notebook.name: notebook for notebook in entry.notebooks}
        if differing := sources.keys() ^ known.keys():
            raise UnknownAssignment(
                f"Source and gradebook of {entry.name!r} have different notebooks: "
                f"{', '.join(sorted(differing))}. Run: autograder release {entry.name}"
            )
        for name, notebook in known.items():
            match_cells(self._db, notebook, sources[name])
        if self._db.dirty or self._db.new or self._db.deleted:
            self._db.commit()
            self._db.expire_all()
        for name, notebook in known.items():
            self._cells[name] = _Cells(
                notebook.id,
                {cell.name: cell.id for cell in notebook.grade_cells},
                {cell.name: cell.id for cell in notebook.solution_cells},
                {cell.name: cell.id for cell in notebook.task_cells},
            )
        self._db.rollback()

    def timestamps(self) -> dict[str, datetime | None]:
        """Return when each learner who is in the gradebook handed the assignment in."""
        query = select(SubmittedAssignment.student_id, SubmittedAssignment.timestamp)
        rows = self._db.execute(
            query.where(SubmittedAssignment.assignment_id == self._assignment_id)
        )
        found = {row.student_id: row.timestamp for row in rows}
        self._db.rollback()
        return found

    # --- A learner's rows -------------------------------------------------------------------------

    def record(
        self,
        learner: str,
        timestamp: datetime | None,
        marked: Iterable[MarkedNotebook],
        missing: Collection[str] = (),
    ) -> None:
        """Write a graded submission's rows. Marks and comments given by hand stay.

        Args:
            learner: the student id.
            timestamp: when it was handed in, if known.
            marked: its notebooks; those of the assignment that are neither here nor in `missing`
                could not be graded, and lose the automatic points that they had.
            missing: notebooks that were not handed in, which score 0.
        """
        by_name = {notebook.name: notebook for notebook in marked}
        give_up = time.monotonic() + PATIENCE_SECONDS
        pause = 0.01
        while True:
            try:
                self._record(learner, timestamp, by_name, missing)
                self._db.commit()
                return
            except (IntegrityError, OperationalError):
                self._db.rollback()
                if time.monotonic() > give_up:
                    raise
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            except BaseException:
                self._db.rollback()
                raise

    def _record(
        self,
        learner: str,
        timestamp: datetime | None,
        marked: Mapping[str, MarkedNotebook],
        missing: Collection[str],
    ) -> None:
        submission_id, late_seconds, is_new = self._submission(learner, timestamp)
        present = _Present() if is_new else self._present(submission_id)
        notebooks, grades, comments = _Rows(), _Rows(), _Rows()
        for name, cells in self._cells.items():
            row = present.notebooks.get(cells.notebook_id)
            notebook_id = row.id if row else new_uuid()
            result = marked.get(name)
            score = 0.0
            for cell, cell_id in (*cells.grade.items(), *cells.task.items()):
                key = {"notebook_id": notebook_id, "cell_id": cell_id}
                grade = present.grades.get((notebook_id, cell_id))
                values = _grade_values(cell, cell in cells.task, result, name in missing, grade)
                grades.put(grade, key | {"auto_score": None, "needs_manual_grade": True}, values)
                score += _score(grade, values)
            for cell, cell_id in (*cells.solution.items(), *cells.task.items()):
                key = {"notebook_id": notebook_id, "cell_id": cell_id}
                comment = present.comments.get((notebook_id, cell_id))
                unanswered = result is not None and cell in result.unanswered
                values = {"auto_comment": NO_RESPONSE if unanswered else None}
                comments.put(comment, key | values, {} if name in missing else values)
            late = self._late_penalty(learner, score, late_seconds) if result else None
            key = {"id": notebook_id, "assignment_id": submission_id, "flagged": False}
            values = {"late_submission_penalty": late}
            notebooks.put(
                row,
                key | {"notebook_id": cells.notebook_id} | values,
                {} if name in missing else values,
            )
        notebooks.write(self._db, SubmittedNotebook)
        grades.write(self._db, Grade)
        comments.write(self._db, Comment)

    def _submission(self, learner: str, timestamp: datetime | None) -> tuple[str, float, bool]:
        """Return the submission's id, by how many seconds it is late, and whether it is new."""
        students, table = Student.__table__, SubmittedAssignment.__table__
        listed = self._db.execute(select(students.c.id).where(students.c.id == learner))
        if listed.one_or_none() is None:
            if not self._create_students:
                raise LookupError(f"no student with the id {learner!r} is in the gradebook")
            self._db.execute(insert(students).values(id=learner))
        mine = (table.c.assignment_id == self._assignment_id, table.c.student_id == learner)
        found = self._db.execute(
            select(table.c.id, table.c.timestamp, table.c.extension).where(*mine)
        ).one_or_none()
        if found is None:
            identity = {"assignment_id": self._assignment_id, "student_id": learner}
            new = {"id": new_uuid(), **identity, "timestamp": timestamp}
            self._db.execute(insert(table).values(**new))
            return new["id"], seconds_late(timestamp, self._duedate), True
        if timestamp is not None and timestamp != found.timestamp:
            self._db.execute(update(table).where(*mine).values(timestamp=timestamp))
        late = seconds_late(timestamp or found.timestamp, self._duedate, found.extension)
        return found.id, late, False

    def _present(self, submission_id: str) -> _Present:
        """Read the rows that the submission has."""
        table = SubmittedNotebook.__table__
        query = select(table.c.id, table.c.notebook_id)
        rows = self._db.execute(query.where(table.c.assignment_id == submission_id))
        notebooks = {row.notebook_id: row for row in rows}
        ids = [row.id for row in notebooks.values()]
        by_table = []
        for table in (Grade.__table__, Comment.__table__):
            rows = self._db.execute(select(table).where(table.c.notebook_id.in_(ids)))
            by_table.append({(row.notebook_id, row.cell_id): row for row in rows})
        return _Present(notebooks, *by_table)

    def _late_penalty(self, learner: str, score: float, late_seconds: float) -> float | None:
        """Ask the course's plugin, and keep its answer within reason as nbgrader does."""
        if late_seconds <= 0:
            return None
        penalty = self._penalty(learner, score, late_seconds)
        return None if penalty is None else min(max(penalty, 0), score)


def _grade_values(
    cell: str, is_task: bool, result: MarkedNotebook | None, missing: bool, row: Any
) -> dict[str, Any]:
    """Return what nbgrader would set, given what is there."""
    if missing:
        return {"auto_score": 0.0, "needs_manual_grade": False}
    if is_task:
        return {}
    points = result.scores[cell] if result else None
    by_hand = row is not None and row.manual_score is not None
    return {"auto_score": points, "needs_manual_grade": by_hand or points is None}


def _score(row: Any, values: Mapping[str, Any]) -> float:
    """Return a grade's points as nbgrader sums them, once the values are written."""
    automatic = values.get("auto_score", row.auto_score if row else None)
    manual, extra = (row.manual_score, row.extra_credit) if row else (None, None)
    points = manual if manual is not None else automatic
    return 0.0 if points is None else points + (extra or 0.0)
