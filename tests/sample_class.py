"""A sample class: learners who hand in what real classes hand in, and what each should score.

Every learner starts from the released notebook and fills in answers. Beside each stand the points
that stock nbgrader takes off and, where a fair marker would decide otherwise, the points that the
hand-in deserves to lose. Written answers wait for a person, so they count 0 here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import nbformat
from nbformat import NotebookNode

ASSIGNMENT: Final = "disaggregation"
NOTEBOOK: Final = "lesson"
DEADLINE: Final = datetime(2026, 11, 20, 18, 0, 0)
IN_TIME: Final = DEADLINE - timedelta(hours=2)

POINTS: Final[Mapping[str, float]] = {
    "fast-link-check": 1,
    "slow-link-check": 1,
    "clear-win-check": 1,
    "kv-transfer-value": 1.5,
    "kv-transfer-error": 0.5,
    "ttft-sum": 2,
    "stall-avoided-value": 1,
    "stall-avoided-arguments": 1,
    "split-worthwhile-clear": 1,
    "split-worthwhile-ties": 1,
    "break-even-value": 2,
    "report": 2,
    "always-beneficial-check": 1,
}
"""The automatic points of each grade cell."""

PERFECT: Final[Mapping[str, str]] = {
    "prediction": 'prediction = "no"\nconfidence = 70',
    "fast-link": "fast_link_ms = 512 * 2**20 / (32 * 2**30) * 1000",
    "slow-link": "slow_link_ms = 512 / (2 * 1024) * 1000",
    "clear-win": 'clear_win = "no"',
    "kv-transfer": """\
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    if bandwidth_bytes_per_s <= 0:
        raise ValueError("no bandwidth")
    return 1000 * kv_bytes / bandwidth_bytes_per_s""",
    "ttft": """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    return sum([queue_ms, prefill_ms, transfer_ms, first_decode_ms])""",
    "stall-avoided": """\
def stall_avoided_ms(decodes, prompt_tokens, decode_cost=1.0, prefill_cost=0.1):
    return prefill_cost * prompt_tokens""",
    "split-worthwhile": """\
def split_worthwhile(transfer_ms, stall_avoided, max_extra_ttft_ms):
    if transfer_ms > max_extra_ttft_ms:
        return False
    return transfer_ms < stall_avoided""",
    "break-even": """\
def break_even_bandwidth(kv_bytes, max_transfer_ms):
    return 1000 * kv_bytes / max_transfer_ms""",
    "always-beneficial": 'always_beneficial = "no"',
    "when-to-split": "It pays when the KV state moves in less time than the stall it avoids.",
}
"""A right answer for each solution cell, spelled otherwise than the reference solution."""

ALL: Final = tuple(POINTS)
KV_TRANSFER: Final = ("kv-transfer-value", "kv-transfer-error")
STALL: Final = ("stall-avoided-value", "stall-avoided-arguments")


@dataclass(frozen=True)
class Learner:
    """One learner's hand-in and its score.

    Args:
        name: the student id.
        story: what happened, in a few words.
        answers: solution cells that differ from `PERFECT`, by grade id.
        loses: grade cells that stock nbgrader scores 0.
        deserves_to_lose: the same as a fair marker sees it; None where stock nbgrader is fair.
        edit: what else was done to the notebook.
        touched: False when nothing was filled in.
        file: the bytes handed in instead of a notebook, or None.
        file_name: the name under which the work was handed in.
        submits: False when nothing was handed in.
        at: when it was handed in.
    """

    name: str
    story: str
    answers: Mapping[str, str] = field(default_factory=dict)
    loses: Sequence[str] = ()
    deserves_to_lose: Sequence[str] | None = None
    edit: Callable[[NotebookNode], None] | None = None
    touched: bool = True
    file: bytes | None = None
    file_name: str = f"{NOTEBOOK}.ipynb"
    submits: bool = True
    at: datetime = IN_TIME

    @property
    def gradable(self) -> bool:
        """Whether there is a notebook to grade at all."""
        return self.submits and self.file is None and self.file_name == f"{NOTEBOOK}.ipynb"

    @property
    def stock_scores(self) -> dict[str, float]:
        """Points of each grade cell under stock nbgrader."""
        return _scores(self.loses)

    @property
    def deserved_scores(self) -> dict[str, float]:
        """Points of each grade cell that the hand-in deserves."""
        return _scores(self.loses if self.deserves_to_lose is None else self.deserves_to_lose)

    def notebook(self, release: NotebookNode) -> NotebookNode:
        """Return the released notebook as this learner hands it in."""
        notebook = nbformat.from_dict(release)
        if self.touched:
            fill_in(notebook, {**PERFECT, **self.answers})
        if self.edit:
            self.edit(notebook)
        return notebook


def _scores(lost: Sequence[str]) -> dict[str, float]:
    return {cell: 0.0 if cell in lost else points for cell, points in POINTS.items()}


def fill_in(notebook: NotebookNode, answers: Mapping[str, str]) -> None:
    """Write the answers into the notebook's solution cells."""
    for grade_id, answer in answers.items():
        notebook.cells[position(notebook, grade_id)].source = answer


