"""Every odd submission ends as it should, and the class around it gets its points."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import nbformat
import pytest

from autograder.batch import Graded, grade_class
from autograder.coursedir import open_course
from autograder.examine import Bench
from autograder.limits import Limits
from tests.constructs import answered as answered_cells
from tests.constructs import check, notebook_of, solution
from tests.odd import FILE, ODD, Odd, answered, as_file
from tests.room import LESSON, lesson, mark, open_bench, trusted_notebook
from tests.sample_class import ASSIGNMENT, PERFECT, POINTS, fill_in
from tests.stock import make_course, points, release

LIMITS: Final = """
c.Examine.call_seconds = 1
c.Examine.cell_seconds = 2
c.Examine.memory_bytes = 2**30
"""

GRADABLE: Final = [odd for odd in ODD if not odd.unreadable]
UNREADABLE: Final = [odd for odd in ODD if odd.unreadable]


def name_of(odd: Odd) -> str:
    return odd.name


def neighbour_of(odd: Odd) -> str:
    """The student id of the honest learner who is graded right after."""
    return f"{odd.name}-neighbour"


@dataclass(frozen=True)
class GradedClass:
    """A class of odd submissions, each beside an honest one, that was graded in one batch."""

    folder: Path
    results: Mapping[str, Graded]
    seconds: float


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradedClass]:
    folder = tmp_path_factory.mktemp("odd") / "ein Kurs für alle"
    make_course(folder)
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(LIMITS)
    release(folder)
    honest = as_file(answered())
    for odd in ODD:
        odd.write(folder / "submitted" / odd.name / ASSIGNMENT)
        neighbours = folder / "submitted" / neighbour_of(odd) / ASSIGNMENT
        neighbours.mkdir(parents=True)
        (neighbours / FILE).write_bytes(honest)
    started = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = grade_class(open_course(folder), ASSIGNMENT)
    seconds = time.monotonic() - started
    yield GradedClass(folder, {result.learner: result for result in results}, seconds)
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)
    shutil.rmtree(folder)


@pytest.mark.parametrize("odd", GRADABLE, ids=name_of)
def test_an_odd_submission_loses_what_it_deserves_to_lose(odd: Odd, graded: GradedClass) -> None:
    expected = {cell: 0 if cell in odd.deserves_to_lose else POINTS[cell] for cell in POINTS}

    assert graded.results[odd.name].status == "graded"
    assert points(graded.folder, odd.name) == expected


@pytest.mark.parametrize("odd", [odd for odd in GRADABLE if odd.noted], ids=name_of)
def test_what_was_odd_is_noted_for_the_instructor(odd: Odd, graded: GradedClass) -> None:
    notes = "\n".join(graded.results[odd.name].notes)

    assert odd.noted in notes


@pytest.mark.parametrize("odd", UNREADABLE, ids=name_of)
def test_a_submission_that_cannot_be_graded_gets_a_reason(odd: Odd, graded: GradedClass) -> None:
    result = graded.results[odd.name]

    assert result.status == "failed"
    assert odd.unreadable in "\n".join(result.notes)
    assert not (graded.folder / "autograded" / odd.name).exists()


@pytest.mark.parametrize("odd", ODD, ids=name_of)
def test_the_next_learner_gets_full_marks(odd: Odd, graded: GradedClass) -> None:
    assert points(graded.folder, neighbour_of(odd)) == dict(POINTS)
    assert graded.results[neighbour_of(odd)].notes == ()


def test_the_class_is_done_in_time(graded: GradedClass) -> None:
    assert max(result.seconds for result in graded.results.values()) < 30
    assert graded.seconds < 120


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with open_bench() as bench:
        yield bench


@pytest.mark.parametrize(
    ("text", "most", "given"),
    [
        ("0.5", 2, 0.5),
        ("import numpy as np\nnp.float64(0.5)", 1, 0.5),
        ("import numpy as np\nnp.float32(0.25)", 1, 0.25),
        ("import numpy as np\nnp.int64(1)", 2, 1),
        ("0", 3, 0),
        ("0.0", 3, 0),
        ("-1", 3, 0),
        ("50", 3, 3),
        ("float('nan')", 3, 0),
        ("float('inf')", 3, 3),
        ("True", 3, 3),
        ("False", 3, 3),
        ("'0.5'", 3, 3),
        ("0.5;", 3, 3),
        ("import warnings\nwarnings.warn('old')", 3, 3),
        ("import sys\nprint('careful', file=sys.stderr)", 3, 3),
        ("pass", 0, 0),
        ("assert False", 0, 0),
    ],
)
def test_the_points_of_a_test_cell_are_what_nbgrader_reads(
    bench: Bench, tmp_path: Path, text: str, most: float, given: float
) -> None:
    cells = [check("odd-check", text, points=most), check("next-check", "pass")]

    marked = mark(bench, trusted_notebook(cells, tmp_path), notebook_of(cells))

    assert marked.points == {"odd-check": given, "next-check": 1}
    assert marked.gradebook_points == marked.points


def test_partial_credit_out_of_bounds_is_noted_for_the_instructor(
    bench: Bench, tmp_path: Path
) -> None:
    cells = [check("low", "-2"), check("high", "43", points=2), check("none", "float('nan')")]

    marked = mark(bench, trusted_notebook(cells, tmp_path), notebook_of(cells))

    assert marked.result.notes == (
        "low: partial credit of -2 counts as 0",
        "high: partial credit of 43 counts as 2",
        "none: partial credit of NaN counts as 0",
    )


DIES: Final = """
import os, signal
from pathlib import Path
times = Path({times!r})
count = len(times.read_text()) if times.exists() else 0
if count < {deaths}:
    times.write_text("x" * (count + 1))
    os.kill(os.getpid(), signal.SIGKILL)
