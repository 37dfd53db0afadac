"""Which walls this machine offers, tried and not merely installed, and what they would expose."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from landlock import SyscallError, landlock_abi_version

from autograder.sandbox import bubblewrap, environment
from autograder.sandbox.policy import LANDLOCK_MINIMUM_ABI, Wall, readable_folders
from autograder.sandbox.scratch import Base


@dataclass(frozen=True)
class Walls:
    """The wall to use, and why the ones before it do not stand here.

    Args:
        wall: the best that stands; `Wall.NONE` if none does.
        reasons: a sentence for each wall that does not.
    """

    wall: Wall
    reasons: tuple[str, ...]


class NoWalls(Exception):
    """Nothing on this machine can keep learners' code in; the message says what to do."""


class Exposed(Exception):
    """Learners' code could read what it must not; the message says what and where."""


@functools.cache
def find_walls() -> Walls:
    """Try the walls, best first. Every learner process tries its own again, after locking."""
    missing = _why_no_landlock()
    if missing is None:
        return Walls(Wall.LANDLOCK, ())
    reasons = (f"Landlock: {missing}",)
    missing = _why_no_bubblewrap()
    if missing is None:
        return Walls(Wall.BUBBLEWRAP, reasons)
    return Walls(Wall.NONE, (*reasons, f"bubblewrap: {missing}"))


def require_wall() -> Wall:
    """Return the wall to use.

    Raises:
        NoWalls: none stands.
    """
    found = find_walls()
    if found.wall is Wall.NONE:
        why = "\n".join(f"  - {reason}" for reason in found.reasons)
        raise NoWalls(
            f"Submissions cannot be run safely on this machine:\n{why}\n"
            "Use a Linux kernel from 5.19 on with Landlock (lsm=landlock among its parameters), or "
            "install bubblewrap and allow user namespaces. If you trust every submission as you "
            "trust your own code, --trust-submissions runs them without walls."
        )
    return found.wall


def refuse_if_exposed(paths: Iterable[Path], wall: Wall) -> None:
    """Make sure that none of these paths (gradebook, exchange, home...) can be read from inside.

    Raises:
        Exposed: one of them lies under a path that learners' code may read.
    """
    readable = readable_folders() if wall is Wall.LANDLOCK else bubblewrap.visible_paths()
    for path in paths:
        for folder in readable:
            if path.resolve().is_relative_to(folder.resolve()):
                raise Exposed(
                    f"{path} lies under {folder}, which every submission may read, since Python's "
                    f"library is there. Move it elsewhere."
                )


def landlock_abi() -> int:
    """Return the kernel's Landlock ABI, 0 if it has none."""
    ctypes.set_errno(0)  # py-landlock takes an earlier error for its own
    try:
        return int(landlock_abi_version())
    except SyscallError:
        return 0


def _why_no_landlock() -> str | None:
    abi = landlock_abi()
    if abi == 0:
        return "this kernel has none, or it is not switched on"
    if abi < LANDLOCK_MINIMUM_ABI:
        return f"this kernel has ABI {abi}; ABI {LANDLOCK_MINIMUM_ABI} (Linux 5.19) is needed"
    return _why_not_locked(Wall.LANDLOCK, abi)


def _why_no_bubblewrap() -> str | None:
    if bubblewrap.program() is None:
        return "it is not installed"
    return _why_not_locked(Wall.BUBBLEWRAP, 0)


def _why_not_locked(wall: Wall, abi: int) -> str | None:
    """Lock a new process up, as one for a submission is."""
    base = Base.create()
    try:
        scratch = base.add()
        start = bubblewrap.command(base.path, ["autograder"]) if wall is Wall.BUBBLEWRAP else []
        program = [sys.executable, "-P", "-s", "-m", "autograder.sandbox.lock"]
        trial = subprocess.run(  # noqa: S603 (our own program, without a shell)
            [*start, *program, str(scratch), wall, str(abi)],
            capture_output=True,
            timeout=60,
            env=environment.variables(["autograder"]),
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be tried ({error})"
    finally:
        base.remove()
    if trial.returncode == 0:
        return None
    lines = trial.stderr.decode(errors="replace").strip().splitlines()
    return f"it does not hold ({lines[-1] if lines else f'exit status {trial.returncode}'})"
