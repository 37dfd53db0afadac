"""Feedback: glad to read, and not a byte of what the learner's code saw while it was graded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.api import Gradebook

from autograder.coursedir import open_course
from autograder.feedback import NothingGraded, write_feedback
from tests import small_course
from tests.small_course import ASSIGNMENT, HIDDEN_INPUT, HIDDEN_TEXT, NOTEBOOK, SECRETS, cell, shown
from tests.stock import nbgrader

PAGE = f"{NOTEBOOK}.html"

FIRST = "def double(n):\n    if n == 1:\n        return 2\n"
"""Gets past the visible test, so that the hidden one is reached."""

LEAKERS = {
    "printer": {"double": f"{FIRST}    print('saw', n)\n    return n"},
    "returner": {"greet": "def greet(name):\n    return name"},
    "raiser": {"double": f"{FIRST}    raise ValueError(n)"},
    "poser": {
        "double": f"{FIRST}    raise AssertionError(f'double({{n}}) should be twice as much.')"
    },
    "forger": {"greet": "def greet(name):\n    raise AssertionError(f'{name} is no greeting.')"},
    "namer": {"double": FIRST + "    raise type(f'Saw{n}', (Exception,), {})(n)"},
    "rememberer": {
        "double": "seen = []\n\ndef double(n):\n    seen.append(n)\n    return 2 * n",
        "greet": "print(seen)\nseen\n\n"
        "def greet(name):\n    seen.append(name)\n    return 'Hello ' + name",
    },
}
"""Answers that hand on what a hidden test gives them."""


def _append_what_was_seen(notebook: NotebookNode) -> None:
    at = notebook.cells.index(cell(notebook, "greet"))
    notebook.cells[at:at] = [
        new_code_cell(
            "print(seen)\nfrom IPython.display import display, HTML\ndisplay(HTML(str(seen)))"
        ),
        new_code_cell("raise ValueError(seen)"),
    ]


def _spell_bits(notebook: NotebookNode) -> None:
    at = notebook.cells.index(cell(notebook, "greet"))
    notebook.cells[at:at] = [
        new_code_cell(f"# bit {bit}\nif seen[-1] >> {bit} & 1:\n    raise ValueError")
        for bit in range(20)
    ]


def _rich_outputs(notebook: NotebookNode) -> None:
    hostile = (
        "<script>alert(1)</script><b onclick='alert(2)'>bold words</b>"
        "<a href='javascript:alert(3)'>a link</a><img src='https://example.org/spy.png'>"
        "<style>body { display: none }</style><iframe src='data:text/html,x'></iframe>"
    )
    drawing = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(4)</script></svg>"
    cell(notebook, "double").outputs = [
        new_output("stream", text="words that I printed <script>alert(5)</script>"),
        shown({"text/html": hostile, "text/plain": "plain"}),
        shown({"image/svg+xml": drawing}),
        shown({"application/javascript": "alert(6)", "text/plain": "no script"}),
        shown({"text/markdown": "[click](javascript:alert(7)) **strong words**"}),
    ]
    notebook.cells.append(new_markdown_cell("My notes <script>alert(8)</script> <p onload=x>end"))
    cell(notebook, "why").source = "Because <img src=x onerror=alert(9)> *two* is twice one."


def _greet_output(notebook: NotebookNode) -> None:
    cell(notebook, "greet-test").outputs = [new_output("stream", text="hint in my own notebook")]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A course whose class is graded and has its feedback."""
    folder = tmp_path_factory.mktemp("feedback") / "course"
    small_course.make_course(folder)
    small_course.hand_in(folder, "right")
    small_course.hand_in(
        folder, "wrong", {"double": "def double(n):\n    return 2 if n == 1 else 0"}
    )
    small_course.hand_in(folder, "broken", {"double": "nonsense + 1"})
    small_course.hand_in(folder, "rich", edit=_rich_outputs)
    small_course.hand_in(folder, "hinted", {"greet": "def greet(n):\n    return n"}, _greet_output)
    for name, answers in LEAKERS.items():
        edit = _append_what_was_seen if name == "rememberer" else lambda notebook: None
        small_course.hand_in(folder, name, answers, edit)
    small_course.hand_in(folder, "speller", LEAKERS["rememberer"], _spell_bits)
    with chdir(folder):
        small_course.grade(folder)
        assert write_feedback(open_course(folder), ASSIGNMENT) == ()
        yield folder


