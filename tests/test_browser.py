"""A learner's way through the lesson, in the real JupyterLab."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from tests import reference
from tests.browser import Learner, Server, chromium, jupyter_lab

pytestmark = pytest.mark.browser

WARM_RUN_S = 5
VALIDATE_S = 10

ANSWERS = {
    "prediction": 'prediction = "yes"\nconfidence = 60',
    "fast-link": "fast_link_ms = 15.625",
    "slow-link": "slow_link_ms = 250",
    "clear-win": 'clear_win = "no"',
    "kv-transfer": inspect.getsource(reference.kv_transfer_ms),
    "ttft": inspect.getsource(reference.ttft_ms),
    "stall-avoided": inspect.getsource(reference.stall_avoided_ms),
    "split-worthwhile": inspect.getsource(reference.split_worthwhile),
    "break-even": inspect.getsource(reference.break_even_bandwidth),
    "always-beneficial": 'always_beneficial = "no"',
    "when-to-split": "When the transfer fits the budget and is shorter than the stall.",
}
PICTURES = {
    "picture-fast": "Timeline",
    "picture-slow": "Timeline",
    "picture-transfer-times": "Bars",
    "picture-ttft": "Stacked bars",
    "picture-stall": "Lines",
    "picture-verdicts": "Chart",
    "picture-map": "Map",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyter_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserContext]:
    with chromium() as running:
        yield running


@pytest.fixture
def folder(server: Server, root: Path, request: pytest.FixtureRequest) -> Path:
    """The learner's own copy of the release."""
    copy = server.root / request.node.name
    shutil.copytree(root / "release/disaggregation", copy)
    return copy


@pytest.fixture
def learner(server: Server, browser: BrowserContext, folder: Path) -> Iterator[Learner]:
    """A learner who has just opened the lesson."""
    learner = Learner(browser, server, folder / "lesson.ipynb")
    yield learner
    learner.leave()


@pytest.fixture
def finished(folder: Path) -> None:
    """Has the lesson filled in before the learner opens it."""
    notebook = nbformat.read(folder / "lesson.ipynb", as_version=4)
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = ANSWERS.get(grade_id, cell.source)
    nbformat.write(notebook, folder / "lesson.ipynb")


def slider(explorer: Locator, name: str) -> Locator:
    return explorer.locator(".widget-inline-hbox", has_text=name).locator(".noUi-handle")


def test_the_prediction_is_asked_before_the_price_is_told(learner: Learner) -> None:
    texts = learner.cells.all_inner_texts()
    prediction = next(n for n, text in enumerate(texts) if "prediction = None" in text)
    price = next(n for n, text in enumerate(texts) if "The price" in text)

    assert prediction < price
    assert not re.search(r"MiB|GiB/s|\d ms|slow link", " ".join(texts[:prediction]))


def test_the_untouched_lesson_runs_to_its_end_with_kind_messages(learner: Learner) -> None:
    learner.run_all()  # the first run imports everything
    seconds = learner.run_all()
    shown = " ".join(learner.cells.locator(".jp-OutputArea").all_inner_texts())
    failed = learner.cells.locator('[data-mime-type="application/vnd.jupyter.stderr"]')

    for text in failed.all_inner_texts():
        assert re.fullmatch(
            r"Not finished yet: (`\w+`,?\s)*`\w+`\.\sFill (it|them) in above, "
            r"then run this cell again\.",
            text.strip(),
        )
    assert failed.count() == 13
    assert "Traceback" not in shown
    assert "0 of 12 checks pass" in learner.says("summary")
    assert "Not finished yet: `kv_transfer_ms`, `stall_avoided_ms`" in learner.says("explorer")
    assert learner.errors == []
    assert seconds < WARM_RUN_S


def test_a_wrong_answer_meets_a_hint_and_a_mended_one_a_tick(learner: Learner) -> None:
    learner.run("setup")
    learner.type("fast-link", "fast_link_ms = 16.0")
    learner.run("fast-link")
    learner.run("fast-link-check")
    assert "not yet. Has 1,000 come in where 1,024 belongs" in learner.says("fast-link-check")

    learner.type("fast-link", "fast_link_ms = 512 / (32 * 1024) * 1000")
    learner.run("fast-link")
    learner.run("fast-link-check")
    assert learner.says("fast-link-check") == "✓ fast_link_ms: 512 MiB over 32 GiB/s, in ms"


def test_a_function_typed_by_hand_passes_and_draws_its_picture(learner: Learner) -> None:
    learner.run("setup")
    learner.type(
        "ttft",
        "def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):\n"
        "return queue_ms + prefill_ms + transfer_ms + first_decode_ms",
    )
    for grade_id in ("ttft", "ttft-sum", "picture-ttft"):
        learner.run(grade_id)

    assert learner.says("ttft-sum") == "✓ ttft_ms: the sum of its four parts"
    expect(learner.cell("picture-ttft").locator("img")).to_have_attribute(
        "alt", re.compile("^Stacked bars")
    )


def test_the_finished_lesson_shows_its_pictures_and_passes_every_check(
    finished: None, learner: Learner
) -> None:
    learner.run_all()

    for grade_id, kind in PICTURES.items():
        picture = learner.cell(grade_id).locator("img")
        expect(picture).to_have_attribute("alt", re.compile(f"^{kind}"))
        assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    assert "All 12 checks pass" in learner.says("summary")
    assert "You changed your mind" in learner.says("then-and-now")
    assert learner.errors == []


def test_the_explorer_follows_the_keyboard_and_says_what_fails(
    finished: None, learner: Learner
) -> None:
    learner.run_all()
    explorer = learner.cell("explorer")
    picture, verdict = explorer.locator("img"), explorer.locator("strong")
    expect(verdict).to_have_text(re.compile("^Worthwhile: the transfer adds 15.6 ms"))

    before = picture.get_attribute("src") or ""
    slider(explorer, "Prompt length").focus()
    learner.page.keyboard.press("ArrowRight")
    expect(verdict).to_have_text(re.compile("^Worthwhile: the transfer adds 23.4 ms"))
    expect(picture).not_to_have_attribute("src", before)

    learner.page.keyboard.press("ArrowLeft")
    link = explorer.locator(".widget-dropdown", has_text="GbE").locator("select")
    link.select_option(label=re.sub(" ", "\u00a0", "2 GiB/s (2.15 GB/s)"))
    expect(verdict).to_have_text(re.compile("^Not worthwhile: the transfer adds 250 ms"))
    expect(verdict).to_contain_text("200 ms over your 50 ms budget")
    expect(verdict).to_contain_text("45.2 ms more than the 204.8 ms stall it avoids")
    assert learner.errors == []


def test_validate_lists_what_is_not_finished_kindly(learner: Learner) -> None:
    dialog, seconds = learner.validate()

    expect(dialog).to_contain_text("Not finished yet: `fast_link_ms`. Fill it in above")
    expect(dialog).to_contain_text("You did not provide a response.")
    expect(dialog).not_to_contain_text("Traceback")
    assert seconds < VALIDATE_S


def test_validate_says_that_a_finished_lesson_passes(finished: None, learner: Learner) -> None:
    dialog, seconds = learner.validate()

    expect(dialog).to_contain_text("Success! Your notebook passes all the tests.")
    assert seconds < VALIDATE_S
