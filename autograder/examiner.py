"""Runs the trusted cells and decides the points; in a process of its own for each submission.

Here are the hidden tests and the expected values. No code of the learner's runs here: its
functions are stand-ins that call the learner's process, and its values are plain copies.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nbformat import NotebookNode

from autograder import random_state, regression
from autograder.learner_side import LearnerSide, error_output
from autograder.limits import Limits
from autograder.link import Began, ExaminerEnd, Finished, Shown
from autograder.messages import assert_messages
from autograder.plan import Plan, Side
from autograder.scoring import Score, is_number, score
from autograder.shell import CellOutcome, Shell

Output = dict[str, Any]

SEED: Final = 20_261_130


@dataclass(frozen=True)
class Examination:
    """What an examiner needs to know of one submission.

    Args:
        cells: the reconciled notebook's.
        sources: for each cell the trusted text, or None for a cell that the learner added.
        plan: who runs which cell.
        limits: how long things may take.
        marked: cells that an earlier examiner of this submission has marked or died in.
        again: whether there was one.
    """

    cells: Sequence[NotebookNode]
    sources: Sequence[str | None]
    plan: Plan
    limits: Limits
    marked: Collection[int] = ()
    again: bool = False


class Examiner:
    """Examines one submission, in a process made for that."""

    def __init__(self, task: Examination, link: ExaminerEnd, shell: Shell) -> None:
        self._task = task
        self._link = link
        self._shell = shell
        self._learner = LearnerSide(
            link.admit,
            link.why_lost,
            link.replays,
            task.plan,
            shell.user_ns,
            task.limits,
            SEED,
            told=task.again,
        )

    def run(self) -> None:
        """Run every cell where the plan says, and report each."""
        random.seed(SEED)
        random_state.seed(SEED)
        for index, side in enumerate(self._task.plan.sides):
            if side is Side.NOBODY or (side is Side.EXAMINER and index in self._task.marked):
                continue
            self._link.report(Began(index))
            self._learner.begin_cell()
            match side:
                case Side.LEARNER:
                    self._link.report(self._run_learners(index))
                case Side.BOTH:
                    self._link.report(self._run_in_both(index))
                case Side.EXAMINER:
                    self._link.report(self._mark(index))
        self._link.report(Finished())

    def _run_learners(self, index: int) -> Shown:
        ran = self._learner.run(index, self._task.cells[index].source, report=True)
        return Shown(index, ran.outputs, ran.failed, self._learner.told)

    def _run_in_both(self, index: int) -> Shown:
        trusted, learners = self._trusted(index), self._task.cells[index].source
        outcome = self._shell.run(trusted)
        changed = learners != trusted
        ran = self._learner.run(index, learners, report=changed)
        error = _error_text(outcome.outputs)
        if changed:
            return Shown(index, ran.outputs, ran.failed, self._learner.told, error=error)
        return Shown(index, outcome.outputs, error=error)

    def _mark(self, index: int) -> Shown:
        source = self._trusted(index)
        self._learner.begin_test()
        outcome = self._shell.run(source)
        outputs = [output for output in outcome.outputs if not _on_stderr(output)]
        error = self._learner.failure or _error_text(outcome.outputs)
        cell = self._task.cells[index]
        if not error and regression.CHECK_OUTPUT_TAG in cell.metadata.get("tags", []):
            error = regression.difference(cell.outputs, outputs) or ""
        if error and not _ends_in_error(outputs):
            outputs.append(error_output(error))
        points = score(
            float(cell.metadata.nbgrader["points"]),
            failed=bool(error),
            value=outcome.value,
        )
        reason = self._reason(source, outcome) if error else ""
        return Shown(
            index,
            _agreeing(outputs, points, is_number(outcome.value)),
            score=points,
            reason=reason,
            error=error,
        )

    def _trusted(self, index: int) -> str:
        source = self._task.sources[index]
        if source is None:
            raise ValueError("a cell of the learner's in the examiner")
        return source

    def _reason(self, source: str, outcome: CellOutcome) -> str:
        """Return the constant text of the assert that failed, if the source has one for it."""
        error = outcome.error
        # The text of an exception of the learner's own could choose among the messages.
        if self._learner.failure or error is self._learner.raised:
            return ""
        if not isinstance(error, AssertionError):
            return ""
        text = str(error)
        fitting = (message.text for message in assert_messages(source) if message.fits(text))
        return next(fitting, "")


def _on_stderr(output: Output) -> bool:
    return output.get("name") == "stderr"


def _ends_in_error(outputs: Sequence[Output]) -> bool:
    return any(output["output_type"] == "error" for output in outputs)


def _error_text(outputs: Sequence[Output]) -> str:
    errors = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
    return errors[-1] if errors else ""


def _agreeing(outputs: Sequence[Output], points: Score, is_credit: bool) -> list[Output]:
    """Let nbgrader, which reads a displayed number as points, read the points that were given."""
    agreeing: list[Output] = []
    for output in outputs:
        if output["output_type"] == "execute_result":
            if _ends_in_error(outputs):
                continue
            if is_credit or _as_points(output) not in (None, points.points):
                text = {"text/plain": f"{points.points}"}
                output = {**output, "data": {**output["data"], **text}}
        agreeing.append(output)
    return agreeing


def _as_points(output: Output) -> float | None:
    try:
        return float(output["data"].get("text/plain", ""))
    except ValueError:
        return None
