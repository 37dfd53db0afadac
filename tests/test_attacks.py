"""No attack gains a point, shows a hidden test, or disturbs whoever is graded next."""

from __future__ import annotations

import builtins
import html
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.examine import Bench
from autograder.lint import lint
from autograder.notebook_file import LARGEST_BYTES
from autograder.sandbox.policy import CAPS
from autograder.trusted import TrustedNotebook
from tests import attacks, constructs
from tests.constructs import check, locked, notebook_of, solution
from tests.odd import answered
from tests.ordinary_user import run_tests
from tests.room import PATIENCE, Marked, lesson, mark, open_bench, trusted_notebook
from tests.sample_class import position

WITHIN: Final = {"ttft-sum", "report"}
"""What a learner loses whose `ttft_ms` is wrong."""


def hidden_lines(trusted: TrustedNotebook) -> set[str]:
    """The lines of the source's hidden tests."""
    lines = set()
    for place in trusted.places.values():
        cell = trusted.notebook.cells[place]
        if cell.metadata.nbgrader["grade"] and cell.cell_type == "code":
            lines |= {line.strip() for line in cell.source.splitlines()}
    released = "\n".join(trusted.released_texts)
    return {
        line
        for line in lines
        if not line.startswith("###") and len(line) > 15 and line not in released
    }


@dataclass(frozen=True)
class Attack:
    """A submission of the lesson whose `ttft_ms` is wrong, and what it does about that."""

    name: str
    notebook: NotebookNode
    files: Mapping[str, bytes] = field(default_factory=dict)


def _with_cell(code: str) -> NotebookNode:
    notebook = answered({"ttft": attacks.WRONG_TTFT})
    added = nbformat.v4.new_code_cell(textwrap.dedent(code).strip())
    notebook.cells.insert(position(notebook, "ttft"), added)
    return notebook


def _with_body(code: str) -> NotebookNode:
    head = attacks.WRONG_TTFT.splitlines()[0]
    body = textwrap.indent(textwrap.dedent(" " * 8 + code.lstrip("\n ")), "    ")
    return answered({"ttft": f"{head}\n{body}"})


def _lying(code: str) -> NotebookNode:
    body = textwrap.indent(textwrap.dedent(" " * 8 + code.lstrip("\n ")), "    ")
    return _with_cell(attacks.LIAR.replace("{body}", body))


def _edited(edit: object) -> NotebookNode:
    notebook = answered({"ttft": attacks.WRONG_TTFT})
    assert callable(edit)
    edit(notebook)
    return notebook


BODIES: Final = (
    attacks.DIE_OR_TIME_OUT
    | attacks.EXHAUST
    | attacks.TRICK_A_COMPARISON
    | attacks.RAISE_SOMETHING
    | attacks.FOOL_THE_TEACHING
)
ATTACKS: Final = [
    *(Attack(name, _with_cell(code)) for name, code in attacks.FORGE_A_VERDICT.items()),
    *(Attack(name, _with_body(code)) for name, code in BODIES.items()),
    *(Attack(f"lie: {name}", _lying(code)) for name, code in attacks.LIE.items()),
    *(Attack(edit.__name__.replace("_", " "), _edited(edit)) for edit in attacks.HAND_IN),
    *(
        Attack(f"files: {name}", _with_cell("import math, random, course"), files)
        for name, files in attacks.FILES.items()
    ),
]


OLDEST_ABI: Final = 2
"""The least Landlock that will do."""


ABIS: Final = {"landlock": None, "oldest-landlock": OLDEST_ABI}
if os.getuid() == 0:
    # An older kernel's walls are tried where they are weakest, around an ordinary user's grader.
    del ABIS["oldest-landlock"]


@pytest.fixture(scope="module", params=ABIS.values(), ids=list(ABIS))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with open_bench(abi=request.param) as bench:
        yield bench


def names(attack: Attack) -> str:
    return attack.name


def shows_nothing_hidden(marked: Marked) -> None:
    told = html.unescape(re.sub("<[^>]+>", "", marked.page)) + "\n".join(marked.reasons)
    assert {line for line in hidden_lines(lesson()) if line in told} == set()


def withstands(bench: Bench, attack: Attack) -> None:
    marked = mark(bench, lesson(), attack.notebook, attack.files)

    assert marked.lost >= WITHIN, marked.errors
    assert marked.lost == WITHIN or attack.name in attacks.TAKE_MORE_DOWN, marked.errors
    assert marked.points["ttft-sum"] == marked.points["report"] == 0
    assert marked.gradebook_points == marked.points
    assert marked.seconds < PATIENCE
    shows_nothing_hidden(marked)
    neighbour = mark(bench, lesson(), answered())
    assert neighbour.lost == set(), neighbour.errors
    assert neighbour.result.notes == ()


