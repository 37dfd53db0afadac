"""Collecting from an exchange in which a learner may have put anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autograder.collect import copy_owned

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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_that_belongs_to_somebody_else_stays_behind(
    submission: Path, tmp_path: Path
) -> None:
    os.chown(submission / "lesson.ipynb", 65534, 65534)

    skipped = copy_owned(submission, tmp_path / "copy", MOST)

    assert [path.name for path in skipped] == ["lesson.ipynb"]