def position(notebook: NotebookNode, grade_id: str) -> int:
    """Return the index of the cell with this grade id."""
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    return ids.index(grade_id)


def hand_in(learners: Sequence[Learner], release: Path, folder: Path) -> None:
    """Write the learners' files as a learning-management system's download holds them.

    The names are ``<student>_<timestamp>_<file>``, as ``nbgrader zip_collect`` is configured to
    read them.
    """
    released = nbformat.read(release, as_version=4)
    folder.mkdir(parents=True)
    for learner in learners:
        if not learner.submits:
            continue
        target = folder / f"{learner.name}_{learner.at:%Y-%m-%d-%H-%M-%S}_{learner.file_name}"
        if learner.file is not None:
            target.write_bytes(learner.file)
        else:
            nbformat.write(learner.notebook(released), target)


def _delete(grade_id: str) -> Callable[[NotebookNode], None]:
    def edit(notebook: NotebookNode) -> None:
        del notebook.cells[position(notebook, grade_id)]

    return edit


def _helper_in_an_extra_cell(notebook: NotebookNode) -> None:
    at = position(notebook, "kv-transfer")
    helper = nbformat.v4.new_code_cell("def to_ms(seconds):\n    return seconds * 1000")
    scratch = nbformat.v4.new_code_cell("kv_transfer_ms(1, 1)  # just trying")
    notebook.cells.insert(at + 1, scratch)
    notebook.cells.insert(at, helper)
    fill_in(
        notebook,
        {
            "kv-transfer": """\
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    if bandwidth_bytes_per_s <= 0:
        raise ValueError
    return to_ms(kv_bytes / bandwidth_bytes_per_s)"""
        },
    )


def _one_point_for_everything(notebook: NotebookNode) -> None:
    cell = notebook.cells[position(notebook, "ttft-sum")]
    cell.source = "assert True"
    cell.metadata.nbgrader.points = 50


def _slip(name: str, story: str, fast: str, slow: str, loses: Sequence[str]) -> Learner:
    answers = {"fast-link": f"fast_link_ms = {fast}", "slow-link": f"slow_link_ms = {slow}"}
    return Learner(name, story, answers, loses)


BOTH_LINKS: Final = ("fast-link-check", "slow-link-check")

SLIPS: Final = (
    _slip("akira", "decimal units throughout", "512e6 / 32e9 * 1000", "256", BOTH_LINKS),
    _slip("bea", "MiB over GB/s", "16.777", "268.435", BOTH_LINKS),
    _slip("chidi", "MB over GiB/s", "14.901", "238.419", BOTH_LINKS),
    _slip("dana", "payload in bits", "125", "2000", BOTH_LINKS),
    _slip("emre", "link in bits", "1.953", "31.25", BOTH_LINKS),
    _slip("farah", "bits and decimal units mixed", "128", "2147.5", BOTH_LINKS),
    _slip("goran", "left in seconds", "0.016", "0.25", BOTH_LINKS),
    _slip("hana", "in microseconds", "15625", "250000", BOTH_LINKS),
    _slip("ines", "upside down", "64", "4", BOTH_LINKS),
    _slip(
        "jonas",
        "no parentheses",
        "512*1024**2/32*1024**3*1000",
        "512*1024**2/2*1024**3*1000",
        BOTH_LINKS,
    ),
    _slip("kaia", "there and back", "31.25", "500", BOTH_LINKS),
    _slip("liam", "rounded too early", "15.63", "250", ("fast-link-check",)),
    _slip("mei", "the links swapped", "250", "15.625", BOTH_LINKS),
    _slip("noor", "the stall for the transfer", "15.625", "200", ("slow-link-check",)),
    _slip("otto", "a decimal comma", "15,625", "250,0", BOTH_LINKS),
)
"""One learner for each mistake in the transfer times that the checks know."""

