"""Which course a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.coursedir import open_course


def make_course(folder: Path, identifier: str) -> Path:
    folder.mkdir()
    (folder / "nbgrader_config.py").write_text(
        f'c = get_config()\nc.CourseDirectory.course_id = "{identifier}"\n'
    )
    return folder


def test_a_course_is_opened_by_a_path_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = make_course(tmp_path / "history", "history-1")
    monkeypatch.chdir(tmp_path)

    opened = open_course(Path("history"))

    assert Path(opened.root) == course
    assert opened.course_id == "history-1"


def test_the_course_in_which_one_stands_has_no_say_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_course(tmp_path / "physics", "physics-1"))
    course = make_course(tmp_path / "history", "history-1")
    Path("nbgrader_config.py").write_text(
        'c = get_config()\nc.CourseDirectory.autograded_directory = "elsewhere"\n'
    )

    opened = open_course(course)

    assert opened.autograded_directory == "autograded"
    assert opened.course_id == "history-1"
