"""Whatever a learner did to the notebook's cells, the source's tests mark the learner's answers."""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.utils import determine_grade, is_solution

from autograder.coursedir import open_course
from autograder.notebook_file import parse_notebook
from autograder.prepare import prepare
from autograder.reconcile import LARGEST_OUTPUTS, Reconciled, reconcile
from tests.odd import ODD, Odd, answered, cell
from tests.sample_class import ASSIGNMENT, PERFECT, position
from tests.stock import ROOT

TRUSTED = prepare(ROOT / "source" / ASSIGNMENT / "lesson.ipynb", open_course(ROOT))


def grade_ids(notebook: NotebookNode) -> list[str]:
    return [
        each.metadata.nbgrader.grade_id for each in notebook.cells if "nbgrader" in each.metadata
    ]


def answers(reconciled: Reconciled) -> dict[str, str]:
    return {
        each.metadata.nbgrader.grade_id: each.source
        for each in reconciled.notebook.cells
        if is_solution(each)
    }


def extras(reconciled: Reconciled) -> list[str]:
    cells = zip(reconciled.notebook.cells, reconciled.sources, strict=True)
    return [each.source for each, source in cells if source is None]


def check_the_source_stands(reconciled: Reconciled) -> None:
    """All of the source is there once and in order, and only solution cells differ from it."""
    nbformat.validate(reconciled.notebook)
    assert reconciled.notebook.metadata == TRUSTED.notebook.metadata
    cells = list(zip(reconciled.notebook.cells, reconciled.sources, strict=True))
    kept = [each for each, source in cells if source is not None]
    for mine, theirs in zip(kept, TRUSTED.notebook.cells, strict=True):
        expected = nbformat.from_dict(theirs)
        if is_solution(theirs):
            expected.source = mine.source
            expected.pop("attachments", None)
            if "attachments" in mine:
                expected.attachments = mine.attachments
        assert mine == expected
    assert all(each.metadata == {} for each, source in cells if source is None)


def edited(*edits: Callable[[NotebookNode], object]) -> Reconciled:
    notebook = answered()
    for edit in edits:
        edit(notebook)
    return reconcile(TRUSTED, notebook)


def test_an_ordinary_submission_is_taken_as_it_is() -> None:
    submission = answered()
    reconciled = reconcile(TRUSTED, submission)
    check_the_source_stands(reconciled)
    assert answers(reconciled) == PERFECT
    assert reconciled.notes == ()
    assert extras(reconciled) == []
    assert answered() == submission, "reconcile changes nothing in place"


READABLE = [odd for odd in ODD if not odd.unreadable]
ADDS_CELLS = (
    "prints-200-mb",
    "interact-left",
    "warns",
    "magics",
    "redefined-after-its-test",
    "helper-in-an-extra-cell",
)


@pytest.mark.parametrize("odd", READABLE, ids=lambda odd: odd.name)
def test_an_odd_submission_is_put_right_and_noted(odd: Odd) -> None:
    reconciled = reconcile(TRUSTED, parse_notebook(odd.notebook))
    check_the_source_stands(reconciled)
    if "handed in as" not in odd.noted:
        assert any(odd.noted in note for note in reconciled.notes) == bool(odd.noted)
        assert bool(reconciled.notes) == bool(odd.noted)
    assert bool(extras(reconciled)) == (odd.name in ADDS_CELLS)


@pytest.mark.parametrize(
    "name",
    [
        "test-pasted",
        "test-pasted-above",
        "locked-split",
        "locked-moved",
        "test-deleted",
        "stripped",
        "stripped-and-no-ids",
        "turned-into-markdown",
        "same-ids",
        "no-ids",
        "invalid-ids",
        "windows-line-ends",
    ],
)
def test_no_answer_is_lost(name: str) -> None:
    (odd,) = (odd for odd in ODD if odd.name == name)
    assert answers(reconcile(TRUSTED, parse_notebook(odd.notebook))) == PERFECT


def test_a_deleted_answer_is_empty() -> None:
    reconciled = edited(lambda notebook: notebook.cells.pop(position(notebook, "ttft")))
    assert answers(reconciled) == {**PERFECT, "ttft": ""}


def test_a_deleted_written_answer_scores_0_by_itself() -> None:
    reconciled = edited(lambda notebook: notebook.cells.pop(position(notebook, "when-to-split")))
    assert determine_grade(cell(reconciled.notebook, "when-to-split")) == (0, 3)


def test_a_learners_cells_stay_in_place_without_metadata() -> None:
    def add(notebook: NotebookNode) -> None:
        helper = new_code_cell("helper = 1", metadata={"tags": ["skip-execution"], "x": [1]})
        notebook.cells.insert(position(notebook, "ttft") + 1, new_markdown_cell("My note."))
        notebook.cells.insert(position(notebook, "ttft"), helper)
        notebook.cells.insert(0, new_code_cell("first = 1"))
        notebook.cells.append(new_code_cell("last = 1"))

    reconciled = edited(add)
    check_the_source_stands(reconciled)
    sources = [each.source for each in reconciled.notebook.cells]
    at = position(reconciled.notebook, "ttft")
    assert sources[0] == "first = 1"
    assert sources[at - 1 : at + 2] == ["helper = 1", PERFECT["ttft"], "My note."]
    assert sources[-1] == "last = 1"
    assert reconciled.notes == ()


