"""Makes what formgrader shows of a submission fit for the instructor's browser.

formgrader renders the graded notebook with nbconvert, inside the page that gives the marks: a
script in an answer would act in the instructor's name. nbgrader_config.py puts these two into its
exporter; with nbconvert's own `sanitize_html` alone, formgrader's Markdown cells, raw cells and the
sizes of pictures would still let one in.
"""

from __future__ import annotations

from typing import Any

import nbformat
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from autograder import safe_html


class SafeOutputs(Preprocessor):
    """Replace every output by clean HTML, and raw cells, which would go out as they are, too."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Clean a notebook that is about to be shown."""
        nb.metadata.pop("widgets", None)
        for cell in nb.cells:
            if cell.cell_type == "raw":
                cell.cell_type = "markdown"
            elif cell.cell_type == "code":
                cell.outputs = [_clean(output) for output in cell.outputs]
        return nb, resources


def _clean(output: NotebookNode) -> NotebookNode:
    data = {"text/html": str(safe_html.output(output))}
    return nbformat.v4.new_output("display_data", data)


@pass_context
def markdown2html(context: Context, source: str) -> str:
    """Render a cell's Markdown; takes the place of nbconvert's filter of this name."""
    return str(safe_html.markdown(source, context.get("cell", {}).get("attachments")))
