"""A course on a real hub, from release to feedback: one story, told test by test in this order."""

from __future__ import annotations

import csv
import json
import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from course.hints import SECONDS
from tests import hub_walk
from tests.browser import CHROMIUM
from tests.hub import (
    ASSIGNMENT,
    COURSE,
    GRADER,
    MEMORY_MIB,
    PLACE,
    PREFIX,
    SLOW_MS,
    Hub,
    Person,
    as_user,
    home,
    memory_mib,
    processor_s,
    running_hub,
    runs_something,
)
from tests.sample_class import PERFECT, fill_in

pytestmark = pytest.mark.hub

ADA, CARL, BOB, DORA, EVE = (f"hubtest-{name}" for name in ("ada", "carl", "bob", "dora", "eve"))
INES, OTTO = "hubtest-ines", "hubtest-otto"
LEARNERS = (ADA, CARL, BOB, DORA, EVE)
"""Ada is honest; Carl cheats in code; Bob is late and stale; Dora's file is broken; Eve forges."""

LESSON = f"{COURSE}/{ASSIGNMENT}/lesson.ipynb"
OPEN_S = 15.0
VALIDATE_S = 3.0
PROMPT_S = 1.0
IDLE_MINUTES = 0.1
ROOT = Path(__file__).parents[1]
CLOSED_S = 15.0
FIRST_THOUGHT = "It always pays."
WRITTEN = "It pays when the KV state moves in less time than the stall it avoids."
COMMENT = "Well put. What happens on a slower link?"
TYPED = ("fast-link", "when-to-split")
"""What Ada types; the rest is put into her file: right answers and a slip of units that stays."""
ANSWERS = {
    **{question: answer for question, answer in PERFECT.items() if question not in TYPED},
    "slow-link": "slow_link_ms = 0.25",
}
GREEDY = """\
import time
held = []
try:
    while True:
        held.append(b"x" * 2**24)
        time.sleep(0.05)
except MemoryError:
    much = len(held) * 16
    del held
    print("refused after", much, "MiB")
"""
ENDLESS = "def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):\n    while True: pass"
CARLS = "nobody but Carl wrote this line"
CARLS_OWN = 'print(subprocess.run(["cat", "/etc/passwd"], capture_output=True))'
ADAS_OWN = BOBS_OWN = 'raise ValueError("no bandwidth")'
CHEAT = f'''\
# {CARLS}
import builtins, glob, os, subprocess, sys
found = []
for pattern in ("/home/*/course/**", "/home/*/course/gradebook.db", "{PLACE}/exchange/*/inbound/*"):
    found += glob.glob(pattern, recursive=True)
for name in found:
    try:
        print(open(name, "rb").read())
    except OSError:
        pass
try:
    {CARLS_OWN}
except OSError:
    pass
class Always(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = float.__hash__
fast_link_ms = Always()
for frame in (sys._getframe(depth) for depth in range(3)):
    print(frame.f_globals.get("In"))
'''


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    if os.getuid() != 0:
        pytest.fail("make test-hub makes accounts: run it as root, on a machine to throw away")
    with running_hub(LEARNERS, [INES, OTTO]) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    switches = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    # As in a room without the internet: only the hub has an address.
    switches.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=switches)
        yield running
        running.close()


def person(browser: Browser, hub: Hub, name: str) -> Iterator[Person]:
    somebody = Person(browser, hub, name)
    yield somebody
    somebody.leave()


@pytest.fixture(scope="module")
def ines(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, INES)


@pytest.fixture(scope="module")
def otto(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, OTTO)


@pytest.fixture(scope="module")
def ada(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, ADA)


@pytest.fixture(scope="module")
def carl(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, CARL)


@pytest.fixture(scope="module")
def bob(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, BOB)


@pytest.fixture(scope="module")
def dora(browser: Browser, hub: Hub) -> Iterator[Person]:
    yield from person(browser, hub, DORA)


def hand_in(somebody: Person) -> Path:
    """Log in, fetch the lesson and say where it lies."""
    somebody.log_in()
    somebody.wait_for_lab()
    # It opens after the rest, and in front.
    expect(somebody.page.locator(".jp-MarkdownViewer")).to_be_visible(timeout=SLOW_MS)
    somebody.open_list()
    somebody.fetch()
    return home(somebody.name) / LESSON


def write(name: str, file: Path, content: str) -> None:
    """Replace a learner's notebook."""
    account = pwd.getpwnam(name)
    file.write_text(content)
    os.chown(file, account.pw_uid, account.pw_gid)


