"""A grader that is killed at any moment harms nothing: the next run brings all to its end."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from autograder.batch import grade_class
from autograder.coursedir import open_course
from tests import small_course
from tests.left_behind import autograded_files, gradebook_rows
from tests.small_course import ASSIGNMENT

KILLS = 50
LEARNERS = 6
AT_ONCE = 2


@pytest.fixture(scope="module")
def ungraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with some submissions, one of them broken."""
    folder = tmp_path_factory.mktemp("ungraded") / "course"
    small_course.make_course(folder)
    for number in range(LEARNERS):
        answer = f"def double(n):\n    return n + {number}"
        small_course.hand_in(folder, f"learner{number}", {"double": answer})
    small_course.hand_in(folder, "broken")
    broken = folder / "submitted" / "broken" / ASSIGNMENT / f"{small_course.NOTEBOOK}.ipynb"
    broken.write_text("{")
    return folder


@pytest.fixture
def courses(ungraded: Path, tmp_path: Path) -> list[Path]:
    """Copies of it."""
    folders = [tmp_path / str(number) / "course" for number in range(AT_ONCE)]
    return [shutil.copytree(ungraded, folder) for folder in folders]


def _grade(folder: Path, scratch: Path, report: Connection) -> None:
    """Grade everybody; runs in a process that is going to be killed."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    # Python's resource tracker says on standard error that its owner was killed.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    course = open_course(folder)
    grade_class(course, ASSIGNMENT, force=True, jobs=1, on_progress=lambda *now: report.send(now))


def _start(folder: Path) -> tuple[multiprocessing.Process, Connection]:
    scratch = folder.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_grade, args=(folder, scratch, theirs)
    )
    process.start()
    theirs.close()
    return process, ours  # type: ignore[return-value]


def _kill_now_and_then(folder: Path, times: int) -> int:
    """Kill a grader again and again; return how often it was at work."""
    chance = random.Random(str(folder))
    in_time = 0
    for _ in range(times):
        process, progress = _start(folder)
        # Half of the time early, while workers start; else while results are being written.
        if chance.random() < 0.5:
            time.sleep(chance.random())
        else:
            enough = chance.randint(1, LEARNERS)
            while progress.recv()[0] < enough:
                pass
            time.sleep(chance.random() / 10)
        in_time += process.is_alive()
        process.kill()
        process.join()
        progress.close()
    return in_time


def _processes_with(folder: Path) -> list[int]:
    """Return the processes that were started for this folder's grader."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if os.fsencode(folder) in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            continue
    return found


def _soon_none(folder: Path) -> bool:
    for _ in range(100):
        if not _processes_with(folder):
            return True
        time.sleep(0.05)
    return False


def _finish(folder: Path) -> None:
    process, progress = _start(folder)
    process.join()
    progress.close()
    assert process.exitcode == 0


def test_after_many_kills_a_rerun_leaves_what_an_undisturbed_run_leaves(
    courses: list[Path],
) -> None:
    undisturbed = courses[0]
    _finish(undisturbed)
    wanted = gradebook_rows(undisturbed), autograded_files(undisturbed)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        at_work = sum(pool.map(_kill_now_and_then, courses, [KILLS // AT_ONCE] * AT_ONCE))
    assert at_work >= 0.9 * KILLS

    for folder in courses:
        scratch = folder.with_name("scratch")
        assert _soon_none(scratch)
        _finish(folder)

        assert (gradebook_rows(folder), autograded_files(folder)) == wanted
        assert _soon_none(scratch)
        assert list(scratch.iterdir()) == []
        aside = list((folder / "autograded").rglob(".*"))
        assert aside == []


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_grader_told_to_stop_keeps_what_it_wrote_and_leaves_no_process(
    courses: list[Path], stop: signal.Signals
) -> None:
    folder = courses[0]
    process, progress = _start(folder)
    while progress.recv()[0] < 2:
        pass
    assert process.pid is not None
    os.kill(process.pid, stop)
    process.join(20)

    assert process.exitcode == 1
    assert _soon_none(folder.with_name("scratch"))
    assert list(folder.with_name("scratch").iterdir()) == []
    assert len(list((folder / "autograded").glob(f"*/{ASSIGNMENT}"))) >= 1
