"""The instructor's report: what a class did, and who needs a look, on one page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.coursedir import open_course
from autograder.gradebook import UnknownAssignment
from autograder.report import write_report
from tests import small_course
from tests.small_course import ASSIGNMENT, NOTEBOOK, cell
from tests.test_feedback import Reader

HOSTILE = "<script>alert(1)</script>"
ZERO = {"double": "def double(n):\n    return 2 if n == 1 else n", "greet": "def greet(n):\n    1"}
HALF = {"greet": f"def greet(n):\n    raise ValueError('{HOSTILE} ' + str(len(n)))"}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A graded course: two did all, one half, two nothing; one file is no notebook."""
    folder = tmp_path_factory.mktemp("report") / "course"
    small_course.make_course(folder)
    for learner, answers in {
        "all": {},
        "all-too": {},
        "half": HALF,
        "zero": ZERO,
        "zero-too": ZERO,
    }.items():
        small_course.hand_in(folder, learner, answers)
    small_course.hand_in(
        folder, "a <b>bold<b> name", edit=lambda nb: nb.cells.remove(cell(nb, "double-test"))
    )
    small_course.hand_in(folder, "torn")
    (folder / "submitted" / "torn" / ASSIGNMENT / f"{NOTEBOOK}.ipynb").write_text("{")
    with chdir(folder):
        small_course.grade(folder)
        yield folder


def report(course: Path) -> Reader:
    """Write the report and read it."""
    return Reader(write_report(open_course(course), ASSIGNMENT).read_text())


def test_it_lies_in_a_folder_that_nbgrader_never_hands_out(course: Path) -> None:
    assert write_report(open_course(course), ASSIGNMENT) == course / "report" / f"{ASSIGNMENT}.html"


def test_it_says_how_the_class_did(course: Path) -> None:
    text = report(course).text

    assert "6 of 7 learners graded, 6 points to be had. Mean 1.8, median 2.5" in text
    assert "In 6 of them written answers still wait for a person" in text


def test_each_question_has_its_difficulty_and_discrimination(course: Path) -> None:
    text = report(course).text

    assert "double-test 2 6 0.67 0.71" in text
    assert "greet-test 1 6 0.50 0.71" in text
    assert "why 3 0 6 – –" in text


def test_slips_are_counted_by_the_authors_words_or_the_error(course: Path) -> None:
    text = report(course).text

    assert "double-test 2 double(…) should be twice as much." in text
    assert f"1 ValueError: {HOSTILE} 6" in text


def test_submissions_that_need_a_look_are_named_with_the_reason(course: Path) -> None:
    text = report(course).text

    assert "torn numbers.ipynb: it is not valid JSON" in text
    assert "double-test: the test cell had been deleted" in text


def test_what_learners_wrote_is_text_on_the_page_and_nothing_is_loaded(course: Path) -> None:
    reader = report(course)
    tags = {tag for tag, _ in reader.elements}

    assert "a <b>bold<b> name" in reader.text
    assert not tags & {"script", "b", "link", "iframe", "img"}
    assert [link for link in reader.values("href") if not link.startswith("#")] == []
    assert list(reader.values("src")) == []


def test_the_plots_are_drawings_with_a_description_and_real_text(course: Path) -> None:
    reader = report(course)
    drawings = [attributes for tag, attributes in reader.elements if tag == "svg"]

    assert len(drawings) == 2
    assert all(d["role"] == "img" and d["aria-label"] for d in drawings)
    assert "mean share of the points" in reader.text


def test_a_sandbox_that_was_left_out_stands_on_the_page(course: Path) -> None:
    assert "No sandbox" not in report(course).text
    path = course / "autograded" / "all" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    walled = notebook.metadata.autograder.wall
    path.chmod(0o644)
    try:
        notebook.metadata.autograder.wall = "none"
        nbformat.write(notebook, path)
        assert "No sandbox: 1 submission was graded as trusted code" in report(course).text
    finally:
        notebook.metadata.autograder.wall = walled
        nbformat.write(notebook, path)


def test_the_same_class_gives_the_same_bytes(course: Path) -> None:
    path = write_report(open_course(course), ASSIGNMENT)
    first = path.read_bytes()

    assert write_report(open_course(course), ASSIGNMENT).read_bytes() == first


def test_before_anything_is_graded_it_says_so(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("later")
    path = write_report(open_course(course), "later")

    assert "Nothing has been graded yet." in Reader(path.read_text()).text


def test_an_unknown_assignment_is_refused(course: Path) -> None:
    with pytest.raises(UnknownAssignment):
        write_report(open_course(course), "homwork")


def test_a_large_class_makes_no_huge_page(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("huge")
        for number in range(1000):
            gradebook.add_student(f"s{number}")
    path = write_report(open_course(course), "huge")

    assert "And 707 more" in Reader(path.read_text()).text
    assert path.stat().st_size < 500_000
