"""Capture what a notebook's cell would show: for tests of what is displayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from traitlets.config import Config


@contextmanager
def cell_output() -> Iterator[CapturedIO]:
    """Capture stdout, stderr and displayed outputs, as inside IPython."""
    # Other tests may have made a shell in this process, which they go on using.
    ours = not InteractiveShell.initialized()
    InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        with capture_output() as captured:
            yield captured
    finally:
        if ours:
            InteractiveShell.clear_instance()
