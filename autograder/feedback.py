"""Feedback that leaks nothing: a preprocessor for ``nbgrader generate_feedback``.

A learner's code has seen the hidden tests' inputs while it was graded, so no byte that the
grading run produced is shown. What remains: the learner's own text, the points, and for a failed
test the constant text of its message.
"""

from __future__ import annotations

from typing import Any, Final

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests
from nbgrader.utils import determine_grade, is_grade, is_solution
from traitlets import List

from autograder.messages import assert_messages

PASSED: Final = "✓ Passed."
NO_MESSAGE: Final = (
    "✗ Not passed. Run this check in your notebook: if it fails, it gives a hint; "
    "if it passes, a hidden test with other values did not."
)


class HideTests(ClearHiddenTests):  # type: ignore[misc]
    """Take the hidden tests and every output of the grading run out of a graded notebook."""

    # The HTML exporter sets this on every preprocessor, and warns of those that do not know it.
    display_data_priority: List[list[str]] = List(help="Not used.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Hide what the notebook's learner may not see; the notebook is changed in place."""
        for index, cell in enumerate(nb.cells):
            if cell.cell_type != "code":
                continue
            if is_grade(cell) and not is_solution(cell):
                verdict = verdict_text(cell)
                self.preprocess_cell(cell, resources, index)
                cell.outputs = [nbformat.v4.new_output("stream", text=verdict)]
            else:
                cell.outputs = []
        return nb, resources


def verdict_text(cell: NotebookNode) -> str:
    """Say how a graded test cell ended, in words that its author wrote."""
    points, most = determine_grade(cell)
    if points == most:
        return PASSED
    if points:
        return f"Partly passed: {points:g} of {most:g} points."
    errors = [output.evalue for output in cell.outputs if output.output_type == "error"]
    for message in assert_messages(cell.source):
        if any(message.fits(error) for error in errors):
            return f"✗ Not passed. {message.text}"
    return NO_MESSAGE
