"""Turns a text notebook (jupytext's percent format) into an executed notebook.

The same text gives the same file, byte for byte, so that a rebuilt notebook differs in git only
where the lesson does: cell ids are stable, and no times or versions are kept.

    python source/build.py source/lesson.py source/disaggregation/lesson.ipynb
"""

import hashlib
import sys
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def main(text: Path, target: Path) -> None:
    """Execute the notebook that `text` describes in `target`'s folder and write it there."""
    notebook = jupytext.read(text)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})
    name_cells(notebook)
    target.parent.mkdir(parents=True, exist_ok=True)
    NotebookClient(
        notebook,
        resources={"metadata": {"path": str(target.parent)}},
        timeout=60,
        # Every failure is reported below, whatever a cell's tags allow.
        allow_errors=True,
        # Else each kernel warns that it is not encrypted; it listens on this machine only.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        coalesce_streams=True,
        record_timing=False,
        store_widget_state=False,
    ).execute()
    for cell in notebook.cells:
        refuse_errors(cell, text)
        # What nbval is told to ignore changes from run to run (a widget's model id, say).
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = []
    notebook.metadata.language_info.pop("version")
    nbformat.write(notebook, target)


def name_cells(notebook: nbformat.NotebookNode) -> None:
    """Give each cell an id that stays the same as long as the cell does; equal cells are numbered.

    A cell of nbgrader's takes its grade id, since a digest of its text would let a learner test a
    guess of the solution; the others, which learners see whole, take a digest.
    """
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or _digest(cell)
        cell.id = f"{name}-{seen[name]}" if seen[name] else name
        seen[name] += 1


def _digest(cell: nbformat.NotebookNode) -> str:
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]


def refuse_errors(cell: nbformat.NotebookNode, text: Path) -> None:
    """Stop if the cell failed: with the solutions in place a `raises-exception` cell works too."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            error = f"{output.ename}: {output.evalue}"
            sys.exit(f"{text}: this cell fails with {error}\n\n{cell.source}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
