"""Lays a submission over the trusted source: the notebook that is graded, and what was odd.

Grading a notebook built from the source, instead of the learner's file, makes it not matter what
happened to test cells, points, tags or ids on the learner's side. Of the submission only texts are
taken: those of its solution cells, and the cells that the learner added. All else is the source's.

The function is pure, takes a submission of any shape, and its time is linear in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import nbformat
from nbformat import NotebookNode

from autograder.align import TOP, Alignment, align
from autograder.cells import is_grade, is_solution
from autograder.oddities import oddities
from autograder.tidy import fresh_ids, new_cell, tidy_notebook
from autograder.trusted import TrustedNotebook

LARGEST_OUTPUTS: Final = 4 * 1024**2
"""Characters of submitted outputs that are kept aside; what comes after is left out."""


@dataclass(frozen=True)
class Reconciled:
    """A submission as it is graded.

    Args:
        notebook: the notebook, complete and valid. Cells of the learner's have no outputs yet,
            regression cells have the reference outputs.
        sources: for each cell the trusted text of the source's cell in its place, or None for a
            cell that the learner added.
        notes: what was odd, in plain words for the instructor.
        submitted_outputs: by id of the cell in `notebook`, the outputs that were handed in:
            valid format 4.5, but otherwise as hostile as the learner's code.
    """

    notebook: NotebookNode
    sources: tuple[str | None, ...]
    notes: tuple[str, ...]
    submitted_outputs: Mapping[str, list[NotebookNode]]


def reconcile(trusted: TrustedNotebook, submitted: object) -> Reconciled:
    """Build the notebook to grade from the source and what a learner handed in.

    Args:
        trusted: the source.
        submitted: the submission, a notebook of format 4 or anything else.
    """
    submission = tidy_notebook(submitted)
    alignment = align(trusted, submission.cells)
    source_cells = trusted.notebook.cells
    source_ids = {cell.id for cell in source_cells}
    fresh = fresh_ids("added", source_ids | {cell.id for cell in submission.cells})

    cells: list[NotebookNode] = []
    sources: list[str | None] = []
    handed_in: list[NotebookNode | None] = []
    for place, index in _sequence(alignment, len(source_cells)):
        learners = None if index is None else submission.cells[index]
        handed_in.append(learners)
        if place is not None:
            cells.append(_graded(trusted, place, learners))
            sources.append(source_cells[place].source)
        elif learners is not None:
            cell_id = next(fresh) if learners.id in source_ids else learners.id
            cells.append(_learners_own(learners, cell_id))
            sources.append(None)
    notebook = NotebookNode(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": nbformat.from_dict(trusted.notebook.metadata),
            "cells": cells,
        }
    )
    return Reconciled(
        notebook,
        tuple(sources),
        oddities(trusted, submission, alignment),
        _submitted_outputs(cells, handed_in),
    )


def _sequence(alignment: Alignment, length: int) -> Iterator[tuple[int | None, int | None]]:
    """Yield for each cell of the result its index in the source and in the submission."""
    for place in range(TOP, length):
        if place != TOP:
            yield place, alignment.matched.get(place)
        yield from ((None, index) for index in alignment.extras.get(place, ()))


def _graded(trusted: TrustedNotebook, place: int, learners: NotebookNode | None) -> NotebookNode:
    """Return the source's cell with, in a solution cell, the learner's text."""
    cell = nbformat.from_dict(trusted.notebook.cells[place])
    if not is_solution(cell):
        return cell
    if learners is not None:
        cell.source = learners.source
        if cell.cell_type == "markdown":
            cell.pop("attachments", None)
            cell.update(_attachments(learners))
    else:
        # nbgrader gives 0 by itself to a manually marked answer that equals its stub. Elsewhere the
        # stub would hide what the learner may have defined in a cell that was not recognised.
        cell.source = trusted.released_texts[place] if is_grade(cell) else ""
    return cell


def _learners_own(cell: NotebookNode, cell_id: str) -> NotebookNode:
    """Return a plain copy of a cell that the learner added."""
    parts = _attachments(cell) if cell.cell_type == "markdown" else {}
    return new_cell(cell.cell_type, cell_id, cell.source, **parts)


def _attachments(cell: NotebookNode) -> dict[str, Any]:
    return {"attachments": cell.attachments} if "attachments" in cell else {}


def _submitted_outputs(
    cells: Iterable[NotebookNode], handed_in: Iterable[NotebookNode | None]
) -> dict[str, list[NotebookNode]]:
    kept: dict[str, list[NotebookNode]] = {}
    room = LARGEST_OUTPUTS
    for cell, learners in zip(cells, handed_in, strict=True):
        outputs = learners.get("outputs") if learners else None
        if outputs and cell.cell_type == "code":
            room -= _size(outputs)
            if room < 0:
                break
            kept[cell.id] = outputs
    return kept


def _size(value: object) -> int:
    """Return about how many characters parsed JSON takes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _size(item) for key, item in value.items())
    return sum(map(_size, value)) if isinstance(value, list) else 8
