"""Feedback for learners that leaks nothing, through nbgrader's command or for a whole class.

A learner's code has seen the hidden tests' inputs while it was graded, so no byte that the grading
run produced is shown. What remains: the learner's own text, the outputs that were handed in, the
points, and for a failed test the constant text of its message. `HideTests` makes a notebook of
just that; `FeedbackExporter` makes a page of the notebook.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import nbformat
from nbconvert.exporters import Exporter
from nbformat import NotebookNode
from nbgrader.api import BaseCell, Comment, Grade, Gradebook
from nbgrader.converters import GenerateFeedback, NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearHiddenTests, ClearMarkScheme
from nbgrader.preprocessors.base import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_locked, is_solution, is_task, temp_attrs
from traitlets import List, default

from autograder import safe_html, stamp
from autograder.gradebook import open_gradebook
from autograder.messages import assert_messages
from autograder.pages import page

NO_MESSAGE: Final = (
    "Run this check in your notebook: if it fails, it gives a hint; "
    "if it passes, a hidden test with other values did not."
)

Kind = Literal["prose", "own", "test", "manual"]
Status = Literal["passed", "partial", "failed", "waiting", "marked"]


@dataclass(frozen=True)
class CellFeedback:
    """What a learner is told about one cell; it lies in the cell's metadata under `feedback`.

    Args:
        kind: prose of the lesson, the learner's own code, a test, or what a person marks.
        question: what a graded cell asks, in a few words.
        status: how a graded cell ended; None for all others.
        points: points given.
        most: points that were to be had.
        message: why the test failed, in constant words of its author, or "".
        comment: what a person wrote, in Markdown.
        failed: why the learner's cell failed when it ran, or "".
    """

    kind: Kind
    question: str = ""
    status: Status | None = None
    points: float = 0.0
    most: float = 0.0
    message: str = ""
    comment: str = ""
    failed: str = ""


class ReadMarks(NbGraderPreprocessor):  # type: ignore[misc]
    """Read points and comments from the gradebook into the notebook.

    Does what nbgrader's GetGrades does, and also tells what still waits for a person.
    """

    _gradebook: Gradebook | None = None

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Write marks into the metadata of the cells, and the sum into the resources."""
        of = resources["nbgrader"]
        if self._gradebook is None:
            self._gradebook = Gradebook(of["db_url"])
        with self._gradebook as gradebook:
            notebook = gradebook.find_submission_notebook(
                of["notebook"], of["assignment"], of["student"]
            )
            penalty = notebook.late_submission_penalty or 0
            of["score"] = notebook.score - penalty
            of["max_score"] = notebook.max_score
            of["late_penalty"] = penalty
            grades = _rows(gradebook, Grade, notebook, Grade.score, Grade.needs_manual_grade)
            comments = _rows(gradebook, Comment, notebook, Comment.comment)
        for cell in nb.cells:
            marked = cell.metadata.get("nbgrader", {})
            name = marked.get("grade_id")
            if is_grade(cell) or is_task(cell):
                marked["score"], marked["waiting"] = grades.get(name, (0.0, True))
            if is_solution(cell) or is_task(cell):
                (marked["comment"],) = comments.get(name, (None,))
        return nb, resources


def _rows(gradebook: Gradebook, table: Any, notebook: Any, *columns: Any) -> dict[str, Any]:
    query = gradebook.db.query(BaseCell.name, *columns).select_from(table)
    of_notebook = query.join(BaseCell, table.cell_id == BaseCell.id).filter(
        table.notebook_id == notebook.id
    )
    return {name: values for name, *values in of_notebook}


