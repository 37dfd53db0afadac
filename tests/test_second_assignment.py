"""Another assignment: several notebooks, support files, partial credit, written answers, tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade, is_grade, is_solution

from autograder.coursedir import open_course
from autograder.examine import Bench, examine
from autograder.limits import Limits
from autograder.prepare import prepare
from autograder.publish import publish
from autograder.result import CellResult
from autograder.trusted import TrustedNotebook
from tests.constructs import answered, open_bench
from tests.second.assignment import ASSIGNMENT, NOTEBOOKS, make_course, support_files
from tests.second.learners import CLASS, POINTS, STOPS_NBGRADER, Learner

BY_NAME = {learner.name: learner for learner in CLASS}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseDirectory]:
    folder = tmp_path_factory.mktemp("second") / "course"
    make_course(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield open_course(folder)


@pytest.fixture(scope="module")
def sources(course: CourseDirectory) -> dict[str, TrustedNotebook]:
    folder = Path(course.root) / "source" / ASSIGNMENT
    return {name: prepare(folder / f"{name}.ipynb", course) for name in NOTEBOOKS}


def handed_in(source: TrustedNotebook, learner: Learner) -> NotebookNode:
    if learner.touched:
        return answered(source.notebook, learner.answers)
    solutions = [cell for cell in source.notebook.cells if is_solution(cell)]
    stubs = {cell.metadata.nbgrader.grade_id: cell for cell in solutions}
    return answered(source.notebook, {name: source.released[name] for name in stubs})


@pytest.fixture(scope="module")
def examined(sources: Mapping[str, TrustedNotebook]) -> dict[str, dict[str, CellResult]]:
    """Each learner's result for each cell, by name and grade id."""
    results: dict[str, dict[str, CellResult]] = {}
    with open_bench() as bench:
        for learner in CLASS:
            results[learner.name] = {
                cell.grade_id: cell
                for source in sources.values()
                for cell in examined_notebook(bench, source, learner)
            }
    return results


def examined_notebook(
    bench: Bench, source: TrustedNotebook, learner: Learner
) -> tuple[CellResult, ...]:
    hand_in = handed_in(source, learner)
    return examine(bench, source, hand_in, Limits(), {}, support_files()).cells


@pytest.fixture(scope="module")
def stock(
    sources: Mapping[str, TrustedNotebook], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, float]]:
    """Each learner's points under stock nbgrader, by name and grade id."""

    def points(learner: Learner) -> dict[str, float]:
        folder = tmp_path_factory.mktemp("stock")
        for name, content in support_files().items():
            (folder / name).write_bytes(content)
        given: dict[str, float] = {}
        for source in sources.values():
            notebook, _ = Execute().preprocess(
                nbformat.from_dict(handed_in(source, learner)), {"metadata": {"path": str(folder)}}
            )
            given |= automatic_points(notebook)
        return given

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(BY_NAME, pool.map(points, CLASS), strict=True))


def automatic_points(notebook: NotebookNode) -> dict[str, float]:
    points = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and is_grade(cell) and not is_solution(cell):
            try:
                points[cell.metadata.nbgrader.grade_id] = determine_grade(cell)[0]
            except ValueError:
                points[cell.metadata.nbgrader.grade_id] = STOPS_NBGRADER
    return points


@pytest.mark.parametrize("name", BY_NAME)
def test_stock_nbgrader_gives_what_the_class_list_says(
    name: str, stock: Mapping[str, dict[str, float]]
) -> None:
    assert stock[name] == BY_NAME[name].stock_scores


@pytest.mark.parametrize("name", BY_NAME)
def test_the_room_gives_the_same_but_for_the_documented_deviations(
    name: str, examined: Mapping[str, dict[str, CellResult]]
) -> None:
    points = {cell: result.points for cell, result in examined[name].items() if cell in POINTS}

    assert points == BY_NAME[name].scores


def test_what_a_person_marks_is_left_to_a_person(
    examined: Mapping[str, dict[str, CellResult]],
) -> None:
    manual = {"plot": 2, "fieldwork": 4, "why": 3, "bonus": 0}

    results = examined["reference"]

    assert {name: results[name].points for name in manual} == dict.fromkeys(manual)
    assert {name: results[name].max_points for name in manual} == manual


def test_a_question_worth_nothing_is_graded_all_the_same(
    examined: Mapping[str, dict[str, CellResult]],
) -> None:
    answered_it = examined["reference"]["opinion-check"]
    did_not = examined["untouched"]["opinion-check"]

    assert answered_it.points == did_not.points == 0
    assert not answered_it.error
    assert did_not.error


def test_it_can_be_released_with_all_its_files(course: CourseDirectory) -> None:
    released = publish(course, ASSIGNMENT)

    assert released.notebooks == NOTEBOOKS
    names = {path.name for path in released.folder.iterdir()}
    assert names == {"rainfall.ipynb", "words.ipynb", *support_files()}
