"""The gradebook's writer, where others write at the same time or notebooks are missing."""

from __future__ import annotations

import sqlite3
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from autograder.coursedir import open_course
from autograder.gradebook import Gradebook, NoGradebook, open_gradebook
from autograder.preprocessors import Examine
from autograder.worker import MarkedNotebook
from tests import small_course
from tests.left_behind import gradebook_rows
from tests.small_course import ASSIGNMENT, NOTEBOOK

SCORES = {"double-test": 2.0, "greet-test": 0.5, "why": None}
MARKED = MarkedNotebook(NOTEBOOK, b"", SCORES, frozenset({"greet"}))
NOON = datetime(2026, 11, 20, 12)

ZERO_IF_LATE = "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A released course whose late submissions score zero."""
    course = tmp_path / "course"
    small_course.make_course(course)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(ZERO_IF_LATE)
    return course


@pytest.fixture
def gradebook(folder: Path) -> Gradebook:
    """Its gradebook, ready to be written to."""
    return opened(folder)


def opened(folder: Path) -> Gradebook:
    course = open_course(folder)
    gradebook = Gradebook(course, ASSIGNMENT)
    gradebook.match_source(Examine(parent=course.parent).exam(course, ASSIGNMENT).trusted)
    return gradebook


def database(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(folder / "gradebook.db", isolation_level=None, check_same_thread=False)


def cells(folder: Path) -> list[tuple[object, ...]]:
    tables = ("base_cell", "grade_cells", "source_cell")
    return [row for table in tables for row in database(folder).execute(f"select * from {table}")]


def test_a_source_that_was_just_released_changes_nothing(folder: Path) -> None:
    before = cells(folder)
    opened(folder).close()

    assert cells(folder) == before


def test_points_and_comments_are_written(folder: Path, gradebook: Gradebook) -> None:
    gradebook.record("ada", NOON, [MARKED])

    rows = gradebook_rows(folder)
    assert {row[3]: (row[4], row[7]) for row in rows["grade"]} == {
        "double-test": (2.0, False),
        "greet-test": (0.5, False),
        "why": (None, True),
    }
    assert {row[3]: row[4] for row in rows["comment"]} == {
        "double": None,
        "greet": "No response.",
        "why": None,
    }
    assert gradebook.timestamps() == {"ada": NOON}


def test_a_missing_notebook_scores_zero_and_waits_for_nobody(
    folder: Path, gradebook: Gradebook
) -> None:
    gradebook.record("ada", NOON, [], missing=[NOTEBOOK])

    assert {row[4:] for row in gradebook_rows(folder)["grade"]} == {(0.0, None, None, False)}


def test_a_late_submission_is_penalised_and_an_extension_lifts_the_penalty(
    folder: Path, gradebook: Gradebook
) -> None:
    gradebook.close()
    database(folder).execute("update assignment set duedate = '2026-11-20 11:00:00.000000'")
    late = opened(folder)
    late.record("ada", NOON, [MARKED])
    (penalised,) = gradebook_rows(folder)["notebook"]
    extension = datetime(1970, 1, 1) + timedelta(hours=2)
    database(folder).execute("update submitted_assignment set extension = ?", (str(extension),))
    late.record("ada", NOON, [MARKED])
    (excused,) = gradebook_rows(folder)["notebook"]

    assert penalised[3] == 2.5
    assert excused[3] is None


def test_a_busy_database_is_waited_for(folder: Path, gradebook: Gradebook) -> None:
    other = database(folder)
    other.execute("begin exclusive")
    busy_for = 7  # seconds; SQLite itself waits for 5
    threading.Timer(busy_for, other.execute, ["rollback"]).start()
    begun = time.monotonic()
    gradebook.record("ada", NOON, [MARKED])

    assert time.monotonic() - begun > busy_for - 1
    assert len(gradebook_rows(folder)["grade"]) == len(SCORES)


PASSWORD = "hush%2Fhush"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            f"postgresql+psycopg://ada:{PASSWORD}@127.0.0.1:1/course",
            ("postgresql+psycopg://ada:***@127.0.0.1:1/course", "refused", "Start its server"),
        ),
        (
            f"postgresql+psycopg://127.0.0.1:1/course?password={PASSWORD}",
            ("Start its server",),
        ),
        (f"postgresql//ada:{PASSWORD}@db/course", ("no database's URL",)),
        (f"postgresql+psycopg://ada:@@{PASSWORD}@db/course", ("@ in the password as %40",)),
        ("postgresql+absent://db/course", ("postgresql.absent", "Install its driver")),
        ("mysql+oursql://db/course", ("Install its driver",)),
        ("sqlite:////nowhere/gradebook.db", ("Make the folder",)),
        ("sqlite:////usr", ("sqlite:////usr", "unable to open", "from a copy")),
    ],
)
def test_a_gradebook_that_does_not_open_is_named_without_its_password(
    folder: Path, address: str, said: tuple[str, ...]
) -> None:
    course = open_course(folder)
    course.db_url = address

    with pytest.raises(NoGradebook) as refused:
        open_gradebook(course)
    text = str(refused.value)
    assert all(words in text for words in said), text
    assert "c.CourseDirectory.db_url in nbgrader_config.py" in text
    assert "hush" not in text


def test_two_writers_do_not_double_a_row(folder: Path, gradebook: Gradebook) -> None:
    gradebooks = [gradebook, opened(folder)]
    learners = [f"learner{number}" for number in range(20)]

    def write(own: Gradebook) -> None:
        for learner in learners:
            own.record(learner, NOON, [MARKED])

    writers = [threading.Thread(target=write, args=[own]) for own in gradebooks]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    rows = gradebook_rows(folder)
    assert [row[1] for row in rows["submission"]] == sorted(learners)
    assert len(rows["grade"]) == len(SCORES) * len(learners)
