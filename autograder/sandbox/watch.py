"""Watches from outside what a learner process uses, where no limit of the kernel's binds it."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from autograder.sandbox.policy import CAPS, MIB, RLIMITS

PAGE = resource.getpagesize()
BLOCK = 512  # what stat counts a file's blocks in, whatever the file system's own are

# Walking a large scratch folder takes a while: about this share of the watcher's time, unless that
# would leave a process unwatched for longer than the seconds here.
WALKING_SHARE = 0.01
LONGEST_PAUSE = 0.2


class Watch:
    """One learner process and its scratch folder, looked at many times a second."""

    def __init__(self, pid: int, scratch: Path, address_space: int) -> None:
        self._pid = pid
        self._process = Path(f"/proc/{pid}")
        self._scratch = scratch
        self._memory = int(address_space * CAPS.memory_share)
        self._next_walk = time.monotonic() + LONGEST_PAUSE

    def overrun(self) -> str | None:
        """Say which cap the process exceeds, None if none or if it has ended."""
        try:
            fields = self._fields()
        except OSError:
            return None
        state, threads, resident = fields[0], int(fields[17]), int(fields[21]) * PAGE
        if state in b"ZX":
            # If only the main thread has ended, what the others use can no longer be seen.
            return None if threads == 1 else "threads that outlive the main one"
        if threads > CAPS.threads:
            return f"more than {CAPS.threads} threads"
        if resident > self._memory:
            return f"more than {self._memory // MIB} MiB of memory"
        started = time.monotonic()
        if started < self._next_walk:
            return None
        found = self._files_overrun()
        ended = time.monotonic()
        self._next_walk = ended + min((ended - started) / WALKING_SHARE, LONGEST_PAUSE)
        return found

    def _files_overrun(self) -> str | None:
        size = count = 0
        try:
            for file in _walk(self._scratch):
                size += file.st_blocks * BLOCK
                count += 1
                if count > CAPS.scratch_files:
                    return f"more than {CAPS.scratch_files} files"
            size += sum(self._deleted_sizes())
        except _Unseen as reason:
            return str(reason)
        except PermissionError:
            # The kernel shows an ordinary user nothing of a process that is ending.
            return None if self._is_ending() else "files that cannot be seen"
        if size > CAPS.scratch_bytes:
            return f"more than {CAPS.scratch_bytes // MIB} MiB of files"
        return None

    def _fields(self) -> list[bytes]:
        """Return what the kernel tells of the process from its state on."""
        # The name in parentheses, which the process chooses, may hold spaces and parentheses.
        return (self._process / "stat").read_bytes().rpartition(b")")[2].split()

    def _is_ending(self) -> bool:
        """Say whether it has given up its memory, which is the first that it gives up."""
        try:
            return int(self._fields()[20]) == 0
        except OSError:
            return True

    def _deleted_sizes(self) -> Iterator[int]:
        """Yield the sizes of files that the process has deleted but still holds."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for descriptor in os.scandir(self._process / "fd"):
                with suppress(FileNotFoundError, ProcessLookupError):
                    file = descriptor.stat()
                    if stat.S_ISREG(file.st_mode) and file.st_nlink == 0:
                        yield file.st_blocks * BLOCK
            # What is mapped into memory has no size to be seen: it may be as large as any file.
            below = b" " + bytes(self._scratch.parent) + b"/"
            for line in (self._process / "maps").read_bytes().splitlines():
                if below in line and line.endswith(b" (deleted)"):
                    yield RLIMITS[resource.RLIMIT_FSIZE]


class _Unseen(Exception):
    """Files are kept where the watcher cannot count them."""


def _walk(folder: Path, depth: int = 0) -> Iterator[os.stat_result]:
    """Yield the status of all that a folder holds, but for what vanishes meanwhile."""
    if depth > CAPS.scratch_depth:
        raise _Unseen(f"folders nested more than {CAPS.scratch_depth} deep")
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        yield from _walk(Path(entry.path), depth + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _Unseen(f"a folder that cannot be listed ({error.strerror})") from None
