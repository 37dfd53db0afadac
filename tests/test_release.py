"""What learners receive: in step with the source, without an answer, kind, and worth 19 points."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from course.learner import LINE_WIDTH
from tests.sample_class import ASSIGNMENT, NOTEBOOK, PERFECT, POINTS, Learner, fill_in
from tests.stock import (
    ROOT,
    collect,
    make_course,
    nbgrader,
    points,
    release,
    released_notebook,
)

NOTEBOOKS = (NOTEBOOK, "beyond")
REGION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)
KIND = re.compile(
    r"Not finished yet: `\w+`(, `\w+`)*\. Fill (it|them) in above, then run this cell again\."
)


def grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def source_notebook(name: str = NOTEBOOK) -> NotebookNode:
    return nbformat.read(ROOT / "source" / ASSIGNMENT / f"{name}.ipynb", as_version=4)


REFERENCE = {
    grade_id(cell): cell.source
    for cell in source_notebook().cells
    if cell.metadata.get("nbgrader", {}).get("solution")
}
UNTOUCHED = Learner("untouched", "nothing filled in", touched=False)
REFERENCE_LEARNER = Learner("reference", "the reference solution", REFERENCE)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course directory with a fresh release, where two learners have been graded."""
    folder = tmp_path_factory.mktemp("release") / "course"
    make_course(folder)
    release(folder)
    collect(folder, [UNTOUCHED, REFERENCE_LEARNER])
    nbgrader(folder, "autograde", ASSIGNMENT)
    return folder


# In step with the source


def test_the_committed_release_is_what_nbgrader_makes_of_the_source(course: Path) -> None:
    fresh, committed = course / "release" / ASSIGNMENT, ROOT / "release" / ASSIGNMENT
    names = sorted(path.name for path in fresh.iterdir())

    assert names == sorted(path.name for path in committed.iterdir())
    for name in names:
        assert (fresh / name).read_text() == (committed / name).read_text(), "run: make release"


@pytest.mark.parametrize(
    ("text", "built"),
    [
        ("lesson.py", "disaggregation/lesson.ipynb"),
        ("beyond.py", "disaggregation/beyond.ipynb"),
        ("footer.py", "footer.ipynb"),
    ],
)
def test_every_source_notebook_holds_the_cells_of_its_text_and_was_executed(
    text: str, built: str
) -> None:
    written = jupytext.read(ROOT / "source" / text).cells
    cells = nbformat.read(ROOT / "source" / built, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]

    assert [(c.cell_type, c.source, c.metadata) for c in cells] == [
        (c.cell_type, c.source, c.metadata) for c in written
    ], "run: make release"
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any(cell.outputs for cell in code)


def test_every_check_of_the_source_notebook_shows_its_tick() -> None:
    for cell in source_notebook().cells:
        if cell.source.count("\nchecks."):
            assert cell.outputs[0].text.startswith("✓ "), grade_id(cell)


# Without an answer


GENERIC = {")", "try:", "exceptValueError:", "assertmath.isclose(", "importrandom"}
"""Hidden lines, without blanks, that any Python program may hold: they tell of no answer."""


def squeeze(text: str) -> str:
    """Leave out blanks, so that other indents or line ends hide nothing."""
    return "".join(text.split())


