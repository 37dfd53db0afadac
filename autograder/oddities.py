"""Says in plain words, for the instructor, what was odd about a submission's cells.

Only the source's grade ids and constant text appear, nothing that a learner wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nbformat import NotebookNode

from autograder.align import Alignment, claimed, is_one_of
from autograder.cells import is_grade, is_solution, is_task
from autograder.trusted import TrustedNotebook

MOVED: Final = "the cell had been moved; it is back in its place."
REPEATED_ANSWER: Final = (
    "the solution cell was there more than once. The first that had been changed counts as the "
    "answer; other changed ones run as cells of the learner's own."
)
REPEATED: Final = "the cell had been copied or split. It stands once, as in the source."
NO_METADATA: Final = "nbgrader's metadata was gone from the cell; it was found by text or place."
OTHER_TYPE: Final = "the cell's type had been changed; it was turned back."
OTHER_SETTINGS: Final = (
    "the cell's points or other settings of nbgrader's differ from the source's, which were used."
)
OTHER_TEXT: Final = (
    "the cell's text differs from the source's, which was used. It was edited, or comes from an "
    "earlier release."
)
NO_ANSWER: Final = "the solution cell had been deleted; it counts as unanswered."
OTHER_NOTEBOOK: Final = "None of the assignment's cells was found. Is this another notebook?"
OTHER_LANGUAGE: Final = "The notebook names a kernel of another language; the course's was used."

_SETTINGS: Final = ("grade", "solution", "locked", "task", "points")
_MOST_NAMED: Final = 6


def oddities(
    trusted: TrustedNotebook, submission: NotebookNode, alignment: Alignment
) -> tuple[str, ...]:
    """Return one note for each kind of oddity, which names the cells that it concerns."""
    general = list(_of_notebook(trusted, submission))
    if trusted.places and alignment.matched.keys().isdisjoint(trusted.places.values()):
        return (OTHER_NOTEBOOK, *general)
    by_kind: dict[str, list[str]] = {}
    for name, place in trusted.places.items():
        for kind in _of_cell(trusted, submission.cells, alignment, place):
            by_kind.setdefault(kind, []).append(name)
    return (*general, *(f"{_listed(names)}: {kind}" for kind, names in by_kind.items()))


def _of_notebook(trusted: TrustedNotebook, submission: NotebookNode) -> Iterator[str]:
    kernel = submission.metadata.get("kernelspec")
    language = kernel.get("language") if isinstance(kernel, dict) else None
    wanted = trusted.notebook.metadata.get("kernelspec", {}).get("language")
    if None not in (language, wanted) and language != wanted:
        yield OTHER_LANGUAGE


def _of_cell(
    trusted: TrustedNotebook, cells: list[NotebookNode], alignment: Alignment, place: int
) -> Iterator[str]:
    source_cell = trusted.notebook.cells[place]
    index = alignment.matched.get(place)
    if index is None:
        yield _deleted(source_cell)
        return
    cell = cells[index]
    if place in alignment.repeated:
        yield REPEATED_ANSWER if is_solution(source_cell) else REPEATED
    if place not in alignment.in_order:
        yield MOVED
    if place in alignment.by_text:
        yield NO_METADATA
    if cell.cell_type != source_cell.cell_type:
        yield OTHER_TYPE
    said, settings = claimed(cell), source_cell.metadata.nbgrader
    if any(key in said and said[key] != settings.get(key) for key in _SETTINGS):
        yield OTHER_SETTINGS
    expected = (trusted.released_texts[place], source_cell.source)
    if not is_solution(source_cell) and not is_one_of(cell.source, expected):
        yield OTHER_TEXT


def _deleted(source_cell: NotebookNode) -> str:
    if is_solution(source_cell):
        return NO_ANSWER
    kind = "test" if is_grade(source_cell) else "task" if is_task(source_cell) else "locked"
    return f"the {kind} cell had been deleted; it was restored."


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
