"""Examine one submission: from a submitted notebook to points and an autograded notebook.

Runs in a worker, which owns a room. The worker forks an examiner, hands it learner processes, and
watches both: whatever they do, the examination ends in time and with a result.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final, NoReturn

import nbformat
from nbformat import NotebookNode

from autograder import stamp
from autograder.cells import is_grade, is_solution, is_task, is_test
from autograder.examiner import Examination, Examiner
from autograder.learner_side import error_output
from autograder.limits import Limits
from autograder.link import (
    Began,
    Crashed,
    ExaminerEnd,
    Finished,
    Shown,
    Wanted,
    WhyLost,
    WorkerEnd,
)
from autograder.plan import Side, make_plan
from autograder.reconcile import Reconciled, reconcile
from autograder.result import CellResult, Result
from autograder.sandbox.lock import die_with_parent
from autograder.sandbox.room import LearnerProcess, Room
from autograder.scoring import Score
from autograder.shell import Shell
from autograder.trusted import TrustedNotebook

TICK_SECONDS: Final = 0.02
GRACE_SECONDS: Final = 5.0
"""What a test cell gets beyond its calls' time for its own work."""


@dataclass(frozen=True)
class Bench:
    """What a worker examines with: made once, used for every submission.

    Args:
        room: where learner processes come from.
        shell: the examiner's, which runs cells only in forked children.
        rehearsed: the trusted cells that are compiled.
    """

    room: Room
    shell: Shell
    rehearsed: set[str] = field(default_factory=set)

    def rehearse(self, task: Examination) -> None:
        """Have the trusted cells compiled, once for all submissions whose plan is the same."""
        sources = [
            source
            for source, side in zip(task.sources, task.plan.sides, strict=True)
            if source is not None and side in (Side.BOTH, Side.EXAMINER)
        ]
        key = "\0".join(sources)
        if key not in self.rehearsed:
            self.shell.rehearse(sources)
            self.rehearsed.add(key)


@dataclass
class _Progress:
    """What is known of an examination so far."""

    shown: dict[int, Shown] = field(default_factory=dict)
    marked: set[int] = field(default_factory=set)
    cell: int = 0
    finished: bool = False
    crashed: str = ""


@dataclass(frozen=True)
class _End:
    """How an examiner ended: why before it was through, and whether by a signal not of ours."""

    why: str = ""
    killed: bool = False


def examine(
    bench: Bench,
    trusted: TrustedNotebook,
    submitted: object,
    limits: Limits,
    submitted_files: Mapping[str, bytes],
    support_files: Mapping[str, bytes],
) -> Result:
    """Examine a submitted notebook.

    Args:
        bench: the worker's room and shell.
        trusted: the source.
        submitted: the notebook that was handed in, of any shape.
        limits: how long things may take.
        submitted_files: other files of the submission, by relative path; only the learner's
            process sees them.
        support_files: the source's files beside the notebook; they win over submitted ones.
    """
    started = time.monotonic()
    reconciled = reconcile(trusted, submitted)
    cells = reconciled.notebook.cells
    task = Examination(cells, reconciled.sources, make_plan(cells, reconciled.sources), limits)
    bench.rehearse(task)
    progress = _Progress()
    deadline = started + limits.submission_seconds
    notes = list(reconciled.notes)
    beside, left_out = _apart(submitted_files, support_files)
    if left_out:
        notes.append(
            f"left out, being in the way of the source's files: {', '.join(map(ascii, left_out))}"
        )
    files = {**beside, **support_files}
    killed_before = False
    while True:
        end = _Watched(bench, task, files, support_files, deadline).run(progress)
        if progress.finished:
            break
        if time.monotonic() >= deadline:
            notes.append(f"stopped after {limits.submission_seconds:g} s")
            break
        # A machine short of memory kills whom it likes; whoever is hit twice is to blame.
        if end.killed and not killed_before:
            killed_before = True
            notes.append(f"cell {progress.cell + 1} was examined again: {end.why}")
        elif progress.cell in progress.marked or not is_grade(cells[progress.cell]):
            notes.append(f"the examination could not go on: {end.why}")
            break
        else:
            progress.shown[progress.cell] = _lost(progress.cell, end.why)
            progress.marked.add(progress.cell)
        task = replace(task, marked=frozenset(progress.marked), again=True)
    notes += _locked_cells_that_failed(task, progress)
    notes += _odd_credit(cells, progress)
    results = _results(reconciled, progress)
    return Result(trusted.name, results, _autograded(reconciled, progress), tuple(notes))


def _apart(
    submitted: Mapping[str, bytes], support: Mapping[str, bytes]
) -> tuple[dict[str, bytes], list[str]]:
    """Return the submitted files that can lie beside the source's, and the names of the others."""
    folders = {str(parent) for name in support for parent in PurePath(name).parents}
    in_the_way = [
        name
        for name in submitted
        if name in folders or any(str(parent) in support for parent in PurePath(name).parents)
    ]
    return {n: content for n, content in submitted.items() if n not in in_the_way}, in_the_way


def _locked_cells_that_failed(task: Examination, progress: _Progress) -> Iterator[str]:
    for index, side in enumerate(task.plan.sides):
        shown = progress.shown.get(index)
        if side is Side.BOTH and shown and shown.error:
            yield f"a locked cell of the source's failed, cell {index + 1}: {shown.error}"


def _odd_credit(cells: Sequence[NotebookNode], progress: _Progress) -> Iterator[str]:
    for index, cell in enumerate(cells):
        shown = progress.shown.get(index)
        if shown and shown.score and shown.score.note:
            yield f"{cell.metadata.nbgrader['grade_id']}: {shown.score.note}"


