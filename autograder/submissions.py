"""Reads what a learner handed in: notebooks and other files, as bytes, whatever else lies there.

The folder is hostile until shown otherwise. No link is followed, nothing but an ordinary file is
opened, and depth, count and size are bounded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc

from autograder.coursedir import submission_folder
from autograder.exam import files_digest
from autograder.notebook_file import (
    OPEN_SAFELY,
    UnreadableNotebook,
    find_notebook,
    parse_notebook,
    read_file,
)

MOST_FILES: Final = 1000
MOST_BYTES: Final = 64 * 1024**2
"""Of all the files beside the notebooks, together."""
DEEPEST: Final = 20

TIMESTAMP_FILE: Final = "timestamp.txt"


@dataclass(frozen=True)
class Submission:
    """What one learner handed in.

    Args:
        learner: the student id.
        notebooks: the notebooks' bytes, by nbgrader's name.
        missing: notebooks of the assignment that are not there, while others are.
        files: other files, by relative path.
        timestamp: when it was handed in, in UTC, if that was recorded.
        notes: what was odd, for the instructor.
        failure: why nothing can be graded, or "".
    """

    learner: str
    notebooks: Mapping[str, bytes]
    missing: tuple[str, ...]
    files: Mapping[str, bytes]
    timestamp: datetime | None
    notes: tuple[str, ...] = ()
    failure: str = ""

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of everything that was handed in."""
        parts = (files_digest(self.notebooks), files_digest(self.files))
        return hashlib.sha256(b"".join(parts)).hexdigest()


def read_submission(
    course: CourseDirectory, learner: str, assignment: str, wanted: Mapping[str, bool]
) -> Submission:
    """Read a learner's submission; if that cannot be done, its failure says why.

    Args:
        wanted: the assignment's notebooks by nbgrader's names, and whether each gives points. Those
            that give none need not be handed in.
    """
    try:
        return _read(course, learner, assignment, wanted)
    except OSError as error:
        return Submission(learner, {}, (), {}, None, failure=f"it cannot be read: {error}")


def _read(
    course: CourseDirectory, learner: str, assignment: str, wanted: Mapping[str, bool]
) -> Submission:
    folder = submission_folder(course, learner, assignment)
    graded = [f"{name}.ipynb" for name, gives_points in wanted.items() if gives_points]
    notebooks: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    notes: list[str] = []
    failures: list[str] = []
    for name, gives_points in wanted.items():
        file = f"{name}.ipynb"
        if not gives_points and not (folder / file).exists():
            continue
        try:
            found = find_notebook(folder, file, [other for other in graded if other != file])
        except UnreadableNotebook as reason:
            missing[name] = str(reason)
            continue
        if found.note:
            notes.append(found.note)
        try:
            notebooks[name] = read_file(found.path, folder)
        except UnreadableNotebook as reason:
            failures.append(f"{file}: {reason}")
    if missing and not any(wanted[name] for name in notebooks):
        failures += missing.values()
    else:
        notes += missing.values()
    files, left_out = _read_files(folder, course.ignore)
    if left_out:
        notes.append(f"left out, being links, no files, or too many or large: {_listed(left_out)}")
    timestamp, problem = _timestamp(files.get(TIMESTAMP_FILE))
    notes += problem
    failure = "; ".join(failures)
    return Submission(learner, notebooks, tuple(missing), files, timestamp, tuple(notes), failure)


def why_ungradable(submission: Submission) -> str:
    """Return why a submission as it is cannot be graded at all, or ""."""
    if submission.failure:
        return submission.failure
    for name, content in submission.notebooks.items():
        try:
            parse_notebook(content)
        except UnreadableNotebook as reason:
            return f"{name}.ipynb: {reason}"
    return ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(ascii(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def _timestamp(content: bytes | None) -> tuple[datetime | None, list[str]]:
    text = (content or b"").decode(errors="replace").strip()
    if not text:
        return None, []
    try:
        return parse_utc(text), []
    except (ValueError, OverflowError):
        return None, [f"{TIMESTAMP_FILE} holds no time, so that nobody knows whether it was late"]


def _read_files(folder: Path, ignored: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
    """Read the ordinary files that are no notebooks; return them, and the names of the others."""
    files: dict[str, bytes] = {}
    left_out: list[str] = []
    room = MOST_BYTES
    for name, parent in _walk(folder, ignored, left_out):
        content = None
        if len(files) < MOST_FILES:
            content = _read_ordinary(PurePath(name).name, parent, room)
        if content is None:
            left_out.append(name)
        else:
            files[name] = content
            room -= len(content)
    return files, left_out


def _walk(folder: Path, ignored: Sequence[str], left_out: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each file's relative path and the descriptor of the folder that it is in."""
    for path, folders, names, descriptor in os.fwalk(folder):
        within = PurePath(path).relative_to(folder)
        deep = len(within.parts) >= DEEPEST
        for name in tuple(folders):
            inner = str(PurePath(within, name))
            if _matches(name, ignored):
                folders.remove(name)
            elif deep or _is_link(name, descriptor):
                folders.remove(name)
                left_out.append(inner)
        folders.sort()
        for name in sorted(names):
            if not _matches(name, (*ignored, "*.ipynb")):
                yield str(PurePath(within, name)), descriptor


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _is_link(name: str, parent: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _read_ordinary(name: str, parent: int, most: int) -> bytes | None:
    try:
        descriptor = os.open(name, OPEN_SAFELY, dir_fd=parent)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None
