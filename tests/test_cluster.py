"""Marking on a Dask cluster gives what marking here gives, whatever becomes of its workers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from autograder.batch import Graded, grade_class
from autograder.cluster import Cluster
from autograder.coursedir import open_course
from autograder.sandbox.policy import readable_folders
from autograder.worker import CannotMark
from tests import small_course
from tests.dask_cluster import DaskCluster, dask_cluster
from tests.left_behind import Rows, autograded_files, gradebook_rows
from tests.small_course import ASSIGNMENT
from tests.stock import ROOT

CLASS = {
    "ada": {},
    "bob": {"double": "def double(number):\n    return number"},
    "cleo": {"double": "def double(number):\n    while True: pass"},
    "dan": {"greet": "import os\ndef greet(name):\n    os._exit(1)"},
}
LEARNERS = 12
Left = tuple[Rows, dict[str, tuple[int, Any]]]
SLOW = "import time\ndef double(number):\n    time.sleep(0.2)\n    return 2 * number"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler with a worker of two threads that no test harms."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as running:
        running.add_worker(threads=2)
        running.wait_for_workers(1)
        yield running


@pytest.fixture(scope="module")
def ungraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course in which many have handed in what takes a while to mark."""
    folder = tmp_path_factory.mktemp("ungraded") / "course"
    small_course.make_course(folder)
    for number in range(LEARNERS):
        small_course.hand_in(folder, f"learner{number}", {"double": SLOW})
    return folder