def grade_ids(name: str) -> list[str | None]:
    cells = nbformat.read(home(name) / LESSON, as_version=4).cells
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]


def cell(somebody: Person, grade_id: str) -> Locator:
    cells = somebody.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell")
    return cells.nth(grade_ids(somebody.name).index(grade_id))


def run_all(page: Page) -> None:
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
    page.locator('.lm-Menu li[data-command="runmenu:run-all"]').click()
    idle = page.locator(
        ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-ExecutionIndicator[data-status=idle]"
    )
    page.wait_for_timeout(1000)
    expect(idle).to_be_visible(timeout=SLOW_MS)


def run_this_and_next(page: Page) -> None:
    for _ in range(2):
        page.keyboard.press("Shift+Enter")


def type_into(somebody: Person, grade_id: str, text: str) -> None:
    """Replace a cell's text key by key."""
    at = cell(somebody, grade_id)
    at.scroll_into_view_if_needed()
    rendered = at.locator(".jp-RenderedMarkdown")
    if rendered.is_visible():
        rendered.dblclick()
    at.locator(".cm-content").click()
    somebody.page.keyboard.press("Control+A")
    somebody.page.keyboard.type(text)


def save(somebody: Person, text: str) -> None:
    """Press Ctrl+S and wait until a text stands in the file."""
    somebody.page.keyboard.press("Control+S")
    end = time.monotonic() + CLOSED_S
    while text not in (home(somebody.name) / LESSON).read_text():
        assert time.monotonic() < end, f"{text!r} was not saved"
        time.sleep(0.1)


def open_notebook(somebody: Person, path: str) -> None:
    somebody.page.goto(f"{somebody.hub.url}/user/{somebody.name}/lab/tree/{path}?reset")
    somebody.wait_for_lab()
    expect(somebody.page.locator("#jp-main-statusbar")).to_contain_text(") | Idle", timeout=SLOW_MS)


def waits_while(busy: Locator, somebody: Person, address: str) -> list[float]:
    """Ask for a page again and again until something shows, and return how long each took, s."""
    waits = []
    while not busy.is_visible():
        begin = time.perf_counter()
        assert somebody.status(address) == 200
        waits.append(time.perf_counter() - begin)
    return waits


def doctor() -> tuple[int, str]:
    """Return the doctor's exit status and its words, however the lines are broken."""
    command = (PREFIX / "bin/autograder", "doctor", "--hub", PREFIX / "hub/jupyterhub_config.py")
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_doctor_finds_a_running_hub_well(hub: Hub) -> None:
    status, said = doctor()

    assert status == 0, said


@contextmanager
def a_home_a_secret_and_a_course_spoilt(hub: Hub, secret: Path) -> Iterator[None]:
    settings = hub.course / "nbgrader_config.py"
    before = settings.read_text()
    home(BOB).chmod(0o755)
    secret.parent.chmod(0o755)
    secret.chmod(0o644)
    # One that only grading reads: formgrader remembers what it has read until the hub restarts.
    settings.write_text(before + 'c.Examine.call_seconds = "long"\n')
    try:
        yield
    finally:
        home(BOB).chmod(0o700)
        secret.chmod(0o600)
        secret.parent.chmod(0o700)
        settings.write_text(before)


def test_the_doctor_finds_what_was_spoilt_and_is_content_when_it_is_mended(hub: Hub) -> None:
    secret = PLACE / "state/cookie_secret"
    with a_home_a_secret_and_a_course_spoilt(hub, secret):
        status, said = doctor()

    assert status == 2, said
    assert f"mend others can look into {home(BOB)} Run: chmod 700 {home(BOB)}" in said
    assert f"mend {ADA} can read {secret} Run: chmod go= {secret}" in said
    assert f"mend {GRADER}: wrong: The 'call_seconds' trait" in said

    status, said = doctor()
    assert status == 0, said


def test_an_instructor_generates_and_releases_the_lesson_in_formgrader(
    ines: Person, hub: Hub
) -> None:
    ines.log_in()
    ines.page.wait_for_url(re.compile(f"/user/{INES}/lab"), timeout=SLOW_MS)
    ines.wait_for_lab()
    expect(ines.page.locator("body")).to_contain_text("Welcome, instructor")
    ines.keep("welcome")

    ines.formgrader("manage_assignments")
    ines.press("assign")
    ines.press("release")
    ines.keep("released")

    assert (PLACE / "exchange" / COURSE / "outbound" / ASSIGNMENT / "lesson.ipynb").exists()


