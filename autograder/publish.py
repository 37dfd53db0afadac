"""Releases an assignment, after a rehearsal: what learners get must be gradable, and fairly.

The source's own solutions, and the notebook that nobody has touched, are graded twice: as stock
nbgrader grades them, in a Jupyter kernel, and in the examination room. Solutions must get full
marks, an untouched notebook none, and each test cell the same from both. Then nbgrader generates
the release.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade

from autograder.cells import is_solution, is_test
from autograder.coursedir import source_folder, source_notebooks
from autograder.exam import Exam
from autograder.gradebook import open_gradebook
from autograder.lint import Finding, lint
from autograder.pool import Pool
from autograder.prepare import BadSource
from autograder.preprocessors import Examine
from autograder.shell import leading_blank_lines
from autograder.submissions import Submission
from autograder.trusted import TrustedNotebook, grade_id
from autograder.worker import Job, make_job


class ReleaseRefused(Exception):
    """The assignment would not be graded as its author means; each finding says how to mend it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))


class ReleaseFailed(Exception):
    """A notebook could not be run, or nbgrader generate no release; the message says why."""


@dataclass(frozen=True)
class Released:
    """An assignment that has been released.

    Args:
        folder: what learners receive.
        notebooks: names of its notebooks.
        notes: what its author should know all the same.
    """

    folder: Path
    notebooks: tuple[str, ...]
    notes: tuple[Finding, ...]


def publish(course: CourseDirectory, assignment: str) -> Released:
    """Rehearse the grading of an assignment, then generate its release.

    Raises:
        BadSource: the assignment has no notebook, or one that nbgrader would not release.
        ReleaseRefused: it would not be graded as its author means.
        ReleaseFailed: a notebook could not be run, or nbgrader could not generate the release.
        NoGradebook: the gradebook cannot be opened.
        NoWalls: nothing on this machine keeps code in, so there is no examination room.
    """
    open_gradebook(course).close()
    findings = rehearse(course, assignment)
    if any(finding.refuses for finding in findings):
        raise ReleaseRefused(findings)
    answer = NbGraderAPI(course).generate_assignment(assignment, force=True)
    if not answer["success"]:
        raise ReleaseFailed(answer.get("error") or answer.get("log") or "nbgrader gave no reason")
    return Released(
        Path(course.format_path(course.release_directory, ".", assignment)),
        tuple(path.stem for path in source_notebooks(course, assignment)),
        tuple(findings),
    )


def rehearse(course: CourseDirectory, assignment: str) -> list[Finding]:
    """Return what is wrong with an assignment, by notebook and cell.

    Raises:
        BadSource, NoWalls: as in `publish`.
        ReleaseFailed: a notebook could not be run.
    """
    if not source_notebooks(course, assignment):
        folder = source_folder(course, assignment)
        raise BadSource(f"{folder}: there is no notebook. Put the assignment's .ipynb files there.")
    exam = Examine(parent=course.parent).exam(course, assignment)
    hand_ins = [
        {source.name: _solved(source) for source in exam.trusted},
        {source.name: _untouched(source) for source in exam.trusted},
    ]
    solved, untouched = map(
        _Marks, _graded_by_nbgrader(hand_ins, exam, course), _graded_in_room(hand_ins, exam)
    )
    return [
        finding
        for source in exam.trusted
        for finding in _findings(source, lint(source, exam.support_files), solved, untouched)
    ]


_HandIn = dict[str, NotebookNode]
"""Notebooks by name."""


def _solved(source: TrustedNotebook) -> NotebookNode:
    return nbformat.from_dict(source.notebook)


def _untouched(source: TrustedNotebook) -> NotebookNode:
    """Return the notebook as learners receive it, but with its hidden tests."""
    notebook = nbformat.from_dict(source.notebook)
    for name, place in source.places.items():
        if is_solution(notebook.cells[place]):
            notebook.cells[place].source = source.released[name]
    return notebook


@dataclass(frozen=True)
class _Mark:
    """What a test cell got.

    Args:
        points: automatic points.
        error: what went wrong, in one line, or "".
        line: where in the cell, if that is known.
    """

    points: float
    error: str
    line: int | None


_Grades = dict[tuple[str, str], _Mark]
"""What each test cell got, by notebook and grade id."""


@dataclass(frozen=True)
class _Marks:
    """What one hand-in's test cells got from each grader."""

    in_kernel: _Grades
    in_room: _Grades


def _graded_in_room(hand_ins: Sequence[_HandIn], exam: Exam) -> list[_Grades]:
    def job(number: int) -> Job:
        files = {name: nbformat.writes(nb).encode() for name, nb in hand_ins[number].items()}
        return make_job(exam, Submission(str(number), files, (), {}, None))

    with Pool(AT_ONCE) as pool:
        outcomes = {job.learner: outcome for job, outcome in pool.outcomes(map(job, (0, 1)))}
    grades = []
    for number in range(len(hand_ins)):
        outcome = outcomes[str(number)]
        if outcome.failure:
            raise ReleaseFailed(f"The rehearsal could not be graded: {outcome.failure}")
        marked = {
            nb.name: nbformat.reads(nb.content.decode(), as_version=4) for nb in outcome.notebooks
        }
        grades.append(_grades(marked))
    return grades


