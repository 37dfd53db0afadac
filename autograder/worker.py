"""Marks one submission: the function that a pool of worker processes is given.

It takes and returns plain records of bytes and knows nothing of the course's folders or gradebook,
so that the pool may be on this machine or elsewhere. What is costly to make, the room above all, is
made once per process.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec
from nbformat import NotebookNode
from nbformat.v4.rwbase import split_lines, strip_transient

from autograder.cells import is_grade, is_solution
from autograder.exam import Exam
from autograder.examine import Bench, examine
from autograder.learner.warm import import_usual
from autograder.notebook_file import UnreadableNotebook, parse_content
from autograder.result import Result
from autograder.sandbox.policy import Wall
from autograder.sandbox.room import Room
from autograder.shell import make_shell
from autograder.stamp import Stamp, put_stamp
from autograder.trusted import TrustedNotebook

if TYPE_CHECKING:
    from autograder.submissions import Submission

EXAMS_KEPT: Final = 4
BENCHES_KEPT: Final = 2


class CannotMark(Exception):
    """No submission can be marked as things are; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """A submission to mark.

    Args:
        learner: the student id.
        exam: the packed exam.
        exam_digest: the exam's digest, by which a worker knows that it has it already.
        wall: what keeps the learner's code in.
        notebooks: the submitted notebooks' bytes, by name.
        files: the submission's other files.
        fingerprint: goes into the graded notebooks' metadata.
        notes: what was odd about the files; goes there too.
    """

    learner: str
    exam: bytes
    exam_digest: str
    wall: Wall
    notebooks: Mapping[str, bytes]
    files: Mapping[str, bytes]
    fingerprint: str
    notes: tuple[str, ...]

    def only(self, notebook: str) -> Job:
        """Return the job for one of the submission's notebooks."""
        return replace(self, notebooks={notebook: self.notebooks[notebook]})


@dataclass(frozen=True)
class MarkedNotebook:
    """A graded notebook, and what nbgrader reads from it.

    Args:
        name: nbgrader's name of it.
        content: the ipynb file's bytes.
        scores: points by grade id; None where a person has to mark.
        unanswered: the solution cells that are as they were released.
    """

    name: str
    content: bytes
    scores: Mapping[str, float | None]
    unanswered: frozenset[str]


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Args:
        notebooks: the graded notebooks; none when `failure` is set.
        notes: what an instructor should know.
        failure: why nothing could be graded, or "".
        is_ours: whether it is not known to be the submission's own fault: a worker failed.
        seconds: wall time that it took.
    """

    notebooks: tuple[MarkedNotebook, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""
    is_ours: bool = False
    seconds: float = 0.0


def make_job(exam: Exam, submission: Submission) -> Job:
    """Put together what a worker needs to mark a submission."""
    return Job(
        submission.learner,
        exam.packed,
        exam.digest,
        exam.wall,
        submission.notebooks,
        submission.files,
        fingerprint(exam, submission),
        submission.notes,
    )


def fingerprint(exam: Exam, submission: Submission) -> str:
    """Return what is the same only if grading again would give the same."""
    return f"{exam.digest}-{submission.digest}"


def mark(job: Job) -> Outcome:
    """Mark a submission.

    Raises:
        NoWalls, RoomFailed: no learner's process can be started here.
    """
    started = time.monotonic()
    exam = _unpacked(job.exam_digest, job.exam)
    bench = _bench(exam.wall, exam.preload, exam.limits.memory_bytes)
    marked, notes = [], list(job.notes)
    for trusted in exam.trusted:
        if trusted.name not in job.notebooks:
            continue
        try:
            submitted = parse_content(job.notebooks[trusted.name])
        except UnreadableNotebook as reason:
            return Outcome(failure=f"{trusted.name}.ipynb: {reason}", notes=job.notes)
        result = examine(bench, trusted, submitted, exam.limits, job.files, exam.support_files)
        notes += result.notes
        marked.append(_marked(trusted, result, job, exam.wall))
    return Outcome(tuple(marked), tuple(notes), seconds=time.monotonic() - started)


_exams: dict[str, Exam] = {}


def _unpacked(digest: str, packed: bytes) -> Exam:
    if digest not in _exams:
        while len(_exams) >= EXAMS_KEPT:
            del _exams[next(iter(_exams))]
        _exams[digest] = pickle.loads(packed)  # noqa: S301 (made by the grader itself)
    return _exams[digest]


_benches: dict[tuple[Wall, tuple[str, ...], int], Bench] = {}


def _bench(wall: Wall, preload: tuple[str, ...], memory_bytes: int) -> Bench:
    key = (wall, preload, memory_bytes)
    if key not in _benches:
        while len(_benches) >= BENCHES_KEPT:
            _benches.pop(next(iter(_benches))).room.close()
        _benches[key] = _make_bench(*key)
    return _benches[key]


def _make_bench(wall: Wall, preload: tuple[str, ...], memory_bytes: int) -> Bench:
    room = Room(preload, wall, address_space=memory_bytes)
    import_usual(preload)
    shell = make_shell()
    # Examiners are forked from here; their memory stays shared unless it is touched.
    gc.collect()
    gc.freeze()
    return Bench(room, shell)


def _marked(trusted: TrustedNotebook, result: Result, job: Job, wall: Wall) -> MarkedNotebook:
    notebook = result.autograded
    put_stamp(notebook, Stamp(job.fingerprint, (*job.notes, *result.notes), str(wall)))
    given = {cell.grade_id: cell.points for cell in result.cells}
    unanswered, scores = set(), {}
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if is_solution(cell) and cell.source == trusted.stubs[name]:
            unanswered.add(name)
        if is_grade(cell):
            # An answer for a person to mark gets its 0 at once where there is none.
            scores[name] = 0.0 if name in unanswered else given[name]
    return MarkedNotebook(trusted.name, _written(notebook), scores, frozenset(unanswered))


def _written(notebook: NotebookNode) -> bytes:
    """Return the file's bytes, the same as nbformat's, in a quarter of its time."""
    content = split_lines(strip_transient(notebook))
    return msgspec.json.format(msgspec.json.encode(content, order="sorted"), indent=1)
