"""The examination room: where a worker gets its sandboxed learner processes from.

A room owns a warm parent, a clean process that forks a learner process for each submission, and the
folder that their scratch folders lie in. Both end with the worker, however that ends.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Self

from autograder.learner.warm import FAILED, MAX_MESSAGE, READY, Settings
from autograder.sandbox import bubblewrap, environment, walls
from autograder.sandbox.policy import RLIMITS, Wall
from autograder.sandbox.scratch import Base, fill, remove_folder, sweep
from autograder.sandbox.watch import Watch

SECONDS_TO_START = 60.0  # of the warm parent, which imports matplotlib from a cold disk
SECONDS_TO_ADMIT = 20.0  # of a learner process, on a busy machine
SECONDS_TO_STOP = 10.0

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid


class RoomFailed(Exception):
    """The warm parent or a learner process could not be started; the message says why."""


class LearnerProcess:
    """One locked-up process, which runs one submission's code.

    Args:
        connection: the examiner's end of its socket.
        pid: as this side sees it, whatever its own namespace calls it.
        scratch: its folder.
        watch: sees what it uses.
        end: kills it and returns how it ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        pid: int,
        scratch: Path,
        watch: Watch,
        end: Callable[[], int],
    ) -> None:
        self.socket = connection
        self.pid = pid
        self.scratch = scratch
        self._watch = watch
        self._end = end
        self._status: int | None = None

    def overrun(self) -> str | None:
        """Say which cap on threads, memory or files it exceeds, None if none. Ask often."""
        return self._watch.overrun()

    def kill(self) -> int:
        """End it, unless it has ended, and return how, as `subprocess` gives a return code."""
        if self._status is None:
            self._status = self._end()
        return self._status

    def close(self) -> None:
        """End it and leave nothing of it behind."""
        self.kill()
        self.socket.close()
        with suppress(FileNotFoundError):
            remove_folder(self.scratch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Room:
    """The source of learner processes for one worker, which uses it in one thread.

    Args:
        preload: import packages that submissions use, to be there at once.
        wall: what to lock learners' code up behind; found out if None. `Wall.NONE` trusts it.
        abi: the Landlock ABI to use; None for the kernel's.
        address_space: of each learner process, in bytes; half of it may be resident memory.

    Raises:
        walls.NoWalls: nothing on this machine keeps learners' code in.
        RoomFailed: the warm parent does not start.
    """

    def __init__(
        self,
        preload: tuple[str, ...] = (),
        wall: Wall | None = None,
        abi: int | None = None,
        address_space: int = RLIMITS[resource.RLIMIT_AS],
    ) -> None:
        self.wall = walls.require_wall() if wall is None else wall
        self._abi = walls.landlock_abi() if abi is None else abi
        self._preload = preload
        self._address_space = address_space
        sweep()
        self._base = Base.create()
        try:
            self._parent = self._warm_parent()
        except BaseException:
            self._base.remove()
            raise

    def admit(self, files: Mapping[str, bytes]) -> LearnerProcess:
        """Start a locked-up process in a fresh scratch folder that holds these files.

        Raises:
            scratch.BadFileName: a file's name would lead out of the folder.
            RoomFailed: the process could not be started or locked up.
        """
        scratch = self._base.add()
        try:
            fill(scratch, files)
            try:
                return self._parent.fork(scratch)
            except OSError:  # the warm parent has died, though not by a learner's hand
                self._parent.stop()
                self._parent = self._warm_parent()
                return self._parent.fork(scratch)
        except BaseException:
            remove_folder(scratch)
            raise

    def close(self) -> None:
        """End every process of the room and remove its folders."""
        self._parent.stop()
        self._base.remove()

    def _warm_parent(self) -> _WarmParent:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            settings = Settings(
                theirs.fileno(), self.wall, self._abi, self._address_space, self._preload
            )
            parent = _WarmParent(ours, settings, self._base.path)
        parent.wait_until_ready()
        return parent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _WarmParent:
    """A running warm parent, and this side of the conversation with it."""

    def __init__(self, control: socket.socket, settings: Settings, base: Path) -> None:
        self._control = control
        self._address_space = settings.address_space
        packages = ("autograder", *settings.preload)
        line = [sys.executable, "-P", "-s", "-m", "autograder.learner.warm"]
        if settings.wall is Wall.BUBBLEWRAP:
            line = [*bubblewrap.command(base, packages), *line]
        self._process = subprocess.Popen(  # noqa: S603 (our own program, without a shell)
            [*line, json.dumps(asdict(settings))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[settings.control],
            env=environment.variables(packages) | {"MPLCONFIGDIR": str(base)},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the grader
        )

    def wait_until_ready(self) -> None:
        """Wait for its imports.

        Raises:
            RoomFailed: it does not start.
        """
        self._control.settimeout(SECONDS_TO_START)
        try:
            ready = self._control.recv(len(READY)) == READY.encode()
        except OSError:
            ready = False
        if not ready:
            self._control.close()
            self._process.kill()
            said = self._process.communicate()[1].decode(errors="replace").strip()
            raise RoomFailed(
                "The parent of the learners' processes does not start: "
                + (said or f"exit status {self._process.returncode}")
            )
        if self._process.stderr is not None:
            self._process.stderr.close()

    def fork(self, scratch: Path) -> LearnerProcess:
        """Start a learner process and wait until it is locked up.

        Raises:
            OSError: the warm parent has died.
            RoomFailed: the process could not be locked up.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                # The kernel tells who wrote, by the number that the writer has on this side.
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                request = json.dumps({"fork": str(scratch)}).encode()
                socket.send_fds(self._control, [request], [theirs.fileno()])
            ours.settimeout(SECONDS_TO_ADMIT)
            answer, pid = _receive_signed(ours)
            word, _, rest = answer.partition(" ")
            if word != READY:
                reason = rest if word == FAILED else "it ended before it was ready"
                raise RoomFailed(f"A learner's process could not be locked up: {reason}")
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
            ours.settimeout(None)
        except BaseException:
            ours.close()
            raise
        watch = Watch(pid, scratch, self._address_space)
        return LearnerProcess(ours, pid, scratch, watch, partial(self._end, int(rest)))

    def _end(self, own_pid: int) -> int:
        """Kill and reap a learner process by its id in the warm parent's namespace."""
        try:
            self._control.send(json.dumps({"kill": own_pid}).encode())
            return int(json.loads(self._control.recv(MAX_MESSAGE))["status"])
        except (OSError, json.JSONDecodeError):
            return -signal.SIGKILL  # the warm parent has died, and its children with it

    def stop(self) -> None:
        """End it; it ends its children."""
        self._control.close()
        try:
            self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _receive_signed(connection: socket.socket) -> tuple[str, int]:
    """Return what a process wrote, and its id."""
    data, ancillary, _, _ = connection.recvmsg(1024, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return data.decode(errors="replace").strip(), _CREDENTIALS.unpack(content)[0]
    return "", 0
