"""What the examiner tells its worker, and how it gets learner processes from it.

The examiner is forked from the worker for one submission. It streams each cell's result, so that
what has been marked counts even if the examiner itself is brought down.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from autograder.scoring import Score

_HEADER = struct.Struct("!I")


class Began(Struct, frozen=True, tag=True):
    """The examiner has begun a cell."""

    cell: int


class Shown(Struct, frozen=True, tag=True):
    """A cell has run.

    Args:
        outputs: what it showed.
        failed: for a learner's cell, the builtin name of the exception that ended it, or "".
        tests_ran: whether a test had called the learner's code before.
        score: for a grade cell, its points.
    """

    cell: int
    outputs: list[dict[str, Any]]
    failed: str = ""
    tests_ran: bool = False
    score: Score | None = None
    reason: str = ""
    error: str = ""


class Wanted(Struct, frozen=True, tag=True):
    """The examiner needs a fresh learner process; the answer is its socket."""


class Replays(Struct, frozen=True, tag=True):
    """The examiner runs a cell again in a fresh learner process."""


class WhyLost(Struct, frozen=True, tag=True):
    """The examiner asks how the last learner process ended; the answer is text."""


class Crashed(Struct, frozen=True, tag=True):
    """The examiner itself failed, which is a fault of ours; the text says where."""

    text: str


class Finished(Struct, frozen=True, tag=True):
    """Every cell has been examined."""


Report = Began | Shown | Wanted | Replays | WhyLost | Crashed | Finished


class ExaminerEnd:
    """The examiner's end of the link."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def report(self, report: Report) -> None:
        """Send a report to the worker."""
        body = msgspec.msgpack.encode(report)
        self._connection.sendall(_HEADER.pack(len(body)) + body)

    def admit(self) -> socket.socket:
        """Get the socket of a fresh learner process."""
        self.report(Wanted())
        _, descriptors, _, _ = socket.recv_fds(self._connection, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def replays(self) -> None:
        """Tell that a cell runs again, which takes its time."""
        self.report(Replays())

    def why_lost(self) -> str:
        """Ask how the last learner process ended."""
        self.report(WhyLost())
        (length,) = _HEADER.unpack(self._connection.recv(_HEADER.size, socket.MSG_WAITALL))
        return self._connection.recv(length, socket.MSG_WAITALL).decode() if length else ""


class WorkerEnd:
    """The worker's end of the link."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._decoder = msgspec.msgpack.Decoder(Report)
        self._buffer = bytearray()

    def reports(self) -> Iterator[Report]:
        """Read what has come, and yield the reports that are whole.

        Raises:
            EOFError: the examiner has gone.
        """
        try:
            data = self.connection.recv(2**20)
        except ConnectionError:
            data = b""
        if not data:
            raise EOFError
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield self._decoder.decode(body)

    def give_process(self, connection: socket.socket) -> None:
        """Answer `Wanted`."""
        socket.send_fds(self.connection, [b"!"], [connection.fileno()])

    def tell_why(self, reason: str) -> None:
        """Answer `WhyLost`."""
        body = reason.encode()
        self.connection.sendall(_HEADER.pack(len(body)) + body)