def test_a_learner_is_led_to_the_lesson_in_less_than_15_seconds(
    ada: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.perf_counter()
    ada.log_in()
    ada.wait_for_lab()
    expect(ada.page.locator(".jp-MarkdownViewer")).to_contain_text("Four steps lead to the lesson.")
    ada.keep("welcome")
    ada.open_list()
    ada.keep("list")
    ada.fetch()
    ada.row("fetched").locator("a", has_text=ASSIGNMENT).first.click()
    ada.page.locator(f"#nbgrader-{COURSE}-{ASSIGNMENT} a", has_text="lesson").click()
    expect(ada.page.locator(".jp-NotebookPanel .jp-Notebook h1").first).to_have_text(
        re.compile("Disaggregated prefill and decode"), timeout=SLOW_MS
    )
    seconds = time.perf_counter() - begin
    ada.keep("lesson")
    with capsys.disabled():
        print(f"\nfrom the login to the open lesson, fetching it too: {seconds:.1f} s")

    assert seconds < OPEN_S


def test_a_learner_sees_nothing_of_an_instructors_tools(ada: Person) -> None:
    ada.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Nbgrader$")).click()
    entries = ada.page.locator(".lm-Menu li.lm-Menu-item").all_inner_texts()
    ada.page.keyboard.press("Escape")

    assert any("Assignment List" in entry for entry in entries)
    assert not any("Formgrader" in entry or "Course List" in entry for entry in entries)
    assert ada.page.get_by_text("Create Assignment").count() == 0


def test_a_learner_types_answers_and_a_slip_of_units_meets_its_hint(ada: Person) -> None:
    file = home(ADA) / LESSON
    notebook = nbformat.read(file, as_version=4)
    fill_in(notebook, ANSWERS)
    write(ADA, file, nbformat.writes(notebook))
    open_notebook(ada, LESSON)
    run_all(ada.page)
    check = cell(ada, "fast-link-check")
    expect(check).to_contain_text("Not finished yet", timeout=SLOW_MS)

    type_into(ada, "fast-link", "fast_link_ms = 0.015625")
    run_this_and_next(ada.page)
    expect(check).to_contain_text(f"not yet. {SECONDS}")
    ada.keep("slip")
    type_into(ada, "fast-link", "fast_link_ms = 15.625")
    run_this_and_next(ada.page)
    expect(check).to_contain_text("✓ fast_link_ms")
    expect(check).not_to_contain_text("not yet")

    type_into(ada, "when-to-split", FIRST_THOUGHT)
    save(ada, FIRST_THOUGHT)
    assert "fast_link_ms = 15.625" in file.read_text()


def test_the_figure_follows_the_explorers_slider(ada: Person) -> None:
    explorer = cell(ada, "explorer")
    explorer.scroll_into_view_if_needed()
    picture = explorer.locator("img")
    expect(picture).to_be_visible(timeout=SLOW_MS)
    before = picture.get_attribute("src") or ""
    handle = explorer.locator(".widget-inline-hbox", has_text="Prompt length").locator(
        ".noUi-handle"
    )
    handle.focus()
    ada.page.keyboard.press("ArrowRight")

    expect(picture).not_to_have_attribute("src", before)
    ada.keep("explorer")


def test_validate_answers_in_less_than_3_seconds(
    ada: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    button = ada.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) jp-button.validate-button")
    dialog = ada.page.locator(".nbgrader-SuccessDialog, .nbgrader-ErrorDialog")
    waits = []
    for _ in range(3):
        begin = time.perf_counter()
        button.click()
        expect(dialog).to_be_visible(timeout=SLOW_MS)
        waits.append(time.perf_counter() - begin)
        ada.keep("validate")
        expect(dialog).to_contain_text("slow_link_ms")
        dialog.locator("button").last.click()
    memory, processor = memory_mib(ADA), processor_s(ADA)
    button.click()
    peak = memory
    while not dialog.is_visible():  # not among those that are timed: looking takes time
        peak = max(peak, memory_mib(ADA))
    dialog.locator("button").last.click()
    with capsys.disabled():
        print(
            f"\nValidate: {', '.join(f'{wait:.1f}' for wait in waits)} s; an active learner takes "
            f"{memory:.0f} MiB, {peak:.0f} MiB while Validate runs, and took {processor:.0f} s of "
            f"a processor so far"
        )

    assert max(waits) < VALIDATE_S


def test_a_learner_submits_thinks_again_and_submits_once_more(ada: Person) -> None:
    ada.open_list()
    ada.submit()
    time.sleep(1)  # the exchange tells submissions apart by the second
    ada.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="lesson.ipynb").click()
    type_into(ada, "when-to-split", WRITTEN)
    save(ada, WRITTEN)
    ada.open_list()
    ada.submit()
    ada.keep("submitted")

    inbound = PLACE / "exchange" / COURSE / "inbound"
    first, second = sorted(inbound.glob(f"{ADA}+*"))  # by time, which their names tell
    assert FIRST_THOUGHT in (first / "lesson.ipynb").read_text()
    assert WRITTEN in (second / "lesson.ipynb").read_text()


