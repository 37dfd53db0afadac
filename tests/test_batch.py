"""Grading a class: everybody ends with a result, and what was graded is not graded again."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.autograded import NEW
from autograder.batch import LOCK_FILE, CannotGrade, Graded, grade_class
from autograder.coursedir import open_course
from autograder.gradebook import UnknownAssignment
from autograder.gradebook_cells import MarksWouldBeLost
from autograder.pool import DIED_TWICE, Pool
from autograder.preprocessors import Examine
from autograder.scores import class_scores
from autograder.submissions import read_submission
from autograder.worker import Job, make_job
from tests import small_course
from tests.left_behind import autograded_files, gradebook_rows
from tests.small_course import ASSIGNMENT, NOTEBOOK

FILE = f"{NOTEBOOK}.ipynb"


@pytest.fixture(scope="module")
def ungraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with two good submissions and a broken one."""
    course = tmp_path_factory.mktemp("ungraded") / "course"
    small_course.make_course(course)
    small_course.hand_in(course, "ada")
    small_course.hand_in(course, "bob", {"double": "def double(n):\n    return n"})
    small_course.hand_in(course, "eve")
    submitted(course, "eve").write_bytes(b"{")
    return course


@pytest.fixture(scope="module")
def graded_once(ungraded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, after everybody was graded."""
    course = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(ungraded, course)
    graded(course)
    return course


@pytest.fixture
def folder(ungraded: Path, tmp_path: Path) -> Path:
    """A copy of the ungraded course."""
    return shutil.copytree(ungraded, tmp_path / "course")


@pytest.fixture
def marked_folder(graded_once: Path, tmp_path: Path) -> Path:
    """A copy of the graded course."""
    return shutil.copytree(graded_once, tmp_path / "course")


def submitted(course: Path, learner: str) -> Path:
    return course / "submitted" / learner / ASSIGNMENT / FILE


def graded(course: Path, *learners: str, **options: Any) -> dict[str, Graded]:
    results = grade_class(open_course(course), ASSIGNMENT, learners, jobs=1, **options)
    return {result.learner: result for result in results}


def statuses(results: dict[str, Graded]) -> dict[str, str]:
    return {learner: result.status for learner, result in results.items()}


def points(course: Path, learner: str) -> dict[str, float | None]:
    rows = gradebook_rows(course)["grade"]
    return {row[3]: row[4] for row in rows if row[1] == learner}


def test_a_broken_file_gets_a_reason_and_the_others_their_points(folder: Path) -> None:
    results = graded(folder)

    assert statuses(results) == {"ada": "graded", "bob": "graded", "eve": "failed"}
    assert "not valid JSON" in results["eve"].notes[0]
    assert points(folder, "ada") == {"double-test": 2, "greet-test": 1, "why": None}
    assert points(folder, "bob") == {"double-test": 0, "greet-test": 1, "why": None}
    assert not (folder / "autograded" / "eve" / ASSIGNMENT).exists()


def test_only_what_has_changed_is_graded_again(marked_folder: Path) -> None:
    again = graded(marked_folder)
    submitted(marked_folder, "eve").write_bytes(submitted(marked_folder, "ada").read_bytes())
    mended = graded(marked_folder)

    assert statuses(again) == {"ada": "unchanged", "bob": "unchanged", "eve": "failed"}
    assert statuses(mended) == {"ada": "unchanged", "bob": "unchanged", "eve": "graded"}
    assert points(marked_folder, "eve") == points(marked_folder, "ada")


def test_the_progress_counts_only_what_has_to_be_graded(marked_folder: Path) -> None:
    submitted(marked_folder, "eve").write_bytes(submitted(marked_folder, "ada").read_bytes())
    told: list[tuple[int, int]] = []
    graded(marked_folder, on_progress=lambda done, of: told.append((done, of)))

    assert told[0] == (0, 3)
    assert told[-1] == (1, 1)


def test_grading_twice_gives_the_same(marked_folder: Path) -> None:
    first = gradebook_rows(marked_folder), autograded_files(marked_folder)
    assert statuses(graded(marked_folder, force=True))["ada"] == "graded"

    assert (gradebook_rows(marked_folder), autograded_files(marked_folder)) == first


def test_a_broken_file_handed_in_later_takes_the_score_away(marked_folder: Path) -> None:
    submitted(marked_folder, "ada").write_bytes(b"")

    assert graded(marked_folder, "ada")["ada"].notes == (f"{FILE}: it is empty",)
    assert set(points(marked_folder, "ada").values()) == {None}
    assert not (marked_folder / "autograded" / "ada" / ASSIGNMENT).exists()


def test_a_grader_that_fails_takes_no_score_away_and_tries_again_what_has_changed(
    marked_folder: Path,
) -> None:
    submitted(marked_folder, "bob").write_bytes(submitted(marked_folder, "ada").read_bytes())
    before = gradebook_rows(marked_folder), autograded_files(marked_folder)
    config = marked_folder / "nbgrader_config.py"
    sound = config.read_text()
    config.write_text(f"{sound}\nc.Examine.preload = ['absent']\n")
    failed = graded(marked_folder, "ada", "bob")
    left = gradebook_rows(marked_folder), autograded_files(marked_folder)
    config.write_text(sound)
    again = graded(marked_folder, "ada", "bob")

    assert statuses(failed) == {"ada": "failed", "bob": "failed"}
    assert "No module named 'absent'" in failed["ada"].notes[0]
    assert left == before
    assert statuses(again) == {"ada": "unchanged", "bob": "graded"}
    assert points(marked_folder, "bob") == points(marked_folder, "ada")


def test_marks_and_comments_by_hand_stay_when_a_submission_is_graded_again(
    marked_folder: Path,
) -> None:
    with Gradebook(f"sqlite:///{marked_folder / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("why", NOTEBOOK, ASSIGNMENT, "ada").manual_score = 2.5
        gradebook.find_grade("double-test", NOTEBOOK, ASSIGNMENT, "ada").manual_score = 1.0
        gradebook.find_comment("why", NOTEBOOK, ASSIGNMENT, "ada").manual_comment = "Well said."
        gradebook.db.commit()
    graded(marked_folder, force=True)

    rows = gradebook_rows(marked_folder)
    by_hand = {row[3]: (row[4], row[5], row[7]) for row in rows["grade"] if row[1] == "ada"}
    assert by_hand["why"] == (None, 2.5, True)
    assert by_hand["double-test"] == (2, 1.0, True)
    assert by_hand["greet-test"] == (1, None, False)
    assert any(row[1] == "ada" and row[-1] == "Well said." for row in rows["comment"])


def test_an_untouched_answer_scores_zero_and_says_so(folder: Path) -> None:
    stub = small_course.cell(small_course.released(folder), "why").source
    small_course.hand_in(folder, "idle", {"why": stub})
    graded(folder, "idle")

    assert points(folder, "idle")["why"] == 0
    comments = gradebook_rows(folder)["comment"]
    assert [row[4] for row in comments if row[1] == "idle" and row[3] == "why"] == ["No response."]


def test_a_changed_source_is_what_everybody_is_graded_by(marked_folder: Path) -> None:
    edit_source(marked_folder, "double-test", points=5)

    assert statuses(graded(marked_folder))["ada"] == "graded"
    assert points(marked_folder, "ada")["double-test"] == 5


def test_a_question_that_was_marked_by_hand_is_not_dropped_from_the_gradebook(
    marked_folder: Path,
) -> None:
    with Gradebook(f"sqlite:///{marked_folder / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("why", NOTEBOOK, ASSIGNMENT, "ada").manual_score = 1
        gradebook.db.commit()
    before = gradebook_rows(marked_folder)
    edit_source(marked_folder, "why", grade_id="why-not")

    with pytest.raises(MarksWouldBeLost, match="'why'"):
        graded(marked_folder)
    assert gradebook_rows(marked_folder) == before


def test_scores_are_told_though_the_source_has_been_renamed_or_broken_since(
    marked_folder: Path,
) -> None:
    course = open_course(marked_folder)
    edit_source(marked_folder, "double-test", grade_id="twice-test")
    renamed = class_scores(course, ASSIGNMENT)
    (marked_folder / "source" / ASSIGNMENT / FILE).write_text("{")
    broken = class_scores(course, ASSIGNMENT)

    assert [q.grade_id for q in renamed.questions] == ["greet-test", "why", "double-test"]
    assert broken.learners == renamed.learners
    assert [row.total for row in broken.learners] == [3, 1, None]


def edit_source(course: Path, name: str, **settings: Any) -> None:
    path = course / "source" / ASSIGNMENT / FILE
    notebook = nbformat.read(path, as_version=4)
    small_course.cell(notebook, name).metadata.nbgrader.update(settings)
    nbformat.write(notebook, path)


def test_files_beside_the_notebook_come_along_and_links_do_not(folder: Path) -> None:
    beside = submitted(folder, "ada").parent
    (beside / "data").mkdir()
    (beside / "data" / "größe.csv").write_text("1,2\n")
    (beside / "timestamp.txt").write_text("2026-11-20 10:00:00.000000 UTC")
    (beside / "passwd").symlink_to("/etc/passwd")
    (beside / "etc").symlink_to("/etc")
    os.mkfifo(beside / "pipe")
    result = graded(folder, "ada")["ada"]

    names = {name.removeprefix(f"ada/{ASSIGNMENT}/") for name in autograded_files(folder)}
    assert names == {FILE, "data/größe.csv", "timestamp.txt"}
    assert all(name in result.notes[0] for name in ("passwd", "etc", "pipe"))
    assert {mode for mode, _ in autograded_files(folder).values()} == {0o444}


def test_a_link_in_place_of_the_notebook_is_refused(folder: Path) -> None:
    submitted(folder, "eve").unlink()
    submitted(folder, "eve").symlink_to(submitted(folder, "ada"))

    assert "a link" in graded(folder, "eve")["eve"].notes[0]


def test_a_renamed_notebook_is_graded_and_noted(folder: Path) -> None:
    submitted(folder, "ada").rename(submitted(folder, "ada").with_name("numbers (1).ipynb"))
    result = graded(folder, "ada")["ada"]

    assert result.notes == (f"handed in as 'numbers (1).ipynb' instead of {FILE}",)
    assert points(folder, "ada")["double-test"] == 2
    notebook = json.loads((folder / "autograded" / "ada" / ASSIGNMENT / FILE).read_bytes())
    assert notebook["metadata"]["autograder"]["notes"] == list(result.notes)


def test_a_second_grader_is_told_who_is_at_work(folder: Path) -> None:
    def grade_too(done: int, total: int) -> None:
        with pytest.raises(CannotGrade, match=f"process {os.getpid()}"):
            graded(folder)

    results = graded(folder, on_progress=grade_too)
    assert statuses(results)["ada"] == "graded"
    assert (folder / LOCK_FILE).read_bytes() == b""


def test_a_course_that_cannot_be_written_to_is_named(folder: Path) -> None:
    (folder / LOCK_FILE).mkdir()

    with pytest.raises(CannotGrade, match=f"{folder / LOCK_FILE} cannot be written"):
        graded(folder)


def test_a_submission_whose_folder_is_gone_is_said_to_be_unreadable(folder: Path) -> None:
    shutil.rmtree(submitted(folder, "ada").parent)
    submission = read_submission(open_course(folder), "ada", ASSIGNMENT, {})

    assert "cannot be read: [Errno 2]" in submission.failure


def test_what_a_killed_grader_left_aside_is_removed(folder: Path) -> None:
    left = folder / "autograded" / "ada" / f".{ASSIGNMENT}{NEW}"
    left.mkdir(parents=True)
    (left / FILE).write_text("half a noteb")
    graded(folder, "bob")

    assert not left.exists()


@pytest.mark.parametrize(
    ("assignment", "learners", "reason"),
    [
        (ASSIGNMENT, ("nobody",), "by nobody"),
        ("sports", (), "no assignment 'sports'"),
    ],
)
def test_what_is_not_there_cannot_be_graded(
    folder: Path, assignment: str, learners: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(CannotGrade, match=reason):
        grade_class(open_course(folder), assignment, learners)


def test_an_assignment_that_was_not_released_cannot_be_graded(folder: Path) -> None:
    (folder / "gradebook.db").unlink()

    with pytest.raises(UnknownAssignment, match=f"autograder release {ASSIGNMENT}"):
        graded(folder)


class Deadly:
    """Ends the process that unpacks it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_job_that_kills_its_worker_fails_alone(folder: Path) -> None:
    course = open_course(folder)
    exam = Examine(parent=course.parent).exam(course, ASSIGNMENT)
    good = [
        make_job(exam, read_submission(course, learner, ASSIGNMENT, exam.notebooks))
        for learner in ("ada", "bob")
    ]
    deadly = Job("mallory", pickle.dumps(Deadly()), "deadly", exam.wall, {}, {}, "", ())

    def jobs() -> Iterator[Job]:
        yield from (good[0], deadly, good[1])

    with Pool(2) as pool:
        failures = {job.learner: outcome.failure for job, outcome in pool.outcomes(jobs())}
    assert failures == {"ada": "", "bob": "", "mallory": DIED_TWICE}