def page(course: Path, learner: str) -> str:
    """Return a learner's feedback."""
    return (course / "feedback" / learner / ASSIGNMENT / PAGE).read_text()


class Reader(HTMLParser):
    """Reads a page as a browser does: its elements, and the text that is shown."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._text: list[str] = []
        self._in_style = False
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_style = tag == "style"
        if tag not in ("a", "b", "code", "em", "span", "strong"):
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self._text.append(data)

    @property
    def text(self) -> str:
        """The text, each run of white space a single space."""
        return " ".join("".join(self._text).split())

    def values(self, name: str) -> Iterator[str]:
        """Yield every value of an attribute."""
        yield from (
            value or "" for _, attributes in self.elements if (value := attributes.get(name))
        )


@pytest.mark.parametrize("learner", [*LEAKERS, "speller", "wrong", "right", "hinted"])
def test_nothing_of_the_hidden_tests_is_in_the_feedback(learner: str, course: Path) -> None:
    content = page(course, learner)

    assert [secret for secret in SECRETS if secret in content] == []


@pytest.mark.parametrize("learner", LEAKERS)
def test_the_instructor_does_see_what_the_leakers_code_said(learner: str, course: Path) -> None:
    path = course / "autograded" / learner / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    graded = nbformat.read(path, as_version=4)
    outputs = str([each.outputs for each in graded.cells if each.cell_type == "code"])

    assert str(HIDDEN_INPUT) in outputs or HIDDEN_TEXT in outputs


def test_cells_that_fail_after_the_tests_spell_nothing(course: Path) -> None:
    text = Reader(page(course, "speller")).text

    assert "# bit 3" in text
    assert "failed when your notebook was run" not in text


def test_a_failed_tests_message_has_gaps_where_values_stood(course: Path) -> None:
    assert "double(…) should be twice as much." in Reader(page(course, "wrong")).text


def test_a_learners_own_error_does_not_choose_among_the_authors_messages(course: Path) -> None:
    assert "double(…) should be twice" not in Reader(page(course, "poser")).text


def test_the_page_begins_with_the_score_and_a_row_for_each_question(course: Path) -> None:
    text = Reader(page(course, "wrong")).text

    assert "Feedback on numbers 1 of 6 points" in text
    assert "1 double: twice its argument 0 / 2 ✗ not passed. double(…)" in text
    assert "2 greet-test 1 / 1 ✓ passed" in text
    assert "3 In your own words – / 3 … waits for a person" in text
    assert "3 of the points wait for a person to read your answer" in text


def test_every_link_leads_to_a_place_on_the_page(course: Path) -> None:
    reader = Reader(page(course, "right"))
    targets = [link.removeprefix("#") for link in reader.values("href")]

    assert len(targets) == 4
    assert set(targets) <= set(reader.values("id"))


def test_a_cell_that_fails_before_any_test_is_named_with_its_error(course: Path) -> None:
    text = Reader(page(course, "broken")).text

    assert "This cell failed when your notebook was run from top to bottom: NameError." in text


def test_a_failed_check_shows_what_it_showed_in_the_learners_own_notebook(course: Path) -> None:
    text = Reader(page(course, "hinted")).text

    assert "When you handed it in, this check showed hint in my own notebook" in text


def test_outputs_that_were_handed_in_are_shown(course: Path) -> None:
    reader = Reader(page(course, "rich"))

    for words in ("words that I printed", "bold words", "a link", "strong words", "My notes"):
        assert words in reader.text
    assert (
        sum(source.startswith("data:image/svg+xml;base64,") for source in reader.values("src")) == 1
    )


def test_no_script_of_a_learners_gets_into_the_page_and_nothing_is_loaded(course: Path) -> None:
    reader = Reader(page(course, "rich"))
    tags = {tag for tag, _ in reader.elements}
    attributes = {name for _, named in reader.elements for name in named}

    assert not tags & {"script", "iframe", "object", "link", "svg"}
    assert not {name for name in attributes if name.startswith("on")}
    assert all(link.startswith("#") for link in reader.values("href"))
    assert all(source.startswith("data:image/") for source in reader.values("src"))
    assert [tag for tag, _ in reader.elements].count("style") == 1


def test_the_page_itself_forbids_scripts_and_loading(course: Path) -> None:
    (policy,) = (v for v in Reader(page(course, "right")).values("content") if "default-src" in v)

    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_marks_and_comments_by_hand_are_shown_without_script(course: Path) -> None:
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        where = ("why", NOTEBOOK, ASSIGNMENT, "hinted")
        mark = gradebook.find_grade(*where)
        mark.manual_score, mark.needs_manual_grade = 2.5, False
        comment = gradebook.find_comment(*where)
        comment.manual_comment = "*Nicely* said <script>alert(1)</script>"
        gradebook.db.commit()
    write_feedback(open_course(course), ASSIGNMENT, ["hinted"], force=True)
    reader = Reader(page(course, "hinted"))

    assert "3 In your own words 2.5 / 3 ✎ marked by a person" in reader.text
    assert "Comment Nicely said" in reader.text
    assert "wait for a person" not in reader.text
    assert "script" not in {tag for tag, _ in reader.elements}


def test_nbgraders_command_writes_the_same_bytes(course: Path) -> None:
    ours = {path: path.read_bytes() for path in course.glob(f"feedback/*/{ASSIGNMENT}/*")}
    nbgrader(course, "generate_feedback", ASSIGNMENT, "--force")
    theirs = {path: path.read_bytes() for path in course.glob(f"feedback/*/{ASSIGNMENT}/*")}

    assert len(ours) >= len(LEAKERS)
    assert theirs == ours


def test_what_is_there_is_kept_unless_forced_and_only_the_chosen_are_written(course: Path) -> None:
    file = course / "feedback" / "right" / ASSIGNMENT / PAGE
    other = course / "feedback" / "wrong" / ASSIGNMENT / PAGE
    file.write_text("kept")
    before = other.stat().st_mtime_ns

    write_feedback(open_course(course), ASSIGNMENT, ["right"])
    assert file.read_text() == "kept"
    write_feedback(open_course(course), ASSIGNMENT, ["right"], force=True)
    assert "Feedback on numbers" in file.read_text()
    assert other.stat().st_mtime_ns == before


def test_an_unreadable_notebook_is_named_and_stops_nobody(course: Path) -> None:
    folder = course / "autograded" / "aaron" / ASSIGNMENT
    folder.mkdir(parents=True)
    (folder / f"{NOTEBOOK}.ipynb").write_text("{")
    told: list[tuple[int, int]] = []

    failed = write_feedback(
        open_course(course),
        ASSIGNMENT,
        ["aaron", "right"],
        force=True,
        on_progress=lambda *done_of: told.append(done_of),
    )

    assert [failure.learner for failure in failed] == ["aaron"]
    assert f"{NOTEBOOK}.ipynb" in failed[0].reason
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert not (course / "feedback" / "aaron" / ASSIGNMENT).exists()


def test_without_a_graded_notebook_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text(small_course.CONFIG)

    with pytest.raises(NothingGraded):
        write_feedback(open_course(tmp_path), ASSIGNMENT)


def test_a_learner_without_a_graded_notebook_is_named_and_nobody_gets_feedback(
    course: Path,
) -> None:
    told: list[tuple[int, int]] = []

    with pytest.raises(NothingGraded, match=f"'{ASSIGNMENT}' by rihgt has been graded"):
        write_feedback(
            open_course(course),
            ASSIGNMENT,
            ["right", "rihgt"],
            on_progress=lambda *done_of: told.append(done_of),
        )
    assert told == []


def test_a_notebook_that_stock_nbgrader_graded_gives_constant_messages_only(
    course: Path,
) -> None:
    path = course / "autograded" / "wrong" / ASSIGNMENT / f"{NOTEBOOK}.ipynb"
    path.chmod(0o644)
    notebook = nbformat.read(path, as_version=4)
    del notebook.metadata["autograder"]
    for each in notebook.cells:
        each.metadata.pop("autograder", None)
    said = [f"double({HIDDEN_INPUT}) should be twice as much.", f"{HIDDEN_INPUT} is wrong."]
    contents = []
    for text in said:
        error = new_output("error", ename="AssertionError", evalue=text, traceback=[text])
        cell(notebook, "double-test").outputs = [error]
        nbformat.write(notebook, path)
        write_feedback(open_course(course), ASSIGNMENT, ["wrong"], force=True)
        contents.append(page(course, "wrong"))

    assert "double(…) should be twice as much." in contents[0]
    assert "twice as much" not in contents[1]
    assert not any(str(HIDDEN_INPUT) in content for content in contents)
