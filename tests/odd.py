"""Odd submissions of the lesson that a class really hands in, as files.

A function for each kind returns its variants; `ODD` has them all. Each starts from the release with
right answers, so that what it loses is due to its oddity alone. `deserves_to_lose` and the notes
are what a fair and watchful grader finds. What instructors do (points changed in the source, a
regrade, two graders at once) is no submission, so not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import NotebookNode

from tests.sample_class import NOTEBOOK, PERFECT, fill_in, position

FILE: Final = f"{NOTEBOOK}.ipynb"
RELEASE: Final = Path(__file__).parents[1] / "release" / "disaggregation" / FILE


def _nothing(folder: Path) -> None:
    pass


@dataclass(frozen=True)
class Odd:
    """One submission.

    Args:
        name: a short name, fit for a student id.
        files: what the submission's folder holds, by path relative to it.
        deserves_to_lose: grade cells that score 0.
        noted: part of a note that the instructor must get, or "".
        unreadable: part of the reason why nothing can be graded, or "".
        arrange: what is done to the folder once the files are written.
    """

    name: str
    files: Mapping[str, bytes]
    deserves_to_lose: Sequence[str] = ()
    noted: str = ""
    unreadable: str = ""
    arrange: Callable[[Path], None] = _nothing

    @property
    def notebook(self) -> bytes:
        """The only notebook, whatever its name."""
        (notebook,) = (data for name, data in self.files.items() if name.endswith(".ipynb"))
        return notebook

    def write(self, folder: Path) -> None:
        """Make the submission's folder."""
        folder.mkdir(parents=True)
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        self.arrange(folder)


def answered(answers: Mapping[str, str] | None = None) -> NotebookNode:
    """Return the release with right answers, but for those given."""
    notebook = nbformat.read(RELEASE, as_version=4)
    fill_in(notebook, {**PERFECT, **(answers or {})})
    return notebook


def as_file(notebook: Any) -> bytes:
    """Write a notebook as it is; nbformat would mend some of it."""
    return json.dumps(notebook, indent=1).encode()


def _edited(name: str, edit: Callable[[NotebookNode], object], **expected: Any) -> Odd:
    notebook = answered()
    edit(notebook)
    return Odd(name, {FILE: as_file(notebook)}, **expected)


def _answer(name: str, answers: Mapping[str, str], **expected: Any) -> Odd:
    return Odd(name, {FILE: as_file(answered(answers))}, **expected)


def _with_extra(name: str, before: str, *sources: str, **expected: Any) -> Odd:
    def edit(notebook: NotebookNode) -> None:
        at = position(notebook, before)
        notebook.cells[at:at] = [nbformat.v4.new_code_cell(source) for source in sources]

    return _edited(name, edit, **expected)