class _Watched:
    """One examiner at work, with its learner processes."""

    def __init__(
        self,
        bench: Bench,
        task: Examination,
        files: Mapping[str, bytes],
        support_files: Mapping[str, bytes],
        deadline: float,
    ) -> None:
        self._bench = bench
        self._task = task
        self._files = files
        self._support_files = support_files
        self._deadline = deadline
        self._pid = 0
        self._learner: LearnerProcess | None = None
        self._overrun = ""

    def run(self, progress: _Progress) -> _End:
        """Fork an examiner and follow it to its end."""
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryDirectory(prefix="examiner-", ignore_cleanup_errors=True) as folder:
            self._pid = os.fork()
            if self._pid == 0:
                ours.close()
                self._become_examiner(theirs, Path(folder))
            theirs.close()
            try:
                return self._follow(WorkerEnd(ours), progress)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                ours.close()
                self._dismiss()

    def _become_examiner(self, connection: socket.socket, folder: Path) -> NoReturn:
        link = ExaminerEnd(connection)
        try:
            die_with_parent()
            gc.disable()
            _close_other_descriptors(connection.fileno())
            size = self._task.limits.memory_bytes
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
            _write(folder, self._support_files)
            os.chdir(folder)
            sys.path.insert(0, str(folder))
            Examiner(self._task, link, self._bench.shell).run()
        except BaseException as error:
            with suppress(OSError):
                link.report(Crashed("".join(traceback.format_exception(error, limit=-3))))
        finally:
            os._exit(0)

    def _follow(self, link: WorkerEnd, progress: _Progress) -> _End:
        patience = self._task.limits.cell_seconds + self._task.limits.call_seconds + GRACE_SECONDS
        heard = look = time.monotonic()
        poll = select.poll()
        poll.register(link.connection, select.POLLIN)
        while True:
            if poll.poll(TICK_SECONDS * 1000):
                heard = time.monotonic()
                try:
                    for report in link.reports():
                        self._take(report, link, progress)
                except EOFError:
                    return _End(progress.crashed) if progress.crashed else self._silent_end()
                if progress.finished:
                    return _End()
            now = time.monotonic()
            if now >= look:
                look = now + TICK_SECONDS
                if self._learner and not self._overrun and (why := self._learner.overrun()):
                    self._overrun = why
                    self._learner.kill()
            if now >= self._deadline:
                return _End("out of time")
            if now - heard > patience:
                return _End(f"the test took more than {patience:g} s")

    def _silent_end(self) -> _End:
        ending = os.pidfd_open(self._pid)
        select.select([ending], [], [], GRACE_SECONDS)
        os.close(ending)
        how = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if how is None or how.si_code == os.CLD_EXITED:
            return _End("the examiner ended")
        return _End(f"the examiner was killed ({_signal_name(how.si_status)})", killed=True)

    def _take(self, report: Any, link: WorkerEnd, progress: _Progress) -> None:
        match report:
            case Began(cell=cell):
                progress.cell = cell
            case Shown(cell=cell, score=points):
                progress.shown[cell] = report
                if points is not None:
                    progress.marked.add(cell)
            case Wanted():
                self._dismiss()
                self._overrun = ""
                self._learner = self._bench.room.admit(self._files)
                link.give_process(self._learner.socket)
            case WhyLost():
                link.tell_why(self._why_lost())
            case Crashed(text=text):
                progress.crashed = text
            case Finished():
                progress.finished = True

    def _why_lost(self) -> str:
        if self._overrun:
            return f"the learner's process used {self._overrun} and was stopped"
        if self._learner is None:
            return ""
        status = self._learner.kill()
        if status is not None and status < 0 and -status != signal.SIGKILL:
            return f"the learner's process crashed ({_signal_name(-status)})"
        return ""

    def _dismiss(self) -> None:
        if self._learner is not None:
            self._learner.close()
            self._learner = None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _close_other_descriptors(kept: int) -> None:
    for standard in (0, 1, 2):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _lost(cell: int, why: str) -> Shown:
    return Shown(cell, [error_output(why)], score=Score(0.0), error=why)


def _results(reconciled: Reconciled, progress: _Progress) -> tuple[CellResult, ...]:
    return tuple(
        _cell_result(cell, progress.shown.get(index))
        for index, cell in enumerate(reconciled.notebook.cells)
        if is_grade(cell) or is_task(cell)
    )


def _cell_result(cell: NotebookNode, shown: Shown | None) -> CellResult:
    name, most = cell.metadata.nbgrader["grade_id"], float(cell.metadata.nbgrader["points"])
    if cell.cell_type != "code" or is_solution(cell):
        return CellResult(name, None, most)
    if shown is None or shown.score is None:
        return CellResult(name, 0.0, most, error="not reached")
    return CellResult(name, shown.score.points, most, shown.reason, shown.error)


def _autograded(reconciled: Reconciled, progress: _Progress) -> NotebookNode:
    """Return the notebook with what its cells showed when they were examined."""
    executed = 0
    for index, cell in enumerate(reconciled.notebook.cells):
        if cell.cell_type != "code":
            continue
        shown = progress.shown.get(index)
        marked = is_test(cell)
        if shown is None:
            cell.outputs, cell.execution_count = [], None
            if marked:
                shown = _lost(index, "not reached")
            else:
                continue
        executed += 1
        cell.execution_count = executed
        cell.outputs = nbformat.from_dict(shown.outputs)
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = executed
        told: dict[str, Any] = {}
        if marked and shown.reason:
            told["reason"] = shown.reason
        if not marked and shown.failed:
            told["failed"] = "" if shown.tests_ran else shown.failed
        if submitted := reconciled.submitted_outputs.get(cell.id):
            told["submitted_outputs"] = submitted
        if told:
            cell.metadata[stamp.KEY] = told
    return reconciled.notebook
