"""A real JupyterHub for the tests: installs it, starts it, and drives it as its users do.

It makes accounts on the machine, so only root can, and only on a machine to throw away.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Locator, Request, expect

from benchmarks.memory import cpu_times

ROOT: Final = Path(__file__).parents[1]
PREFIX: Final = Path("/opt/hub-test")
PLACE: Final = Path("/srv/hub-test")
COURSE: Final = "llm"
ASSIGNMENT: Final = "disaggregation"
GRADER: Final = "hubtest-grader"
PASSWORD: Final = "a long one for the tests"
PORT: Final = 8700
READY_S: Final = 90
STOP_S: Final = 30
SLOW_MS: Final = 60_000
MEMORY_MIB: Final = 1024


@dataclass
class Hub:
    """An installed hub.

    Args:
        url: its address.
        artefacts: the folder for screenshots and the hub's log.
    """

    url: str
    artefacts: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: it does not; the message holds its log.
        """
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [PREFIX / "hub/start"], cwd=PLACE, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                urllib.request.urlopen(f"{self.url}/hub/api/")
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"The hub did not start:\n{self._log.read_text()}")

    def stop(self) -> None:
        """Have it stop itself and all that it started.

        Raises:
            subprocess.TimeoutExpired: it takes too long.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=STOP_S)

    def kill(self) -> None:
        """Make sure that it does not run."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            # The proxy is in a session of its own.
            with suppress(OSError):
                os.kill(int((PLACE / "state/proxy.pid").read_text()), signal.SIGKILL)

    @property
    def _log(self) -> Path:
        return self.artefacts / "hub.log"

    @property
    def course(self) -> Path:
        """The course directory of the grader's account."""
        return home(GRADER) / "course"

    def as_grader(self, *command: str) -> str:
        """Run a command in the course directory, as the grader's account on a terminal does."""
        return as_user(GRADER, *command, cwd=self.course)


def home(name: str) -> Path:
    """The home of an account."""
    return Path(pwd.getpwnam(name).pw_dir)


def as_user(name: str, *command: str, cwd: Path, given: str = "") -> str:
    """Run a command under an account, with something to read; return all that it printed."""
    account = pwd.getpwnam(name)
    done = subprocess.run(
        command,
        cwd=cwd,
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        env={
            "HOME": account.pw_dir,
            "PATH": f"{PREFIX}/bin:/usr/bin:/bin",
            "JUPYTER_CONFIG_PATH": f"{PREFIX}/hub/grader:{PREFIX}/hub/everyone",
        },
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} as {name}:\n{done.stdout}")
    return done.stdout


@contextmanager
def running_hub(learners: Sequence[str], instructors: Sequence[str]) -> Iterator[Hub]:
    """Install a hub with these accounts, run it, and take all away again but the environment."""
    artefacts = ROOT / "artefacts/hub"
    shutil.rmtree(artefacts, ignore_errors=True)
    artefacts.mkdir(parents=True)
    names = (GRADER, *learners, *instructors)
    _clear(names)
    PLACE.mkdir(mode=0o755)
    site = PLACE / "site.toml"
    site.write_text(f"""\
course = "{COURSE}"
address = "http://127.0.0.1:{PORT}"
prefix = "{PREFIX}"
exchange = "{PLACE}/exchange"
state = "{PLACE}/state"
grader = "{GRADER}"
instructors = {list(instructors)}
learners = {list(learners)}
memory_mib = {MEMORY_MIB}
idle_minutes = 60
""")
    subprocess.run([ROOT / "hub/install", site], check=True)
    for name in (*learners, *instructors):
        subprocess.run(["chpasswd"], input=f"{name}:{PASSWORD}", text=True, check=True)
    hub = Hub(f"http://127.0.0.1:{PORT}", artefacts)
    try:
        hub.start()
        yield hub
        hub.stop()
    finally:
        hub.kill()
        _clear(names)


def _clear(names: Sequence[str]) -> None:
    for name in names:
        with suppress(KeyError):
            pwd.getpwnam(name)
            # What a kernel left running would keep the account in use.
            subprocess.run(["userdel", "--force", "--remove", name], capture_output=True)
    shutil.rmtree(PLACE, ignore_errors=True)


