"""Grade ten thousand submissions on this machine, kill the grader on the way, and go on.

Run as ``python -m benchmarks.scale``; exits with 1 when a target is missed. The submissions are the
sample class's, over and over, and the command is the one that instructors use, on a terminal, so
that its estimate of the time left can be held against the time that it took.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final

from rich.console import Console

from benchmarks.classes import (
    AUTOGRADER,
    MIXED,
    hand_in,
    make_released_course,
    repeat,
    require_points,
)
from benchmarks.cost import Cost, run
from benchmarks.memory import WRITER, Peaks, cpu_times, resident_megabytes
from benchmarks.verdict import Verdict, at_least, at_most, exit_status, verdict_table
from tests.sample_class import ASSIGNMENT, Learner

PLAIN: Final = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}
KILL_AT: Final = 0.4
WITHIN_MINUTES: Final = 15.0
WRITER_MB: Final = 500.0
WRITER_MS: Final = 15.0
MEMORY_GROWTH: Final = 1.2
"""What counts as flat for the writer, from soon after its start to its end."""
REPORT_MB: Final = 5.0
SLOWER: Final = 1.2
"""How much slower the last submissions may be than the first; measurements differ somewhat."""
ESTIMATE_OFF: Final = 0.2
"""By what share of the time left the estimate may be off."""
SHOWN: Final = re.compile(r"(\d+)/(\d+) (\d+):(\d\d):(\d\d) left")


@dataclass(frozen=True)
class Look:
    """The progress bar at one moment.

    Args:
        at: seconds since the start.
        cpu: seconds of CPU time that the writer, the grader without its workers, took until then.
        megabytes: the writer's resident memory.
        done: submissions.
        left: seconds, as shown.
    """

    at: float
    cpu: float
    megabytes: float
    done: int
    left: float


@dataclass
class Run:
    """One run of the grader on a terminal."""

    seconds: float = 0.0
    peaks: Peaks = field(default_factory=Peaks)
    looks: list[Look] = field(default_factory=list)
    printed: str = ""


def grade(course: Path, is_enough: Callable[[int], bool] = lambda done: False) -> Run:
    """Grade a class, and kill the grader when enough submissions are done."""
    ours, theirs = pty.openpty()
    result, started = Run(), time.perf_counter()
    command = (AUTOGRADER, "grade", ASSIGNMENT, "--result=result.json")
    process = subprocess.Popen(
        command, cwd=course, stdout=theirs, stderr=theirs, env=os.environ | PLAIN
    )
    os.close(theirs)
    watcher = Thread(target=result.peaks.watch, args=[process.pid])
    watcher.start()
    with suppress(OSError):  # the terminal's end, when nobody has it open any more
        while text := os.read(ours, 65536).decode(errors="replace"):
            result.printed += text
            for done, _, hours, minutes, seconds in SHOWN.findall(text):
                left = 3600 * int(hours) + 60 * int(minutes) + int(seconds)
                at, cpu = time.perf_counter() - started, sum(cpu_times(process.pid)[:2])
                megabytes = resident_megabytes(process.pid)
                result.looks.append(Look(at, cpu, megabytes, int(done), left))
                if is_enough(int(done)):
                    process.kill()
    watcher.join()
    process.wait()
    os.close(ours)
    result.seconds = time.perf_counter() - started
    return result


def hand_in_many(released: Path, folder: Path, learners: Sequence[Learner]) -> None:
    """Make a course in which all have handed in; like submissions are copies of each other."""
    hand_in(released, folder, learners[: len(MIXED)])
    for learner, like in zip(learners[len(MIXED) :], learners, strict=False):
        submitted = folder / "submitted"
        shutil.copytree(submitted / like.name, submitted / learner.name)


def pace(looks: Sequence[Look]) -> Cost:
    """Return what a submission took in the second half of a run: by the clock, of the writer."""
    first, last = looks[len(looks) // 2], looks[-1]
    return Cost(last.at - first.at, last.cpu - first.cpu) / (last.done - first.done)


def memory_growth(looks: Sequence[Look]) -> float:
    """Return what memory the writer has at the end, over what it had in the first tenth."""
    tenth = len(looks) // 10
    early, late = (
        statistics.median(look.megabytes for look in some)
        for some in (looks[:tenth], looks[-tenth:])
    )
    return late / early


def estimate_error(looks: Sequence[Look]) -> float:
    """Return by what share of the time left the estimate was off, on the average.

    In the middle of the run: its first seconds tell too little, its last ones are whole seconds.
    """
    end = looks[-1].at + looks[-1].left
    middle = [look for look in looks if 0.1 < look.at / end < 0.9]
    return sum(abs(look.left / (end - look.at) - 1) for look in middle) / len(middle)


def verdicts(course: Path, learners: Sequence[Learner], console: Console) -> list[Verdict]:
    """Grade, kill, go on, report; and compare with the targets."""
    killed = grade(course, lambda done: done >= KILL_AT * len(learners))
    kept = len(list((course / "autograded").glob(f"*/{ASSIGNMENT}")))
    console.print(f"Killed after {killed.seconds:.0f} s, when {kept} were graded")
    rest = grade(course)
    console.print(f"The rest took {rest.seconds:.0f} s")
    status = Counter(
        each["status"] for each in json.loads((course / "result.json").read_text())["learners"]
    )
    require_points(course, {one.name: sum(one.deserved_scores.values()) for one in learners})
    report = run((AUTOGRADER, "report", ASSIGNMENT), course)
    size = (course / "report" / f"{ASSIGNMENT}.html").stat().st_size
    minutes = (killed.seconds + rest.seconds) / 60
    writer = max(ran.peaks.megabytes[WRITER] for ran in (killed, rest))
    off = estimate_error(rest.looks)
    early, late = pace(killed.looks), pace(rest.looks)
    return [
        at_most(f"{len(learners)} submissions, both runs", minutes, WITHIN_MINUTES, "min", 1),
        at_least("kept of what was graded before", status["unchanged"] / kept, 1, "of all", 3),
        at_most("memory of the writer", writer, WRITER_MB, "MB"),
        at_most(
            "the same, in the end / at first", memory_growth(rest.looks), MEMORY_GROWTH, "times", 2
        ),
        at_most("time of the last / of the first", late.wall / early.wall, SLOWER, "times", 2),
        at_most("CPU time of the writer for each", 1000 * late.cpu, WRITER_MS, "ms", 1),
        at_most("error of the estimated time left", off, ESTIMATE_OFF, "", 2),
        at_most("size of the report", size / 1e6, REPORT_MB, "MB", 2),
        at_most("time to write the report", report.cost.wall, 60, "s"),
    ]


def main() -> int:
    """Measure, print what was found and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--learners", type=int, default=10_000, help="how many have handed in")
    arguments = parser.parse_args()
    console = Console()
    learners = repeat(MIXED, arguments.learners)
    with TemporaryDirectory(prefix="bench-") as folder:
        released, course = Path(folder, "released"), Path(folder, "course")
        make_released_course(released)
        with console.status(f"Handing in {len(learners)} times"):
            hand_in_many(released, course, learners)
        found = verdicts(course, learners, console)
    console.print(verdict_table(found))
    return exit_status(found)


if __name__ == "__main__":
    sys.exit(main())
