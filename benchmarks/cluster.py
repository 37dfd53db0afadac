"""Measure how well the workers of a Dask cluster share the marking of a class.

Run as ``python -m benchmarks.cluster``, on two cores; exits with 1 when the target is missed.
Submissions are read before and outcomes are dropped, so that the time of the one writer is apart.
Everything runs on this machine: the scheduler and the grader take their share of the cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.progress import track

from autograder.cluster import Cluster
from autograder.coursedir import open_course
from autograder.preprocessors import Examine
from autograder.submissions import read_submission
from autograder.worker import Job, make_job
from benchmarks.classes import MIXED, WronglyGraded, hand_in, make_released_course, repeat
from benchmarks.verdict import at_least, exit_status, verdict_table
from tests.dask_cluster import dask_cluster
from tests.sample_class import ASSIGNMENT, Learner

EFFICIENCY: Final = 0.85
WARM_UP: Final = 10


def read_jobs(course: Path, learners: Sequence[Learner]) -> list[Job]:
    """Return the jobs that grading this class would hand out."""
    opened = open_course(course)
    exam = Examine(parent=opened.parent).exam(opened, ASSIGNMENT)
    return [
        make_job(exam, read_submission(opened, learner.name, ASSIGNMENT, exam.notebooks))
        for learner in learners
    ]


def seconds(folder: Path, workers: int, jobs: Sequence[Job]) -> float:
    """Return how long a new cluster takes for these jobs, once its workers are warm."""
    with dask_cluster(folder, workers) as cluster, Cluster(cluster.address) as marking:
        list(marking.outcomes(jobs[:WARM_UP]))
        started = time.perf_counter()
        failures = [outcome.failure for _, outcome in marking.outcomes(jobs) if outcome.failure]
        taken = time.perf_counter() - started
    if failures:
        raise WronglyGraded(failures[0])
    return taken


def main() -> int:
    """Measure, print what was found and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each cluster")
    parser.add_argument("--learners", type=int, default=200, help="how many have handed in")
    arguments = parser.parse_args()
    console = Console()
    learners = repeat(MIXED, arguments.learners)
    one, two = [], []
    with TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        make_released_course(folder / "released")
        hand_in(folder / "released", folder / "course", learners)
        jobs = read_jobs(folder / "course", learners)
        for number in track(range(arguments.rounds), "One worker, two workers", console=console):
            one.append(seconds(folder / f"{number}-1", 1, jobs))
            two.append(seconds(folder / f"{number}-2", 2, jobs))
    for name, taken in (("one worker", one), ("two workers", two)):
        each = 1000 * statistics.median(taken) / len(jobs)
        console.print(f"{name}: {each:.1f} ms a submission")
    efficiency = statistics.median(one) / (2 * statistics.median(two))
    found = [at_least("efficiency of two workers", efficiency, EFFICIENCY, "of ideal", 2)]
    console.print(verdict_table(found))
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
