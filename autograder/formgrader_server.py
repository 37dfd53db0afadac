"""Makes nbgrader's formgrader fit for several instructors, hostile submissions and no internet.

A Jupyter server loads this extension by itself, as it does nbgrader's. Where formgrader is switched
on, it puts handlers before formgrader's own: buttons that start long work do it aside, a
submission's files do nothing in the browser, and formulas are set by this server's own MathJax.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, Final

from jupyter_server.extension.application import ExtensionApp
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import apihandlers, handlers
from nbgrader.server_extensions.formgrader.base import (
    BaseApiHandler,
    check_notebook_dir,
    check_xsrf,
)
from tornado import web

from autograder.aside import Aside

FORMGRADER: Final = "nbgrader.server_extensions.formgrader"
TEMPLATES: Final = Path(__file__).parent / "templates" / "formgrader"

LONG_WORK: Final = {
    apihandlers.AssignHandler: "generate_assignment",
    apihandlers.ReleaseHandler: "release_assignment",
    apihandlers.CollectHandler: "collect",
    apihandlers.AutogradeHandler: "autograde",
    apihandlers.GenerateAllFeedbackHandler: "generate_feedback",
    apihandlers.GenerateFeedbackHandler: "generate_feedback",
    apihandlers.ReleaseAllFeedbackHandler: "release_feedback",
    apihandlers.ReleaseFeedbackHandler: "release_feedback",
}
"""The handlers that run one of nbgrader's commands, and its name in nbgrader's API."""

INERT: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A policy under which a page runs nothing, loads nothing, and has no part in our cookies."""


class LongWork(BaseApiHandler):  # type: ignore[misc]
    """Does what a button asks for aside, and gives the page nbgrader's answer.

    Args:
        command: the name of the work in nbgrader's API.
        aside: where it is done.
    """

    def initialize(self, command: str, aside: Aside) -> None:
        """Take the route's arguments."""
        self._command, self._aside = command, aside

    @web.authenticated
    @check_xsrf  # type: ignore[untyped-decorator]
    @check_notebook_dir  # type: ignore[untyped-decorator]
    async def post(self, *names: str) -> None:
        """Wait for the work; other requests are answered in the meantime."""
        root = Path(self.coursedir.root)
        answer = await self._aside.do(root, self._command, names, self.log.level)
        self.write(json.dumps(answer))


class SubmissionPage(handlers.SubmissionHandler):  # type: ignore[misc]
    """A submission with its marks, whose formulas need no other host."""

    @property
    def exporter(self) -> HTMLExporter:
        """nbgrader's exporter, with our templates before nbconvert's."""
        folders = [str(TEMPLATES), handlers.template_path]
        config = self.settings["nbgrader_formgrader"].config
        return HTMLExporter(config=config, extra_template_basedirs=folders)


class InertFiles(handlers.SubmissionFilesHandler):  # type: ignore[misc]
    """Gives out a submission's files such that a browser runs nothing that a learner wrote."""

    def set_extra_headers(self, path: str) -> None:
        """Tell the browser to take the file for what its name says, and to run nothing of it."""
        super().set_extra_headers(path)
        self.set_header("Content-Security-Policy", INERT)
        self.set_header("X-Content-Type-Options", "nosniff")


SAFE: Final = {
    handlers.SubmissionHandler: SubmissionPage,
    handlers.SubmissionFilesHandler: InertFiles,
}


class FormgraderServer(ExtensionApp):
    """The server extension."""

    name = "autograder"

    def initialize_handlers(self) -> None:
        """Put our handlers in the place of formgrader's, where it is switched on.

        Extensions are loaded by name, and of two handlers for an address Tornado takes the first.
        All of nbgrader's addresses are listed, because its last one fits many others as well.
        """
        self._aside = Aside()
        manager = self.serverapp.extension_manager  # type: ignore[union-attr]
        found = manager.extensions.get(FORMGRADER)
        if found is None or not found.enabled:
            return
        for pattern, handler, *rest in handlers.default_handlers + apihandlers.default_handlers:
            if handler in LONG_WORK:
                work = {"command": LONG_WORK[handler], "aside": self._aside}
                self.handlers.append((pattern, LongWork, work))
            else:
                self.handlers.append((pattern, SAFE.get(handler, handler), *rest))
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._stop_in_order)

    def _stop_in_order(self, *_: Any) -> None:
        """Stop as on SIGTERM: a hub interrupts, and without a terminal the server would break off.

        It would then wait for the work aside, for as long as that takes.
        """
        self.serverapp.stop(from_signal=True)  # type: ignore[union-attr]

    async def stop_extension(self) -> None:
        """Do not keep the server waiting for a submission that runs on."""
        self._aside.close()


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__, "app": FormgraderServer}]