@pytest.mark.parametrize("attack", ATTACKS, ids=names)
def test_a_wrong_answer_stays_wrong(bench: Bench, attack: Attack) -> None:
    withstands(bench, attack)


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="this is an ordinary user")
def test_an_ordinary_users_grader_withstands_them_too() -> None:
    said = run_tests(__file__, "--numprocesses", "logical")

    passed = re.search(r"(\d+) passed", said)
    assert passed
    assert int(passed[1]) > 2 * len(ATTACKS)


SMALL_NAMES: Final = [small.name for small in attacks.SMALL]


@pytest.mark.parametrize("small", attacks.SMALL, ids=SMALL_NAMES)
def test_a_test_that_invites_an_attack_gives_no_points(
    bench: Bench, tmp_path: Path, small: attacks.Small
) -> None:
    trusted = trusted_notebook(small.cells, tmp_path)
    submitted = constructs.answered(notebook_of(small.cells), small.answers)
    if small.first:
        submitted.cells.insert(0, nbformat.v4.new_code_cell(small.first))

    marked = mark(bench, trusted, submitted)

    assert {name for name, given in marked.points.items() if given == 0} >= small.loses
    assert marked.points.get("half-check", 1) == 1, marked.errors
    assert marked.gradebook_points == marked.points
    assert marked.seconds < PATIENCE
    honest = mark(bench, trusted, notebook_of(small.cells))
    assert honest.lost == set(), honest.errors


def test_a_test_that_trusts_what_the_solution_imports_is_found_before_the_release(
    tmp_path: Path,
) -> None:
    # A name that the solution binds is the learner's, and so is what it is bound to.
    cells = [
        solution("square", "from math import isclose\ndef square(x):\n    return x * x"),
        check("square-check", "assert isclose(square(3), 9)"),
    ]

    findings = lint(trusted_notebook(cells, tmp_path))

    assert any("isclose" in finding.problem for finding in findings)


# --- Reading what is hidden -----------------------------------------------------------------------

NUMBER, WORD, NAME, SECOND = 738291, "turnip", "parsnip", 192837
SECRETS: Final = (str(NUMBER), str(2 * NUMBER), WORD, NAME, str(SECOND))
"""What the hidden tests below hold, and no learner may get."""

QUIZ: Final = (
    locked("setup", "import math"),
    solution("double", "def double(x):\n    return 2 * x"),
    check(
        "double-check",
        f"""
        assert double(1) == 2, "Try it with 1."
        ### BEGIN HIDDEN TESTS
        assert double({NUMBER}) == {2 * NUMBER}, f"{{double}} is wrong for {NUMBER}."
        assert double("{WORD}") == 2 * "{WORD}"
        ### END HIDDEN TESTS
        """,
    ),
    solution("triple", "def triple(x):\n    return 3 * x"),
    check(
        "triple-check",
        f"""
        ### BEGIN HIDDEN TESTS
        {NAME} = {SECOND}
        assert math.isclose(triple({NAME}), 3 * {NAME}), "It should be three times as much."
        ### END HIDDEN TESTS
        """,
    ),
)


@pytest.fixture(scope="module")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> TrustedNotebook:
    return trusted_notebook(QUIZ, tmp_path_factory.mktemp("quiz"))


def handed_in(answers: Mapping[str, str], *last: str) -> NotebookNode:
    """The quiz as it is released, with these answers and with cells added at the end."""
    notebook = constructs.answered(notebook_of(QUIZ), answers)
    for cell in notebook.cells:
        cell.source = re.sub(r"(?s)### BEGIN HIDDEN.*?### END HIDDEN TESTS\n?", "", cell.source)
    notebook.cells += [nbformat.v4.new_code_cell(textwrap.dedent(text).strip()) for text in last]
    return notebook


@pytest.mark.parametrize("attack", attacks.TELL, ids=lambda attack: attack.name)
def test_what_a_function_was_given_reaches_no_learner(
    bench: Bench, quiz: TrustedNotebook, attack: attacks.Tell
) -> None:
    text = f"{attacks.SEEN}\ndef double(x):\n{textwrap.indent(attack.body, '    ')}"
    again = text.replace("def double", "def triple")

    marked = mark(bench, quiz, handed_in({"double": text, "triple": again}, *attack.last))

    assert marked.lost == {"double-check", "triple-check"}
    told = marked.page + "".join(marked.reasons)
    assert [secret for secret in SECRETS if secret in told] == []
    neighbour = mark(bench, quiz, notebook_of(QUIZ))
    assert neighbour.lost == set()


def test_an_assertion_of_the_learners_does_not_pose_as_the_authors(
    bench: Bench, quiz: TrustedNotebook
) -> None:
    pose = "def double(x):\n    raise AssertionError('Try it with 1.')"

    marked = mark(bench, quiz, handed_in({"double": pose}))

    assert marked.points["double-check"] == 0
    assert marked.reasons[0] == ""


EXCEPTIONS: Final = sorted(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind.__name__ == name
)
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def exceptions_told(page: str) -> list[str]:
    """The exceptions by whose names the feedback says that cells failed, in order."""
    return re.findall(r"from top to bottom: (\w+)\.", html.unescape(page))


