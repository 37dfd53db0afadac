"""Grades a whole class: reads submissions, hands them to workers, writes results as they come.

Only this process touches the course's folders and its gradebook. A submission always ends with a
result and never ends the batch; a kill at any moment costs at most what was under way.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import Exchange
from sqlalchemy.exc import OperationalError

from autograder import autograded
from autograder.coursedir import autograded_folder, learners_who_submitted, source_folder
from autograder.exam import Exam
from autograder.gradebook import Gradebook
from autograder.pool import Pool, signals_put_off
from autograder.preprocessors import Examine
from autograder.sandbox.policy import Wall
from autograder.sandbox.walls import refuse_if_exposed
from autograder.submissions import Submission, read_submission
from autograder.worker import Job, Outcome, fingerprint, make_job

LOCK_FILE = ".autograder.lock"

Status = Literal["graded", "unchanged", "failed"]


class CannotGrade(Exception):
    """Nothing can be graded as things are; the message says why and what to do."""


class Workers(Protocol):
    """What marks submissions: processes on this machine, or a cluster."""

    def outcomes(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, as they come; jobs are drawn as workers get free."""


@dataclass(frozen=True)
class Graded:
    """What became of one learner's submission.

    Args:
        learner: the student id.
        status: graded now, unchanged since it was graded, or failed: not gradable.
        notes: what an instructor should know; why, where it failed.
        seconds: wall time that the examination took.
    """

    learner: str
    status: Status
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def grade_class(
    course: CourseDirectory,
    assignment: str,
    learners: Collection[str] = (),
    *,
    force: bool = False,
    jobs: int | None = None,
    cluster: Workers | None = None,
    trust: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Graded, ...]:
    """Grade what a class handed in, as far as it has changed since it was graded.

    Args:
        course: the course.
        assignment: the assignment's name.
        learners: whose submissions; everybody's if empty.
        force: grade again what has not changed.
        jobs: how many submissions at a time on this machine; by default one per core.
        cluster: marks them elsewhere instead.
        trust: run submissions without a sandbox.
        on_progress: is told how many submissions are done, of how many that have to be graded.

    Returns:
        A result for every submission, by learner.

    Raises:
        CannotGrade: a learner or the assignment does not exist, another grader is at work, or
            the gradebook cannot be written.
        CannotMark, BadSource, NoWalls, Exposed, NoGradebook, UnknownAssignment, MarksWouldBeLost:
            see there.
    """
    if not source_folder(course, assignment).is_dir():
        raise CannotGrade(
            f"There is no assignment {assignment!r}: no {source_folder(course, assignment)}"
        )
    chosen = _chosen(course, assignment, learners)
    settings = Examine(parent=course.parent)
    settings.trust_submissions = settings.trust_submissions or trust
    exam = settings.exam(course, assignment)
    if exam.wall is not Wall.NONE:
        refuse_if_exposed(private_folders(course), exam.wall)
    converter = Autograde(coursedir=course, parent=course.parent)
    with (
        _locked(course),
        _stoppable(),
        Gradebook(course, assignment, converter.create_student) as gradebook,
    ):
        autograded.sweep_aside(course, assignment)
        gradebook.match_source(exam.trusted)
        batch = _Batch(course, assignment, exam, gradebook, _modes(converter), on_progress)
        cores = jobs or len(os.sched_getaffinity(0))
        with Pool(min(cores, len(chosen))) if cluster is None else nullcontext(cluster) as workers:
            results = batch.run(chosen, force, workers)
    return tuple(sorted(results, key=lambda result: result.learner))


def _chosen(course: CourseDirectory, assignment: str, learners: Collection[str]) -> Sequence[str]:
    there = set(learners_who_submitted(course, assignment))
    there -= set(filter(None, course.student_id_exclude.split(",")))
    if unknown := set(learners) - there:
        raise CannotGrade(
            f"Nothing was handed in for {assignment!r} by {', '.join(sorted(unknown))}. "
            f"Is it spelled as in {course.submitted_directory}/?"
        )
    if not there:
        raise CannotGrade(
            f"Nobody has handed anything in for {assignment!r}. Collect it first: "
            f"nbgrader collect {assignment}"
        )
    return sorted(set(learners) or there)


def private_folders(course: CourseDirectory) -> Iterator[Path]:
    """Yield what learners' code must not be able to read."""
    yield Path(course.root)
    yield Path.home()
    exchange = Exchange(coursedir=course, parent=course.parent).root
    if exchange:
        yield Path(exchange)
    _, _, database = course.db_url.partition("sqlite:///")
    if database:
        yield Path(database)


