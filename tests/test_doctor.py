"""The doctor says what is wrong with an installation, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.doctor import Finding, examine_installation
from autograder.sandbox import walls
from autograder.sandbox.policy import readable_folders

CONFIGURATION = "c = get_config()\n"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    (tmp_path / "nbgrader_config.py").write_text(CONFIGURATION)
    return tmp_path


@pytest.fixture(autouse=True)
def walls_are_tried_anew() -> Iterator[None]:
    walls.find_walls.cache_clear()
    yield
    walls.find_walls.cache_clear()


def faults(course: Path) -> list[Finding]:
    return [finding for finding in examine_installation(course) if not finding.fine]


def about(findings: list[Finding], word: str) -> Finding:
    (found,) = (finding for finding in findings if word in finding.what)
    return found


def test_a_sound_course_has_nothing_to_mend(course: Path) -> None:
    findings = examine_installation(course)
    assert about(findings, "a cell runs in the sandbox").fine
    assert [f for f in findings if not f.fine and "is not installed" not in f.what] == []


def test_a_folder_without_a_course_is_named(tmp_path: Path) -> None:
    assert str(tmp_path) in about(faults(tmp_path), "no course").mend


def test_time_limits_in_the_wrong_order_are_a_fault(course: Path) -> None:
    (course / "nbgrader_config.py").write_text(CONFIGURATION + "c.Examine.call_seconds = 1000.0\n")
    assert "nbgrader_config.py" in about(faults(course), "1000 s a call").mend


def test_a_setting_of_the_wrong_kind_is_a_fault(course: Path) -> None:
    (course / "nbgrader_config.py").write_text(CONFIGURATION + "c.Examine.call_seconds = '5'\n")
    assert "nbgrader_config.py" in about(faults(course), "'call_seconds' trait").mend


def test_a_package_that_cannot_be_preloaded_is_a_fault(course: Path) -> None:
    (course / "nbgrader_config.py").write_text(CONFIGURATION + "c.Examine.preload = ['absent']\n")
    assert "Examine.preload" in about(faults(course), "No module named 'absent'").mend


def test_a_broken_gradebook_is_a_fault(course: Path) -> None:
    (course / "gradebook.db").write_text("this is no database, however long it may be" * 100)
    assert "from a copy" in about(faults(course), "does not open").mend


def test_a_gradebook_whose_server_is_down_is_a_fault_and_its_password_not_told(
    course: Path,
) -> None:
    (course / "nbgrader_config.py").write_text(
        CONFIGURATION
        + "c.CourseDirectory.db_url = 'postgresql+psycopg://ada:hush@127.0.0.1:1/course'\n"
    )
    findings = faults(course)
    assert "Start its server" in about(findings, "does not open").mend
    assert not any("hush" in finding.text for finding in findings)


def test_too_little_memory_for_a_learners_process_is_a_fault(course: Path) -> None:
    (course / "nbgrader_config.py").write_text(
        CONFIGURATION + "c.Examine.memory_bytes = 100_000_000\n"
    )
    assert "Raise Examine.memory_bytes" in about(faults(course), "47 MiB of memory").mend


def test_a_gradebook_where_submissions_read_is_a_fault(course: Path) -> None:
    exposed = readable_folders()[0] / "gradebook.db"
    (course / "nbgrader_config.py").write_text(
        CONFIGURATION + f"c.CourseDirectory.db_url = 'sqlite:///{exposed}'\n"
    )
    assert str(exposed) in about(faults(course), "could read").mend


def test_an_exchange_where_submissions_read_is_a_fault(course: Path) -> None:
    exposed = readable_folders()[0] / "exchange"
    (course / "nbgrader_config.py").write_text(CONFIGURATION + f"c.Exchange.root = '{exposed}'\n")
    assert str(exposed) in about(faults(course), "could read").mend


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_course_of_somebody_else_is_a_fault(course: Path) -> None:
    course.chmod(0o500)
    assert about(faults(course), "cannot be written to")
    course.chmod(0o700)


def test_a_machine_without_walls_is_a_fault(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "landlock_abi", lambda: 0)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "bubblewrap" in about(faults(course), "no sandbox").mend