def strings(value: object) -> Iterator[str]:
    """Yield every text inside a notebook: sources, outputs, metadata and their names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def what_learners_may_read() -> dict[str, str]:
    """Return each file of the release and of the two packages, without blanks."""
    texts = {}
    for folder in ("release", "course", "autograder"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            text = path.read_text()
            if path.suffix == ".ipynb":
                text = "\n".join(strings(json.loads(text)))
            texts[str(path.relative_to(ROOT))] = squeeze(text)
    return texts


def regions(cell: NotebookNode) -> list[str]:
    return [text for _, text in REGION.findall(cell.source)]


def hidden_lines() -> Iterator[str]:
    """Yield the lines of solutions, mark scheme and hidden tests, reference report included."""
    for cell in source_notebook().cells:
        for text in regions(cell):
            yield from filter(None, map(squeeze, text.splitlines()))


def fingerprints() -> Iterator[str]:
    """Yield the starts of digests by which a guess of a hidden text could be confirmed."""
    texts = ["15.625", "250", "250.0", "no"]
    for cell in source_notebook().cells:
        if found := regions(cell):
            yield compute_checksum(cell)[:8]
            texts += [cell.source, f"{cell.cell_type}\n{cell.source}", *found]
            texts += [line.strip() for text in found for line in text.splitlines() if line.strip()]
    for text in texts:
        for variant in {text, text.strip()}:
            for digest in (hashlib.md5, hashlib.sha1, hashlib.sha256):
                yield digest(variant.encode()).hexdigest()[:8]


def found_in_public(secrets: set[str]) -> list[tuple[str, str]]:
    return [
        (name, secret)
        for name, text in what_learners_may_read().items()
        for secret in secrets
        if secret in text
    ]


def test_no_line_of_a_solution_a_mark_scheme_or_a_hidden_test_is_public() -> None:
    secrets = set(hidden_lines())

    assert squeeze("return prompt_tokens * prefill_cost") in secrets
    assert squeeze("rng = random.Random(41)") in secrets
    assert found_in_public(secrets - GENERIC) == []


def test_no_line_of_the_reference_report_is_public() -> None:
    (report,) = (cell for cell in source_notebook().cells if grade_id(cell) == "report")
    lines = {squeeze(line) for line in report.outputs[0].text.splitlines()}

    assert len(lines) == 15
    assert found_in_public(lines) == []


def test_neither_the_exact_time_nor_a_delimiter_nor_a_seed_is_public() -> None:
    delimiters = {"BEGINSOLUTION", "ENDSOLUTION", "BEGINHIDDEN", "ENDHIDDEN", "BEGINMARK"}

    assert found_in_public({"15.625", "random.Random(4", *delimiters}) == []


def test_no_digest_of_a_hidden_text_is_public_neither_as_a_cell_id_nor_elsewhere() -> None:
    assert found_in_public(set(fingerprints())) == []


# Kind to whoever has just begun


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[NotebookNode, float]:
    """The untouched lesson after Run All, and the seconds that it took in a warm kernel."""
    notebook = released_notebook()
    folder = tmp_path_factory.mktemp("first-run")
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, timeout=30)
    with client.setup_kernel():
        begin = time.perf_counter()
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
        return notebook, time.perf_counter() - begin


def outputs(notebook: NotebookNode, output_type: str) -> list[NotebookNode]:
    return [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == output_type
    ]


def test_the_untouched_lesson_runs_to_its_end_and_says_kindly_what_is_not_finished(
    first_run: tuple[NotebookNode, float],
) -> None:
    errors = outputs(first_run[0], "error")

    assert len(errors) == len(POINTS)
    for error in errors:
        assert error.ename == "Unfinished"
        assert KIND.fullmatch(" ".join(error.traceback))
        assert max(map(len, error.traceback)) <= LINE_WIDTH


def test_the_untouched_lesson_prints_short_kind_lines_and_nothing_on_stderr(
    first_run: tuple[NotebookNode, float],
) -> None:
    streams = outputs(first_run[0], "stream")

    assert [stream.text for stream in streams if stream.name == "stderr"] == []
    for stream in streams:
        if stream.text.startswith("Not finished"):
            assert KIND.fullmatch(" ".join(stream.text.split()))
        assert "Traceback" not in stream.text
        assert max(map(len, stream.text.splitlines())) < 80


def test_the_untouched_lesson_runs_within_seconds(first_run: tuple[NotebookNode, float]) -> None:
    # Five seconds are the aim, on a machine of one's own; a busy one gets twice that.
    assert first_run[1] < 10


def test_validate_shows_the_kind_messages_uncut_on_the_untouched_lesson(tmp_path: Path) -> None:
    shutil.copy(ROOT / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", tmp_path)
    printed = nbgrader(tmp_path, "validate", f"{NOTEBOOK}.ipynb")

    # The written answer is counted, too, with a message of nbgrader's.
    assert f"VALIDATION FAILED ON {len(POINTS) + 1} CELL(S)!" in printed
    assert len(KIND.findall(" ".join(printed.split()))) == len(POINTS)


def test_validate_says_success_on_a_finished_lesson(tmp_path: Path) -> None:
    notebook = released_notebook()
    fill_in(notebook, PERFECT)
    nbformat.write(notebook, tmp_path / f"{NOTEBOOK}.ipynb")

    assert "Success! Your notebook passes all the tests." in nbgrader(
        tmp_path, "validate", f"{NOTEBOOK}.ipynb"
    )


# Points


def test_the_untouched_release_scores_nothing_and_the_reference_solution_everything(
    course: Path,
) -> None:
    assert points(course, UNTOUCHED.name) == dict.fromkeys(POINTS, 0)
    assert points(course, REFERENCE_LEARNER.name) == POINTS


def test_the_lesson_is_worth_19_points_16_of_them_automatic_and_3_given_by_a_person() -> None:
    worth = {
        cell_type: sum(
            cell.metadata.nbgrader.points
            for cell in released_notebook().cells
            if cell.cell_type == cell_type and cell.metadata.get("nbgrader", {}).get("grade")
        )
        for cell_type in ("code", "markdown")
    }

    assert worth == {"code": 16, "markdown": 3}
    assert sum(POINTS.values()) == 16


def test_every_grade_cell_names_its_points_in_its_first_line() -> None:
    for cell in released_notebook().cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            worth = cell.metadata.nbgrader.points
            unit = "point" if worth == 1 else "points"
            assert cell.source.splitlines()[0].endswith(f" ({worth:g} {unit})")
            assert POINTS[cell.metadata.nbgrader.grade_id] == worth


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_chapters_reference_comes_after_the_last_cell_of_each_notebook(name: str) -> None:
    footer = nbformat.read(ROOT / "source" / "footer.ipynb", as_version=4).cells
    cells = nbformat.read(ROOT / "release" / ASSIGNMENT / f"{name}.ipynb", as_version=4).cells
    own, appended = cells[: -len(footer)], cells[-len(footer) :]

    assert [cell.source for cell in appended] == [cell.source for cell in footer]
    assert len(own) == len(source_notebook(name).cells)