def test_names_that_only_hidden_tests_use_cannot_be_spelled_out(
    bench: Bench, tmp_path: Path
) -> None:
    # Cells that run before every test may say by which exception they failed: nothing was seen yet.
    cells = [
        solution("double", "def double(x):\n    return 2 * x"),
        check(
            "double-check",
            f"""
            assert double(1) == 2
            ### BEGIN HIDDEN TESTS
            try:
                {NAME}
            except NameError:
                assert double(3) == 6
            ### END HIDDEN TESTS
            """,
        ),
    ]
    trusted = trusted_notebook(cells, tmp_path)
    submitted = notebook_of(cells)
    spell = """
        import builtins, gc
        from autograder.learner.process import _LearnerProcess
        (here,) = (o for o in gc.get_objects() if type(o) is _LearnerProcess)
        word = next((w for w in here._wanted if w.startswith('p') and len(w) == 7), '')
        place = {place}
        if word[place:]:
            raise getattr(builtins, {exceptions}[{letters}.index(word[place])])
        """
    for place in range(7):
        text = (
            textwrap.dedent(spell)
            .replace("{place}", str(place))
            .replace("{exceptions}", repr(EXCEPTIONS))
            .replace("{letters}", repr(LETTERS))
        )
        submitted.cells.insert(place, nbformat.v4.new_code_cell(text.strip()))

    told = exceptions_told(mark(bench, trusted, submitted).page)

    # Not one letter, nor the error that would show that this attack looks in the wrong place.
    assert told == []


def test_a_test_that_brought_the_examiner_down_has_run_all_the_same(
    bench: Bench, tmp_path: Path
) -> None:
    # What the first test showed may be kept in the number of a process, say.
    cells = [
        solution("ring", "def ring():\n    return None"),
        check("ring-check", "node = ring()\nwhile node:\n    node = node[0]"),
    ]
    submitted = constructs.answered(
        notebook_of(cells), {"ring": "def ring():\n    x = []; x.append(x)\n    return x"}
    )
    submitted.cells.append(nbformat.v4.new_code_cell("raise KeyError"))

    marked = mark(bench, trusted_notebook(cells, tmp_path), submitted)

    assert marked.points == {"ring-check": 0}
    assert exceptions_told(marked.page) == []


# --- What costs the grader ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "print('x' * 1_900_000)",
        "display({'text/html': 'x' * 1_900_000}, raw=True)",
        "raise ValueError('x' * 1_900_000)",
    ],
    ids=["printed", "displayed", "raised"],
)
def test_many_cells_that_show_much_do_not_add_up(bench: Bench, text: str) -> None:
    notebook = answered()
    notebook.cells += [nbformat.v4.new_code_cell(text) for _ in range(40)]

    marked = mark(bench, lesson(), notebook)

    assert marked.lost == set()
    assert len(nbformat.v4.writes(marked.result.autograded)) < LARGEST_BYTES


def test_outputs_that_a_process_makes_up_are_capped_too(bench: Bench) -> None:
    forge = """
        import gc
        from autograder.learner import process
        from autograder.protocol import CellDone, RunCell, Stream
        honest = process._LearnerProcess.answer
        def answer(self, request):
            if isinstance(request, RunCell):
                return CellDone(request.id, [Stream('stdout', 'x' * 40_000_000)])
            return honest(self, request)
        process._LearnerProcess.answer = answer
        """
    notebook = answered()
    added = [textwrap.dedent(forge).strip(), *["pass"] * 5]
    notebook.cells += [nbformat.v4.new_code_cell(text) for text in added]

    marked = mark(bench, lesson(), notebook)

    assert marked.lost == set()
    assert len(nbformat.v4.writes(marked.result.autograded)) < LARGEST_BYTES


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (
            "import threading, time\nfor _ in range(10):\n"
            "    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
            2 * CAPS.threads // 10 + 50,
        ),
        ("for n in range(100):\n    open(f'{n}-{id(n)}-{len(In)}', 'w').close()", 400),
    ],
    ids=["threads", "files"],
)
def test_a_busy_process_is_watched_all_the_same(bench: Bench, text: str, cells: int) -> None:
    notebook = answered()
    at = position(notebook, "always-beneficial")
    notebook.cells[at:at] = [nbformat.v4.new_code_cell(text) for _ in range(cells)]

    marked = mark(bench, lesson(), notebook)

    shown = str([cell.get("outputs") for cell in marked.notebook.cells])
    assert "and was stopped" in shown


def test_a_file_in_place_of_a_folder_of_the_source_costs_only_its_owner(bench: Bench) -> None:
    support = {"data/table.csv": b"1,2"}

    marked = mark(bench, lesson(), answered(), {"data": b"mine"}, support)

    assert marked.lost == set()
    assert "left out, being in the way of the source's files: 'data'" in marked.result.notes
