"""Formgrader answers while it grades, gives out nothing that acts, and needs no other host."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from nbgrader.api import Gradebook
from playwright.sync_api import expect

from autograder.formgrader_server import FORMGRADER
from tests import small_course
from tests.browser import READY_S, Server, chromium, jupyter_lab
from tests.small_course import ASSIGNMENT, NOTEBOOK, SECRETS

pytestmark = pytest.mark.browser

PROMPT_S = 1.0
PAUSE_S = 0.1
STOP_S = 5.0
CALL_S = 3.0
GRADING = f"""
from autograder.preprocessors import Examine
from nbgrader.preprocessors import AssignLatePenalties, CheckCellMetadata, SaveAutoGrades
c.Autograde.sanitize_preprocessors = [Examine]
c.Autograde.autograde_preprocessors = [SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
c.Examine.call_seconds = {CALL_S}
"""
PAGES = (
    "/formgrader/manage_assignments",
    "/formgrader/api/assignments",
    f"/formgrader/api/submissions/{ASSIGNMENT}",
    "/formgrader/gradebook",
    "/formgrader/api/students",
)
ENDLESS = {"double": "def double(number):\n    while True: pass"}
PWN = "<script>document.documentElement.setAttribute('class', 'pwned')</script>"
HOSTILE_FILES = {
    "page.html": f"{PWN}harmless text",
    "picture.svg": f"<svg xmlns='http://www.w3.org/2000/svg'>{PWN}<text>harmless text</text></svg>",
    "page.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'>{PWN}<p>harmless text</p></html>",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A course directory with its formgrader; five learners have handed in."""
    folder = tmp_path_factory.mktemp("formgrader")
    course = folder / "root"
    small_course.make_course(course)
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(GRADING)
    for learner in ("ada", "basil"):
        small_course.hand_in(course, learner)
    for learner in ("loop", "kim"):
        small_course.hand_in(course, learner, ENDLESS)
    small_course.hand_in(
        course, "tess", {"why": "Since $$2x = x + x$$ holds, and $x^2$ is no use."}
    )
    for file, text in HOSTILE_FILES.items():
        (course / "submitted/tess" / ASSIGNMENT / file).write_text(text)
    with jupyter_lab(folder) as running:
        yield running


def press(server: Server, button: str) -> Any:
    """Press a button of formgrader's and return what the page is told."""
    return server.ask("POST", f"/formgrader/api/{button}")


def autograde(server: Server, learner: str) -> Any:
    return press(server, f"submission/{ASSIGNMENT}/{learner}/autograde")


def started_by(server: Server) -> list[int]:
    """Return the processes in which the server has work done."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return [child for child, command in commands.items() if "multiprocessing-fork" in command]


def points(server: Server, learner: str) -> dict[str, float]:
    with Gradebook(f"sqlite:///{server.root}/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
        return {grade.name: grade.auto_score for grade in notebook.grades if grade.name != "why"}


def fetch(server: Server, path: str) -> None:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=READY_S) as answer:
        answer.read()


def submission_page(server: Server, learner: str) -> str:
    with Gradebook(f"sqlite:///{server.root}/gradebook.db") as gradebook:
        notebook = gradebook.find_submission_notebook(NOTEBOOK, ASSIGNMENT, learner)
        return f"/formgrader/submissions/{notebook.id}/"


def test_pages_answer_at_once_while_a_submission_runs_on_and_on(server: Server) -> None:
    waits = []
    with ThreadPoolExecutor() as pool:
        grading = pool.submit(autograde, server, "loop")
        begin = time.perf_counter()
        for page in cycle(PAGES):
            if grading.done():
                break
            before = time.perf_counter()
            fetch(server, page)
            waits.append(time.perf_counter() - before)
            time.sleep(PAUSE_S)
        seconds = time.perf_counter() - begin

    assert grading.result()["success"], grading.result()
    assert points(server, "loop") == {"double-test": 0, "greet-test": 1}
    assert seconds > CALL_S  # it did run on
    assert max(waits) < PROMPT_S


def test_buttons_pressed_at_once_all_do_their_work(server: Server) -> None:
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda learner: autograde(server, learner), ["ada", "basil"] * 2))

    assert [answer["success"] for answer in answers] == [True] * 4
    assert points(server, "ada") == points(server, "basil") == {"double-test": 2, "greet-test": 1}


def test_the_page_is_told_why_a_submission_cannot_be_graded(server: Server) -> None:
    broken = server.root / "submitted/eve" / ASSIGNMENT
    broken.mkdir(parents=True)
    (broken / f"{NOTEBOOK}.ipynb").write_text("{")
    answer = autograde(server, "eve")

    assert not answer["success"]
    assert answer["error"].startswith(f"{NOTEBOOK}.ipynb: ")


def test_a_setting_counts_from_the_next_press_on(server: Server) -> None:
    config = server.root / "nbgrader_config.py"
    before = config.read_text()
    config.write_text(f"{before}\nc.Examine.preload = ['no_such_package']\n")
    answer = autograde(server, "ada")
    config.write_text(before)

    assert "no_such_package" in answer["log"] + answer["error"]
    assert autograde(server, "ada")["success"]


def test_a_death_of_the_grading_process_is_told_and_the_next_press_works(server: Server) -> None:
    with ThreadPoolExecutor() as pool:
        grading = pool.submit(autograde, server, "kim")
        time.sleep(1)
        for process in started_by(server):
            os.kill(process, signal.SIGKILL)
        answer = grading.result()

    assert not answer["success"]
    assert "died" in answer["error"]
    assert autograde(server, "ada")["success"]


@pytest.mark.parametrize(
    ("wish", "learner"),
    [(signal.SIGINT, "kim"), (signal.SIGTERM, "ada")],
    ids=["interrupted while it grades", "terminated when it has graded"],
)
def test_a_server_stops_at_once_and_takes_its_grading_process_along(
    server: Server, tmp_path: Path, wish: signal.Signals, learner: str
) -> None:
    shutil.copytree(server.root, tmp_path / "root")
    with ThreadPoolExecutor() as pool:
        with jupyter_lab(tmp_path, stop=wish) as short_lived:
            grading = pool.submit(autograde, short_lived, learner)
            if learner == "kim":
                time.sleep(1)
            else:
                grading.result()
            processes = started_by(short_lived)
            begin = time.perf_counter()
        seconds = time.perf_counter() - begin

    assert seconds < STOP_S
    assert processes
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]


def test_where_formgrader_is_switched_off_nothing_of_it_is_there(tmp_path: Path) -> None:
    off = {"ServerApp": {"jpserver_extensions": {FORMGRADER: False}}}
    settings = tmp_path / "home" / "config" / "jupyter_server_config.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(off))
    with jupyter_lab(tmp_path) as server:
        for page in PAGES:
            with pytest.raises(HTTPError, match="404"):
                fetch(server, page)


def test_feedback_from_the_button_leaks_nothing(server: Server) -> None:
    autograde(server, "loop")
    answer = press(server, f"assignment/{ASSIGNMENT}/loop/generate_feedback")
    page = (server.root / "feedback/loop" / ASSIGNMENT / f"{NOTEBOOK}.html").read_text()

    assert answer["success"], answer
    assert not [secret for secret in SECRETS if secret in page]


@pytest.mark.parametrize("file", HOSTILE_FILES)
def test_a_file_that_a_learner_handed_in_does_nothing_in_formgrader(
    server: Server, file: str
) -> None:
    autograde(server, "tess")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{server.url}{submission_page(server, 'tess')}{file}")
        expect(page.locator(":root")).to_contain_text("harmless text")
        expect(page.locator(":root")).not_to_have_class("pwned")


def test_pages_show_formulas_and_ask_no_other_host(server: Server) -> None:
    autograde(server, "tess")
    with chromium() as browser:
        asked: list[str] = []
        missed: list[str] = []
        browser.on("request", lambda request: asked.append(request.url))
        browser.on("response", lambda answer: None if answer.ok else missed.append(answer.url))
        page = browser.new_page()
        for path in (*PAGES, submission_page(server, "tess")):
            page.goto(f"{server.url}{path}")
            page.wait_for_load_state("networkidle")
        formulas = page.locator(".MathJax:visible")
        expect(formulas).to_have_count(2)

    assert len(asked) > 50
    assert missed == []
    own = (server.url, "data:", "blob:", "about:blank")
    assert not [address for address in asked if not address.startswith(own)]
