"""Scratch folders: made and filled for one learner process, removed after it.

What is in them was put there by untrusted code: folders nested thousands deep, odd names, modes
that forbid reading. No link is ever followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PREFIX = "autograder-room-"
OUTSIDE = "outside"  # a file beside the scratch folders, which no learner process can read


class BadFileName(ValueError):
    """A file may not have this name inside a scratch folder."""


@dataclass(frozen=True)
class Base:
    """The folder that holds a room's scratch folders, and the lock that says its owner lives."""

    path: Path
    lock: int

    @classmethod
    def create(cls) -> Base:
        """Make one in the folder for temporary files, readable by this user only."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
            # Another grader's sweep may come before the lock is ours.
            with contextlib.suppress(FileNotFoundError):
                lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(lock, fcntl.LOCK_EX)
                if path.exists():
                    (path / OUTSIDE).touch()
                    return cls(path, lock)
                os.close(lock)

    def add(self) -> Path:
        """Make a new scratch folder."""
        return Path(tempfile.mkdtemp(dir=self.path))

    def remove(self) -> None:
        """Remove it and all that it holds."""
        remove_folder(self.path)
        os.close(self.lock)


def sweep() -> None:
    """Remove the scratch folders that graders left which were killed.

    The kernel releases a dead grader's lock, so a live one's folder, this user's or not, stays.
    """
    for path in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_folder(path)
            finally:
                os.close(lock)


def fill(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files, by their names relative to the folder, into it.

    Raises:
        BadFileName: a name is absolute, leads out of the folder, or cannot be a file's.
    """
    for name, data in files.items():
        path = PurePosixPath(name)
        if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
            raise BadFileName(f"{name!r} is not the name of a file inside the folder")
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise BadFileName(f"{name!r} cannot be written: {error.strerror}") from None


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that it holds, whatever its depth, names and modes.

    It goes down and up by file descriptor, since paths have a greatest length and Python's own
    `shutil.rmtree` a greatest depth.
    """
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    above: list[tuple[str, list[str]]] = []  # on the way down: a folder, what is left beside it
    left = _remove_files(here)
    while left or above:
        if left:
            name = left.pop()
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            above.append((name, left))
            left = _remove_files(below)
        else:
            name, left = above.pop()
            below = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.rmdir(name, dir_fd=below)
        os.close(here)
        here = below
    os.close(here)
    folder.rmdir()


def _remove_files(folder: int) -> list[str]:
    """Remove the files of an open folder; make its subfolders accessible and return their names."""
    subfolders = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)
                subfolders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return subfolders