class Person:
    """Somebody at a browser of their own.

    Args:
        browser: the browser in which a fresh profile is made.
        hub: the hub to visit.
        name: the account.

    Attributes:
        page: the tab in use.
        strangers: hosts other than the hub that a page asked.
    """

    shots = 0

    def __init__(self, browser: Browser, hub: Hub, name: str) -> None:
        self.hub, self.name = hub, name
        self.strangers: set[str] = set()
        self._context = browser.new_context(viewport={"width": 1280, "height": 900})
        self._context.set_default_timeout(SLOW_MS)
        self._context.on("request", self._note)
        self.page = self._context.new_page()

    def _note(self, request: Request) -> None:
        if not request.url.startswith((self.hub.url, "data:", "blob:", "ws:", "about:")):
            self.strangers.add(request.url)

    def leave(self) -> None:
        """Close the browser's profile."""
        self._context.close()

    def keep(self, what: str) -> None:
        """Keep a picture of the page."""
        Person.shots += 1
        self.page.screenshot(path=self.hub.artefacts / f"{Person.shots:02}-{self.name}-{what}.png")

    def status(self, address: str) -> int:
        """Ask for a page as this person, and return the status of the answer."""
        return self._context.request.get(self.hub.url + address).status

    def text(self, address: str) -> str:
        """Ask for a page as this person, and return its text."""
        return self._context.request.get(self.hub.url + address).text()

    def log_in(self, address: str = "") -> None:
        """Open a page of the hub's and give name and password on the way."""
        self.page.goto(self.hub.url + address)
        self.page.locator("#username_input").fill(self.name)
        self.page.locator("#password_input").fill(PASSWORD)
        self.keep("login")
        self.page.locator("#login_submit").click()

    def wait_for_lab(self) -> None:
        """Wait until JupyterLab stands."""
        self.page.wait_for_url(re.compile(rf"/user/{self.name}/lab"), timeout=SLOW_MS)
        expect(self.page.locator("#jp-main-dock-panel")).to_be_visible(timeout=SLOW_MS)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0, timeout=SLOW_MS)

    def menu(self, name: str, command: str) -> None:
        """Choose an entry from the menu bar."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{name}$")).click()
        self.page.locator(f'.lm-Menu li[data-command="{command}"]').click()

    # The list of assignments

    def open_list(self) -> None:
        """Open the assignment list of the course."""
        self.menu("Nbgrader", "nbgrader:open-assignment-list")
        expect(self.page.locator("#released_assignments_list")).to_be_visible(timeout=SLOW_MS)
        expect(self.page.locator("#course_list_dropdown")).to_be_enabled(timeout=SLOW_MS)

    def row(self, kind: str) -> Locator:
        """The assignment's row among the released, fetched or submitted ones."""
        return self.page.locator(f"#{kind}_assignments_list > .list_item", has_text=ASSIGNMENT)

    def fetch(self) -> None:
        """Press Fetch."""
        self.row("released").locator(".item_status button").click()
        expect(self.row("fetched")).to_be_visible(timeout=SLOW_MS)

    def submit(self) -> None:
        """Press Submit, and wait for one more submission in the list."""
        shown = self.page.locator("#submitted_assignments_list .list_item")
        before = shown.count()
        self.row("fetched").locator(".item_status button", has_text="Submit").click()
        self.page.wait_for_function(
            "n => document.querySelectorAll('#submitted_assignments_list .list_item').length > n",
            arg=before,
            timeout=SLOW_MS,
        )

    def fetch_feedback(self) -> Locator:
        """Look at the list anew, press Fetch Feedback, and return the link that appears."""
        self.page.goto(f"{self.hub.url}/user/{self.name}/lab?reset")
        self.wait_for_lab()
        self.open_list()
        self.row("submitted").locator("button", has_text="Fetch Feedback").click()
        link = self.page.locator("#submitted_assignments_list a", has_text="view feedback").first
        expect(link).to_be_visible(timeout=SLOW_MS)
        return link

    # Formgrader

    def formgrader(self, page: str) -> None:
        """Open a page of formgrader."""
        self.page.goto(f"{self.hub.url}/services/{COURSE}/formgrader/{page}")

    def press(self, column: str) -> None:
        """Press a button in the assignment's row and wait for its success."""
        row = self.page.locator("tr", has=self.page.locator("td.name", has_text=ASSIGNMENT))
        row.locator(f"td.{column} a").click()
        self.answered()

    def answered(self) -> None:
        """Wait for formgrader's word of success and close it."""
        modal = self.page.locator("#success-modal, #error-modal")
        expect(modal).to_be_visible(timeout=SLOW_MS)
        said = modal.inner_text()
        assert "success" in (modal.get_attribute("id") or ""), said
        modal.locator("button", has_text=re.compile("^(OK|Close)$")).last.click()
        expect(modal).to_have_count(0, timeout=SLOW_MS)


def runs_something(name: str) -> bool:
    """Say whether a process of an account's is there."""
    uid = pwd.getpwnam(name).pw_uid
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == uid:
                return True
    return False


def memory_mib(name: str) -> float:
    """Memory that an account's processes take, each shared page counted by its share (PSS), MiB."""
    uid, total = pwd.getpwnam(name).pw_uid, 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == uid:
                found = re.search(r"^Pss:\s+(\d+)", (process / "smaps_rollup").read_text(), re.M)
                total += int(found.group(1)) if found else 0
    return total / 1024


def processor_s(name: str) -> float:
    """Processor time that an account's living processes have taken so far, s."""
    uid, total = pwd.getpwnam(name).pw_uid, 0.0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == uid:
                total += sum(cpu_times(int(process.name)))
    return total
