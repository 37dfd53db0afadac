"""Use the lesson in the real JupyterLab as a learner does: mouse and keyboard, in Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Locator,
    ViewportSize,
    expect,
    sync_playwright,
)

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
WINDOW: Final[ViewportSize] = {"width": 1280, "height": 900}
READY_S: Final = 60
SETTINGS: Final = {
    # Else cells outside the window are not in the page.
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@dataclass(frozen=True)
class Server:
    """A running JupyterLab.

    Attributes:
        url: its address, on the loopback interface.
        root: the folder that it serves.
        pid: its process.
    """

    url: str
    root: Path
    pid: int

    def ask(self, method: str, path: str) -> Any:
        """Send a request to the server's interface and return its answer, None if empty."""
        request = urllib.request.Request(f"{self.url}{path}", method=method)
        with urllib.request.urlopen(request, timeout=READY_S) as response:
            return json.loads(response.read() or "null")


@contextmanager
def jupyter_lab(folder: Path, stop: signal.Signals = signal.SIGTERM) -> Iterator[Server]:
    """Run JupyterLab in a folder, with nothing of the developer's: settings, history, caches.

    It serves what lies in the folder `root` there, until the signal stops it.

    Raises:
        RuntimeError: it ended early or did not answer in time; the message holds its log.
    """
    root, home, log = folder / "root", folder / "home", folder / "lab.log"
    root.mkdir(exist_ok=True)
    for name, settings in SETTINGS.items():
        file = home / "settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    port = _free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--ServerApp.root_dir={root}"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    # It listens on the loopback interface only, and only for the time of the tests.
    command += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True", "--allow-root"]
    environment = os.environ | {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "MPLCONFIGDIR": str(home / "matplotlib"),
    }
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        server = Server(f"http://127.0.0.1:{port}", root, process.pid)
        _wait_for(server, process, log)
        yield server
    finally:
        process.send_signal(stop)  # the server ends its kernels
        process.wait(timeout=30)


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """Run the system's Chromium without a window; its pages share one cache.

    Raises:
        RuntimeError: none is installed.
    """
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise RuntimeError(f"No browser found. Install one of {', '.join(CHROMIUM)}.")
    switches = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    switches += ["--disable-background-networking", "--disable-component-update"]
    if os.getuid() == 0:
        switches.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=switches)
        yield browser.new_context(viewport=WINDOW)
        browser.close()


class Learner:
    """A learner with a notebook open in the browser.

    Args:
        browser: where a page is opened.
        server: the JupyterLab that serves the notebook.
        file: the notebook on disk; the name of its folder names the workspace.

    Attributes:
        page: the browser's page.
        errors: what the page complained about so far, in its console or by an exception.
    """

    def __init__(self, browser: BrowserContext, server: Server, file: Path) -> None:
        self.errors: list[str] = []
        self._server = server
        self._path = file.relative_to(server.root).as_posix()
        cells = nbformat.read(file, as_version=4).cells
        self._grade_ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]
        self.page = browser.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.goto(f"{server.url}/lab/workspaces/{file.parent.name}/tree/{self._path}")
        expect(self.cells).to_have_count(len(cells), timeout=READY_S * 1000)
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)
        self._wait_for_kernel()

    def leave(self) -> None:
        """Close the page and end its kernel."""
        self.page.close()
        for session in self._server.ask("GET", "/api/sessions"):
            if session["path"] == self._path:
                self._server.ask("DELETE", f"/api/sessions/{session['id']}")

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _wait_for_kernel(self) -> None:
        # The notebook's own indicator shows idle even before there is a kernel to run anything.
        status = self.page.locator("#jp-main-statusbar")
        expect(status).to_contain_text(") | Idle", timeout=READY_S * 1000)

    @property
    def cells(self) -> Locator:
        """All cells, in the notebook's order."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell")

    def cell(self, grade_id: str) -> Locator:
        """The cell of that grade id."""
        return self.cells.nth(self._grade_ids.index(grade_id))

    def says(self, grade_id: str) -> str:
        """What stands below a cell."""
        return self.cell(grade_id).locator(".jp-OutputArea").inner_text().strip()

    def type(self, grade_id: str, text: str) -> None:
        """Replace a cell's text key by key; the editor indents."""
        self.cell(grade_id).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def run(self, grade_id: str) -> None:
        """Run one cell with Shift+Enter and wait for it."""
        before = max(self._counts())
        self.cell(grade_id).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Shift+Enter")
        prompt = self.cell(grade_id).locator(".jp-InputPrompt")
        expect(prompt).to_have_text(f"[{before + 1}]:", timeout=READY_S * 1000)

    def run_all(self) -> float:
        """Choose Run All Cells from the menu, wait for the last, and return the time it took, s."""
        before = max(self._counts())
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        begin = time.perf_counter()
        self.page.locator('.lm-Menu li[data-command="runmenu:run-all"]').click()
        self.page.wait_for_function(
            f"since => {_COUNTS_IN_PAGE}.every(count => count > since)",
            arg=before,
            timeout=READY_S * 1000,
        )
        return time.perf_counter() - begin

    def _counts(self) -> list[int]:
        counts: list[int] = self.page.evaluate(_COUNTS_IN_PAGE)
        return counts

    def validate(self) -> tuple[Locator, float]:
        """Press Validate; return the dialog that answers and the time it took, s."""
        begin = time.perf_counter()
        self.page.locator("jp-button.validate-button").click()
        dialog = self.page.locator(".nbgrader-SuccessDialog, .nbgrader-ErrorDialog")
        expect(dialog).to_be_visible(timeout=READY_S * 1000)
        return dialog, time.perf_counter() - begin


# The number in a code cell's prompt; 0 before its first run and while it waits or runs.
_COUNTS_IN_PAGE: Final = """
Array.from(
    document.querySelectorAll(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell"),
    cell => parseInt(cell.querySelector(".jp-InputPrompt").textContent.replace("[", "")) || 0
)"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < end:
        try:
            server.ask("GET", "/api/status")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
