"""Which course a command works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.coursedir import NoCourse, open_course


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


def test_settings_that_cannot_be_read_are_not_passed_over(tmp_path: Path) -> None:
    course = make_course(tmp_path / "history", "history-1")
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("c.Examine.call_seconds = (1\n")

    with pytest.raises(NoCourse, match=r"was never closed \(nbgrader_config.py, line 3\)"):
        open_course(course)