assert square(3) == 9
"""


@pytest.mark.parametrize(
    ("deaths", "given"), [(1, 1), (1000, 0)], ids=["once", "whenever it is tried"]
)
def test_an_examiner_that_is_killed_costs_its_cells_points_only_if_it_happens_again(
    bench: Bench, tmp_path: Path, deaths: int, given: float
) -> None:
    dies = DIES.format(times=str(tmp_path / "times"), deaths=deaths)
    cells = [
        solution("square", "def square(x):\n    return x * x"),
        check("before", "assert square(2) == 4"),
        check("killed", dies),
        check("after", "assert square(4) == 16"),
    ]

    marked = mark(bench, trusted_notebook(cells, tmp_path), notebook_of(cells))

    assert marked.points == {"before": 1, "killed": given, "after": 1}
    assert marked.gradebook_points == marked.points
    assert marked.result.notes == ("cell 3 was examined again: the examiner was killed (SIGKILL)",)


def test_slow_cells_that_run_again_after_a_crash_cost_no_points(
    bench: Bench, tmp_path: Path
) -> None:
    limits = Limits(call_seconds=0.5, cell_seconds=1, submission_seconds=60)
    cells = [
        solution("square", "def square(x):\n    return x * x"),
        check("crashes", "square(2)"),
        check("after", "assert square(3) == 9"),
    ]
    submitted = answered_cells(
        notebook_of(cells),
        {"square": "import os\ndef square(x):\n    return os._exit(1) if x == 2 else x * x"},
    )
    for _ in range(9):  # together longer than a test cell may keep silent
        submitted.cells.insert(0, nbformat.v4.new_code_cell("import time\ntime.sleep(0.8)"))

    marked = mark(bench, trusted_notebook(cells, tmp_path), submitted, limits=limits)

    assert marked.points == {"crashes": 0, "after": 1}, marked.errors


def test_a_regression_cell_that_prints_nothing_can_be_passed(bench: Bench, tmp_path: Path) -> None:
    shown = check("shown", "from IPython.display import display\ndisplay(square(3))")
    shown.metadata.tags = ["nbval-check-output"]
    shown.outputs = [nbformat.v4.new_output("display_data", {"text/plain": "9"})]
    cells = [solution("square", "def square(x):\n    return x * x"), shown]

    marked = mark(bench, trusted_notebook(cells, tmp_path), notebook_of(cells))

    assert marked.points == {"shown": 1}, marked.errors


TTFT: Final = """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    {}"""

REGRESSIONS: Final = {
    "right": {},
    "wrong-function": {"ttft": TTFT.format("return queue_ms + prefill_ms + first_decode_ms")},
    "prints-too": {
        "ttft": TTFT.format(
            "print('adding'); return queue_ms + prefill_ms + transfer_ms + first_decode_ms"
        )
    },
    "other-digits": {
        "kv-transfer": PERFECT["kv-transfer"].replace("1000 *", "1000 * (1 + 1e-12) *")
    },
}


@pytest.fixture(scope="module")
def nbval_fails(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The submissions whose report a real `pytest --nbval-lax` refuses."""
    folder = tmp_path_factory.mktemp("nbval")
    report = 0
    for name, answers in REGRESSIONS.items():
        # What nbval compares with are the outputs in the file, so that it gets the source's.
        notebook = nbformat.read(LESSON, as_version=4)
        fill_in(notebook, {**PERFECT, **answers})
        nbformat.write(notebook, folder / f"{name}.ipynb")
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        grade_ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in code]
        report = grade_ids.index("report")
    line = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "--nbval-lax"]
    said = subprocess.run([*line, "."], cwd=folder, capture_output=True, text=True)
    assert said.returncode == 1, said.stdout
    return frozenset(re.findall(rf"^FAILED (\S+)\.ipynb::Cell {report}\b", said.stdout, re.M))


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_cell_gets_the_verdict_of_nbval(
    bench: Bench, nbval_fails: frozenset[str], name: str
) -> None:
    marked = mark(bench, lesson(), answered(REGRESSIONS[name]))

    assert ("report" in marked.lost) == (name in nbval_fails), marked.errors["report"]
