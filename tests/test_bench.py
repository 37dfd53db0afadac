"""What `make bench` says can be relied on: costs are complete, and a missed target is told."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from benchmarks.cost import CommandFailed, Cost, median, run
from benchmarks.grading import per_submission
from benchmarks.memory import Peaks
from benchmarks.verdict import at_least, at_most, exit_status
from tests.sample_class import CLASS, Learner

BURN = "import time\nwhile time.process_time() < 0.3: pass"
ORPHAN = f"""\
import os
if os.fork() == 0:
    {BURN.replace(chr(10), chr(10) + "    ")}
"""


P = ParamSpec("P")
T = TypeVar("T")


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call it in a process of its own, since it waits for every child of its process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        return executor.submit(function, *args, **kwargs).result()


def peak_megabytes(command: tuple[str, ...], folder: Path) -> float:
    peaks = Peaks()
    run(command, folder, watch=peaks.watch)
    return peaks.megabytes["writer"]


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-S", "-c", code


def test_the_cpu_time_of_an_orphan_counts(tmp_path: Path) -> None:
    assert apart(run, python(ORPHAN), tmp_path).cost.cpu >= 0.3


def test_time_spent_waiting_is_no_cpu_time(tmp_path: Path) -> None:
    cost = apart(run, python("import time; time.sleep(0.3)"), tmp_path).cost

    assert cost.wall >= 0.3
    assert cost.cpu < 0.3


def test_a_command_that_fails_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="out of paper"):
        apart(run, python("raise SystemExit('out of paper')"), tmp_path)


def test_the_peak_of_memory_is_seen_although_it_was_freed(tmp_path: Path) -> None:
    command = python("import time; bytearray(10**8); time.sleep(0.5)")

    assert 100 < apart(peak_megabytes, command, tmp_path) < 150


def test_a_submission_costs_what_it_adds_to_a_class() -> None:
    def grade(learners: object) -> Cost:
        assert isinstance(learners, tuple)
        return Cost(wall=5 + 2 * len(learners), cpu=3 + len(learners))

    few: tuple[Learner, ...] = CLASS[:2]

    assert per_submission(grade, few, CLASS[:6]) == Cost(wall=2, cpu=1)


def test_one_slow_round_does_not_count() -> None:
    costs = [Cost(1, 1), Cost(90, 80), Cost(2, 2)]

    assert median(costs) == Cost(2, 2)


def test_a_missed_target_is_the_exit_status() -> None:
    met = at_least("ratio", 41.3, 40, "times")
    missed = at_most("time", 60.4, 60, "ms")

    assert met.met
    assert not missed.met
    assert exit_status([met]) == 0
    assert exit_status([met, missed]) == 1
