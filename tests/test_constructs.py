"""What becomes of the tests that instructors write, in the examination room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.coursedir import CourseDirectory

from autograder.coursedir import open_course
from autograder.examine import Bench, examine
from autograder.limits import Limits
from autograder.lint import Finding
from autograder.prepare import prepare
from autograder.publish import ReleaseRefused, publish, rehearse
from tests.constructs import (
    REFUSED,
    SAME,
    Construct,
    Refusal,
    answered,
    notebook_of,
    open_bench,
    stock_points,
)

NAMES_OF_SAME = [construct.name for construct in SAME]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseDirectory]:
    """A course with one assignment of all constructs that work, and one of all that do not."""
    folder = tmp_path_factory.mktemp("constructs")
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    cells = {
        "same": [cell for construct in SAME for cell in construct.cells],
        "refused": [cell for refusal in REFUSED for cell in refusal.cells],
    }
    for assignment in cells:
        source = folder / "source" / assignment
        source.mkdir(parents=True)
        nbformat.write(notebook_of(cells[assignment]), source / "all.ipynb")
    for number, construct in enumerate(SAME):
        nbformat.write(notebook_of(construct.cells), folder / f"{number}.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield open_course(folder)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with open_bench() as bench:
        yield bench


@pytest.fixture(scope="module")
def stock(course: CourseDirectory, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The wrong learners' points under stock nbgrader, by grade id."""
    cells = [cell for construct in SAME for cell in construct.cells]
    wrong = {name: answer for construct in SAME for name, answer in construct.wrong.items()}
    return stock_points(answered(notebook_of(cells), wrong), tmp_path_factory.mktemp("stock"))


@pytest.fixture(scope="module")
def refusals(course: CourseDirectory) -> list[Finding]:
    with pytest.raises(ReleaseRefused) as refused:
        publish(course, "refused")
    return list(refused.value.findings)


def points(
    bench: Bench, course: CourseDirectory, construct: Construct, hand_in: NotebookNode
) -> dict[str, float | None]:
    path = Path(course.root) / f"{SAME.index(construct)}.ipynb"
    result = examine(bench, prepare(path, course), hand_in, Limits(), {}, {})
    return {cell.grade_id: cell.points for cell in result.cells}


def checks_of(construct: Construct) -> list[str]:
    marked = [cell.metadata.nbgrader for cell in construct.cells]
    return [cell["grade_id"] for cell in marked if cell["grade"]]


@pytest.mark.parametrize("construct", SAME, ids=NAMES_OF_SAME)
def test_a_right_learner_gets_full_marks_for(
    construct: Construct, bench: Bench, course: CourseDirectory
) -> None:
    got = points(bench, course, construct, notebook_of(construct.cells))

    assert got == dict.fromkeys(checks_of(construct), 1)


@pytest.mark.parametrize("construct", SAME, ids=NAMES_OF_SAME)
def test_a_wrong_learner_gets_what_stock_nbgrader_gives_for(
    construct: Construct, bench: Bench, course: CourseDirectory, stock: dict[str, float]
) -> None:
    hand_in = answered(notebook_of(construct.cells), construct.wrong)

    got = points(bench, course, construct, hand_in)

    assert got == {name: stock[name] for name in checks_of(construct)}
    assert {name for name, given in got.items() if given == 0} == construct.loses


def test_a_release_finds_nothing_wrong_with_constructs_that_work(course: CourseDirectory) -> None:
    assert rehearse(course, "same") == []


@pytest.mark.parametrize("refusal", REFUSED, ids=[refusal.name for refusal in REFUSED])
def test_a_release_names_line_construct_and_mend_of(
    refusal: Refusal, refusals: list[Finding]
) -> None:
    found = [finding for finding in refusals if finding.cell == refusal.cell]

    assert found, f"nothing is said of {refusal.cell}"
    fitting = [finding for finding in found if refusal.says in finding.problem]
    assert fitting, "\n".join(map(str, found))
    assert fitting[0].line == refusal.line
    assert refusal.mend in fitting[0].mend
    assert fitting[0].refuses is refusal.refuses


def test_only_tests_that_do_not_work_are_refused(refusals: list[Finding]) -> None:
    refused = {finding.cell for finding in refusals if finding.refuses}

    assert refused - {"late-check"} == {refusal.cell for refusal in REFUSED if refusal.refuses}
