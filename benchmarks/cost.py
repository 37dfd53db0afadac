"""What a command costs: wall time, and the CPU time of every process that it started.

A grader kills its workers, whose own children are then nobody's. This process adopts such orphans
and waits for them, so that their CPU time counts too.
"""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, Self

PR_SET_CHILD_SUBREAPER: Final = 36
"""See prctl(2)."""

ORPHANS_SECONDS: Final = 10.0


class CommandFailed(Exception):
    """A measured command did not do its work; the message is what it printed."""


@dataclass(frozen=True)
class Cost:
    """Time spent, in seconds.

    Args:
        wall: by the clock.
        cpu: user and system time of all processes together.
    """

    wall: float
    cpu: float

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.wall - other.wall, self.cpu - other.cpu)

    def __truediv__(self, count: float) -> Self:
        return type(self)(self.wall / count, self.cpu / count)


def median(costs: Iterable[Cost]) -> Cost:
    """Return the median wall time and the median CPU time."""
    costs = list(costs)
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
    )


@dataclass(frozen=True)
class Ran:
    """A command that has ended.

    Args:
        cost: what it cost, with all that it started.
        printed: its output, errors included.
    """

    cost: Cost
    printed: str


def run(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[int], None] = lambda pid: None,
) -> Ran:
    """Run a command, and wait for it and for what it leaves running.

    Args:
        command: the program and its arguments.
        folder: its working directory.
        environment: variables set beside those of this process.
        watch: is called with the process's id while it runs, and returns when it has ended.

    Raises:
        CommandFailed: an exit status other than 0, or a process that stays.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, started = _children_cpu(), time.perf_counter()
    with TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        watch(process.pid)
        status = process.wait()
        wall = time.perf_counter() - started
        output.seek(0)
        printed = output.read()
    if status:
        raise CommandFailed(f"{' '.join(map(str, command))}\n{printed}")
    _await_orphans()
    return Ran(Cost(wall, _children_cpu() - before), printed)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _await_orphans() -> None:
    end = time.monotonic() + ORPHANS_SECONDS
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return
    raise CommandFailed("a process that the command started did not end with it")
