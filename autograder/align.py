"""Tells which submitted cell stands for which cell of the source.

By grade id first, then by text, then, for solution cells, by likeness between known neighbours. The
time is linear in the submission, whatever it holds.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

from nbformat import NotebookNode

from autograder.cells import is_grade, is_solution
from autograder.tidy import MADE_UP_ID
from autograder.trusted import TrustedNotebook

TOP: Final = -1
"""The place of extra cells that come before every cell of the source."""

_BINDING: Final = re.compile(
    r"^[ \t]*+(?:async[ \t]++)?(?:def|class)[ \t]++(\w++)|^(\w++)[ \t]*+=(?!=)", re.MULTILINE
)


@dataclass(frozen=True)
class Alignment:
    """Which submitted cell stands for which of the source's; both are given by index.

    Args:
        matched: source cell to submitted cell.
        dropped: submitted copies and fragments of the source's cells that are not kept.
        repeated: source cells whose grade id several submitted cells bear.
        by_text: source cells that were found by text or place, not by grade id.
        size: the number of submitted cells.
    """

    matched: Mapping[int, int]
    dropped: frozenset[int]
    repeated: frozenset[int]
    by_text: frozenset[int]
    size: int

    @cached_property
    def in_order(self) -> list[int]:
        """The source cells whose submitted cells follow one another as in the source."""
        by_submission = sorted(self.matched, key=self.matched.__getitem__)
        return _longest_increasing(by_submission)

    @cached_property
    def extras(self) -> Mapping[int, list[int]]:
        """The learner's own cells that follow each source cell, or `TOP`.

        They go by the cells that are in order, so that an extra cell stays where the learner put
        it when the cell beside it had been moved and is put back.
        """
        anchors = {self.matched[place]: place for place in self.in_order}
        known = self.dropped | set(self.matched.values())
        extras: dict[int, list[int]] = {}
        place = TOP
        for index in range(self.size):
            place = anchors.get(index, place)
            if index not in known:
                extras.setdefault(place, []).append(index)
        return extras


def align(trusted: TrustedNotebook, cells: Sequence[NotebookNode]) -> Alignment:
    """Align submitted cells, which have to be tidy, with the source's."""
    by_id = _by_grade_id(trusted, cells)
    by_text = _with(by_id, _by_text(trusted, cells, by_id))
    return _with(by_text, _by_likeness(trusted, cells, by_text))


def _with(alignment: Alignment, found: Mapping[int, int]) -> Alignment:
    return Alignment(
        {**alignment.matched, **found},
        alignment.dropped,
        alignment.repeated,
        alignment.by_text | found.keys(),
        alignment.size,
    )


def claimed(cell: NotebookNode) -> Mapping[str, Any]:
    """Return what a submitted cell says of itself to nbgrader."""
    said = cell.metadata.get("nbgrader")
    return said if isinstance(said, dict) else {}


def is_one_of(text: str, expected: Sequence[str]) -> bool:
    """Whether the text is one of those expected, white space aside."""
    return text in expected or _squeezed(text) in map(_squeezed, expected)


def _squeezed(text: str) -> str:
    """Return the text with each run of white space made one blank."""
    return " ".join(text.split())