def test_an_extra_cell_stays_when_the_locked_cell_before_it_had_been_moved() -> None:
    def move(notebook: NotebookNode) -> None:
        picture = notebook.cells.pop(position(notebook, "picture-map"))
        at = position(notebook, "kv-transfer")
        notebook.cells[at:at] = [picture, new_code_cell("helper = 1")]

    reconciled = edited(move)
    check_the_source_stands(reconciled)
    at = position(reconciled.notebook, "kv-transfer")
    assert reconciled.notebook.cells[at - 1].source == "helper = 1"


def test_a_solution_cell_split_in_two_runs_whole() -> None:
    first, second = "def twice(x):\n    return 2 * x", PERFECT["ttft"]

    def split(notebook: NotebookNode) -> None:
        at = position(notebook, "ttft")
        notebook.cells[at].source = first
        part = nbformat.from_dict(notebook.cells[at])
        part.source, part.id = second, "part"
        notebook.cells.insert(at + 1, part)

    reconciled = edited(split)
    check_the_source_stands(reconciled)
    at = position(reconciled.notebook, "ttft")
    assert [each.source for each in reconciled.notebook.cells[at : at + 2]] == [first, second]
    assert any(
        note.startswith("ttft: the solution cell was there more") for note in reconciled.notes
    )


@pytest.mark.parametrize("filled_in", [0, 1])
def test_of_a_solution_cell_and_its_copy_the_one_filled_in_counts(filled_in: int) -> None:
    def copy(notebook: NotebookNode) -> None:
        at = position(notebook, "ttft")
        other = nbformat.from_dict(notebook.cells[at])
        other.id = "copy"
        notebook.cells.insert(at + 1, other)
        notebook.cells[at + 1 - filled_in].source = TRUSTED.released["ttft"]

    reconciled = edited(copy)
    assert answers(reconciled) == PERFECT
    assert extras(reconciled) == [], "the stub would hide the answer"


def test_a_changed_copy_of_a_test_is_an_experiment_of_the_learners() -> None:
    def copy(notebook: NotebookNode) -> None:
        other = nbformat.from_dict(cell(notebook, "ttft-sum"))
        other.source, other.id = "print(ttft_ms(1, 2, 3, 4))", "copy"
        notebook.cells.append(other)

    reconciled = edited(copy)
    check_the_source_stands(reconciled)
    assert extras(reconciled) == ["print(ttft_ms(1, 2, 3, 4))"]


def test_an_edited_locked_cell_is_the_sources() -> None:
    def edit(notebook: NotebookNode) -> None:
        cell(notebook, "setup").source += "\nimport numpy"
        cell(notebook, "ttft-sum").source = "assert True"

    reconciled = edited(edit)
    check_the_source_stands(reconciled)
    assert reconciled.notes == (
        "setup, ttft-sum: the cell's text differs from the source's, which was used. It was "
        "edited, or comes from an earlier release.",
    )


def test_what_a_learner_wrote_in_an_unmarked_cell_runs_beside_the_sources() -> None:
    def edit(notebook: NotebookNode) -> None:
        (reference,) = (c for c in notebook.cells if "seconds_per_weight_scan =" in c.source)
        reference.source = "mine = 1"

    reconciled = edited(edit)
    check_the_source_stands(reconciled)
    assert extras(reconciled) == ["mine = 1"]


def test_written_answers_keep_their_pictures() -> None:
    picture = {"map.png": {"image/png": "aGk="}}
    reconciled = edited(
        lambda notebook: cell(notebook, "when-to-split").update(attachments=picture)
    )
    assert cell(reconciled.notebook, "when-to-split").attachments == picture
    nbformat.validate(reconciled.notebook)


def test_submitted_outputs_are_kept_aside_and_not_in_the_notebook() -> None:
    shown = [new_output("stream", text="42\n")]
    reconciled = edited(lambda notebook: cell(notebook, "ttft").update(outputs=shown))
    assert reconciled.submitted_outputs == {"ttft": shown}
    assert cell(reconciled.notebook, "ttft").outputs == []


def test_too_many_outputs_are_left_out() -> None:
    shown = [new_output("stream", text="x" * LARGEST_OUTPUTS)]
    reconciled = edited(lambda notebook: cell(notebook, "ttft").update(outputs=shown))
    assert reconciled.submitted_outputs == {}


def test_reference_outputs_are_the_sources() -> None:
    forged = [new_output("stream", text="all right")]
    reconciled = edited(lambda notebook: cell(notebook, "report").update(outputs=forged))
    place = TRUSTED.places["report"]
    assert cell(reconciled.notebook, "report").outputs == TRUSTED.notebook.cells[place].outputs
    assert reconciled.submitted_outputs == {"report": forged}


def test_another_notebook_is_noted_in_one_line() -> None:
    other = nbformat.v4.new_notebook(cells=[new_code_cell("x = 1")])
    reconciled = reconcile(TRUSTED, other)
    check_the_source_stands(reconciled)
    assert reconciled.notes == (
        "None of the assignment's cells was found. Is this another notebook?",
    )


