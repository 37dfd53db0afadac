"""The source notebooks' outputs are real: nbval runs them anew and finds the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.sample_class import fill_in, position
from tests.stock import ROOT

SOURCE = ROOT / "source" / "disaggregation"
WRONG_TTFT = """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    return queue_ms + prefill_ms + first_decode_ms"""


def nbval(folder: Path, *arguments: str | Path) -> tuple[int, set[int]]:
    """Run nbval and return its exit status and the code cells that failed, by number."""
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^FAILED .*::Cell (\d+)", finished.stdout, re.MULTILINE)
    return finished.returncode, {int(number) for number in failed}


@pytest.fixture
def lesson() -> NotebookNode:
    """The lesson with its solutions and outputs, to be changed."""
    return nbformat.read(SOURCE / "lesson.ipynb", as_version=4)


def numbers(notebook: NotebookNode, grade_ids: Sequence[str]) -> set[int]:
    """Return the places of these cells among the code cells, which is how nbval counts."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return {code.index(notebook.cells[position(notebook, grade_id)]) for grade_id in grade_ids}


def test_both_source_notebooks_give_their_kept_outputs_again() -> None:
    status, failed = nbval(ROOT, "--nbval", SOURCE / "lesson.ipynb", SOURCE / "beyond.ipynb")

    assert (status, failed) == (0, set())


def test_a_kept_output_that_was_changed_is_noticed(lesson: NotebookNode, tmp_path: Path) -> None:
    changed = ("report", "ttft-sum", "picture-map")
    for grade_id in changed:
        output = lesson.cells[position(lesson, grade_id)].outputs[0]
        if output.output_type == "stream":
            output.text = output.text.replace("s", "z", 1)
        else:
            output.data["text/plain"] += " Or not."
    nbformat.write(lesson, tmp_path / "lesson.ipynb")

    assert nbval(tmp_path, "--nbval", "lesson.ipynb") == (1, numbers(lesson, changed))


def test_a_wrong_function_fails_the_regression_cell_and_lax_nbval_lets_other_outputs_pass(
    lesson: NotebookNode, tmp_path: Path
) -> None:
    fill_in(lesson, {"ttft": WRONG_TTFT})
    nbformat.write(lesson, tmp_path / "lesson.ipynb")

    assert nbval(tmp_path, "--nbval-lax", "lesson.ipynb") == (1, numbers(lesson, ["report"]))


def test_without_outputs_and_counts_nbval_would_pass_the_same_wrong_function(
    lesson: NotebookNode, tmp_path: Path
) -> None:
    fill_in(lesson, {"ttft": WRONG_TTFT})
    for cell in lesson.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(lesson, tmp_path / "lesson.ipynb")

    assert nbval(tmp_path, "--nbval-lax", "lesson.ipynb") == (0, set())
