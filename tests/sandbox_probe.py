"""Runs code in a real learner process and tells what came of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

import pyseccomp

from autograder.protocol import (
    CellDone,
    Channel,
    ChannelClosed,
    Error,
    Reply,
    RunCell,
    Start,
    Stream,
    ask,
)
from autograder.sandbox.policy import Wall
from autograder.sandbox.room import LearnerProcess

SECONDS = 60.0

# Each way to lock learners' code up, as arguments of `Room`.
WALLS: dict[str, Any] = {
    "landlock": {"wall": Wall.LANDLOCK},
    "landlock ABI 2": {"wall": Wall.LANDLOCK, "abi": 2},
    "bubblewrap": {"wall": Wall.BUBBLEWRAP},
}

# System calls by number, for what Python has no function for.
PRELUDE = """
import ctypes, errno, fcntl, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {}
def check(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(name, *arguments):
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return check(libc.syscall(ctypes.c_long(NUMBERS[name]), *wide))
"""


@dataclass(frozen=True)
class Outcome:
    """What running a cell showed: its text, and how it ended if not well."""

    text: str
    error: str


class Died(Exception):
    """The learner process ended during the cell; its argument is the signal or the status."""


class BecameAnotherProgram(Died):
    """It ended well, which it does not by itself during a cell."""


class Probe:
    """A learner process that cells are run in, one after the other."""

    def __init__(self, process: LearnerProcess) -> None:
        self.process = process
        self._channel: Channel[Reply] = Channel(process.socket, Reply)
        self._channel.send(Start(seed=0))
        self._cells = 0

    def run(self, source: str, seconds: float = SECONDS) -> Outcome:
        """Run a cell.

        Raises:
            Died: the process ended.
        """
        self._cells += 1
        try:
            done = ask(self._channel, RunCell(self._cells, source, report=False), seconds)
        except ChannelClosed:
            status = self.process.kill()
            if status == 0:
                raise BecameAnotherProgram from None
            raise Died(signal.Signals(-status).name if status < 0 else status) from None
        return _outcome(done)

    def tell(self, source: str) -> None:
        """Start a cell and do not wait for it."""
        self._cells += 1
        self._channel.send(RunCell(self._cells, source, report=False))


def prelude(*names: str) -> str:
    """Return the prelude with the numbers of these system calls."""
    numbers = {name: pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in names}
    return PRELUDE.replace("NUMBERS = {}", f"NUMBERS = {numbers}")


def _outcome(done: CellDone) -> Outcome:
    text = "".join(output.text for output in done.outputs if isinstance(output, Stream))
    errors = [f"{o.ename}: {o.evalue}" for o in done.outputs if isinstance(o, Error)]
    return Outcome(text, "".join(errors))
