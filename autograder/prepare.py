"""Prepares an assignment for grading: what generate_assignment makes of it, in memory.

nbgrader's own preprocessors do the work, with the course's configuration, so that delimiters,
stubs, header and footer are what they are in the release. What comes out is plain data that a
worker receives once per assignment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.nbgraderformat import MetadataValidator
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearMarkScheme,
    ClearSolutions,
    ComputeChecksums,
    IncludeHeaderFooter,
    InstantiateTests,
    LockCells,
)
from nbgrader.utils import find_all_files

from autograder.cells import is_solution
from autograder.coursedir import source_folder, source_notebooks
from autograder.exam import Exam
from autograder.limits import Limits
from autograder.notebook_file import UnreadableNotebook, read_notebook
from autograder.regression import CHECK_OUTPUT_TAG
from autograder.sandbox.policy import Wall
from autograder.tidy import tidy_notebook
from autograder.trusted import TrustedNotebook, grade_id


class BadSource(Exception):
    """The instructor's notebook cannot be used; the message says why and what to do."""


def load_exam(
    course: CourseDirectory,
    assignment: str,
    limits: Limits,
    preload: Iterable[str],
    wall: Wall,
    learners_own: Iterable[str] = (),
) -> Exam:
    """Read an assignment's source.

    Args:
        learners_own: support files that the learner's version stays of (nbgrader's
            `Autograde.exclude_overwriting`), relative to the source's folder.

    Raises:
        BadSource: a notebook cannot be used.
    """
    folder = source_folder(course, assignment)
    files = {
        os.path.relpath(path, folder): Path(path).read_bytes()
        for path in find_all_files(str(folder), [*course.ignore, "*.ipynb"])
    }
    for name in learners_own:
        files.pop(os.path.normpath(name), None)
    trusted = tuple(prepare(path, course) for path in source_notebooks(course, assignment))
    return Exam(trusted, files, limits, tuple(preload), wall)


def prepare(path: Path, course: CourseDirectory) -> TrustedNotebook:
    """Read and prepare an instructor's notebook.

    Args:
        path: the notebook in the course's source folder.
        course: gives the configuration, and the folder that header and footer are relative to.

    Raises:
        BadSource: the notebook cannot be read, or nbgrader would not release it.
    """
    try:
        return _prepare(path, course)
    except UnreadableNotebook as reason:
        raise BadSource(f"{path}: {reason}") from None
    except Exception as error:
        # nbgrader raises RuntimeError, ValueError, KeyError and jsonschema's errors alike.
        raise BadSource(f"{path}: nbgrader would not release it: {_first_line(error)}") from error


def header_and_footer(course: CourseDirectory) -> IncludeHeaderFooter:
    """Return nbgrader's step with absolute paths: it takes them from the working directory."""
    step = IncludeHeaderFooter(parent=course.parent)
    root = Path(course.root)
    step.header = step.header and str(root / step.header)
    step.footer = step.footer and str(root / step.footer)
    return step


def _prepare(path: Path, course: CourseDirectory) -> TrustedNotebook:
    notebook = read_notebook(path)
    MetadataValidator().upgrade_notebook_metadata(notebook)
    resources = {
        "metadata": {"path": str(path.parent)},
        "nbgrader": {"notebook": path.stem, "assignment": path.parent.name},
    }

    def run(step: Any, notebook: NotebookNode) -> NotebookNode:
        return step(notebook, resources)[0]

    parent = course.parent
    # The header's and footer's ids may clash with the notebook's own, hence tidied once more.
    notebook = tidy_notebook(run(header_and_footer(course), notebook))
    for step in (InstantiateTests, LockCells):
        notebook = run(step(parent=parent), notebook)
    _validate(notebook)
    for cell in notebook.cells:
        _keep_what_is_compared(cell)
    stubs = nbformat.from_dict(notebook)
    for step in (ClearSolutions, ComputeChecksums):
        stubs = run(step(parent=parent), stubs)
    untouched = {str(grade_id(cell)): cell.source for cell in stubs.cells if is_solution(cell)}
    for cell, stub in zip(notebook.cells, stubs.cells, strict=True):
        cell.metadata = nbformat.from_dict(stub.metadata)
    for step in (ClearHiddenTests, ClearMarkScheme):
        stubs = run(step(parent=parent), stubs)
    released = {name: cell.source for cell in stubs.cells if (name := grade_id(cell)) is not None}
    kept = ("kernelspec", "language_info")
    notebook.metadata = NotebookNode(
        {key: notebook.metadata[key] for key in kept if key in notebook.metadata}
    )
    return TrustedNotebook(path.stem, notebook, released, untouched)


def _validate(notebook: NotebookNode) -> None:
    """Check nbgrader's metadata as its CheckCellMetadata does, which does not name the cell."""
    validator = MetadataValidator()
    for number, cell in enumerate(notebook.cells, start=1):
        try:
            validator.validate_cell(cell)
        except Exception as error:
            name = cell.metadata.nbgrader.get("grade_id")
            raise ValueError(f"cell {number} ({name}): {_first_line(error)}") from error
    validator.validate_nb(notebook)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _keep_what_is_compared(cell: NotebookNode) -> None:
    """Drop a cell's outputs unless it is a regression cell; pictures would weigh much."""
    if cell.cell_type != "code":
        return
    if is_solution(cell) or CHECK_OUTPUT_TAG not in cell.metadata.get("tags", []):
        cell.outputs = []
