"""Collecting from an exchange in which a learner may have put anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from autograder.collect import copy_owned
from autograder.submissions import MOST_FILES
from tests import small_course
from tests.small_course import ASSIGNMENT
from tests.stock import nbgrader

MOST = 10_000


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    folder = tmp_path / "inbound/ada+tiny+2026-11-20 10:00:00 UTC+x"
    (folder / "data").mkdir(parents=True)
    (folder / "lesson.ipynb").write_text("{}")
    (folder / "data/numbers.csv").write_text("1,2")
    return folder


def test_regular_files_arrive_with_their_folders(submission: Path, tmp_path: Path) -> None:
    skipped = copy_owned(submission, tmp_path / "copy", MOST)

    assert skipped == []
    assert (tmp_path / "copy/lesson.ipynb").read_text() == "{}"
    assert (tmp_path / "copy/data/numbers.csv").read_text() == "1,2"


def test_no_link_is_followed_be_it_a_file_a_folder_or_the_submission_itself(
    submission: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "source"
    secret.mkdir()
    (secret / "lesson.ipynb").write_text("the solutions")
    (submission / "linked.ipynb").symlink_to(secret / "lesson.ipynb")
    (submission / "linked").symlink_to(secret)
    itself = submission.with_name("carl+tiny+2026-11-20 10:00:00 UTC+y")
    itself.symlink_to(secret)

    skipped = copy_owned(submission, tmp_path / "copy", MOST)
    copy_owned(itself, tmp_path / "other", MOST)

    assert {path.name for path in skipped} == {"linked.ipynb", "linked"}
    assert not list((tmp_path / "copy").rglob("linked*"))
    assert list((tmp_path / "other").iterdir()) == []


def test_a_pipe_and_what_is_too_big_hold_nothing_up(submission: Path, tmp_path: Path) -> None:
    os.mkfifo(submission / "pipe")
    (submission / "big").write_bytes(bytes(MOST + 1))

    skipped = copy_owned(submission, tmp_path / "copy", MOST)

    assert {path.name for path in skipped} == {"pipe", "big"}
    assert (tmp_path / "copy/lesson.ipynb").exists()


@pytest.mark.parametrize(("name", "times"), [("a", 1100), ("b" * 250, 20)])
def test_folders_nested_too_deep_or_with_too_long_names_stay_behind_alone(
    submission: Path, tmp_path: Path, name: str, times: int
) -> None:
    nest(submission, name, times)
    try:
        skipped = copy_owned(submission, tmp_path / "copy", MOST)
    finally:
        subprocess.run(["rm", "-r", submission / name], check=True)

    assert [path.name for path in skipped] == [name]
    assert (tmp_path / "copy/lesson.ipynb").exists()
    assert (tmp_path / "copy/data/numbers.csv").exists()


def nest(folder: Path, name: str, times: int) -> None:
    """Make folders within each other, whose path may be longer than a path can be."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(times):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_of_very_many_files_the_notebook_comes_first(submission: Path, tmp_path: Path) -> None:
    for number in range(2 * MOST_FILES):
        (submission / f"{number}.txt").touch()

    (skipped,) = copy_owned(submission, tmp_path / "copy", MOST)

    assert skipped.suffix == ".txt"
    assert (tmp_path / "copy/lesson.ipynb").exists()
    assert len(list((tmp_path / "copy").iterdir())) <= MOST_FILES


def test_a_folder_that_cannot_be_found_any_more_is_told(submission: Path, tmp_path: Path) -> None:
    gone = submission.with_name("gone")

    assert copy_owned(gone, tmp_path / "copy", MOST) == [gone]


def test_a_folder_in_place_of_the_timestamp_gives_way_to_the_time(tmp_path: Path) -> None:
    course = tmp_path / "course"
    small_course.make_course(course)
    inbound = tmp_path / "exchange/tiny/inbound"
    submitted = inbound / f"ada+{ASSIGNMENT}+2026-11-20 10:00:00 UTC+x"
    (submitted / "timestamp.txt" / "folder").mkdir(parents=True)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(
            "from autograder.collect import CollectOwned\n"
            "c.ExchangeFactory.collect = CollectOwned\n"
            f"c.Exchange.root = {str(tmp_path / 'exchange')!r}\n"
            "c.CourseDirectory.course_id = 'tiny'\n"
        )
    nbgrader(course, "collect", ASSIGNMENT)

    (stamp,) = (course / "submitted").glob(f"*/{ASSIGNMENT}/timestamp.txt")
    assert stamp.read_text() == "2026-11-20 10:00:00 UTC"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_that_belongs_to_somebody_else_stays_behind(
    submission: Path, tmp_path: Path
) -> None:
    os.chown(submission / "lesson.ipynb", 65534, 65534)

    skipped = copy_owned(submission, tmp_path / "copy", MOST)

    assert [path.name for path in skipped] == ["lesson.ipynb"]
