"""A process in which formgrader's long work is done, so that its pages go on answering.

It works as a command line would: it reads the course's settings anew for each job, and shares no
database session, working folder or log with the web server. Jobs wait for each other, so that
feedback asked for after grading shows the new marks, and two clicks on one button do no harm.

Learners' servers import this module too; what only an instructor's installation has is imported
where it is used.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Final

DIED: Final = "The process that does formgrader's work died; was memory short? Try again."

Answer = dict[str, Any]
"""What nbgrader's API answers: `success`, and where there is one, `log` and `error`."""


class Aside:
    """The process, started when it is first needed; for use in the web server's main thread."""

    def __init__(self) -> None:
        self._executor = _executor()

    async def do(self, root: Path, command: str, names: tuple[str, ...], log_level: int) -> Answer:
        """Do what a button asks for, after all that was asked before.

        Args:
            root: the course directory.
            command: the name of a method of nbgrader's API.
            names: its arguments: the assignment, and the student where there is one.
            log_level: from which level on messages go into the answer's log.
        """
        executor = self._executor
        try:
            # The kernel ends the process with the thread that started it: not with a helper.
            job = executor.submit(_do, root, command, names, log_level)
            return await asyncio.wrap_future(job)
        except BrokenProcessPool:
            # The first to hear of it, of all whose job was lost.
            if executor is self._executor:
                self._executor = _executor()
            return {"success": False, "error": DIED}

    def close(self) -> None:
        """End the process now, whatever it does; what a grader leaves the next one sweeps."""
        # From Python 3.14 on there is kill_workers() for this.
        for process in (self._executor._processes or {}).values():
            process.kill()
        self._executor.shutdown(cancel_futures=True)


def _executor() -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=spawn, initializer=_begin)


def _begin() -> None:
    from autograder.sandbox.lock import die_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    die_with_parent()


def _do(root: Path, command: str, names: tuple[str, ...], log_level: int) -> Answer:
    from nbgrader.apps.api import NbGraderAPI

    from autograder.coursedir import NoCourse, open_course, source_notebooks
    from autograder.submissions import read_submission, why_ungradable

    try:
        course = open_course(root)
    except NoCourse as reason:
        return {"success": False, "error": str(reason)}
    api = NbGraderAPI(course, parent=course.parent, log_level=log_level)
    answer: Answer = getattr(api, command)(*names)
    if command == "autograde" and not answer["success"]:
        assignment, learner = names
        notebooks = {path.stem: True for path in source_notebooks(course, assignment)}
        submission = read_submission(course, learner, assignment, notebooks)
        # Before nbgrader's traceback, which sends the reader to another one.
        answer["error"] = f"{why_ungradable(submission)}\n\n{answer['error']}".lstrip()
    return answer
