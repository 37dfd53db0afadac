"""How long and how large things may get while a submission is examined."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Limits of one submission's examination.

    Args:
        call_seconds: for one call of a learner's function by a test.
        cell_seconds: for one cell.
        submission_seconds: for everything; what has been marked by then counts.
        memory_bytes: address space of the learner's process, and of the examiner.
    """

    call_seconds: float = 5.0
    cell_seconds: float = 10.0
    submission_seconds: float = 60.0
    memory_bytes: int = 4 * 2**30
