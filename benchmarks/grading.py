"""Measure how fast submissions are graded, beside other ways of grading the same ones.

Run as ``python -m benchmarks.grading``; exits with 1 when a target is missed. Every grader works on
courses made anew, one submission at a time, and must give the points that the answers deserve. A
submission's cost is the difference between a small class's and a large one's, divided by how many
more there are, so that no start-up is in it. The graders take turns, and medians count. CPU time is
that of all processes together: what one core needs, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from autograder.sandbox.environment import VARIABLES
from benchmarks import otter
from benchmarks.classes import (
    AUTOGRADER,
    MIXED,
    PERFECT,
    SAMPLE,
    WronglyGraded,
    hand_in,
    make_released_course,
    repeat,
    require_points,
)
from benchmarks.cost import Cost, median, run
from benchmarks.memory import KINDS, Peaks
from benchmarks.verdict import Verdict, at_least, at_most, exit_status, verdict_table
from tests.sample_class import ASSIGNMENT, Learner
from tests.stock import ROOT, use_stock_autograder

OURS: Final = "autograder grade"
FLOOR: Final = "the floor"
STOCK: Final = "nbgrader autograde"
OTTER: Final = "otter run"

STOCK_RATIO: Final = 40.0
FLOOR_MS: Final = 60.0
WARM_MS: Final = 200.0
HELP_MS: Final = 300.0
WORKER_MB: Final = 400.0
MEMORY_GROWTH: Final = 1.1
"""What counts as flat, for four times the submissions."""
TIME_GROWTH: Final = 1.2
"""What counts as linear: two measurements of the same time differ by some per cent too."""

FEW: Final = len(SAMPLE)
MANY: Final = 13 * len(SAMPLE)
"""Submissions of the two classes that the autograder grades.

Its start-up takes seconds, more or less, so that many submissions must share the uncertainty.
"""
LARGE: Final = (250, 500, 1000)


class Bench:
    """The graders, and a released course to give them copies of.

    Args:
        folder: an empty one to work in.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._released = folder / "released"
        make_released_course(self._released)
        if otter.is_installed():
            otter.make_assignment(folder / "otter")

    def autograder(
        self, learners: Sequence[Learner], watch: Callable[[int], None] = lambda pid: None
    ) -> Cost:
        """Grade a class with one worker, sandbox on, from submitted folder to gradebook."""
        course = self._course(learners)
        ran = run((AUTOGRADER, "grade", ASSIGNMENT, "--jobs", "1"), course, watch=watch)
        require_points(course, {one.name: sum(one.deserved_scores.values()) for one in learners})
        return ran.cost

    def stock(self, learners: Sequence[Learner]) -> Cost:
        """Grade a class with nbgrader as it is by itself."""
        course = self._course(learners)
        use_stock_autograder(course)
        ran = run((sys.executable, "-m", "nbgrader", "autograde", ASSIGNMENT), course)
        require_points(course, {one.name: sum(one.stock_scores.values()) for one in learners})
        return ran.cost

    def floor(self, learners: Sequence[Learner]) -> Cost:
        """Return what a submission costs on the average when its cells are run and no more."""
        said = self._module("benchmarks.floor", learners)
        lost = sum(not points for one in learners for points in one.deserved_scores.values())
        if said["failed"] != lost:
            raise WronglyGraded(f"{said['failed']} cells failed on the floor instead of {lost}")
        return Cost(said["wall"], said["cpu"])

    def otter(self, learner: Learner) -> Cost:
        """Grade a submission with otter-grader, whose command takes one."""
        return otter.grade(self._folder / "otter", self._new_folder(), learner)

    def latency(self, learners: Sequence[Learner]) -> float:
        """Return the seconds that a submission takes in a warm grader."""
        return float(self._module("benchmarks.latency", learners))

    def help(self) -> float:
        """Return the seconds until the command has said what it can do."""
        return run((AUTOGRADER, "--help"), self._folder).cost.wall

    def _module(self, name: str, learners: Sequence[Learner]) -> Any:
        course = self._course(learners)
        ran = run((sys.executable, "-m", name, course), ROOT, environment=VARIABLES)
        return json.loads(ran.printed.splitlines()[-1])

    def _course(self, learners: Sequence[Learner]) -> Path:
        folder = self._new_folder()
        hand_in(self._released, folder, learners)
        return folder

    def _new_folder(self) -> Path:
        return self._folder / str(next(self._numbers))


def per_submission(
    grade: Callable[[Sequence[Learner]], Cost], few: Sequence[Learner], many: Sequence[Learner]
) -> Cost:
    """Return what a submission costs by grading two classes that differ in size."""
    least = grade(few)
    return (grade(many) - least) / (len(many) - len(few))


@dataclass(frozen=True)
class Measured:
    """What the rounds measured; medians.

    Args:
        perfect: by grader, the cost of a submission that is all right.
        mixed: by grader, the cost of one of the sample class's.
        warm_seconds: one submission in a warm grader.
        help_seconds: `autograder --help`.
    """

    perfect: Mapping[str, Cost]
    mixed: Mapping[str, Cost]
    warm_seconds: float
    help_seconds: float