def test_notes_quote_nothing_of_the_learners() -> None:
    def spoil(notebook: NotebookNode) -> None:
        for each in notebook.cells:
            each.metadata.nbgrader = each.metadata.get("nbgrader", {}) | {"points": "EVIL"}
            each.metadata.tags = ["EVIL"]
            each.source += "EVIL"
        notebook.metadata.kernelspec = {"name": "EVIL", "language": "EVIL"}

    assert "EVIL" not in "".join(edited(spoil).notes)


@pytest.mark.parametrize(
    "metadata",
    [None, [], "x", 7, {"nbgrader": 7}, {"nbgrader": {"grade_id": ["ttft"]}}, {"nbgrader": {}}],
)
def test_an_answer_whose_metadata_is_mangled_is_found(metadata: object) -> None:
    reconciled = edited(lambda notebook: cell(notebook, "ttft").update(metadata=metadata))
    assert answers(reconciled) == PERFECT


def test_written_answers_without_metadata_are_found_between_their_neighbours() -> None:
    def strip(notebook: NotebookNode) -> None:
        written = cell(notebook, "when-to-split")
        written.metadata, written.id = NotebookNode(), "another"

    assert answers(edited(strip)) == PERFECT


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda value: st.lists(value, max_size=4) | st.dictionaries(st.text(max_size=9), value),
    max_leaves=12,
)
RELEASED_IDS = st.sampled_from(sorted(TRUSTED.places))
MANGLED_CELL = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", "heading"]) | JSON,
        "id": RELEASED_IDS | JSON,
        "source": st.sampled_from(TRUSTED.released_texts) | JSON,
        "metadata": JSON
        | st.fixed_dictionaries(
            {"nbgrader": JSON | st.fixed_dictionaries({"grade_id": RELEASED_IDS, "grade": JSON})}
        ),
        "outputs": JSON
        | st.lists(
            st.fixed_dictionaries(
                {
                    "output_type": st.sampled_from(
                        ["stream", "error", "display_data", "execute_result"]
                    )
                },
                optional={"data": JSON, "text": JSON, "traceback": JSON, "ename": JSON},
            )
        ),
        "attachments": JSON,
        "execution_count": JSON,
    },
)


@given(
    st.permutations(range(len(TRUSTED.released_texts))),
    st.lists(st.tuples(st.integers(0, 60), MANGLED_CELL | JSON), max_size=12),
)
def test_no_mangling_harms_the_source(order: list[int], mangled: list[tuple[int, Any]]) -> None:
    notebook = json.loads(nbformat.writes(answered()))
    notebook["cells"] = [notebook["cells"][place] for place in order[: 1 + order[0]]]
    for at, each in mangled:
        notebook["cells"][at:at] = [each]
    reconciled = reconcile(TRUSTED, notebook)
    check_the_source_stands(reconciled)
    assert reconciled == reconcile(TRUSTED, notebook)


@settings(deadline=None)  # how long one takes says more of the machine's load
@given(JSON)
def test_no_content_harms_the_source(content: Any) -> None:
    for submitted in (content, {"cells": content}, {"cells": [content], "metadata": content}):
        check_the_source_stands(reconcile(TRUSTED, submitted))


def copies(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell(notebook, "ttft-sum")] * 50_000


def strangers(notebook: NotebookNode) -> list[NotebookNode]:
    return [NotebookNode(cell_type="code", source=f"x{number} = 1") for number in range(50_000)]


def backwards(notebook: NotebookNode) -> list[NotebookNode]:
    return (notebook.cells * 900)[::-1]


def stubs(notebook: NotebookNode) -> list[NotebookNode]:
    return [NotebookNode(cell_type="raw", source="", metadata={})] * 50_000


@pytest.mark.parametrize("cells", [copies, strangers, backwards, stubs])
def test_fifty_thousand_cells_are_no_trouble(
    cells: Callable[[NotebookNode], list[NotebookNode]],
) -> None:
    notebook = answered()
    notebook.cells = cells(notebook)
    start = time.process_time()
    reconciled = reconcile(TRUSTED, notebook)
    assert time.process_time() - start < 15
    assert [name for name in grade_ids(reconciled.notebook) if name in TRUSTED.places] == list(
        TRUSTED.places
    )


def test_an_ordinary_submission_takes_a_few_milliseconds() -> None:
    notebook = answered()
    times = []
    for _ in range(100):
        start = time.process_time()
        reconcile(TRUSTED, notebook)
        times.append(time.process_time() - start)
    # The best of many, with room for a slow machine: measured 2 ms.
    assert min(times) < 0.006


def test_the_trusted_notebook_is_never_changed() -> None:
    digest = dataclasses.replace(TRUSTED).digest
    reconciled = reconcile(TRUSTED, answered())
    for each in reconciled.notebook.cells:
        each.metadata["x"] = 1
        each.metadata.get("tags", []).append("x")
        each.get("outputs", []).append("x")
    assert dataclasses.replace(TRUSTED).digest == digest
