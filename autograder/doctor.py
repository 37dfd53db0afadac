"""Whether this machine can grade: what is checked, what was found, and what to mend."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from nbgrader.coursedir import CourseDirectory
from packaging.requirements import Requirement
from sqlalchemy.exc import SQLAlchemyError
from traitlets import TraitError

from autograder.batch import private_folders
from autograder.coursedir import NoCourse, open_course
from autograder.gradebook import NoGradebook, open_gradebook
from autograder.preprocessors import Examine
from autograder.protocol import (
    Channel,
    ChannelClosed,
    Reply,
    RunCell,
    Start,
    Stream,
    TimedOut,
    ask,
)
from autograder.sandbox.policy import Wall
from autograder.sandbox.room import Room, RoomFailed
from autograder.sandbox.walls import Exposed, NoWalls, find_walls, refuse_if_exposed, require_wall
from autograder.values import Malformed

DISTRIBUTION: Final = "disaggregated-serving-course"
INSTALL: Final = "pip install '.[instructor]'"
PROBE: Final = "print(6 * 7)"
PROBE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
        fine: whether nothing is to be done.
        what: what was found.
        mend: what to do if it is not fine.
    """

    fine: bool
    what: str
    mend: str = ""

    @property
    def text(self) -> str:
        """The finding in a line, and what to do in a second."""
        mend = f"\n      {self.mend}" if self.mend else ""
        return f"{'ok' if self.fine else 'mend':4}  {self.what}{mend}"


def examine_installation(root: Path) -> list[Finding]:
    """Check the machine and the course in a folder."""
    findings = [_python(), *_packages(), _locale(), *_walls()]
    try:
        course = open_course(root)
        settings = Examine(parent=course.parent)
    except NoCourse as reason:
        return [*findings, Finding(False, "no course", str(reason))]
    except TraitError as error:
        return [*findings, Finding(False, f"wrong: {error}", "Mend it in nbgrader_config.py.")]
    wall = find_walls().wall
    findings += [_times(settings), _writable(course), _gradebook(course)]
    if wall is not Wall.NONE:
        findings += [_exposure(course, wall), _learners_process(settings, wall)]
    return findings


def _python() -> Finding:
    return Finding(True, f"Python {platform.python_version()} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    try:
        required = [Requirement(line) for line in _requirements(DISTRIBUTION, {"", "instructor"})]
    except metadata.PackageNotFoundError:
        yield Finding(False, f"{DISTRIBUTION} is not installed, so versions are not known", INSTALL)
        return
    wrong = []
    for requirement in required:
        found = "none"
        with suppress(metadata.PackageNotFoundError):
            found = metadata.version(requirement.name)
            if requirement.specifier.contains(found, prereleases=True):
                continue
        wrong.append(f"{requirement} ({found} installed)")
    if wrong:
        yield Finding(False, f"packages needed: {', '.join(wrong)}", INSTALL)
    else:
        yield Finding(True, f"{len(required)} packages in the versions needed")


def _requirements(distribution: str, extras: set[str]) -> Iterator[str]:
    """Yield what a distribution needs with these extras, and what its own other extras need."""
    for line in metadata.requires(distribution) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras):
            continue
        if requirement.name == distribution:
            yield from _requirements(distribution, requirement.extras)
        else:
            yield f"{requirement.name}{requirement.specifier}"


def _locale() -> Finding:
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8":
        return Finding(True, "names of files and learners are read as UTF-8")
    return Finding(False, f"names are read as {encoding}", "Set LANG=C.UTF-8.")


def _walls() -> Iterator[Finding]:
    found = find_walls()
    for reason in found.reasons:
        yield Finding(True, reason)
    try:
        wall = require_wall()
    except NoWalls as reason:
        yield Finding(False, "no sandbox", str(reason))
    else:
        yield Finding(True, f"sandbox: {wall} and seccomp, tried")


def _times(settings: Examine) -> Finding:
    limits = settings.limits
    what = (
        f"time limits: {limits.call_seconds:g} s a call, {limits.cell_seconds:g} s a cell, "
        f"{limits.submission_seconds:g} s a notebook"
    )
    if 0 < limits.call_seconds <= limits.cell_seconds <= limits.submission_seconds:
        return Finding(True, what)
    return Finding(False, what, "In nbgrader_config.py, give each more than the one before it.")


def _writable(course: CourseDirectory) -> Finding:
    if os.access(course.root, os.W_OK | os.X_OK):
        return Finding(True, f"course directory {course.root}")
    return Finding(
        False,
        f"the course directory {course.root} cannot be written to",
        "Run the autograder as its owner.",
    )


def _gradebook(course: CourseDirectory) -> Finding:
    file = Path(course.db_url.removeprefix("sqlite:///"))
    if course.db_url.startswith("sqlite:///") and not file.exists():
        return Finding(True, f"no gradebook yet; {file} is made at the first release")
    try:
        with open_gradebook(course) as gradebook:
            students = len(gradebook.students)
    except NoGradebook as reason:
        return Finding(False, "the gradebook does not open", str(reason))
    except SQLAlchemyError as error:
        return Finding(False, "no gradebook", str(NoGradebook(course.db_url, error)))
    return Finding(True, f"gradebook with {students} students")


def _exposure(course: CourseDirectory, wall: Wall) -> Finding:
    try:
        refuse_if_exposed(private_folders(course), wall)
    except Exposed as reason:
        return Finding(False, "submissions could read what they must not", str(reason))
    return Finding(True, "course, gradebook, exchange and home are out of submissions' reach")


def _learners_process(settings: Examine, wall: Wall) -> Finding:
    """Run a cell as a submission's would be run."""
    try:
        with (
            Room(tuple(settings.preload), wall, address_space=settings.memory_bytes) as room,
            room.admit({}) as process,
        ):
            channel: Channel[Reply] = Channel(process.socket, Reply)
            channel.send(Start(seed=0))
            done = ask(channel, RunCell(1, PROBE, report=False), PROBE_SECONDS)
            overrun = process.overrun()
    except RoomFailed as reason:
        return Finding(
            False,
            f"no learner's process can be started: {reason}",
            "See Examine.preload in nbgrader_config.py.",
        )
    except (ChannelClosed, Malformed, TimedOut) as reason:
        return Finding(
            False,
            f"a cell in the sandbox has no answer: {type(reason).__name__}: {reason}",
            f"See Examine.memory_bytes ({settings.memory_bytes:,}) in nbgrader_config.py, and "
            "whether the machine is short of memory.",
        )
    if overrun:
        return Finding(
            False,
            f"a cell in the sandbox that prints a number uses {overrun}",
            "Raise Examine.memory_bytes in nbgrader_config.py.",
        )
    if done.outputs == [Stream("stdout", "42\n")]:
        return Finding(True, "a cell runs in the sandbox")
    return Finding(False, f"a cell in the sandbox gives {done.outputs}", "Please report this.")