def measure(bench: Bench, rounds: int, console: Console) -> Measured:
    """Let every grader take its turn in each round."""
    perfect: dict[str, Callable[[], Cost]] = {
        OURS: lambda: per_submission(bench.autograder, repeat(PERFECT, FEW), repeat(PERFECT, MANY)),
        FLOOR: lambda: bench.floor(repeat(PERFECT, 3 * FEW)),
        STOCK: lambda: per_submission(bench.stock, PERFECT, repeat(PERFECT, 4)),
    }
    if otter.is_installed():
        perfect[OTTER] = lambda: bench.otter(*PERFECT)
    mixed: dict[str, Callable[[], Cost]] = {
        OURS: lambda: per_submission(bench.autograder, repeat(SAMPLE, FEW), repeat(SAMPLE, MANY)),
        FLOOR: lambda: bench.floor(repeat(SAMPLE, 3 * FEW)),
        STOCK: lambda: per_submission(
            bench.stock, repeat(PERFECT, 1), (*repeat(PERFECT, 1), *SAMPLE)
        ),
    }
    costs: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    warm, helped = [], []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=rounds * (len(perfect) + len(mixed)))
        for _ in range(rounds):
            for kind, turns in (("perfect", perfect), ("mixed", mixed)):
                for grader, turn in turns.items():
                    progress.update(task, description=f"Measuring {grader}")
                    costs[kind, grader].append(turn())
                    helped.append(bench.help())
                    progress.advance(task)
            warm.append(bench.latency(repeat(PERFECT, 3 * FEW)))
    return Measured(
        {grader: median(costs["perfect", grader]) for grader in perfect},
        {grader: median(costs["mixed", grader]) for grader in mixed},
        statistics.median(warm),
        statistics.median(helped),
    )


def verdicts(measured: Measured) -> Iterator[Verdict]:
    """Compare what was measured with the targets."""
    for kind, costs in (("all right", measured.perfect), ("sample class", measured.mixed)):
        faster = costs[STOCK].cpu / costs[OURS].cpu
        above = 1000 * (costs[OURS].cpu - costs[FLOOR].cpu)
        yield at_least(f"faster than stock, {kind}", faster, STOCK_RATIO, "times")
        yield at_most(f"CPU time above the floor, {kind}", above, FLOOR_MS, "ms")
    yield at_most("a submission in a warm grader", 1000 * measured.warm_seconds, WARM_MS, "ms")
    yield at_most("autograder --help", 1000 * measured.help_seconds, HELP_MS, "ms")


def cost_table(title: str, costs: Mapping[str, Cost]) -> Table:
    """Return what a submission costs, grader by grader, as a table."""
    table = Table("", title=title, title_justify="left", box=None)
    for column in ("CPU, ms", "wall, ms", "CPU, ratio"):
        table.add_column(column, justify="right")
    for grader, cost in costs.items():
        ratio = cost.cpu / costs[OURS].cpu
        table.add_row(grader, f"{1000 * cost.cpu:.0f}", f"{1000 * cost.wall:.0f}", f"{ratio:.1f}")
    return table


@dataclass(frozen=True)
class LargeClass:
    """What it took to grade a class of so many."""

    size: int
    cost: Cost
    peaks: Peaks


def measure_large(bench: Bench) -> list[LargeClass]:
    """Grade classes of growing size with one worker, and watch the memory."""
    classes = []
    for size in LARGE:
        peaks = Peaks()
        cost = bench.autograder(repeat(MIXED, size), peaks.watch)
        classes.append(LargeClass(size, cost, peaks))
    return classes


def large_verdicts(classes: Sequence[LargeClass]) -> Iterator[Verdict]:
    """Compare memory and growth with the targets."""
    first, middle, last = classes
    yield at_most("memory of worker and warm parent", last.peaks.worker, WORKER_MB, "MB")
    growth = last.peaks.lasting / first.peaks.lasting
    yield at_most(f"memory at {last.size} / at {first.size}", growth, MEMORY_GROWTH, "times", 2)
    early = (middle.cost - first.cost) / (middle.size - first.size)
    late = (last.cost - middle.cost) / (last.size - middle.size)
    what = f"CPU time of each beyond {middle.size} / before"
    yield at_most(what, late.cpu / early.cpu, TIME_GROWTH, "times", 2)


def large_table(classes: Sequence[LargeClass]) -> Table:
    """Return time and memory of the large classes as a table."""
    table = Table(title="Large classes, peaks of memory in MB", title_justify="left", box=None)
    for column in ("class of", "CPU, s", "wall, s", *KINDS):
        table.add_column(column, justify="right")
    for each in classes:
        memory = (f"{each.peaks.megabytes.get(kind, 0):.0f}" for kind in KINDS)
        table.add_row(str(each.size), f"{each.cost.cpu:.0f}", f"{each.cost.wall:.0f}", *memory)
    return table


def main() -> int:
    """Measure, print what was found and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grading")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each grader")
    parser.add_argument("--large", action="store_true", help="grade 1,000 submissions as well")
    arguments = parser.parse_args()
    console = Console()
    load = os.getloadavg()[0]
    with TemporaryDirectory(prefix="bench-") as folder:
        bench = Bench(Path(folder))
        measured = measure(bench, arguments.rounds, console)
        found = list(verdicts(measured))
        console.print(cost_table("A submission that is all right", measured.perfect))
        console.print(cost_table("A submission of the sample class", measured.mixed))
        if arguments.large:
            classes = measure_large(bench)
            found += large_verdicts(classes)
            console.print(large_table(classes))
    console.print(verdict_table(found))
    now = os.getloadavg()[0]
    console.print(f"{os.cpu_count()} cores; load {load:.1f} before, {now:.1f} after")
    if not otter.is_installed():
        console.print("otter-grader was not measured: make bench-otter installs it")
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
