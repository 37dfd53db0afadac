"""Measure where the CPU time of ``autograder grade`` goes, process by process.

Run as ``python -m benchmarks.profile``; exits with 1 when writing costs more than the examination
itself, even if all that the worker does is taken for writing. The class is graded by the command
that instructors use, with one worker. The difference between two moments is divided by the
submissions graded between them, so that no start-up is in it. System time is mostly forking and the
memory pages that a fork copies when they are touched.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

from rich.console import Console
from rich.table import Table

from benchmarks.classes import AUTOGRADER, MIXED, hand_in, make_released_course, repeat
from benchmarks.memory import LOOK_SECONDS, PROC, cpu_times
from benchmarks.verdict import Verdict, at_most, exit_status, verdict_table
from tests.sample_class import ASSIGNMENT

WARM_UP: Final = 10

WRITER: Final = "grader: reads submissions, writes gradebook and folders"
WORKER: Final = "worker: reconciles, watches, makes the graded notebook"
EXAMINER: Final = "examiners, one for each submission: hidden tests"
PARENT: Final = "warm parent: forks learner's processes"
LEARNER: Final = "learner's processes: cells, functions"


@dataclass(frozen=True)
class Spent:
    """CPU time in seconds, of the process's own code and of the kernel for it."""

    user: float = 0.0
    system: float = 0.0

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.user - other.user, self.system - other.system)

    @property
    def total(self) -> float:
        """Both together."""
        return self.user + self.system


@dataclass(frozen=True)
class Look:
    """What had been spent, by kind of process, when so many submissions were graded."""

    done: int
    spent: Mapping[str, Spent]


def look(grader: int, course: Path) -> Look | None:
    """Look at the grader's processes; None until all are there."""
    done = len(list((course / "autograded").glob(f"*/{ASSIGNMENT}")))
    with suppress(OSError, StopIteration):
        worker = next(pid for pid in _children(grader) if b"spawn_main" in _command(pid))
        parent = next(pid for pid in _children(worker) if b"learner.warm" in _command(pid))
        own, _ = _spent(grader)
        workers, examiners = _spent(worker)
        parents, learners = _spent(parent)
        kinds = (WRITER, WORKER, EXAMINER, PARENT, LEARNER)
        return Look(
            done, dict(zip(kinds, (own, workers, examiners, parents, learners), strict=True))
        )
    return None


def _children(pid: int) -> list[int]:
    return [int(child) for child in (PROC / f"{pid}/task/{pid}/children").read_text().split()]


def _command(pid: int) -> bytes:
    return (PROC / f"{pid}/cmdline").read_bytes()


def _spent(pid: int) -> tuple[Spent, Spent]:
    """Return what a process spent and what its children spent that have ended."""
    user, system, childrens_user, childrens_system = cpu_times(pid)
    return Spent(user, system), Spent(childrens_user, childrens_system)


def profile(course: Path) -> tuple[Look, Look]:
    """Grade a class and return how things stood soon after the start and just before the end."""
    command = (AUTOGRADER, "grade", ASSIGNMENT, "--jobs", "1")
    process = subprocess.Popen(command, cwd=course, stdout=subprocess.DEVNULL)
    looks = []
    while process.poll() is None:
        time.sleep(LOOK_SECONDS)
        if (found := look(process.pid, course)) and found.done >= WARM_UP:
            looks.append(found)
    return looks[0], looks[-1]


def table(count: int, spent: Mapping[str, Spent]) -> Table:
    """Return what each of so many submissions cost, by kind of process."""
    whole = sum(each.total for each in spent.values())
    shown = Table(f"CPU time of each of {count} submissions, ms", box=None)
    for column in ("user", "system", "together", "share"):
        shown.add_column(column, justify="right")
    for kind, each in sorted(spent.items(), key=lambda item: -item[1].total):
        times = (f"{1000 * t / count:.1f}" for t in (each.user, each.system, each.total))
        shown.add_row(kind, *times, f"{each.total / whole:.0%}")
    shown.add_row("all", "", "", f"{1000 * whole / count:.1f}", "")
    return shown


def writing(spent: Mapping[str, Spent]) -> Verdict:
    """Compare writing with examining. The worker's share of it is at most all that it spends."""
    written = spent[WRITER].total + spent[WORKER].total
    examined = spent[EXAMINER].total + spent[LEARNER].total
    return at_most("grader and worker / examiners and learners", written / examined, 1, "times", 2)


def main() -> int:
    """Measure, print what was found and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile")
    parser.add_argument("--learners", type=int, default=300, help="how many have handed in")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="bench-") as folder:
        released, course = Path(folder, "released"), Path(folder, "course")
        make_released_course(released)
        hand_in(released, course, repeat(MIXED, arguments.learners))
        first, last = profile(course)
    spent = {kind: last.spent[kind] - first.spent[kind] for kind in last.spent}
    found = [writing(spent)]
    console = Console()
    console.print(table(last.done - first.done, spent))
    console.print(verdict_table(found))
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