class HideTests(ClearHiddenTests):  # type: ignore[misc]
    """Take the hidden tests and every output of the grading run out of a graded notebook."""

    # HTML exporters set this on every preprocessor, and warn of those that do not know it.
    display_data_priority: List[list[str]] = List(help="Not used.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Hide what the notebook's learner may not see; the notebook is changed in place."""
        examined = stamp.KEY in nb.metadata or any(stamp.KEY in cell.metadata for cell in nb.cells)
        mark_schemes = ClearMarkScheme(parent=self)
        asked = ""
        for index, cell in enumerate(nb.cells):
            told = cell.metadata.get(stamp.KEY, {})
            feedback = _cell_feedback(cell, told, asked, examined=examined)
            if feedback.kind == "test":
                self.preprocess_cell(cell, resources, index)
            elif is_task(cell):
                mark_schemes.preprocess_cell(cell, resources, index)
            if cell.cell_type == "code":
                cell.outputs = nbformat.from_dict(told.get("submitted_outputs", []))
                cell.execution_count = None
            elif feedback.kind == "prose":
                asked = safe_html.first_words(cell.source) or asked
            cell.metadata.pop(stamp.KEY, None)
            cell.metadata["feedback"] = asdict(feedback)
        nb.metadata.pop(stamp.KEY, None)
        return nb, resources


def _cell_feedback(
    cell: NotebookNode, told: NotebookNode, asked: str, *, examined: bool
) -> CellFeedback:
    """Say what a learner is told about a cell of the graded notebook."""
    if is_grade(cell) and not is_solution(cell):
        return _of_test(cell, told, examined=examined)
    if is_grade(cell) or is_task(cell):
        return _of_manual(cell, asked)
    if cell.cell_type != "code" or is_locked(cell):
        return CellFeedback("prose")
    comment = cell.metadata.get("nbgrader", {}).get("comment") or ""
    return CellFeedback("own", comment=comment, failed=_why_failed(cell, told))


def _of_test(cell: NotebookNode, told: NotebookNode, *, examined: bool) -> CellFeedback:
    marked = cell.metadata.nbgrader
    points, most = float(marked.get("score") or 0), float(marked["points"])
    failed = any(output.output_type == "error" for output in cell.get("outputs", []))
    status: Status = "partial"
    if points >= most and not (failed and most == 0):
        status = "passed"
    elif not points:
        status = "failed"
    message = ""
    if status == "failed":
        message = _constant_message(cell, told, examined=examined)
    return CellFeedback(
        "test",
        question=_comment_on_top(cell.source) or marked["grade_id"],
        status=status,
        points=points,
        most=most,
        message=message,
    )


def _constant_message(cell: NotebookNode, told: NotebookNode, *, examined: bool) -> str:
    messages = list(assert_messages(cell.source))
    if examined:
        fitting = [message for message in messages if message.text == told.get("reason")]
    else:
        errors = [o.evalue for o in cell.get("outputs", []) if o.output_type == "error"]
        fitting = [m for m in messages if any(m.fits(error) for error in errors)]
    return fitting[0].text if fitting else ""


def _comment_on_top(source: str) -> str:
    """Return the comment that begins a test cell, without the points, which stand elsewhere."""
    first = source.lstrip().split("\n", 1)[0]
    if not first.startswith("#") or "###" in first:
        return ""
    return re.sub(r"\s*\([\d.]+ points?\)\s*$", "", first.lstrip("# "))


def _of_manual(cell: NotebookNode, asked: str) -> CellFeedback:
    marked = cell.metadata.nbgrader
    question = safe_html.first_words(cell.source) if is_task(cell) else asked
    return CellFeedback(
        "manual",
        question=question or marked["grade_id"],
        status="waiting" if marked.get("waiting") else "marked",
        points=float(marked.get("score") or 0),
        most=float(marked["points"]),
        comment=marked.get("comment") or "",
    )


def _why_failed(cell: NotebookNode, told: NotebookNode) -> str:
    if "failed" not in told:
        return ""
    error = getattr(builtins, str(told["failed"]), None)
    if isinstance(error, type) and issubclass(error, BaseException):
        return f"This cell failed when your notebook was run from top to bottom: {error.__name__}."
    # Once tests have called the learner's code, cells that it adds could spell out what it has
    # seen by failing or not. Those of the lesson are few, and their tests' points tell the same.
    if told["failed"] or is_solution(cell):
        return "This cell failed when your notebook was run from top to bottom."
    return ""


class FeedbackExporter(Exporter):
    """Makes one page of a graded notebook that `HideTests` has been over."""

    output_mimetype = "text/html"

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    @default("optimistic_validation")
    def _optimistic_validation_default(self) -> bool:
        # Once, instead of after each preprocessor.
        return True

    def from_notebook_node(  # type: ignore[override]
        self, nb: NotebookNode, resources: Any = None, **options: Any
    ) -> tuple[str, Any]:
        """Return the page and nbconvert's resources."""
        notebook, resources = super().from_notebook_node(nb, resources, **options)
        cells = list(_shown(notebook.cells))
        graded = [cell for cell in cells if cell.feedback.status]
        content = page(
            "feedback.html.j2",
            name=resources["nbgrader"]["notebook"],
            assignment=resources["nbgrader"]["assignment"],
            score=resources["nbgrader"]["score"],
            most=resources["nbgrader"]["max_score"],
            no_message=NO_MESSAGE,
            late_penalty=resources["nbgrader"]["late_penalty"],
            waiting=sum(c.feedback.most for c in graded if c.feedback.status == "waiting"),
            graded=graded,
            cells=cells,
        )
        return content, resources


@dataclass(frozen=True)
class _ShownCell:
    """A cell of the page: its place, what is said about it, and its text and outputs in HTML."""

    number: int
    feedback: Any
    title: str
    body: str
    comment: str
    outputs: Sequence[str] = ()


def _shown(cells: Sequence[NotebookNode]) -> Iterator[_ShownCell]:
    for number, cell in enumerate(cells, 1):
        feedback = cell.metadata.get("feedback")
        if feedback is None or (feedback.kind == "prose" and cell.cell_type != "markdown"):
            continue
        if cell.cell_type == "code":
            body = safe_html.code(cell.source)
        else:
            body = safe_html.markdown(cell.source, cell.get("attachments"))
        yield _ShownCell(
            number,
            feedback,
            safe_html.first_words(cell.source),
            body,
            safe_html.markdown(feedback.comment),
            [safe_html.output(output) for output in cell.get("outputs", [])],
        )


class NothingGraded(Exception):
    """There is no autograded notebook to write feedback on; the message says whose."""


@dataclass(frozen=True)
class NoFeedback:
    """A learner for whom no feedback could be written, and why."""

    learner: str
    reason: str


class _ClassFeedback(GenerateFeedback):  # type: ignore[misc]
    """nbgrader's converter, for chosen learners, that says how far it is and goes on."""

    def __init__(
        self,
        course: CourseDirectory,
        learners: Collection[str] | None,
        on_progress: Callable[[int, int], None],
    ) -> None:
        super().__init__(coursedir=course, config=course.config)
        self.exporter_class = FeedbackExporter
        self.preprocessors = [ReadMarks, HideTests]
        self.failures: list[NoFeedback] = []
        self._learners = learners
        self._on_progress = on_progress
        self._reason = ""

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        self._learner = student_id
        return bool(super().init_destination(assignment_id, student_id))

    def convert_notebooks(self) -> None:
        chosen = self._chosen()
        self._on_progress(0, len(chosen))
        for done, (folder, notebooks) in enumerate(chosen.items(), start=1):
            self.assignments = {folder: notebooks}
            self._reason = ""
            try:
                super().convert_notebooks()
            except NbGraderException as error:
                self.failures.append(NoFeedback(self._learner, self._reason or str(error)))
            self._on_progress(done, len(chosen))

    def _chosen(self) -> dict[str, list[str]]:
        if self._learners is None:
            return dict(sorted(self.assignments.items()))
        assignment = self.coursedir.assignment_id
        folders = {self._format_source(assignment, who): who for who in self._learners}
        if missing := sorted(
            who for folder, who in folders.items() if folder not in self.assignments
        ):
            raise NothingGraded(
                f"No notebook for {assignment!r} by {', '.join(missing)} has been graded. "
                f"Is it spelled as in {self.coursedir.autograded_directory}/? If so, run: "
                f"autograder grade {assignment}"
            )
        return {folder: self.assignments[folder] for folder in sorted(folders)}

    def convert_single_notebook(self, notebook_filename: str) -> None:
        try:
            super().convert_single_notebook(notebook_filename)
        except Exception as error:
            self._reason = f"{Path(notebook_filename).name}: {type(error).__name__}: {error}"
            raise


def write_feedback(
    course: CourseDirectory,
    assignment: str,
    learners: Collection[str] | None = None,
    *,
    force: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[NoFeedback, ...]:
    """Write the feedback pages of a class, as `nbgrader generate_feedback` with our settings does.

    Args:
        course: the course directory.
        assignment: the assignment's name.
        learners: student ids; None for everybody whose notebook was graded.
        force: write anew what is already there and not older than the submission.
        on_progress: is told how many learners are done, of how many.

    Returns:
        Those who got none, and why. A learner's trouble does not stop the others.

    Raises:
        NoGradebook: the gradebook cannot be opened.
        NothingGraded: no notebook was graded, or none of one of these learners.
    """
    open_gradebook(course).close()
    with temp_attrs(course, assignment_id=assignment, student_id="*", notebook_id="*"):
        converter = _ClassFeedback(course, learners, on_progress)
        converter.force = force
        try:
            converter.start()
        except NbGraderException as error:
            raise NothingGraded(
                f"Nothing of {assignment!r} has been graded. Run: autograder grade {assignment}"
            ) from error
    return tuple(converter.failures)
