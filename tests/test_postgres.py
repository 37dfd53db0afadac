"""The gradebook in PostgreSQL: the same marks as in SQLite, with several graders at work."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from autograder.batch import grade_class
from autograder.coursedir import open_course
from autograder.feedback import write_feedback
from autograder.report import write_report
from tests import small_course
from tests.left_behind import Rows, gradebook_rows
from tests.postgres import postgres
from tests.small_course import ASSIGNMENT
from tests.stock import nbgrader

LEARNERS = 12
CLASS = {
    "ada": {},
    "bob": {"double": "def double(number):\n    return number"},
    "cleo": {"greet": "def greet(name):\n    return 1 / 0"},
    "dan": {"why": "Ünïcödé, 'quotes', NUL\\x00 and 😀"},
}


@pytest.fixture
def url() -> Iterator[str]:
    with postgres() as address:
        yield address


def use(course: Path, url: str) -> Path:
    """Have a course keep its gradebook there, in which nbgrader then wants it to have a name."""
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(
            f"\nc.CourseDirectory.db_url = {url!r}\nc.CourseDirectory.course_id = 'test'\n"
        )
    return course


def pages(course: Path, kind: str) -> dict[str, str]:
    found = (course / kind).rglob("*.html")
    return {str(page.relative_to(course)): page.read_text() for page in found}


def start_grading(course: Path, learners: Sequence[str]) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("autograder")
    chosen = (f"--learner={learner}" for learner in learners)
    return subprocess.Popen(
        [program, "grade", ASSIGNMENT, *chosen], cwd=course, stdout=subprocess.DEVNULL
    )


def in_sqlite(course: Path) -> Rows:
    """Grade the class with nbgrader's usual gradebook, and return its rows."""
    grade_class(open_course(course), ASSIGNMENT)
    return gradebook_rows(course)


def test_a_class_is_graded_told_and_reported_as_with_sqlite(url: str, tmp_path: Path) -> None:
    lite, server = tmp_path / "lite", tmp_path / "server"
    small_course.make_course(lite)
    for learner, answers in CLASS.items():
        small_course.hand_in(lite, learner, answers)
    use(shutil.copytree(lite, server, ignore=shutil.ignore_patterns("gradebook.db")), url)
    nbgrader(server, "generate_assignment", ASSIGNMENT, "--force")
    for course in (lite, server):
        grade_class(open_course(course), ASSIGNMENT)
        grade_class(open_course(course), ASSIGNMENT, force=True)
        write_feedback(open_course(course), ASSIGNMENT)
        write_report(open_course(course), ASSIGNMENT)

    assert not (server / "gradebook.db").exists()
    assert gradebook_rows(server, url) == gradebook_rows(lite)
    for kind in ("feedback", "report"):
        assert pages(server, kind) == pages(lite, kind) != {}


def test_two_graders_at_once_one_of_them_killed_lose_nothing(url: str, tmp_path: Path) -> None:
    lite = tmp_path / "lite"
    small_course.make_course(lite)
    learners = [f"learner{number}" for number in range(LEARNERS)]
    for number, learner in enumerate(learners):
        # Slow, so that the first is done long before the last.
        answer = f"import time\ndef double(n):\n    time.sleep(0.1)\n    return n + {number}"
        small_course.hand_in(lite, learner, {"double": answer})
    one, two = (use(shutil.copytree(lite, tmp_path / name), url) for name in ("one", "two"))
    nbgrader(one, "generate_assignment", ASSIGNMENT, "--force")

    # Both have all submissions, and half of the class is graded by both.
    killed = start_grading(one, learners[: 2 * LEARNERS // 3])
    lives = start_grading(two, learners[LEARNERS // 3 :])
    while not list((one / "autograded").glob("*")):
        assert killed.poll() is None
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert lives.wait() == 0
    assert start_grading(one, learners[: 2 * LEARNERS // 3]).wait() == 0

    assert gradebook_rows(one, url) == in_sqlite(lite)
