"""Makes the second assignment's course directory from its text."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import jupytext
import nbformat
from nbformat import NotebookNode

ASSIGNMENT: Final = "survey"
NOTEBOOKS: Final = ("rainfall", "words")

_HERE: Final = Path(__file__).parent
_ROLES: Final = {"grade": False, "solution": False, "locked": False, "task": False}


def source_notebook(name: str) -> NotebookNode:
    """Return an instructor's notebook, with the metadata that its text leaves out."""
    notebook = jupytext.read(_HERE / ASSIGNMENT / f"{name}.md")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{name}-{number}"
        if marked := cell.metadata.get("nbgrader"):
            cell.metadata["nbgrader"] = {"schema_version": 3, **_ROLES, **marked}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = NotebookNode({"kernelspec": kernel})
    return notebook


def support_files() -> dict[str, bytes]:
    """Return the files beside the notebooks, by name."""
    return {
        path.name: path.read_bytes() for path in (_HERE / "support").iterdir() if path.is_file()
    }


def make_course(folder: Path) -> None:
    """Make a course directory with this assignment and none of nbgrader's settings changed."""
    source = folder / "source" / ASSIGNMENT
    shutil.copytree(_HERE / "support", source, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    for name in NOTEBOOKS:
        nbformat.write(source_notebook(name), source / f"{name}.ipynb")