def _graded_by_nbgrader(
    hand_ins: Sequence[_HandIn], exam: Exam, course: CourseDirectory
) -> list[_Grades]:
    def execute(name: str, notebook: NotebookNode) -> NotebookNode:
        with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
            for name, content in exam.support_files.items():
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            step = Execute(parent=course.parent)
            # Kernels would warn the instructor's terminal that others could listen to them.
            step.extra_arguments = [*step.extra_arguments, "--log-level=ERROR"]
            try:
                return step.preprocess(notebook, {"metadata": {"path": folder}})[0]
            except Exception as error:
                kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
                raise ReleaseFailed(
                    f"{name}.ipynb could not be run with its kernel {kernel!r}: "
                    f"{type(error).__name__}: {error}\n"
                    "Open it in JupyterLab, choose a kernel that is installed here, see that it "
                    "runs from top to bottom, and save it."
                ) from error

    names = [name for hand_in in hand_ins for name in hand_in]
    notebooks = [nbformat.from_dict(nb) for hand_in in hand_ins for nb in hand_in.values()]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        executed = pool.map(execute, names, notebooks)
        return [_grades({name: next(executed) for name in hand_in}) for hand_in in hand_ins]


def _grades(notebooks: _HandIn) -> _Grades:
    return {
        (notebook_name, name): _Mark(_points(cell), _error(cell), _line(cell))
        for notebook_name, notebook in notebooks.items()
        for name, cell in _test_cells(notebook)
    }


AT_ONCE: Final = 2
"""Kernels that run beside each other; each takes some 100 MB."""


def _test_cells(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    for cell in notebook.cells:
        if is_test(cell):
            yield str(grade_id(cell)), cell


def _points(cell: NotebookNode) -> float:
    try:
        return float(determine_grade(cell)[0])
    except ValueError:
        # Partial credit above the cell's points, which stops `nbgrader autograde`.
        return -1.0


def _error(cell: NotebookNode) -> str:
    for output in cell.outputs:
        if output.output_type == "error":
            return f"{output.ename}: {output.evalue}".strip().partition("\n")[0]
        if output.output_type == "stream" and output.name == "stderr":
            return f"text on stderr, {output.text.strip().rpartition(chr(10))[2]!r}"
    return ""


_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_LINE: Final = re.compile(r"Cell In\[\d+\]\"?, line (\d+)")


def _line(cell: NotebookNode) -> int | None:
    """Return the line at which a test cell failed."""
    tracebacks = (o.traceback for o in cell.outputs if o.output_type == "error")
    text = "\n".join(line for traceback in tracebacks for line in traceback)
    found = _LINE.search(_ESCAPES.sub("", text))
    return int(found[1]) + leading_blank_lines(cell.source) if found else None


def _findings(
    source: TrustedNotebook, read: Sequence[Finding], solved: _Marks, untouched: _Marks
) -> Iterator[Finding]:
    explained = {finding.cell for finding in read if finding.refuses}
    for name, cell in _test_cells(source.notebook):
        yield from (finding for finding in read if finding.cell == name)
        most = float(cell.metadata.nbgrader["points"])
        key = source.name, name
        for line, problem, mend in _of_solution(solved.in_kernel[key], solved.in_room[key], most):
            if name not in explained or solved.in_kernel[key].points < most:
                yield Finding(source.name, name, line, problem, mend)
        for line, problem, mend in _of_untouched(untouched.in_kernel[key], untouched.in_room[key]):
            yield Finding(source.name, name, line, problem, mend)


_Problem = tuple[int | None, str, str]


def _of_solution(stock: _Mark, ours: _Mark, most: float) -> Iterator[_Problem]:
    if stock.points < 0:
        yield None, f"the solution gets more than the cell's {most:g} points.", "Display fewer."
    elif stock.points < most and ours.points < most:
        yield (
            stock.line,
            f"the source's own solution gets {stock.points:g} of {most:g} points"
            f"{_because(stock.error)}.",
            "Mend the solution or the test.",
        )
    elif stock.points < most:
        yield (
            stock.line,
            f"stock nbgrader gives the solution {stock.points:g} of {most:g} points"
            f"{_because(stock.error)}; the examination room gives {ours.points:g}.",
            "Text on stderr is a failure to nbgrader, and a last line that shows a number is "
            "points: silence the one, end the other with a semicolon.",
        )
    elif ours.points < most:
        yield (
            ours.line,
            f"the solution gets full marks in one process and {ours.points:g} of {most:g} in the "
            f"examination room{_because(ours.error)}.",
            _mend(ours.error),
        )


def _of_untouched(stock: _Mark, ours: _Mark) -> Iterator[_Problem]:
    if stock.points or ours.points:
        yield (
            None,
            f"a notebook that nobody has touched gets {max(stock.points, ours.points):g} points.",
            "Test something that the stub does not do.",
        )


def _because(error: str) -> str:
    return f" ({error.rstrip(' .:')})" if error else ""


def _mend(error: str) -> str:
    if "cannot use" in error or "cannot be examined" in error:
        return (
            "Let functions take and return plain values: numbers, text, lists, tuples, dicts, sets "
            "or numeric arrays; of a data frame or figure, return the numbers in it."
        )
    if error.startswith("NameError"):
        return "Bind the name in the test cell, or in a locked cell that is no test."
    if error.startswith("FileNotFoundError"):
        return "Put the file beside the notebook, or return what would be written."
    return "Test values that the learner's functions return, and nothing else that they leave."
