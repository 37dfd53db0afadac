"""How long one submission takes in a grader that stands ready: formgrader's button, pressed again.

Run as ``python -m benchmarks.latency COURSE``; prints the median time in seconds, from handing the
job to a waiting worker to having its outcome.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from autograder.coursedir import learners_who_submitted, open_course
from autograder.pool import Pool
from autograder.preprocessors import Examine
from autograder.submissions import read_submission
from autograder.worker import Job, make_job
from tests.sample_class import ASSIGNMENT


def main(folder: Path) -> None:
    """Mark every submission of the course, one after the other; the first warms the worker."""
    course = open_course(folder)
    exam = Examine(parent=course.parent).exam(course, ASSIGNMENT)
    first, *jobs = (
        make_job(exam, read_submission(course, learner, ASSIGNMENT, exam.notebooks))
        for learner in sorted(learners_who_submitted(course, ASSIGNMENT))
    )
    with Pool(1) as pool:
        _seconds(pool, first)
        json.dump(statistics.median(_seconds(pool, job) for job in jobs), sys.stdout)


def _seconds(pool: Pool, job: Job) -> float:
    started = time.perf_counter()
    ((_, outcome),) = pool.outcomes([job])
    if outcome.failure:
        raise RuntimeError(f"{job.learner} could not be marked: {outcome.failure}")
    return time.perf_counter() - started


if __name__ == "__main__":
    main(Path(sys.argv[1]))
