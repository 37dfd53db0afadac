"""The instructor's notebook as workers need it: plain data, which `prepare` makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nbformat import NotebookNode


@dataclass(frozen=True)
class TrustedNotebook:
    """An assignment's notebook as its instructor wrote it.

    Args:
        name: the file's name without ending, which is nbgrader's name of the notebook.
        notebook: every cell, header and footer included, with solutions and hidden tests. The
            metadata of nbgrader's cells is complete and holds the checksum that the gradebook
            has. Outputs are kept where a regression cell's are compared.
        released: for each of nbgrader's cells, by grade id, the text that learners received: a
            solution cell's stub, a grade cell without its hidden tests.
        stubs: for each solution cell, by grade id, the text that the gradebook's checksum is of: an
            answer that equals it is none.
    """

    name: str
    notebook: NotebookNode
    released: Mapping[str, str]
    stubs: Mapping[str, str]

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
        content = json.dumps([self.name, self.notebook, self.released, self.stubs], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def grade_id(cell: NotebookNode) -> str | None:
    """Return a trusted cell's name in nbgrader, or None for a cell that nbgrader ignores."""
    marked = cell.metadata.get("nbgrader", {})
    if any(marked.get(role) for role in ("grade", "solution", "locked", "task")):
        return str(marked["grade_id"])
    return None