def test_a_kernel_that_fills_its_memory_is_refused_and_everybodys_server_lives(
    ada: Person, ines: Person
) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(GREEDY)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    write(ADA, home(ADA) / "greedy.ipynb", nbformat.writes(notebook))
    open_notebook(ada, "greedy.ipynb")
    output = ada.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output")
    ada.menu("Run", "runmenu:run-all")
    waits = waits_while(output, ines, f"/user/{INES}/api/status")

    ada.keep("greedy")
    refused = re.fullmatch(r"refused after (\d+) MiB", output.inner_text().strip())
    assert refused
    assert MEMORY_MIB / 2 < int(refused[1]) < MEMORY_MIB
    assert sum(waits) > 1
    assert max(waits) < PROMPT_S
    assert ada.status(f"/user/{ADA}/api/status") == 200


def test_a_second_learner_cheats(carl: Person) -> None:
    file = hand_in(carl)
    notebook = nbformat.read(file, as_version=4)
    fill_in(notebook, {"fast-link": CHEAT, "kv-transfer": ENDLESS})
    write(CARL, file, nbformat.writes(notebook))
    carl.submit()


def test_a_third_puts_forgeries_into_the_exchange_by_hand(hub: Hub) -> None:
    inbound = PLACE / "exchange" / COURSE / "inbound"
    solutions = home(GRADER) / "course/source" / ASSIGNMENT / "lesson.ipynb"
    for claimed, year, target in ((EVE, 2098, solutions), (ADA, 2097, Path("/etc/passwd"))):
        forged = inbound / f"{claimed}+{ASSIGNMENT}+{year}-01-01 00:00:00 UTC+forged"
        as_user(EVE, "mkdir", str(forged), cwd=PLACE)
        as_user(EVE, "ln", "-s", str(target), str(forged / "lesson.ipynb"), cwd=PLACE)
        (forged / "timestamp.txt").write_text("whenever")


def test_late_from_a_stale_release_and_broken_submissions_are_taken(
    bob: Person, dora: Person, hub: Hub
) -> None:
    stale = hand_in(bob)
    notebook = nbformat.read(stale, as_version=4)
    fill_in(notebook, PERFECT)
    ids = grade_ids(BOB)
    del notebook.cells[ids.index("report")]  # which an earlier release did not have
    write(BOB, stale, nbformat.writes(notebook))
    write(DORA, hand_in(dora), '{"cells": [')
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    hub.as_grader("nbgrader", "db", "assignment", "add", ASSIGNMENT, f"--duedate={now} UTC")
    time.sleep(1)
    bob.submit()
    dora.submit()
    dora.keep("submitted")


def test_the_instructor_collects_and_autogrades_while_another_uses_formgrader(
    ines: Person, otto: Person, hub: Hub
) -> None:
    page = f"/services/{COURSE}/formgrader/manage_assignments"
    otto.log_in(page)
    expect(otto.page.locator("td.name", has_text=ASSIGNMENT)).to_be_visible(timeout=SLOW_MS)
    ines.formgrader("manage_assignments")
    ines.press("collect")
    ines.formgrader(f"manage_submissions/{ASSIGNMENT}")
    expect(ines.page.locator("td.student-id", has_text=ADA)).to_be_visible()
    ines.keep("collected")
    for name in (ADA, CARL, BOB):
        row = ines.page.locator("tr", has=ines.page.locator("td.student-id", has_text=name))
        row.locator("td.autograde a").click()
        if name == CARL:  # whose function does not end
            waits = waits_while(ines.page.locator("#success-modal"), otto, page)
            assert sum(waits) > 2
            assert max(waits) < PROMPT_S
        ines.answered()
    ines.keep("autograded")

    hub.as_grader("nbgrader", "export", "--to=grades.csv")
    with (hub.course / "grades.csv").open() as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    assert {name: float(rows[name]["raw_score"]) for name in (ADA, CARL, BOB)} == {
        ADA: 15,
        CARL: 0,
        BOB: 16,
    }
    assert rows[ADA]["timestamp"] < rows[ADA]["duedate"] < rows[BOB]["timestamp"]


