"""Locks the present process up, by the policy, before any learner's code runs in it.

Nothing here can be undone by the process itself. A lock raises if a wall cannot be built, and tries
each wall before it returns: what counts is that it holds, not that it was asked for. Run as a
program (`python -m autograder.sandbox.lock FOLDER WALL ABI`), it does only that, for `walls`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import or_
from pathlib import Path
from types import ModuleType

from landlock import Ruleset

from autograder.sandbox import policy
from autograder.sandbox.policy import Wall
from autograder.sandbox.scratch import OUTSIDE

PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class WallFailed(Exception):
    """A wall could not be built, or does not hold."""


class Lock:
    """What locks a process up, prepared once for all the children that a process forks.

    Args:
        wall: what keeps them from the machine's files; `Wall.NONE` leaves out all but the limits.
        abi: the Landlock ABI to use.
        address_space: in bytes, instead of the policy's.

    Raises:
        OSError: libseccomp is not installed.
        WallFailed: the ABI is too old.
    """

    def __init__(
        self, wall: Wall, abi: int, address_space: int = policy.RLIMITS[resource.RLIMIT_AS]
    ) -> None:
        self._wall = wall
        self._limits = policy.RLIMITS | {resource.RLIMIT_AS: address_space}
        if wall is not Wall.NONE:
            self._calls = _SystemCalls()
        if wall is Wall.LANDLOCK:
            self._fence = _Fence(abi)

    def apply(self, scratch: Path, connection: socket.socket) -> None:
        """Lock this process up for good.

        Args:
            scratch: the only folder it may write to; becomes its working directory. The folder that
                it lies in must hold the file `OUTSIDE`, which cannot be read any more afterwards.
            connection: the only file descriptor that it keeps, besides the three standard ones.

        Raises:
            WallFailed: a wall does not hold.
            OSError: the kernel refused a step.
        """
        os.setsid()
        os.chdir(scratch)
        die_with_parent()
        _limit_resources(self._limits)
        # If memory runs out on the machine, the kernel ends this process first.
        Path("/proc/self/oom_score_adj").write_text("1000")
        if self._wall is Wall.BUBBLEWRAP:
            _see_only(scratch, instead_of=scratch.parent)
        if self._wall is not Wall.NONE:
            _drop_capabilities()
            _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        if self._wall is Wall.LANDLOCK:
            self._fence.put_up(scratch)
        os.closerange(3, connection.fileno())
        os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        if self._wall is not Wall.NONE:
            self._calls.restrict()
            _try_walls(scratch.parent / OUTSIDE)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _limit_resources(limits: Mapping[int, int]) -> None:
    for limit, wanted in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(limit, (value, value))


def _see_only(scratch: Path, instead_of: Path) -> None:
    """Show the scratch folder in place of the folder of all of them, and no /proc.

    Inside bubblewrap a process may change mounts, and does so in a view of its own.
    """
    clone_newns, ms_bind, ms_rec, ms_private, mnt_detach = 0x20000, 0x1000, 0x4000, 0x40000, 2
    _check(_libc.unshare(clone_newns))
    _check(_libc.mount(None, b"/", None, ms_rec | ms_private, None))
    _check(_libc.mount(bytes(scratch), bytes(instead_of), None, ms_bind, None))
    _check(_libc.umount2(b"/proc", mnt_detach))
    os.chdir(instead_of)


def _drop_capabilities() -> None:
    """Give up every capability in every set. Root without any is bound like other users."""
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    capability = 0
    while _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    # Other users may not shrink the bounding set; theirs is of no use after no_new_privs.
    if ctypes.get_errno() not in (errno.EINVAL, errno.EPERM):
        _check(-1)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))


class _Fence:
    """Landlock around the scratch folder and the library."""

    def __init__(self, abi: int) -> None:
        # py-landlock drops silently what an ABI lacks, so what to ask for is decided here.
        if abi < policy.LANDLOCK_MINIMUM_ABI:
            raise WallFailed(f"Landlock ABI {abi}, {policy.LANDLOCK_MINIMUM_ABI} needed")
        known = (rights for since, rights in policy.LANDLOCK_GOVERNS.items() if since <= abi)
        self._governed = reduce(or_, known)
        self._scratch = policy.SCRATCH_RIGHTS & self._governed
        library = dict.fromkeys(policy.readable_folders(), policy.LIBRARY_RIGHTS)
        self._others = (library | policy.DEVICES).items()

    def put_up(self, scratch: Path) -> None:
        ctypes.set_errno(0)  # py-landlock takes an earlier error for its own
        rules = Ruleset(restrict_rules=self._governed)
        rules.allow(scratch, rules=self._scratch)
        for path, rights in self._others:
            rules.allow(path, rules=rights)
        rules.apply()


class _SystemCalls:
    """The seccomp filter, complete but for the rules that name the process itself."""

    def __init__(self) -> None:
        self._seccomp = _load_seccomp()
        self._filter = self._seccomp.SyscallFilter(self._seccomp.ERRNO(errno.EPERM))
        # A call in another architecture's numbers (int 0x80, x32) would pass these rules by.
        self._filter.set_attr(self._seccomp.Attr.ACT_BADARCH, self._seccomp.KILL_PROCESS)
        for name in policy.ALLOWED:
            self._add(self._seccomp.ALLOW, name)
        for name in policy.DOES_NOT_EXIST:
            self._add(self._seccomp.ERRNO(errno.ENOSYS), name)
        self._about_itself = []
        for name, *conditions in policy.ALLOWED_IF:
            if any(condition.value == policy.OWN_PID for condition in conditions):
                self._about_itself.append((name, conditions))
            else:
                self._add(self._seccomp.ALLOW, name, conditions)

    def restrict(self) -> None:
        """Load the filter into the kernel."""
        own = os.getpid()
        for name, conditions in self._about_itself:
            known = [
                arg._replace(value=own) if arg.value == policy.OWN_PID else arg
                for arg in conditions
            ]
            self._add(self._seccomp.ALLOW, name, known)
        self._filter.load()

    def _add(self, action: int, name: str, conditions: Iterable[policy.Arg] = ()) -> None:
        number = self._seccomp.resolve_syscall(self._seccomp.Arch.NATIVE, name)
        if number < 0:
            return  # this machine's architecture lacks it, as aarch64 lacks `stat`
        arguments = [
            self._seccomp.Arg(arg.position, self._seccomp.MASKED_EQ, arg.mask, arg.value)
            for arg in conditions
        ]
        self._filter.add_rule(action, number, *arguments)


def _load_seccomp() -> ModuleType:
    # pyseccomp looks for libseccomp through ldconfig or a compiler; a clean environment lacks them.
    find_library = ctypes.util.find_library
    ctypes.util.find_library = {"c": "libc.so.6", "seccomp": "libseccomp.so.2"}.get  # type: ignore[assignment]
    try:
        return importlib.import_module("pyseccomp")
    finally:
        ctypes.util.find_library = find_library


def _try_walls(outside: Path) -> None:
    attempts: dict[str, Callable[[], object]] = {
        f"reads {outside}": lambda: outside.open("rb"),
        "opens a socket": socket.socket,
        "starts a process": _fork,
    }
    for act, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        raise WallFailed(f"after locking, learners' code {act}")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


if __name__ == "__main__":
    Lock(Wall(sys.argv[2]), int(sys.argv[3])).apply(Path(sys.argv[1]), socket.socketpair()[0])
