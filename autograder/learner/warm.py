"""The warm parent: a process with everything imported that forks learner processes on request.

Started by `sandbox.room` with an environment made from nothing. No untrusted code ever runs in it,
only in its children, each of which locks itself up first. Its requests come over one socket, a JSON
object each:

    {"fork": SCRATCH}, with the learner process's socket as ancillary data. The child itself answers
        over that socket: "ready PID", once it is locked up, or "failed REASON".
    {"kill": PID} is answered with {"status": STATUS}, as `subprocess` gives a return code.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from autograder.sandbox import environment
from autograder.sandbox.lock import Lock, die_with_parent
from autograder.sandbox.policy import Wall

Serve = Callable[[socket.socket], None]

READY, FAILED = "ready", "failed"
MAX_MESSAGE = 8192

# Notebooks use these most, but not every course has them.
USUAL = ("numpy.random", "numpy.fft", "matplotlib.pyplot", "matplotlib_inline.backend_inline")
# The standard library's modules that load libraries of the system: those are out of reach after
# locking. (Modules that are not needed at once make forking slower.)
WITH_SYSTEM_LIBRARIES = """
    _bz2 _crypt _ctypes _curses _curses_panel _dbm _decimal _gdbm _hashlib _lzma _sqlite3 _ssl _uuid
    pyexpat zlib
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Settings:
    """What the room decides for its warm parent; given as JSON on the command line.

    Args:
        control: the file descriptor that requests come from.
        wall: what learner processes are locked up behind.
        abi: the Landlock ABI to use.
        address_space: of each learner process, in bytes.
        preload: import packages to load with all their modules.
    """

    control: int
    wall: Wall
    abi: int
    address_space: int
    preload: tuple[str, ...]


class Unclean(Exception):
    """The warm parent has something that its children must not inherit."""


def main(settings: Settings) -> None:
    """Warm up, make sure to be clean, and serve requests until the room closes its socket."""
    die_with_parent()
    control = socket.socket(fileno=settings.control)
    lock = Lock(settings.wall, settings.abi, settings.address_space)
    serve = _warm_up(settings.preload)
    _require_clean(settings.control)
    os.dup2(0, 2)  # until now errors went to the room
    control.send(READY.encode())
    children: set[int] = set()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, maxfds=1)
        if not request:
            break
        match json.loads(request):
            case {"fork": str(scratch)}:
                connection = socket.socket(fileno=descriptors[0])
                pid = os.fork()
                if pid == 0:
                    _become_learner_process(Path(scratch), connection, lock, serve)
                children.add(pid)
                connection.close()
            case {"kill": int(pid)}:
                control.send(json.dumps({"status": _end(pid, children)}).encode())
    for pid in tuple(children):
        _end(pid, children)


def _end(pid: int, children: set[int]) -> int:
    """Kill a child and return how it ended. Not being reaped before, its id is still its own."""
    children.remove(pid)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _warm_up(preload: Iterable[str]) -> Serve:
    """Import all that a submission may need, so that its processes start with it."""
    with warnings.catch_warnings(action="ignore"):
        _import_all(preload)

    # These come last since they make the shell, which takes over parts of the interpreter.
    from autograder.learner.process import serve
    from autograder.shell import make_shell

    shell = make_shell()
    if path := os.environ.pop("PYTHONPATH", ""):
        # Packages from there are imported by now; learners' code could not read them.
        sys.path[:] = [folder for folder in sys.path if folder not in path.split(os.pathsep)]
    gc.collect()
    gc.freeze()
    return lambda connection: serve(connection, shell)


def _import_all(preload: Iterable[str]) -> None:
    with suppress(OSError):
        ctypes.CDLL("libgcc_s.so.1")  # glibc loads it when a thread ends
    for name in WITH_SYSTEM_LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    import_usual(preload)


def import_usual(preload: Iterable[str]) -> None:
    """Import what notebooks use most, and all modules of the packages to preload."""
    for name in USUAL:
        with suppress(ImportError):
            importlib.import_module(name)
    for name in preload:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def _require_clean(control: int) -> None:
    """Make sure that there is nothing here that a learner process must not inherit.

    Raises:
        Unclean: there is a thread, a file descriptor, a variable or a folder too many.
    """
    # A thread that was told to end may need a moment.
    for _ in range(100):
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads == 1:
            break
        time.sleep(0.01)
    else:
        raise Unclean(f"{threads} threads run in the warm parent")
    descriptors = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    if len(descriptors - {0, 1, 2, control}) != 1:  # one is that of the listing
        raise Unclean(f"the warm parent has open files: {sorted(descriptors)}")
    if unknown := os.environ.keys() - environment.KNOWN:
        raise Unclean(f"the warm parent has environment variables: {sorted(unknown)}")
    if Path.cwd() != Path("/"):
        raise Unclean(f"the warm parent is in {Path.cwd()}")


def _become_learner_process(
    scratch: Path, connection: socket.socket, lock: Lock, serve: Serve
) -> NoReturn:
    try:
        lock.apply(scratch, connection)
    except BaseException as error:
        connection.sendall(f"{FAILED} {type(error).__name__}: {error}".encode())
        os._exit(1)
    home = str(Path.cwd())
    os.environ["HOME"] = os.environ["TMPDIR"] = home
    tempfile.tempdir = None
    sys.path.insert(0, "")  # as in a kernel: notebooks import what lies beside them
    connection.sendall(f"{READY} {os.getpid()}\n".encode())
    try:
        serve(connection)
    finally:
        os._exit(0)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(Settings(**given | {"wall": Wall(given["wall"]), "preload": tuple(given["preload"])}))