def test_what_was_collected_is_what_its_owner_wrote(hub: Hub) -> None:
    submitted = hub.course / "submitted"

    collected = (submitted / ADA / ASSIGNMENT / "lesson.ipynb").read_text()
    assert WRITTEN in collected
    assert FIRST_THOUGHT not in collected
    assert [path.name for path in (submitted / EVE / ASSIGNMENT).iterdir()] == ["timestamp.txt"]


def test_a_broken_notebook_gets_a_clear_answer_and_harms_nobody(ines: Person) -> None:
    row = ines.page.locator("tr", has=ines.page.locator("td.student-id", has_text=DORA))
    row.locator("td.autograde a").click()
    modal = ines.page.locator("#error-modal")
    expect(modal).to_be_visible(timeout=SLOW_MS)
    expect(modal).to_contain_text("lesson.ipynb: ")
    ines.keep("broken")
    assert ines.status(f"/services/{COURSE}/formgrader/manage_assignments") == 200


def test_the_instructor_marks_the_written_answer(ines: Person, hub: Hub) -> None:
    submissions = ines.text(
        f"/services/{COURSE}/formgrader/api/submitted_notebooks/{ASSIGNMENT}/lesson"
    )
    (mine,) = re.findall(r'\{[^{}]*"student": "' + ADA + r'"[^{}]*\}', submissions)
    (number,) = re.findall(r'"id": "(\w+)"', mine)
    ines.formgrader(f"submissions/{number}")
    answer = ines.page.locator(".nbgrader_cell", has_text=WRITTEN).last
    answer.scroll_into_view_if_needed()
    answer.locator("input.score").fill("2.5")
    answer.locator("textarea.comment").fill(COMMENT)
    answer.locator("textarea.comment").press("Tab")
    ines.page.wait_for_timeout(1500)
    answer.scroll_into_view_if_needed()
    ines.keep("marked")

    assert ines.page.locator("body").inner_text().count(WRITTEN)


def test_feedback_is_generated_and_released_from_formgrader(ines: Person, hub: Hub) -> None:
    ines.formgrader(f"manage_submissions/{ASSIGNMENT}")
    for name in (ADA, CARL, BOB):
        for column in ("generate-feedback", "release-feedback"):
            row = ines.page.locator("tr", has=ines.page.locator("td.student-id", has_text=name))
            row.locator(f"td.{column} a").click()
            ines.answered()
    ines.keep("feedback-released")

    assert (hub.course / "feedback" / ADA / ASSIGNMENT / "lesson.html").exists()


def test_the_learner_reads_score_message_and_comment(ada: Person) -> None:
    link = ada.fetch_feedback()
    ada.keep("feedback-fetched")
    link.click()
    ada.page.locator(".jp-DirListing-item", has_text="lesson.html").dblclick()
    feedback = ada.page.frame_locator(".jp-HTMLViewer iframe")
    expect(feedback.locator(".score")).to_have_text("17.5 of 19 points", timeout=SLOW_MS)
    ada.keep("feedback")

    slow = feedback.locator("tr", has_text="slow_link_ms")
    expect(slow).to_contain_text("0 / 1")
    expect(slow).to_contain_text("not passed. Run its check in your notebook for a hint.")
    verdict = feedback.locator(slow.locator("a").get_attribute("href") or "")
    expect(verdict).to_contain_text(SECONDS)
    expect(feedback.locator("tr", has_text="fast_link_ms")).to_contain_text("1 / 1")
    expect(feedback.locator(".comment")).to_contain_text(COMMENT)


# What nobody may see


def hidden_lines() -> set[str]:
    """The lines of the lesson's hidden tests that are long enough to be told by."""
    source = (ROOT / f"source/{ASSIGNMENT}/lesson.ipynb").read_text()
    released = (ROOT / f"release/{ASSIGNMENT}/lesson.ipynb").read_text()
    lines: set[str] = set()
    printed = ""
    for cell in nbformat.reads(source, as_version=4).cells:
        for block in re.findall(r"### BEGIN HIDDEN TESTS\n(.*?)### END", cell.source, re.DOTALL):
            lines |= {line.strip() for line in block.splitlines() if len(line.strip()) > 30}
        printed += str(cell.get("outputs", ""))
    # A learner whose functions are right prints the table that a hidden test compares with.
    return {line for line in lines if line not in released and line not in printed}