def cell(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    """Return the cell of this grade id."""
    return notebook.cells[position(notebook, grade_id)]


def _copy_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    copy = nbformat.from_dict(cell(notebook, grade_id))
    copy.id = f"copy-of-{grade_id}"
    return copy


def copied_test_cell() -> tuple[Odd, ...]:
    def paste(notebook: NotebookNode) -> None:
        notebook.cells.append(_copy_of(notebook, "ttft-sum"))

    def paste_above(notebook: NotebookNode) -> None:
        notebook.cells.insert(0, _copy_of(notebook, "ttft-sum"))

    noted = "ttft-sum: the cell had been copied"
    return (
        _edited("test-pasted", paste, noted=noted),
        _edited("test-pasted-above", paste_above, noted=noted),
    )


def locked_cell_split_or_moved() -> tuple[Odd, ...]:
    def split(notebook: NotebookNode) -> None:
        at = position(notebook, "setup")
        second = _copy_of(notebook, "setup")
        lines = second.source.splitlines(keepends=True)
        notebook.cells[at].source = "".join(lines[:2])
        second.source = "".join(lines[2:])
        notebook.cells.insert(at + 1, second)

    def move(notebook: NotebookNode) -> None:
        notebook.cells.append(notebook.cells.pop(position(notebook, "setup")))

    return (
        _edited("locked-split", split, noted="setup: the cell had been copied or split"),
        _edited("locked-moved", move, noted="setup: the cell had been moved"),
    )


def deleted_test_cell() -> tuple[Odd, ...]:
    def delete(notebook: NotebookNode) -> None:
        del notebook.cells[position(notebook, "ttft-sum")]

    return (_edited("test-deleted", delete, noted="ttft-sum: the test cell had been deleted"),)


def solution_cell_deleted() -> tuple[Odd, ...]:
    def delete(notebook: NotebookNode) -> None:
        del notebook.cells[position(notebook, "fast-link")]

    return (
        _edited(
            "solution-deleted",
            delete,
            deserves_to_lose=["fast-link-check"],
            noted="fast-link: the solution cell had been deleted",
        ),
    )


def settings_edited() -> tuple[Odd, ...]:
    def no_grade(notebook: NotebookNode) -> None:
        cell(notebook, "ttft-sum").metadata.nbgrader.grade = False

    def more_points(notebook: NotebookNode) -> None:
        cell(notebook, "ttft-sum").metadata.nbgrader.points = 200

    def graded_solution(notebook: NotebookNode) -> None:
        cell(notebook, "ttft").metadata.nbgrader |= {"grade": True, "points": 50}

    def points_as_text(notebook: NotebookNode) -> None:
        cell(notebook, "ttft-sum").metadata.nbgrader.points = "2"

    noted = "points or other settings"
    return (
        _edited("grade-false", no_grade, noted=noted),
        _edited("points-edited", more_points, noted=noted),
        _edited("graded-solution", graded_solution, noted=noted),
        _edited("points-as-text", points_as_text, noted=noted),
    )


def metadata_stripped() -> tuple[Odd, ...]:
    def strip(notebook: NotebookNode) -> None:
        for each in notebook.cells:
            each.metadata = NotebookNode()

    def strip_ids_too(notebook: NotebookNode) -> None:
        strip(notebook)
        for each in notebook.cells:
            del each["id"]
        notebook.nbformat_minor = 4

    noted = "nbgrader's metadata was gone"
    return (
        _edited("stripped", strip, noted=noted),
        _edited("stripped-and-no-ids", strip_ids_too, noted=noted),
    )


def code_turned_into_markdown() -> tuple[Odd, ...]:
    def turn(notebook: NotebookNode) -> None:
        notebook.nbformat_minor = 0
        for each in notebook.cells:
            del each["id"]
        for grade_id in ("ttft", "ttft-sum"):
            turned = cell(notebook, grade_id)
            turned.cell_type = "markdown"
            del turned["outputs"], turned["execution_count"]

    return (_edited("turned-into-markdown", turn, noted="ttft, ttft-sum: the cell's type"),)


def renamed() -> tuple[Odd, ...]:
    data = as_file(answered())
    names = {
        "by-a-browser": f"{NOTEBOOK} (1).ipynb",
        "copied": f"{NOTEBOOK}-Copy1.ipynb",
        "own-name": "Ada's übung [final].ipynb",
    }
    return tuple(Odd(name, {file: data}, noted="handed in as") for name, file in names.items())


def other_files() -> tuple[Odd, ...]:
    data = as_file(answered())
    return (
        Odd("html-beside", {FILE: data, f"{NOTEBOOK}.html": b"<script>alert(1)</script>"}),
        Odd("odd-names-beside", {FILE: data, "my notes [1]/größe 負.txt": b"notes"}),
    )


def other_kernel() -> tuple[Odd, ...]:
    def environment(notebook: NotebookNode) -> None:
        notebook.metadata.kernelspec |= {"name": "conda-env-ml-py", "display_name": "ML"}

    def language(notebook: NotebookNode) -> None:
        notebook.metadata.kernelspec |= {"name": "ir", "language": "R"}
        notebook.metadata.language_info = {"name": "R"}

    return (
        _edited("kernel-of-another-environment", environment),
        _edited("kernel-of-another-language", language, noted="kernel of another language"),
    )


def code_that_fails_or_hangs() -> tuple[Odd, ...]:
    ttft = ["ttft-sum", "report"]
    zero_bytes = """\
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    if bandwidth_bytes_per_s <= 0:
        raise ValueError
    {}
    return 1000 * kv_bytes / bandwidth_bytes_per_s"""
    function = "def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):\n    "
    return (
        _answer("input", {"ttft": "ttft_ms = input('how? ')"}, deserves_to_lose=ttft),
        _answer(
            "not-implemented",
            {"ttft": f"{function}raise NotImplementedError"},
            deserves_to_lose=ttft,
        ),
        _answer("memory-bomb", {"ttft": "l = []\nwhile True: l.append(1)"}, deserves_to_lose=ttft),
        _answer(
            "hangs-for-one-input",
            {"kv-transfer": zero_bytes.format("while kv_bytes == 0: pass")},
            deserves_to_lose=["kv-transfer-value"],
        ),
        _answer(
            "crashes-for-one-input",
            {"kv-transfer": zero_bytes.format("if kv_bytes == 0: import os; os.abort()")},
            deserves_to_lose=["kv-transfer-value"],
        ),
        _answer(
            "endless-recursion",
            {
                "ttft": f"{function}"
                "return ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms)"
            },
            deserves_to_lose=ttft,
        ),
        _answer(
            "non-ascii-error",
            {"ttft": "größe = 1\nraise ValueError('Größe – 負の数')"},
            deserves_to_lose=ttft,
        ),
        _answer(
            "name-of-the-session",
            {"fast-link": "fast_link_ms = payload / link * 1000"},
            deserves_to_lose=["fast-link-check"],
        ),
    )


def code_that_works() -> tuple[Odd, ...]:
    end = "always-beneficial"
    return (
        _with_extra("prints-200-mb", end, "for _ in range(200): print('x' * 1024**2)"),
        _with_extra(
            "interact-left",
            end,
            "from ipywidgets import interact\ninteract(lambda x: x, x=(0, 10))",
        ),
        _with_extra("warns", end, "import warnings\nwarnings.warn('old')"),
        _with_extra(
            "magics",
            "kv-transfer",
            "%matplotlib inline",
            "%timeit -n1 -r1 sum(range(10))",
            "!pip install x",
            "%%bash\necho hello",
        ),
        _with_extra("redefined-after-its-test", end, "fast_link_ms = 0"),
        Odd("helper-in-an-extra-cell", {FILE: as_file(_with_helper())}),
    )


def _with_helper() -> NotebookNode:
    notebook = answered({"fast-link": "fast_link_ms = seconds(512, 32 * 1024) * 1000"})
    helper = "def seconds(size, bandwidth):\n    return size / bandwidth"
    notebook.cells.insert(position(notebook, "fast-link"), nbformat.v4.new_code_cell(helper))
    return notebook


def odd_ids() -> tuple[Odd, ...]:
    def same(notebook: NotebookNode) -> None:
        for each in notebook.cells:
            each.id = "same"

    def none(notebook: NotebookNode) -> None:
        for each in notebook.cells:
            del each["id"]

    def invalid(notebook: NotebookNode) -> None:
        for number, each in enumerate(notebook.cells):
            each["id"] = [None, 7, "", "a b", "x" * 100][number % 5]

    return (_edited("same-ids", same), _edited("no-ids", none), _edited("invalid-ids", invalid))


def no_notebook() -> tuple[Odd, ...]:
    def sparse(folder: Path) -> None:
        with (folder / FILE).open("wb") as file:
            file.truncate(500 * 1024**2)

    conflict = as_file(answered()).replace(b"\n", b"\n<<<<<<< HEAD\n=======\n>>>>>>> theirs\n", 1)
    return (
        Odd("not-json", {FILE: b"Dear teacher, here is my lesson.\n"}, unreadable="not valid JSON"),
        Odd("cut-off", {FILE: as_file(answered())[:5000]}, unreadable="not valid JSON"),
        Odd("empty-json", {FILE: b"{}"}, unreadable="no notebook"),
        Odd("zero-bytes", {FILE: b""}, unreadable="empty"),
        Odd("500-mb", {}, unreadable="500 MiB", arrange=sparse),
        Odd("nothing-at-all", {"notes.txt": b"sorry"}, unreadable="there is no lesson.ipynb"),
        Odd("merge-conflict", {FILE: conflict}, unreadable="merge-conflict"),
    )


def links() -> tuple[Odd, ...]:
    def to_another(folder: Path) -> None:
        other = folder.parent / "another-learners.ipynb"
        other.write_bytes(as_file(answered()))
        (folder / FILE).symlink_to(other)

    def dangling(folder: Path) -> None:
        (folder / FILE).symlink_to("nowhere")

    return (
        Odd("link-to-anothers-file", {}, unreadable="a link", arrange=to_another),
        Odd("dangling-link", {}, unreadable="a link", arrange=dangling),
    )


def read_only() -> tuple[Odd, ...]:
    def protect(folder: Path) -> None:
        (folder / FILE).chmod(0o444)
        folder.chmod(0o555)

    return (Odd("read-only", {FILE: as_file(answered())}, arrange=protect),)


def other_text_files() -> tuple[Odd, ...]:
    windows = answered()
    for each in windows.cells:
        each.source = each.source.replace("\n", "\r\n")
    return (
        Odd("byte-order-mark", {FILE: b"\xef\xbb\xbf" + as_file(answered())}),
        Odd("windows-line-ends", {FILE: as_file(windows).replace(b"\n", b"\r\n")}),
    )


ODD: Final[tuple[Odd, ...]] = tuple(
    odd
    for variants in (
        copied_test_cell,
        locked_cell_split_or_moved,
        deleted_test_cell,
        solution_cell_deleted,
        settings_edited,
        metadata_stripped,
        code_turned_into_markdown,
        renamed,
        other_files,
        other_kernel,
        code_that_fails_or_hangs,
        code_that_works,
        odd_ids,
        no_notebook,
        links,
        read_only,
        other_text_files,
    )
    for odd in variants()
)
