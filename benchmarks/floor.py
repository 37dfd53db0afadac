"""The least that running a class's cells can cost: each submission in a fork of one warm process.

Solutions and tests run together in the shell that the grader uses, and nothing keeps them apart,
watches them or writes anything down. Run as ``python -m benchmarks.floor COURSE``; prints the mean
cost of a submission, and how many grade cells failed in all.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nbformat import NotebookNode

from autograder.cells import is_test
from autograder.coursedir import learners_who_submitted, open_course
from autograder.notebook_file import parse_notebook
from autograder.plan import Side, make_plan
from autograder.preprocessors import Examine
from autograder.reconcile import Reconciled, reconcile
from autograder.shell import Shell, make_shell
from autograder.submissions import read_submission
from tests.sample_class import ASSIGNMENT, NOTEBOOK


def main(folder: Path) -> None:
    """Run every submission of the course, and print what one costs."""
    course = open_course(folder)
    settings = Examine(parent=course.parent)
    settings.trust_submissions = True
    exam = settings.exam(course, ASSIGNMENT)
    (trusted,) = (each for each in exam.trusted if each.name == NOTEBOOK)
    reconciled = [
        reconcile(trusted, parse_notebook(submission.notebooks[NOTEBOOK]))
        for learner in learners_who_submitted(course, ASSIGNMENT)
        for submission in [read_submission(course, learner, ASSIGNMENT, exam.notebooks)]
    ]
    shell = make_shell()
    _warm(shell, reconciled[0])
    classes = [_cells(each) for each in reconciled]

    failed = 0
    before, started = _cpu(), time.perf_counter()
    for cells in classes:
        failed += _run_forked(shell, cells)
    wall, cpu = time.perf_counter() - started, _cpu() - before
    json.dump(
        {"wall": wall / len(classes), "cpu": cpu / len(classes), "failed": failed}, sys.stdout
    )


def _warm(shell: Shell, reconciled: Reconciled) -> None:
    """Import and compile beforehand whatever the grader's worker does."""
    sides = make_plan(reconciled.notebook.cells, reconciled.sources).sides
    trusted = [
        (source, side)
        for source, side in zip(reconciled.sources, sides, strict=True)
        if source is not None and side in (Side.BOTH, Side.EXAMINER)
    ]
    for source, side in trusted:
        if side is Side.BOTH:
            shell.run(source)
    shell.reset()  # type: ignore[no-untyped-call]
    shell.rehearse(source for source, _ in trusted)
    gc.collect()
    gc.freeze()


def _cells(reconciled: Reconciled) -> Sequence[NotebookNode]:
    plan = make_plan(reconciled.notebook.cells, reconciled.sources)
    return [
        cell
        for cell, side in zip(reconciled.notebook.cells, plan.sides, strict=True)
        if side is not Side.NOBODY
    ]


def _run_forked(shell: Shell, cells: Sequence[NotebookNode]) -> int:
    """Return how many grade cells failed."""
    pid = os.fork()
    if pid == 0:
        gc.disable()
        failed = 0
        for cell in cells:
            outcome = shell.run(cell.source)
            failed += outcome.error is not None and is_test(cell)
        os._exit(failed)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _cpu() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