def test_the_cheater_fetches_feedback_too(carl: Person) -> None:
    carl.fetch_feedback()

    assert list((home(CARL) / COURSE / ASSIGNMENT / "feedback").rglob("lesson.html"))


@pytest.mark.parametrize(
    ("name", "own", "where"),
    [
        (ADA, ADAS_OWN, {"lesson.ipynb", "lesson.html"}),
        (CARL, CARLS_OWN, {"lesson.ipynb", "lesson.html"}),
        (BOB, BOBS_OWN, {"lesson.ipynb"}),
    ],
    ids=["Ada", "Carl", "Bob"],
)
def test_no_file_that_a_learners_account_can_read_holds_what_it_must_not(
    hub: Hub, name: str, own: str, where: set[str]
) -> None:
    secrets = hidden_lines()
    assert len(secrets) > 20
    if name != CARL:
        secrets.add(CARLS)
    if name != ADA:
        secrets.add(COMMENT)
    asked = {
        "wanted": [*secrets, own],
        "skipped": ["/proc", "/sys", "/dev", str(ROOT)],
        # What was there before the hub came is not the hub's.
        "since": (PLACE / "site.toml").stat().st_mtime,
        "whole": f"{PREFIX}/",
    }
    # On the command line, because it may not read that file; but what stands there all may read.
    program = Path(hub_walk.__file__).read_text()
    found = json.loads(
        as_user(name, "/usr/bin/python3", "-c", program, cwd=home(name), given=json.dumps(asked))
    )

    # Its own answer shows that the search finds what is there, also in a notebook or a page.
    assert {Path(file).name for file, lines in found.items() if own in lines} >= where
    assert {file: lines for file, lines in found.items() if secrets & set(lines)} == {}


def test_no_page_that_a_learner_can_open_shows_formgrader_or_another_learner(ada: Person) -> None:
    for address in (
        f"/services/{COURSE}/formgrader/manage_assignments",
        f"/services/{COURSE}/formgrader/api/gradebook",
        f"/services/{COURSE}/api/contents/source",
        f"/services/{COURSE}/files/gradebook.db",
        f"/user/{ADA}/formgrader/manage_assignments",
        f"/user/{CARL}/api/contents/{LESSON}",
        f"/user/{CARL}/files/{LESSON}",
        f"/user/{INES}/lab",
        "/hub/admin",
    ):
        assert ada.status(address) in (403, 404), address


def test_no_page_of_a_learners_asks_a_host_other_than_the_hub(ada: Person) -> None:
    assert ada.strangers == set()


def test_no_page_of_an_instructors_asks_a_host_other_than_the_hub(ines: Person) -> None:
    assert ines.strangers == set()


def test_whom_the_site_file_names_no_more_is_shut_out(
    browser: Browser, hub: Hub, ada: Person
) -> None:
    formgrader = f"/services/{COURSE}/formgrader/manage_assignments"
    otto = Person(browser, hub, OTTO)
    otto.log_in(formgrader)
    otto.page.wait_for_url(re.compile(formgrader))
    site = PREFIX / "hub/site.toml"
    learns_now = re.sub("instructors = .*", f"instructors = ['{INES}']", site.read_text())
    site.write_text(learns_now.replace(ADA, OTTO))
    status, said = doctor()
    assert status == 2
    assert f"others in formgrade-{COURSE} than its configuration: {OTTO} Restart it" in said
    hub.stop()
    hub.start()

    assert otto.status(formgrader) == 403
    otto.leave()
    ada.log_in()
    expect(ada.page.locator(".login_error")).to_be_visible()


def test_a_server_that_nobody_uses_is_stopped(browser: Browser, hub: Hub) -> None:
    hub.stop()
    site = PREFIX / "hub/site.toml"
    site.write_text(re.sub("idle_minutes = .*", f"idle_minutes = {IDLE_MINUTES}", site.read_text()))
    hub.start()
    somebody = Person(browser, hub, BOB)
    somebody.log_in()
    somebody.wait_for_lab()
    somebody.leave()
    assert runs_something(BOB)

    end = time.monotonic() + 60 * (IDLE_MINUTES + 1)
    while runs_something(BOB) and time.monotonic() < end:
        time.sleep(1)
    assert not runs_something(BOB)
