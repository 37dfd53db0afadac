"""How much memory each of the grader's processes takes at most, watched while it grades."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
LOOK_SECONDS: Final = 0.1
TICKS: Final = os.sysconf("SC_CLK_TCK")

WRITER: Final = "writer"
WORKER: Final = "worker"
EXAMINER: Final = "examiner"
WARM_PARENT: Final = "warm parent"
LEARNER: Final = "learner's process"
KINDS: Final = (WRITER, WORKER, EXAMINER, WARM_PARENT, LEARNER)


class Peaks:
    """The highest resident memory of each kind of process, in MB; pages that are shared count."""

    def __init__(self) -> None:
        self.megabytes: Mapping[str, float] = {}

    def watch(self, pid: int) -> None:
        """Follow a grader until it ends, without reaping it."""
        peaks: dict[str, float] = defaultdict(float)
        while _is_running(pid):
            for kind, megabytes in _look(pid):
                peaks[kind] = max(peaks[kind], megabytes)
            time.sleep(LOOK_SECONDS)
        self.megabytes = dict(peaks)

    @property
    def worker(self) -> float:
        """Of a worker with its warm parent; their children share nearly all with them."""
        return self.megabytes[WORKER] + self.megabytes[WARM_PARENT]

    @property
    def lasting(self) -> float:
        """Of all processes that last as long as the batch."""
        return self.megabytes[WRITER] + self.worker


def cpu_times(pid: int) -> tuple[float, float, float, float]:
    """Return a process's CPU time so far, s: user, system, and the same of children that ended.

    Raises:
        OSError: there is no such process.
    """
    # Its name, in parentheses, may hold anything.
    fields = (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, childrens_user, childrens_system = (int(ticks) / TICKS for ticks in fields[11:15])
    return user, system, childrens_user, childrens_system


def resident_megabytes(pid: int) -> float:
    """Return a process's resident memory, MB; 0 once it has ended.

    Raises:
        OSError: there is no such process.
    """
    return _megabytes(_status(pid).get("VmRSS", "0"))


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return _status(pid)["State"][0] != "Z"
    return False


def _look(root: int) -> list[tuple[str, float]]:
    """Return kind and peak of each process that descends from this one."""
    seen = []
    kinds: dict[int, str] = {}
    for pid in sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()):
        with suppress(OSError, KeyError):
            status = _status(pid)
            parent = kinds.get(int(status["PPid"]), "")
            kind = WRITER if pid == root else _kind((PROC / f"{pid}/cmdline").read_bytes(), parent)
            if kind:
                kinds[pid] = kind
                seen.append((kind, _megabytes(status["VmHWM"])))
    return seen


def _kind(command: bytes, parent: str) -> str:
    """Tell a process by its command, which a fork keeps, and its parent."""
    if b"autograder.learner.warm" in command:
        return {WORKER: WARM_PARENT, WARM_PARENT: LEARNER}.get(parent, "")
    if b"spawn_main" in command:
        return {WRITER: WORKER, WORKER: EXAMINER}.get(parent, "")
    return ""


def _megabytes(shown: str) -> float:
    return int(shown.split()[0]) * 1024 / 1e6


def _status(pid: int) -> dict[str, str]:
    lines = (PROC / f"{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
