"""The trusted notebook is what nbgrader's own generate_assignment would make of the source."""

import dataclasses
import pickle
import time
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import compute_checksum, determine_grade, is_solution

from autograder.coursedir import open_course
from autograder.prepare import BadSource, prepare
from autograder.trusted import TrustedNotebook
from tests.sample_class import ASSIGNMENT, NOTEBOOK
from tests.stock import make_course, nbgrader


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> CourseDirectory:
    folder = tmp_path_factory.mktemp("trusted") / "course"
    make_course(folder)
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    return open_course(folder)


@pytest.fixture(scope="module")
def trusted(course: CourseDirectory) -> TrustedNotebook:
    return prepare(source_path(course), course)


def source_path(course: CourseDirectory) -> Path:
    return Path(course.root) / "source" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"


def released_by_nbgrader(course: CourseDirectory) -> NotebookNode:
    return nbformat.read(
        Path(course.root) / "release" / ASSIGNMENT / f"{NOTEBOOK}.ipynb", as_version=4
    )


def test_cells_and_released_texts_are_nbgraders(
    course: CourseDirectory, trusted: TrustedNotebook
) -> None:
    released = released_by_nbgrader(course)
    assert list(trusted.released_texts) == [cell.source for cell in released.cells]
    assert [cell.id for cell in trusted.notebook.cells] == [cell.id for cell in released.cells]


def test_metadata_is_nbgraders_but_for_the_checksums(
    course: CourseDirectory, trusted: TrustedNotebook
) -> None:
    theirs = released_by_nbgrader(course).cells
    for cell, released in zip(trusted.notebook.cells, theirs, strict=True):
        expected = nbformat.from_dict(released.metadata)
        if "nbgrader" in expected:
            expected.nbgrader.checksum = cell.metadata.nbgrader.checksum
        assert cell.metadata == expected


def test_checksums_and_points_are_the_gradebooks(
    course: CourseDirectory, trusted: TrustedNotebook
) -> None:
    with Gradebook(course.db_url) as gradebook:
        notebook = gradebook.find_notebook(NOTEBOOK, ASSIGNMENT)
        checksums = {cell.name: cell.checksum for cell in notebook.source_cells}
        points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    cells = {name: trusted.notebook.cells[place] for name, place in trusted.places.items()}
    assert {name: cell.metadata.nbgrader.checksum for name, cell in cells.items()} == checksums
    assert {
        name: cell.metadata.nbgrader.points
        for name, cell in cells.items()
        if cell.metadata.nbgrader.grade
    } == points


def test_an_untouched_written_answer_is_told_as_nbgrader_tells_it(
    trusted: TrustedNotebook,
) -> None:
    cell = nbformat.from_dict(trusted.notebook.cells[trusted.places["when-to-split"]])
    cell.source = trusted.released["when-to-split"]
    assert determine_grade(cell) == (0, 3)
    cell.source = "It depends."
    assert determine_grade(cell) == (None, 3)


def test_locked_cells_keep_the_hidden_tests(trusted: TrustedNotebook) -> None:
    cell = trusted.notebook.cells[trusted.places["ttft-sum"]]
    assert "BEGIN HIDDEN TESTS" in cell.source
    assert "HIDDEN" not in trusted.released["ttft-sum"]
    assert compute_checksum(cell) == cell.metadata.nbgrader.checksum


def test_only_regression_cells_keep_their_outputs(trusted: TrustedNotebook) -> None:
    with_outputs = [cell.id for cell in trusted.notebook.cells if cell.get("outputs")]
    assert with_outputs == ["report"]
    assert all(
        cell.execution_count
        for cell in trusted.notebook.cells
        if is_solution(cell) and cell.cell_type == "code"
    )


def test_it_travels_small_and_fast(trusted: TrustedNotebook) -> None:
    data = pickle.dumps(trusted)
    assert len(data) < 100_000
    start = time.process_time()
    assert pickle.loads(data) == trusted
    assert time.process_time() - start < 0.05


def test_the_digest_is_stable_and_tells_what_can_change_a_score(
    course: CourseDirectory, trusted: TrustedNotebook
) -> None:
    again = prepare(source_path(course), course)
    assert again.digest == pickle.loads(pickle.dumps(trusted)).digest == trusted.digest
    other_points = nbformat.from_dict(trusted.notebook)
    other_points.cells[trusted.places["ttft-sum"]].metadata.nbgrader.points = 3
    assert dataclasses.replace(trusted, notebook=other_points).digest != trusted.digest


def test_the_working_directory_does_not_matter(
    course: CourseDirectory, trusted: TrustedNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert prepare(source_path(course), course) == trusted


def test_an_old_schema_of_nbgraders_is_upgraded(course: CourseDirectory, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert True")])
    notebook.cells[0].metadata.nbgrader = {
        "grade": True,
        "grade_id": "old",
        "locked": True,
        "points": 1,
        "schema_version": 1,
        "solution": False,
    }
    nbformat.write(notebook, tmp_path / "old.ipynb")
    trusted = prepare(tmp_path / "old.ipynb", course)
    assert trusted.notebook.cells[trusted.places["old"]].metadata.nbgrader.schema_version == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"grade_id": "setup"}, "Duplicate grade id: setup"),
        ({"points": -1}, r"cell \d+ \(ttft-sum\): -1 is less than"),
        ({"points": "two"}, "'two' is not of type 'number'"),
        ({"grade_id": ""}, "grade_id is empty"),
        ({"schema_version": 99}, "version is too new"),
    ],
)
def test_a_source_that_nbgrader_would_not_release_is_refused(
    change: dict[str, object], reason: str, course: CourseDirectory, tmp_path: Path
) -> None:
    notebook = nbformat.read(source_path(course), as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == "ttft-sum")
    cell.metadata.nbgrader |= change
    nbformat.write(notebook, tmp_path / "bad.ipynb")
    with pytest.raises(BadSource, match=reason):
        prepare(tmp_path / "bad.ipynb", course)


def test_a_region_that_is_not_closed_is_refused(course: CourseDirectory, tmp_path: Path) -> None:
    notebook = nbformat.read(source_path(course), as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == "ttft-sum")
    cell.source += "\n### BEGIN HIDDEN TESTS"
    nbformat.write(notebook, tmp_path / "bad.ipynb")
    with pytest.raises(BadSource, match="hidden tests"):
        prepare(tmp_path / "bad.ipynb", course)


def test_a_missing_source_is_refused(course: CourseDirectory, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="missing"):
        prepare(tmp_path / "none.ipynb", course)
