"""`nbgrader autograde` and formgrader with this course's configuration do what the batch does."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
    new_raw_cell,
)
from nbgrader.server_extensions.formgrader.handlers import template_path
from traitlets.config import Config

from autograder.batch import grade_class
from autograder.coursedir import open_course
from tests.left_behind import autograded_files, gradebook_rows
from tests.sample_class import ASSIGNMENT, CLASS
from tests.stock import ROOT, SOME_NOT_GRADED, collect, make_course, nbgrader, release

SOME = (
    "ada",
    "basil",
    "liam",
    "pia",
    "xenia",
    "yara",
    "zoltan",
    "abel",
    "brigid",
    "dilnoza",
    "eszter",
)

PENALTY = "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same submissions, graded by the batch, and by nbgrader with our configuration."""
    folder = tmp_path_factory.mktemp("courses")
    batch, stock = folder / "batch", folder / "nbgrader"
    make_course(batch)
    with (batch / "nbgrader_config.py").open("a") as config:
        config.write(PENALTY)
    release(batch)
    collect(batch, [learner for learner in CLASS if learner.name in SOME])
    shutil.copytree(batch, stock)
    grade_class(open_course(batch), ASSIGNMENT)
    nbgrader(stock, "autograde", ASSIGNMENT, tolerate=[SOME_NOT_GRADED])
    return batch, stock


def test_both_leave_the_same_gradebook(courses: tuple[Path, Path]) -> None:
    batch, stock = map(gradebook_rows, courses)

    assert batch == stock
    assert len(batch["submission"]) == len(SOME)
    assert [row[3] for row in batch["notebook"] if row[1:3] == ("dilnoza", "lesson")] == [16]


def test_both_leave_the_same_files(courses: tuple[Path, Path]) -> None:
    batch, stock = map(autograded_files, courses)

    assert batch == stock
    assert {name.partition("/")[0] for name in batch} == {*SOME} - {"eszter"}


def test_what_either_has_graded_the_batch_need_not_grade_again(
    courses: tuple[Path, Path],
) -> None:
    for course in courses:
        results = grade_class(open_course(course), ASSIGNMENT)
        failed = {result.learner for result in results if result.status == "failed"}
        assert failed == {"eszter"}
        assert not [result for result in results if result.status == "graded"]


HOSTILE = (
    "<script>pwned()</script>",
    "<img src=x onerror=pwned()>",
    "<svg onload=pwned()><script>pwned()</script></svg>",
    "[click](javascript:pwned())",
    "<a href='javascript:pwned()'>click</a>",
    "<iframe srcdoc='<script>pwned()</script>'></iframe>",
    "<form action='javascript:pwned()'><button>ok</button></form>",
)


@pytest.fixture(scope="module")
def formgrader() -> HTMLExporter:
    """formgrader's exporter, made as its server extension makes it."""
    config = Config(open_course(ROOT).parent.config)
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [template_path]
    return HTMLExporter(config=config)


def shown(formgrader: HTMLExporter, *cells: nbformat.NotebookNode) -> BeautifulSoup:
    resources = {"base_url": "", "index": 0, "total": 1, "student": "eve"}
    notebook = new_notebook(cells=list(cells))
    html, _ = formgrader.from_notebook_node(notebook, resources=resources)
    return BeautifulSoup(html, "html.parser")


def actions(page: BeautifulSoup) -> list[str]:
    """Return whatever on the page would run a script of the learner's."""
    found = [str(tag) for tag in page("script") if "pwned" in tag.text]
    for tag in page(True):
        for name, value in tag.attrs.items():
            if "pwned" in str(value) and (name.startswith("on") or name != "alt"):
                found.append(str(tag))
    return found


@pytest.mark.parametrize("attack", HOSTILE)
def test_no_script_of_a_learners_reaches_formgraders_page(
    attack: str, formgrader: HTMLExporter
) -> None:
    graded = {"grade_id": "why", "solution": True, "grade": True, "points": 1, "locked": False}
    answer = new_markdown_cell(attack)
    answer.metadata["nbgrader"] = {**graded, "task": False}
    code = new_code_cell(attack)
    code.outputs = [
        new_output("display_data", {kind: attack})
        for kind in (
            "text/html",
            "image/svg+xml",
            "text/markdown",
            "text/latex",
            "text/plain",
            "application/javascript",
        )
    ]
    code.outputs += [
        new_output(
            "display_data",
            {"image/png": "aGk="},
            metadata={
                "image/png": {"width": "1 onerror=pwned()", "alt": '"onload=pwned() x="'},
            },
        ),
        new_output("stream", text=attack),
        new_output("error", ename=attack, evalue=attack, traceback=[attack]),
    ]
    page = shown(formgrader, answer, new_markdown_cell(attack), new_raw_cell(attack), code)

    assert actions(page) == []


def test_formgrader_still_shows_prose_formulas_figures_and_outputs(
    formgrader: HTMLExporter,
) -> None:
    code = new_code_cell("plot()")
    code.outputs = [
        new_output("stream", text="printed"),
        new_output("display_data", {"image/png": "aGk=", "text/plain": "<Figure>"}),
        new_output("display_data", {"text/html": "<table><tr><td>ours</td></tr></table>"}),
    ]
    page = shown(formgrader, new_markdown_cell("**Bold** and $x^2$"), code)

    assert page.find("strong", string="Bold")
    assert "$x^2$" in page.text
    assert "printed" in page.text
    assert page.find("img", src="data:image/png;base64,aGk=")
    assert page.find("td", string="ours")
