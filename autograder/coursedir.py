"""The nbgrader course that a command works on: its configuration and its folders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from nbgrader.apps import NbGrader
from nbgrader.coursedir import CourseDirectory

CONFIG_FILE = "nbgrader_config.py"


class NoCourse(Exception):
    """The folder is no nbgrader course directory whose settings can be read."""


def open_course(root: Path) -> CourseDirectory:
    """Read the course's nbgrader_config.py, together with nbgrader's user and system files.

    Raises:
        NoCourse: there is no nbgrader_config.py in the folder, or none that can be read.
    """
    if not (root / CONFIG_FILE).is_file():
        raise NoCourse(
            f"{root.resolve()} has no {CONFIG_FILE}. Name the course directory with --course."
        )
    app = NbGrader()
    # Otherwise nbgrader logs the error and goes on, and a class is graded by other settings.
    app.raise_config_file_errors = True
    folder = root.resolve()
    # nbgrader reads the working directory's configuration as well, which may be another course's.
    with chdir(folder):
        try:
            app.initialize(argv=["--log-level=WARN"], root=str(folder))
        except SystemExit:  # of traitlets, which has logged why
            raise NoCourse(f"The settings of {folder} are wrong. Mend its {CONFIG_FILE}.") from None
        except Exception as error:  # whatever a configuration file does
            raise NoCourse(
                f"The settings of {folder} cannot be read: {type(error).__name__}: {error}\n"
                f"Mend its {CONFIG_FILE}; nbgrader --debug tells which files it reads besides."
            ) from error
    return app.coursedir


def source_folder(course: CourseDirectory, assignment: str) -> Path:
    """Return the folder of the instructor's version of an assignment."""
    return Path(course.format_path(course.source_directory, ".", assignment))


def source_notebooks(course: CourseDirectory, assignment: str) -> list[Path]:
    """Return the instructor's notebooks of an assignment, by name."""
    return sorted(source_folder(course, assignment).glob("*.ipynb"))


def submission_folder(course: CourseDirectory, learner: str, assignment: str) -> Path:
    """Return the folder that holds what a learner handed in."""
    return Path(course.format_path(course.submitted_directory, learner, assignment))


def autograded_folder(course: CourseDirectory, learner: str, assignment: str) -> Path:
    """Return the folder for a learner's graded notebooks; "*" as the learner makes a pattern."""
    return Path(course.format_path(course.autograded_directory, learner, assignment))


def learners_who_submitted(course: CourseDirectory, assignment: str) -> Iterator[str]:
    """Yield the student id of everybody who has a submitted folder for the assignment."""
    step = course.submitted_directory
    pattern = course.format_path(step, "*", assignment)
    student = re.compile(course.format_path(step, "(?P<student_id>[^/]+)", assignment, escape=True))
    for folder in Path("/").glob(pattern.lstrip("/")):
        match = student.fullmatch(str(folder))
        if match and folder.is_dir():
            yield match["student_id"]