def _by_grade_id(trusted: TrustedNotebook, cells: Sequence[NotebookNode]) -> Alignment:
    bearers: dict[int, list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        name = claimed(cell).get("grade_id")
        if isinstance(name, str) and name in trusted.places:
            bearers[trusted.places[name]].append(index)
    matched: dict[int, int] = {}
    dropped: set[int] = set()
    repeated = frozenset(place for place, indices in bearers.items() if len(indices) > 1)
    for place, indices in bearers.items():
        matched[place] = indices[0]
        if place in repeated:
            released = _squeezed(trusted.released_texts[place])
            texts = {index: _squeezed(cells[index].source) for index in indices}
            if is_solution(trusted.notebook.cells[place]):
                kept = [index for index in indices if texts[index] not in ("", released)]
                matched[place] = (kept or indices)[0]
            else:
                # A whole copy counts as a part too; the rest says something of the learner's own.
                kept = [index for index in indices if texts[index] not in released]
                whole = (index for index in indices if texts[index] == released)
                matched[place] = next(whole, indices[0])
            dropped |= set(indices) - set(kept) - {matched[place]}
    return Alignment(matched, frozenset(dropped), repeated, frozenset(), len(cells))


def _by_text(
    trusted: TrustedNotebook, cells: Sequence[NotebookNode], known: Alignment
) -> dict[int, int]:
    """Find cells without metadata that are otherwise as they were released.

    Solution cells are left to `_by_likeness`: many share one stub, and of such cells the text does
    not tell which is which.
    """
    places: dict[str, deque[int]] = defaultdict(deque)
    for place, cell in enumerate(trusted.notebook.cells):
        if place not in known.matched and not is_solution(cell):
            places[_squeezed(trusted.released_texts[place])].append(place)
    found: dict[int, int] = {}
    for index in chain.from_iterable(known.extras.values()):
        text = _squeezed(cells[index].source)
        if text and places.get(text):
            found[places[text].popleft()] = index
    return found


def _by_likeness(
    trusted: TrustedNotebook, cells: Sequence[NotebookNode], known: Alignment
) -> dict[int, int]:
    """Find solution cells without metadata between neighbours that are known.

    In such a gap a cell is taken for the answer when it has the source cell's id, or binds a name
    that the stub or the reference solution binds. Where a person marks the answer, the next cell
    of the right type will do: better a wrong cell marked by hand than an answer lost.
    """
    source_cells = trusted.notebook.cells
    source_ids = {cell.id for cell in source_cells}
    in_order = set(known.in_order)
    found: dict[int, int] = {}
    taken: set[int] = set()
    gap = TOP
    by_trait: Mapping[Trait, list[int]] | None = None
    for place, cell in enumerate(source_cells):
        if place in in_order:
            gap, by_trait = place, None
        if place in known.matched or not is_solution(cell):
            continue
        if by_trait is None:
            by_trait = _by_trait(cells, known.extras.get(gap, ()), source_ids)
        candidates = chain.from_iterable(
            by_trait.get(trait, ()) for trait in _wanted_traits(cell, trusted.released_texts[place])
        )
        index = next((index for index in candidates if index not in taken), None)
        if index is not None:
            taken.add(index)
            found[place] = index
    return found


Trait = tuple[str, str, str]
"""What a cell has in common with another: its kind, and the cell type and text that it concerns."""


def _wanted_traits(cell: NotebookNode, stub: str) -> Iterator[Trait]:
    """Yield what tells the answer to a solution cell, the surest sign first."""
    if not cell.id.startswith(MADE_UP_ID):
        yield ("id", "", cell.id)
    for name in sorted(_bound_names(f"{stub}\n{cell.source}")):
        yield ("binds", "", name)
    yield ("text", cell.cell_type, _squeezed(stub))
    if is_grade(cell):
        yield ("type", cell.cell_type, "")


def _by_trait(
    cells: Sequence[NotebookNode], indices: Iterable[int], source_ids: Set[str]
) -> Mapping[Trait, list[int]]:
    by_trait: dict[Trait, list[int]] = defaultdict(list)
    for index in indices:
        cell = cells[index]
        by_trait["id", "", cell.id].append(index)
        for name in _bound_names(cell.source):
            by_trait["binds", "", name].append(index)
        # A cell with another source cell's id is that cell, edited.
        if cell.id not in source_ids:
            by_trait["text", cell.cell_type, _squeezed(cell.source)].append(index)
            by_trait["type", cell.cell_type, ""].append(index)
    return by_trait


def _bound_names(text: str) -> set[str]:
    """Return what a text defines, or assigns at a line's start, be it valid Python or not."""
    return {first or second for first, second in _BINDING.findall(text)}


def _longest_increasing(numbers: Sequence[int]) -> list[int]:
    """Return a longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for number in numbers:
        length = bisect_left(ends, number)
        before[number] = ends[length - 1] if length else None
        ends[length : length + 1] = [number]
    backwards: list[int] = []
    link = ends[-1] if ends else None
    while link is not None:
        backwards.append(link)
        link = before[link]
    return backwards[::-1]
