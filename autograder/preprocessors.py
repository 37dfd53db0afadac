"""The examination inside nbgrader: `nbgrader autograde` and formgrader's button use it unchanged.

`Examine` takes the place of nbgrader's sanitizing steps: out of a submitted notebook it makes the
graded one, from which nbgrader's own SaveAutoGrades then reads the points. Its traits are the
settings of ``autograder grade`` too.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Integer, List, Unicode

from autograder.coursedir import source_folder
from autograder.exam import Exam
from autograder.gradebook import Gradebook
from autograder.limits import Limits
from autograder.pool import lasting_worker
from autograder.prepare import header_and_footer, load_exam
from autograder.sandbox.policy import Wall
from autograder.sandbox.walls import require_wall
from autograder.submissions import read_submission
from autograder.worker import make_job

DEFAULT = Limits()


class NotGraded(Exception):
    """A submission could not be graded; the message says why."""


class Examine(NbGraderPreprocessor):  # type: ignore[misc]
    """Examine a submission in the sandbox and give back the notebook as it was graded."""

    call_seconds = Float(
        DEFAULT.call_seconds, help="Time for one call of a learner's function by a test."
    ).tag(config=True)
    cell_seconds = Float(DEFAULT.cell_seconds, help="Time for one cell.").tag(config=True)
    submission_seconds = Float(
        DEFAULT.submission_seconds,
        help="Time for a notebook; what has been marked by then counts.",
    ).tag(config=True)
    memory_bytes = Integer(
        DEFAULT.memory_bytes, help="Address space of a learner's process, and of the examiner."
    ).tag(config=True)
    preload: List[str] = List(
        Unicode(),
        help="Import packages that submissions may use, loaded before a submission comes.",
    ).tag(config=True)
    trust_submissions = Bool(
        False, help="Run submissions without a sandbox, as you would run your own code."
    ).tag(config=True)

    @property
    def limits(self) -> Limits:
        """The limits that the settings ask for."""
        return Limits(
            self.call_seconds, self.cell_seconds, self.submission_seconds, self.memory_bytes
        )

    def exam(self, course: CourseDirectory, assignment: str) -> Exam:
        """Load an assignment's source with these settings.

        Raises:
            BadSource: a notebook of the source cannot be used.
            NoWalls: nothing on this machine keeps learners' code in.
        """
        own = Autograde(coursedir=course, parent=course.parent).exclude_overwriting
        wall = Wall.NONE if self.trust_submissions else require_wall()
        return load_exam(
            course, assignment, self.limits, self.preload, wall, own.get(assignment, ())
        )

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Examine a submitted notebook.

        Raises:
            NotGraded: there is no way to grade it.
        """
        said = resources["nbgrader"]
        course: CourseDirectory = self.parent.parent.coursedir
        exam = self._present_exam(course, said["assignment"])
        submission = read_submission(course, said["student"], said["assignment"], exam.notebooks)
        if submission.failure:
            raise NotGraded(submission.failure)
        job = make_job(exam, submission)
        ((_, outcome),) = _worker().outcomes([job.only(said["notebook"])])
        if outcome.failure:
            raise NotGraded(outcome.failure)
        for note in outcome.notes:
            self.log.warning("%s: %s", said["student"], note)
        (marked,) = outcome.notebooks
        return nbformat.v4.reads(marked.content.decode()), resources

    def _present_exam(self, course: CourseDirectory, assignment: str) -> Exam:
        """Return the exam, loaded anew when a file of the source or a setting has changed."""
        around = header_and_footer(course)
        files = [Path(file) for file in (around.header, around.footer) if file]
        files += sorted(source_folder(course, assignment).rglob("*"))
        state = tuple((path, path.stat().st_mtime_ns) for path in files)
        key = (course.root, assignment, state, repr(self.config))
        if key not in _exams:
            exam = self.exam(course, assignment)
            with Gradebook(course, assignment) as gradebook:
                gradebook.match_source(exam.trusted)
            _exams.clear()
            _exams[key] = exam
        return _exams[key]


_exams: dict[Any, Exam] = {}


_worker: Final = cache(lasting_worker)
