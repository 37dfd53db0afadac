"""`autograder release`: what it refuses, what it notes and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory

from autograder.coursedir import open_course
from autograder.lint import Finding
from autograder.prepare import BadSource
from autograder.publish import Released, ReleaseFailed, ReleaseRefused, publish
from tests.constructs import check, locked, notebook_of, solution

GOOD = (
    locked("imports", "import math"),
    solution("area", "def area(r):\n    return math.pi * r * r"),
    check(
        "area-check",
        """
        assert area(0) == 0
        ### BEGIN HIDDEN TESTS
        assert math.isclose(area(2), 12.566370614359172)
        ### END HIDDEN TESTS
        """,
    ),
    solution("large", "def large(r):\n    return area(r) > 100"),
    check("large-check", "assert large(10) is True"),
)
BAD = (
    solution("double", "def double(x):\n    return x + x + 1"),
    check("double-check", "assert callable(double)\nassert double(2) == 4"),
    solution("nothing", "nothing = None"),
    check("nothing-check", "pass", points=2),
    solution("half", "from decimal import Decimal\ndef half(x):\n    return Decimal(x) / 2"),
    check("half-check", "assert half(2) == 1"),
    solution("loud", "import sys\ndef loud():\n    print('!', file=sys.stderr)\n    return 1"),
    check("loud-check", "assert loud() == 1"),
    solution("gain", "gain = 3"),
    check("gain-check", "gain"),
    solution("same", "def same(x):\n    return [*x]"),
    check("same-check", "given = [1]\nassert same(given) is not given"),
)


HALF = 5


def add(
    folder: Path, assignment: str, cells: Sequence[NotebookNode], kernel: str = "python3"
) -> None:
    source = folder / "source" / assignment
    source.mkdir(parents=True)
    notebook = notebook_of(cells)
    notebook.metadata.kernelspec.name = kernel
    nbformat.write(notebook, source / "exercises.ipynb")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseDirectory]:
    folder = tmp_path_factory.mktemp("publish") / "course"
    add(folder, "good", GOOD)
    BAD[HALF].source = "\n\n# Blank lines count.\nassert half(2) == 1"
    add(folder, "bad", BAD)
    (folder / "source" / "empty").mkdir()
    (folder / "nbgrader_config.py").write_text("c = get_config()\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield open_course(folder)


@pytest.fixture(scope="module")
def released(course: CourseDirectory) -> Released:
    return publish(course, "good")


@pytest.fixture(scope="module")
def refusal(course: CourseDirectory) -> ReleaseRefused:
    with pytest.raises(ReleaseRefused) as refused:
        publish(course, "bad")
    return refused.value


def the_finding(refusal: ReleaseRefused, cell: str) -> Finding:
    (found,) = (finding for finding in refusal.findings if finding.cell == cell)
    return found


def test_a_good_source_is_released_without_solutions_and_hidden_tests(released: Released) -> None:
    (path,) = released.folder.iterdir()

    text = path.read_text()

    assert path.name == "exercises.ipynb"
    assert "assert area(0) == 0" in text
    assert "math.pi" not in text
    assert "12.566" not in text


def test_the_gradebook_knows_what_was_released(course: CourseDirectory, released: Released) -> None:
    with Gradebook(course.db_url) as gradebook:
        (notebook,) = gradebook.find_assignment("good").notebooks
        assert {cell.name: cell.max_score for cell in notebook.grade_cells} == {
            "area-check": 1,
            "large-check": 1,
        }


def test_what_may_surprise_is_noted_and_does_not_stop_a_release(released: Released) -> None:
    (note,) = released.notes

    assert not note.refuses
    assert note.cell == "large-check"
    assert "numpy.bool_" in str(note)


def test_a_refused_source_leaves_no_release(
    course: CourseDirectory, refusal: ReleaseRefused
) -> None:
    assert not (Path(course.root) / "release" / "bad").exists()


def test_a_solution_without_full_marks_is_refused(refusal: ReleaseRefused) -> None:
    finding = the_finding(refusal, "double-check")

    assert finding.line == 2
    assert "the source's own solution gets 0 of 1 points (AssertionError)" in finding.problem


def test_points_for_an_untouched_notebook_are_refused(refusal: ReleaseRefused) -> None:
    finding = the_finding(refusal, "nothing-check")

    assert finding.problem == "a notebook that nobody has touched gets 2 points."


def test_a_value_that_cannot_travel_is_refused_where_it_is_used(refusal: ReleaseRefused) -> None:
    finding = the_finding(refusal, "half-check")

    assert finding.line == 4
    assert "Decimal, which tests cannot use" in finding.problem
    assert "plain values" in finding.mend


def test_a_solution_that_stock_nbgrader_marks_down_for_stderr_is_refused(
    refusal: ReleaseRefused,
) -> None:
    finding = the_finding(refusal, "loud-check")

    assert "stock nbgrader gives the solution 0 of 1 points (text on stderr" in finding.problem
    assert "silence" in finding.mend


def test_more_partial_credit_than_the_cell_has_points_is_refused(refusal: ReleaseRefused) -> None:
    finding = the_finding(refusal, "gain-check")

    assert finding.problem == "the solution gets more than the cell's 1 points."


def test_what_the_text_explains_is_not_told_twice(refusal: ReleaseRefused) -> None:
    assert "compares identity" in the_finding(refusal, "same-check").problem


def test_a_refusal_says_notebook_cell_line_problem_and_mend(refusal: ReleaseRefused) -> None:
    said = str(the_finding(refusal, "same-check"))

    assert said == (
        "notebook exercises, cell same-check, line 2: `same(given) is not given` compares "
        "identity; a value is copied on its way. Write `same(given) == expected`, and test that "
        "what was passed is unchanged."
    )
    assert said in str(refusal)


def test_a_notebook_whose_kernel_is_not_installed_is_named(course: CourseDirectory) -> None:
    add(Path(course.root), "foreign", GOOD, kernel="julia-1.9")

    with pytest.raises(ReleaseFailed, match=r"exercises\.ipynb .* kernel 'julia-1.9'"):
        publish(course, "foreign")


def test_an_assignment_without_a_notebook_is_refused(course: CourseDirectory) -> None:
    with pytest.raises(BadSource, match=r"source/empty: there is no notebook"):
        publish(course, "empty")
