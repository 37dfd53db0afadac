"""Prepares the instructor's notebook for grading: what generate_assignment makes of it, in memory.

nbgrader's own preprocessors do the work, with the course's configuration, so that delimiters,
stubs, header and footer are what they are in the release. What comes out is plain data that a
worker receives once per assignment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
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
from nbgrader.utils import is_solution

from autograder.notebook_file import UnreadableNotebook, read_notebook
from autograder.regression import CHECK_OUTPUT_TAG
from autograder.tidy import tidy_notebook


class BadSource(Exception):
    """The instructor's notebook cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class TrustedNotebook:
    """An assignment's notebook as its instructor wrote it.

    Args:
        name: the file's name without ending, which is nbgrader's name of the notebook.
        notebook: every cell, header and footer included, with solutions and hidden tests. The
            metadata of nbgrader's cells is complete and holds the checksum that the gradebook
            has: for a solution cell the stub's, so that `nbgrader.utils.determine_grade` tells an
            untouched answer. Outputs are kept where a regression cell's are compared.
        released: for each of nbgrader's cells, by grade id, the text that learners received: a
            solution cell's stub, a grade cell without its hidden tests.
    """

    name: str
    notebook: NotebookNode
    released: Mapping[str, str]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The index in `notebook` of each of nbgrader's cells, by grade id."""
        return {
            name: place
            for place, cell in enumerate(self.notebook.cells)
            if (name := grade_id(cell)) is not None
        }

    @cached_property
    def released_texts(self) -> tuple[str, ...]:
        """The text of every cell as learners received it."""
        texts = [cell.source for cell in self.notebook.cells]
        for name, place in self.places.items():
            texts[place] = self.released[name]
        return tuple(texts)

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of all that can change a score."""
        content = json.dumps([self.name, self.notebook, self.released], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def grade_id(cell: NotebookNode) -> str | None:
    """Return a trusted cell's name in nbgrader, or None for a cell that nbgrader ignores."""
    marked = cell.metadata.get("nbgrader", {})
    if any(marked.get(role) for role in ("grade", "solution", "locked", "task")):
        return str(marked["grade_id"])
    return None


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
    notebook = tidy_notebook(run(_header_and_footer(course), notebook))
    for step in (InstantiateTests, LockCells):
        notebook = run(step(parent=parent), notebook)
    _validate(notebook)
    for cell in notebook.cells:
        _keep_what_is_compared(cell)
    stubs = nbformat.from_dict(notebook)
    for step in (ClearSolutions, ComputeChecksums):
        stubs = run(step(parent=parent), stubs)
    for cell, stub in zip(notebook.cells, stubs.cells, strict=True):
        cell.metadata = nbformat.from_dict(stub.metadata)
    for step in (ClearHiddenTests, ClearMarkScheme):
        stubs = run(step(parent=parent), stubs)
    released = {name: cell.source for cell in stubs.cells if (name := grade_id(cell)) is not None}
    kept = ("kernelspec", "language_info")
    notebook.metadata = NotebookNode(
        {key: notebook.metadata[key] for key in kept if key in notebook.metadata}
    )
    return TrustedNotebook(path.stem, notebook, released)


def _header_and_footer(course: CourseDirectory) -> IncludeHeaderFooter:
    """Return nbgrader's step with absolute paths: it takes them from the working directory."""
    step = IncludeHeaderFooter(parent=course.parent)
    root = Path(course.root)
    step.header = step.header and str(root / step.header)
    step.footer = step.footer and str(root / step.footer)
    return step


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
