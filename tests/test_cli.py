"""The ``autograder`` command: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.cli import NEEDS_A_LOOK, STOPPED, USAGE_ERROR
from tests import small_course
from tests.small_course import ASSIGNMENT, NOTEBOOK

PROGRAM = Path(sys.executable).with_name("autograder")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course where two learners have handed something in, one of them a broken file."""
    folder = tmp_path_factory.mktemp("cli") / "course"
    small_course.make_course(folder)
    small_course.hand_in(folder, "ada")
    small_course.hand_in(folder, "eve")
    (folder / "submitted" / "eve" / ASSIGNMENT / f"{NOTEBOOK}.ipynb").write_text("{")
    return folder


def autograder(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        cwd=course,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
    )


def test_an_assignments_way_from_grades_to_feedback_and_report(
    course: Path, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    ended = autograder(course, "grade", ASSIGNMENT, "--result", str(result))
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines() if line.strip()}

    assert ended.returncode == NEEDS_A_LOOK
    assert rows["ada"] == ["2", "1", "?", "3"]
    assert f"{NOTEBOOK}.ipynb: it is not valid JSON" in ended.stdout

    ada, eve = json.loads(result.read_bytes())["learners"]
    assert ada == {
        "learner": "ada",
        "status": "graded",
        "total": 3.0,
        "points": {NOTEBOOK: {"double-test": 2.0, "greet-test": 1.0, "why": None}},
        "notes": [],
    }
    assert (eve["status"], eve["total"]) == ("failed", None)
    assert "not valid JSON" in eve["notes"][0]

    assert autograder(course, "grade", ASSIGNMENT, "--learner", "ada").returncode == 0
    assert autograder(course, "scores", ASSIGNMENT).stdout == ended.stdout
    assert autograder(course, "feedback", ASSIGNMENT).returncode == 0
    assert (course / "feedback" / "ada" / ASSIGNMENT / f"{NOTEBOOK}.html").is_file()
    report = autograder(course, "report", ASSIGNMENT)
    assert Path(report.stdout.strip()).is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("grade", "sports"), "no assignment 'sports'"),
        (("grade", ASSIGNMENT, "--learner", "nobody"), "by nobody"),
        (("scores", "sports"), "autograder release sports"),
        (("report", "sports"), "autograder release sports"),
        (("grade", ASSIGNMENT, "--course", "submitted"), "has no nbgrader_config.py"),
        (("grade", ASSIGNMENT, "--result", "nowhere/result.json"), "nowhere is no folder"),
        (("grade", ASSIGNMENT, "--result", "submitted"), "is a directory"),
        (("feedback", ASSIGNMENT, "--learner", "nobody"), "by nobody"),
        (("grade",), "Missing argument"),
    ],
)
def test_what_cannot_work_says_why_and_ends_with_status_2(
    course: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = autograder(course, *arguments)

    assert ended.returncode == USAGE_ERROR
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["release", "grade", "scores", "feedback", "report"])
def test_a_gradebook_out_of_reach_ends_every_command_with_status_2(
    course: Path, tmp_path: Path, command: str
) -> None:
    away = shutil.copytree(course, tmp_path / "course")
    with (away / "nbgrader_config.py").open("a") as config:
        config.write("\nc.CourseDirectory.db_url = 'postgresql+psycopg://ada:hush@[::1]:1/db'\n")
    ended = autograder(away, command, ASSIGNMENT)

    assert ended.returncode == USAGE_ERROR
    assert "postgresql+psycopg://ada:***@[::1]:1/db" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("setting", ["CourseDirectory.course_id = 5", "Examine.call_seconds = '5'"])
def test_a_wrong_setting_is_named(course: Path, tmp_path: Path, setting: str) -> None:
    wrong = shutil.copytree(course, tmp_path / "course")
    with (wrong / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.{setting}\n")
    ended = autograder(wrong, "grade", ASSIGNMENT)

    assert ended.returncode == USAGE_ERROR
    assert setting.split()[0].split(".")[1] in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_run_that_is_stopped_says_what_it_leaves(course: Path) -> None:
    program = subprocess.Popen(
        [PROGRAM, "release", ASSIGNMENT], cwd=course, stderr=subprocess.PIPE, text=True
    )
    children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    while not children.read_text():  # its workers
        assert program.poll() is None
        time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate()

    assert program.returncode == STOPPED
    assert "run it again" in said
    assert "graded" not in said


def test_help_answers_without_importing_what_is_slow() -> None:
    program = "import sys; from autograder.cli import app; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"nbgrader", "IPython", "numpy", "sqlalchemy", "rich.progress"} & set(modules)