@pytest.fixture
def course(ungraded: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(ungraded, tmp_path / "course")


@pytest.fixture(scope="module")
def wanted(ungraded: Path, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What is left behind when it is graded on this machine."""
    folder = shutil.copytree(ungraded, tmp_path_factory.mktemp("wanted") / "course")
    graded = grade_class(open_course(folder), ASSIGNMENT)
    assert all_right({each.learner: each for each in graded})
    return left_in(folder)


def left_in(course: Path) -> Left:
    return gradebook_rows(course), autograded_files(course)


def mark_there(
    address: str,
    course: Path,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
    on_wait: Callable[[str], None] = lambda message: None,
) -> dict[str, Graded]:
    with Cluster(address, on_wait) as workers:
        graded = grade_class(
            open_course(course), ASSIGNMENT, cluster=workers, on_progress=on_progress
        )
    return {each.learner: each for each in graded}


def autograder(course: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("autograder")
    return subprocess.run([command, *arguments], cwd=course, capture_output=True, text=True)


def all_right(graded: dict[str, Graded]) -> bool:
    return len(graded) == LEARNERS and {each.status for each in graded.values()} == {"graded"}


def at_half(do: Callable[[], object]) -> Callable[[int, int], None]:
    """Return a listener that does something once, when half of the class is done."""
    undone = [do]

    def listen(done: int, of: int) -> None:
        if undone and done >= of / 2:
            undone.pop()()

    return listen


def test_a_class_gets_the_same_marks_and_notebooks_as_on_this_machine(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    small_course.make_course(here)
    for learner, answers in CLASS.items():
        small_course.hand_in(here, learner, answers)
    (here / "submitted/eve" / ASSIGNMENT).mkdir(parents=True)
    (here / "submitted/eve" / ASSIGNMENT / "numbers.ipynb").write_text("{")
    shutil.copytree(here, there)
    local = autograder(here, "grade", ASSIGNMENT)
    remote = autograder(there, "grade", ASSIGNMENT, f"--scheduler={cluster.address}")

    assert local.returncode == remote.returncode == 1  # somebody needs a look
    assert remote.stdout == local.stdout
    assert left_in(there) == left_in(here)
    assert autograded_files(there) != {}


def test_a_worker_that_is_killed_half_way_costs_no_result(
    course: Path, wanted: Left, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path / "dask", workers=1) as cluster:
        lost = cluster.add_worker()
        cluster.wait_for_workers(2)
        graded = mark_there(
            cluster.address, course, at_half(lambda: os.killpg(lost.pid, signal.SIGKILL))
        )

    assert all_right(graded)
    assert left_in(course) == wanted


def test_a_scheduler_that_dies_is_told_and_what_was_graded_is_kept(
    course: Path, wanted: Left, tmp_path: Path
) -> None:
    with dask_cluster(tmp_path / "dask", workers=1) as cluster:
        kill = at_half(lambda: os.killpg(cluster.scheduler.pid, signal.SIGKILL))
        with pytest.raises(CannotMark, match="went away"):
            mark_there(cluster.address, course, kill)
    rest = grade_class(open_course(course), ASSIGNMENT)

    assert {each.status for each in rest} == {"graded", "unchanged"}
    assert left_in(course) == wanted


def test_grading_says_that_it_waits_for_the_first_worker_and_goes_on_when_it_joins(
    course: Path, tmp_path: Path
) -> None:
    said = []
    with dask_cluster(tmp_path / "dask") as cluster:

        def help_out(message: str) -> None:
            said.append(message)
            cluster.add_worker()

        graded = mark_there(cluster.address, course, on_wait=help_out)
        address = cluster.address

    assert said == [f"There is no worker at {address}. Grading goes on when one has joined."]
    assert all_right(graded)


def test_so_it_does_when_the_last_worker_leaves_half_way(
    course: Path, wanted: Left, tmp_path: Path
) -> None:
    said = []
    with dask_cluster(tmp_path / "dask") as cluster:
        lost = cluster.add_worker()
        cluster.wait_for_workers(1)

        def help_out(message: str) -> None:
            said.append(message)
            cluster.add_worker()

        kill = at_half(lambda: os.killpg(lost.pid, signal.SIGKILL))
        graded = mark_there(cluster.address, course, kill, help_out)

    assert len(said) == 1
    assert all_right(graded)
    assert left_in(course) == wanted


def other_code(place: Path) -> None:
    for package in ("autograder", "course"):
        shutil.copytree(ROOT / package, place / package)
    with (place / "autograder/scoring.py").open("a") as module:
        module.write("# an older version\n")


def other_library(place: Path) -> None:
    about = place / "numpy-1.0.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n")


@pytest.mark.parametrize("other", [other_code, other_library])
def test_a_worker_with_other_code_is_refused(
    other: Callable[[Path], None], course: Path, tmp_path: Path
) -> None:
    other(tmp_path / "code")
    with dask_cluster(tmp_path / "dask") as cluster:
        cluster.add_worker(code=tmp_path / "code")
        with pytest.raises(CannotMark, match=r"tcp://127\.0\.0\.1:\d+ has another version"):
            mark_there(cluster.address, course)

    assert not (course / "autograded").exists()


@pytest.mark.parametrize("theirs", ["factors", "another"])
def test_so_is_one_with_another_version_of_what_the_course_preloads_or_without_it(
    theirs: str, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, code in (("here/factors", "FACTOR = 2\n"), (f"there/{theirs}", "FACTOR = 3\n")):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "here")
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.Examine.preload = ['factors']\n")
    with dask_cluster(tmp_path / "dask") as cluster:
        cluster.add_worker(code=tmp_path / "there")
        with pytest.raises(CannotMark, match=r"than the grader: .*factors \w+ instead of"):
            mark_there(cluster.address, course)

    assert not (course / "autograded").exists()


def test_a_worker_takes_what_is_installed_anew_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course, package = tmp_path / "course", tmp_path / "code/factors"
    small_course.make_course(course)
    answer = "from factors import FACTOR\ndef double(number):\n    return FACTOR * number"
    small_course.hand_in(course, "ada", {"double": answer})
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.Examine.preload = ['factors']\n")
    package.mkdir(parents=True)
    monkeypatch.syspath_prepend(package.parent)
    points = []
    with dask_cluster(tmp_path / "dask") as cluster:
        cluster.add_worker(code=package.parent)
        for factor in ("3", "1 + 1"):
            (package / "__init__.py").write_text(f"FACTOR = {factor}\n")
            mark_there(cluster.address, course)
            grades = {name: score for *_, name, score, _, _, _ in gradebook_rows(course)["grade"]}
            points.append(grades["double-test"])

    assert points == [0, 2]


def test_a_trusted_run_does_not_make_a_worker_fit_for_others(course: Path, tmp_path: Path) -> None:
    with dask_cluster(tmp_path / "dask") as cluster:
        # What every submission may read.
        cluster.add_worker(home=readable_folders()[0] / "home")
        with Cluster(cluster.address) as workers:
            opened = open_course(course)
            trusted = grade_class(opened, ASSIGNMENT, cluster=workers, trust=True)
            with pytest.raises(CannotMark, match="every submission may read"):
                grade_class(opened, ASSIGNMENT, cluster=workers, force=True)

    assert {each.status for each in trusted} == {"graded"}


@pytest.mark.parametrize("who", ["worker at", "scheduler"])
def test_who_lacks_the_package_is_named(who: str, course: Path, tmp_path: Path) -> None:
    place = tmp_path / "code"
    (place / "autograder").mkdir(parents=True)
    missing = "raise ModuleNotFoundError(f'No module named {__name__!r}')"
    (place / "autograder/__init__.py").write_text(missing)
    scheduler, worker = (place, None) if who == "scheduler" else (None, place)
    with dask_cluster(tmp_path / "dask", code=scheduler) as cluster:
        cluster.add_worker(code=worker)
        cluster.wait_for_workers(1)
        with pytest.raises(CannotMark, match=f"(?s){who}.*No module named 'autograder'"):
            mark_there(cluster.address, course)

    assert not (course / "autograded").exists()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "", "nonsense", "tls://127.0.0.1:9"])
def test_an_address_where_no_scheduler_is_gets_a_clear_error(address: str, course: Path) -> None:
    done = autograder(course, "grade", ASSIGNMENT, f"--scheduler={address}")

    assert done.returncode == 2
    assert f"No Dask scheduler answers at {address}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_so_does_the_address_of_a_worker(cluster: DaskCluster) -> None:
    with Client(cluster.address, set_as_default=False) as client:
        worker = next(iter(client.nthreads()))
    with pytest.raises(CannotMark, match="what answers is a worker"):
        Cluster(worker)


def test_a_number_of_jobs_makes_no_sense_with_a_cluster(course: Path) -> None:
    done = autograder(course, "grade", ASSIGNMENT, "--jobs=2", "--scheduler=tcp://127.0.0.1:9")

    assert done.returncode == 2
    assert "leave out --jobs" in done.stderr