WRONG_FUNCTIONS: Final = (
    Learner(
        "pia",
        "kv_transfer_ms in seconds",
        {
            "kv-transfer": """\
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    if bandwidth_bytes_per_s <= 0:
        raise ValueError
    return kv_bytes / bandwidth_bytes_per_s"""
        },
        ("kv-transfer-value", "report"),
    ),
    Learner(
        "quinn",
        "no ValueError",
        {
            "kv-transfer": """\
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    return kv_bytes / bandwidth_bytes_per_s * 1000"""
        },
        ("kv-transfer-error",),
    ),
    Learner(
        "rosa",
        "ttft_ms forgets the queue",
        {
            "ttft": """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    return prefill_ms + transfer_ms + first_decode_ms"""
        },
        ("ttft-sum", "report"),
    ),
    Learner(
        "sami",
        "the stall times the number of decodes",
        {
            "stall-avoided": """\
def stall_avoided_ms(decodes, prompt_tokens, decode_cost=1.0, prefill_cost=0.1):
    return decodes * prompt_tokens * prefill_cost"""
        },
        (*STALL, "report"),
    ),
    Learner(
        "tara",
        "both ties the wrong way",
        {
            "split-worthwhile": """\
def split_worthwhile(transfer_ms, stall_avoided, max_extra_ttft_ms):
    return transfer_ms < max_extra_ttft_ms and stall_avoided >= transfer_ms"""
        },
        ("split-worthwhile-ties",),
    ),
    Learner(
        "umar",
        "break_even_bandwidth forgets the milliseconds",
        {
            "break-even": """\
def break_even_bandwidth(kv_bytes, max_transfer_ms):
    return kv_bytes / max_transfer_ms"""
        },
        ("break-even-value", "report"),
    ),
    Learner(
        "vera",
        "hard-codes the visible cases",
        {
            "ttft": """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    return {5: 245}.get(queue_ms, 0)"""
        },
        ("ttft-sum", "report"),
    ),
)

ODD: Final = (
    Learner(
        "wim",
        "an endless loop at the top of a cell",
        {"ttft": "while True:\n    pass"},
        ("ttft-sum", "report"),
    ),
    Learner(
        "xenia",
        "a syntax error",
        {"kv-transfer": "def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s)\n    return 1"},
        (*KV_TRANSFER, "report"),
    ),
    Learner(
        "yara",
        "a solution cell deleted",
        loses=("break-even-value", "report"),
        edit=_delete("break-even"),
    ),
    Learner("zoltan", "helpers in cells of one's own", edit=_helper_in_an_extra_cell),
    Learner("abel", "a test rewritten, and worth 50 points", edit=_one_point_for_everything),
    Learner(
        "brigid",
        "a warning on stderr",
        {
            "ttft": """\
import warnings

def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    warnings.warn("summing")
    return queue_ms + prefill_ms + transfer_ms + first_decode_ms"""
        },
        loses=("ttft-sum", "report"),
        deserves_to_lose=(),
    ),
    Learner(
        "cato",
        "half done, the rest left for later",
        {
            "break-even": """\
def break_even_bandwidth(kv_bytes, max_transfer_ms):
    raise NotImplementedError""",
            "clear-win": "clear_win = None",
            "always-beneficial": 'always_beneficial = "Yes"',
        },
        ("break-even-value", "report", "clear-win-check", "always-beneficial-check"),
    ),
    Learner("dilnoza", "all right, and three hours late", at=DEADLINE + timedelta(hours=3)),
    Learner("eszter", "a file cut off in the middle", file=b'{"cells": [{"cell_type": "cod'),
    Learner("femi", "a text file named as a notebook", file=b"Dear teacher, here is my lesson.\n"),
    Learner("gwen", "another notebook than the one asked for", file_name="my notes.ipynb"),
    Learner("hugo", "nothing handed in", submits=False),
)

CLASS: Final = (
    Learner("ada", "everything right"),
    Learner("basil", "nothing filled in", loses=ALL, touched=False),
    *SLIPS,
    *WRONG_FUNCTIONS,
    *ODD,
)
