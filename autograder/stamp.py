"""What a graded notebook's metadata says of its grading, for the next run and for the report."""

from __future__ import annotations

from typing import Final

import msgspec
from nbformat import NotebookNode

KEY: Final = "autograder"
"""Key of a graded notebook's stamp, and of what its cells' metadata tell the feedback."""


class Stamp(msgspec.Struct, frozen=True):
    """How and when a notebook needs no grading again.

    Args:
        fingerprint: is the same only if grading again would give the same.
        notes: what was odd, for the instructor.
        wall: what the learner's code was kept in by.
    """

    fingerprint: str = ""
    notes: tuple[str, ...] = ()
    wall: str = ""


class _Metadata(msgspec.Struct):
    autograder: Stamp = Stamp()


class _Notebook(msgspec.Struct):
    metadata: _Metadata


def put_stamp(notebook: NotebookNode, stamp: Stamp) -> None:
    """Write the stamp into a notebook."""
    notebook.metadata[KEY] = msgspec.to_builtins(stamp)


def read_stamp(notebook: bytes) -> Stamp:
    """Return the stamp in a notebook file, an empty one if it was not graded by this grader."""
    try:
        return msgspec.json.decode(notebook, type=_Notebook).metadata.autograder
    except msgspec.MsgspecError:
        return Stamp()
