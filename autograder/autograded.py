"""The folder with a learner's graded notebooks: written aside, then put in place in one step.

So that a kill at any moment leaves either the old folder, the new one or none, and in a name that
nbgrader overlooks at most a remainder, which the next run removes.
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nbgrader.coursedir import CourseDirectory

from autograder.coursedir import autograded_folder
from autograder.notebook_file import UnreadableNotebook, read_file
from autograder.sandbox.scratch import fill, remove_folder
from autograder.stamp import Stamp, read_stamp

NEW, OLD = ".new", ".old"

GROUP_SHARED: Final = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG


@dataclass(frozen=True)
class Modes:
    """The permissions that nbgrader gives.

    Args:
        files: of each file.
        group_shared: whether the folders are for the whole group.
    """

    files: int
    group_shared: bool


def stage(folder: Path, files: Mapping[str, bytes], modes: Modes) -> None:
    """Write the files aside, ready for `put_in_place`."""
    new = _aside(folder, NEW)
    _remove(new)
    new.mkdir(parents=True)
    fill(new, files)
    for path in (new, *new.rglob("*")):
        if path.is_file():
            path.chmod(modes.files)
        elif modes.group_shared:
            path.chmod(stat.S_IMODE(path.stat().st_mode) | GROUP_SHARED)


def put_in_place(folder: Path) -> None:
    """Replace the folder by what was staged for it."""
    remove(folder)
    _aside(folder, NEW).rename(folder)


def remove(folder: Path) -> None:
    """Remove the folder, so that it is never seen half removed."""
    old = _aside(folder, OLD)
    _remove(old)
    if folder.exists():
        folder.rename(old)
        _remove(old)


def sweep_aside(course: CourseDirectory, assignment: str) -> None:
    """Remove what a killed grader left aside."""
    pattern = autograded_folder(course, "*", assignment)
    for suffix in (NEW, OLD):
        for path in Path("/").glob(str(_aside(pattern, suffix)).lstrip("/")):
            remove_folder(path)


def graded_stamp(folder: Path, notebook: str) -> Stamp:
    """Return what a graded notebook says of its grading; an empty stamp if it is not there."""
    try:
        return read_stamp(read_file(folder / f"{notebook}.ipynb"))
    except UnreadableNotebook:
        return Stamp()


def _aside(folder: Path, suffix: str) -> Path:
    return folder.with_name(f".{folder.name}{suffix}")


def _remove(folder: Path) -> None:
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