def _modes(converter: Autograde) -> autograded.Modes:
    # nbgrader keeps the octal digits in a decimal number.
    digits, shared = str(converter.permissions), converter.coursedir.groupshared
    return autograded.Modes(int(digits, base=8), shared)


class _Batch:
    """One run over a class."""

    def __init__(
        self,
        course: CourseDirectory,
        assignment: str,
        exam: Exam,
        gradebook: Gradebook,
        modes: autograded.Modes,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._course = course
        self._assignment = assignment
        self._exam = exam
        self._gradebook = gradebook
        self._modes = modes
        self._on_progress = on_progress
        self._results: list[Graded] = []
        self._unchanged = 0
        self._under_way: dict[str, Submission] = {}

    def run(self, learners: Sequence[str], force: bool, workers: Workers) -> list[Graded]:
        """Grade these learners' submissions."""
        self._tell(len(learners))
        for job, outcome in workers.outcomes(self._jobs(learners, force)):
            self._finish(self._under_way.pop(job.learner), outcome)
            self._tell(len(learners))
        return self._results

    def _tell(self, of: int) -> None:
        # Whoever estimates the time left must not take what is skipped for what was graded.
        self._on_progress(len(self._results) - self._unchanged, of - self._unchanged)

    def _jobs(self, learners: Sequence[str], force: bool) -> Iterator[Job]:
        """Yield the jobs for workers; what needs none is finished on the way."""
        recorded = self._gradebook.timestamps()
        for learner in learners:
            wanted = self._exam.notebooks
            submission = read_submission(self._course, learner, self._assignment, wanted)
            if submission.failure:
                self._finish(submission, Outcome(failure=submission.failure))
            elif not force and learner in recorded and self._is_done(submission):
                self._results.append(Graded(learner, "unchanged"))
                self._unchanged += 1
            else:
                self._under_way[learner] = submission
                yield make_job(self._exam, submission)
            self._tell(len(learners))

    def _is_done(self, submission: Submission) -> bool:
        folder = autograded_folder(self._course, submission.learner, self._assignment)
        wanted = fingerprint(self._exam, submission)
        graded = (autograded.graded_stamp(folder, name) for name in submission.notebooks)
        return all(stamp.fingerprint == wanted for stamp in graded)

    def _finish(self, submission: Submission, outcome: Outcome) -> None:
        """Write one submission's result, unless the grader is to blame for it."""
        if outcome.is_ours:
            # What was graded before stays; as its stamp is of what it was made of, the next run
            # tries again if that has changed since.
            self._results.append(Graded(submission.learner, "failed", (outcome.failure,)))
            return
        try:
            with signals_put_off():
                self._write(submission, outcome)
        except OperationalError as error:
            raise CannotGrade(
                f"The gradebook cannot be written: {error.orig}\n"
                "What had been graded is kept; run it again for the rest."
            ) from None
        except Exception as error:
            reason = f"its result could not be written: {type(error).__name__}: {error}"
            self._results.append(Graded(submission.learner, "failed", (reason,)))
            return
        if outcome.failure:
            result = Graded(submission.learner, "failed", (outcome.failure, *outcome.notes))
        else:
            result = Graded(submission.learner, "graded", outcome.notes, outcome.seconds)
        self._results.append(result)

    def _write(self, submission: Submission, outcome: Outcome) -> None:
        """Write folder and rows so that a kill in between makes the next run do it again."""
        folder = autograded_folder(self._course, submission.learner, self._assignment)
        if outcome.failure:
            autograded.remove(folder)
        else:
            notebooks = {f"{each.name}.ipynb": each.content for each in outcome.notebooks}
            files = {**submission.files, **self._exam.support_files, **notebooks}
            autograded.stage(folder, files, self._modes)
        self._gradebook.record(
            submission.learner, submission.timestamp, outcome.notebooks, submission.missing
        )
        if not outcome.failure:
            autograded.put_in_place(folder)


@contextmanager
def _locked(course: CourseDirectory) -> Iterator[None]:
    """Keep a second grader out of the course."""
    path = Path(course.root) / LOCK_FILE
    try:
        file = path.open("a+")
    except OSError as error:
        raise CannotGrade(
            f"{path} cannot be written: {error.strerror}. "
            "Grade as the account that owns the course directory, or make it yours."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise CannotGrade(
                f"Another grader works on this course: {file.read().strip() or 'just started'}. "
                "Wait until it has ended."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
        file.truncate(0)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Have SIGTERM end the batch as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
