"""The pictures show what the learner's functions say, and stay kind when these go wrong."""

from __future__ import annotations

import base64
import html
import io
import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from course import figures
from course.catalog import BUDGET_MS, DEFAULT_MODEL
from course.drawing import alt_text, image_html
from course.learner import LINE_WIDTH, Functions
from tests import reference
from tests.cell_output import cell_output

CASES = {"one machine": 0.0, "split, 32 GiB/s": 15.6, "split, 2 GiB/s": 250.0}
Draw = Callable[..., Figure]

PICTURES: dict[str, tuple[Draw, tuple[Any, ...]]] = {
    "timeline": (figures.timeline, (204.8, 15.6)),
    "transfer_times": (figures.transfer_times, (reference.kv_transfer_ms,)),
    "ttft_parts": (figures.ttft_parts, (reference.ttft_ms, CASES)),
    "stall_growth": (
        figures.stall_growth,
        (reference.stall_avoided_ms, reference.kv_transfer_ms),
    ),
    "verdict_regions": (figures.verdict_regions, (reference.split_worthwhile,)),
    "break_even_map": (
        figures.break_even_map,
        (Functions(vars(reference)), DEFAULT_MODEL, BUDGET_MS),
    ),
}


every_picture = pytest.mark.parametrize("name", PICTURES)


def draw(name: str) -> Figure:
    function, arguments = PICTURES[name]
    return function(*arguments)


def shown(function: Draw, *args: Any) -> tuple[str, list[dict[str, str]]]:
    """Return what `show` prints and displays; it must write nothing to stderr."""
    with cell_output() as captured:
        figures.show(function, *args)
    assert captured.stderr == ""
    return captured.stdout, [output.data for output in captured.outputs]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]


def assert_nothing_is_cut_off(figure: Figure) -> None:
    figure.savefig(io.BytesIO(), format="png")  # settles the layout
    drawn = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= -0.02
    assert drawn.x1 <= width + 0.02
    assert drawn.y1 <= height + 0.02


@every_picture
def test_a_picture_is_one_image_with_its_alternative_text(name: str) -> None:
    function, arguments = PICTURES[name]
    printed, (data,) = shown(function, *arguments)
    alt = data["text/plain"]
    assert printed == ""
    assert f'alt="{html.escape(alt)}"' in data["text/html"]
    assert re.search(r"\d", alt)
    image = re.search(r"base64,([^\"]+)", data["text/html"])
    assert image
    assert b"<svg" in base64.b64decode(image[1])


@every_picture
def test_a_picture_is_the_same_bytes_each_time(name: str) -> None:
    assert image_html(draw(name), "") == image_html(draw(name), "")


@every_picture
def test_text_is_at_least_ten_points(name: str) -> None:
    sizes = [
        float(text.get_fontsize()) for text in draw(name).findobj(Text) if isinstance(text, Text)
    ]
    assert min(sizes) >= 10


@every_picture
def test_the_axis_of_a_quantity_has_its_unit(name: str) -> None:
    (axes,) = draw(name).axes
    labels = [label for label in (axes.get_xlabel(), axes.get_ylabel()) if label]
    assert labels
    assert all(re.search(r"\((ms|tokens|GB/s)", label) for label in labels)


@every_picture
def test_nothing_is_cut_off_at_the_edge(name: str) -> None:
    assert_nothing_is_cut_off(draw(name))


@pytest.mark.parametrize("transfer_ms", [0.6, 15.6, 250.0, 2000.0, 1e6])
@pytest.mark.parametrize("prefill_ms", [0.5, 204.8, 13_107.2])
def test_the_timeline_keeps_its_labels_inside_at_any_times(
    prefill_ms: float, transfer_ms: float
) -> None:
    assert_nothing_is_cut_off(figures.timeline(prefill_ms, transfer_ms))


def test_the_timeline_says_when_the_first_token_can_start_in_both_arrangements() -> None:
    said = texts(figures.timeline(204.8, 250))
    assert "first token can start: 204.8 ms" in said
    assert "first token can start: 454.8 ms" in said


def test_transfer_times_come_from_the_learners_function() -> None:
    alt = alt_text(figures.transfer_times(lambda kv_bytes, bandwidth: 123.0))
    assert "from 123 ms (10 GbE) to 123 ms (NVLink 5)" in alt


def test_transfer_times_count_the_links_slower_than_the_stall() -> None:
    assert "2 of them take longer" in alt_text(draw("transfer_times"))


def test_ttft_totals_are_the_learners_even_when_they_are_wrong() -> None:
    figure = figures.ttft_parts(lambda *parts: max(parts), CASES)
    assert texts(figure).count("250 ms") == 2  # the slow link's transfer, and the wrong total


def test_regions_tell_a_wrong_verdict_from_a_right_one() -> None:
    right = alt_text(draw("verdict_regions"))
    wrong = alt_text(figures.verdict_regions(lambda *_: True))
    assert "slow link (250 ms of transfer), stay together" in right
    assert "slow link (250 ms of transfer), split" in wrong
    assert "on 100 % of it" in wrong


def test_each_region_carries_what_the_function_says_there() -> None:
    always = texts(figures.verdict_regions(lambda *_: True))
    budget_only = texts(figures.verdict_regions(lambda time, stall, budget: time <= budget))
    assert (texts(draw("verdict_regions")).count("split"), always.count("split")) == (1, 3)
    assert budget_only.count("stay together") == 2


def test_what_is_made_up_says_so() -> None:
    legend = {text for text in texts(draw("ttft_parts")) if "made up" in text}
    assert legend == {"queue (40 ms, made up)", "first decode (30 ms, made up)"}


def test_no_time_is_written_across_the_stall_line() -> None:
    figure = draw("transfer_times")
    figure.savefig(io.BytesIO(), format="png")  # settles the layout
    (axes,) = figure.axes
    (line,) = axes.lines
    (stall, _), _ = line.get_transform().transform(line.get_xydata())
    for label in axes.texts:
        box = label.get_window_extent()
        assert not box.x0 < stall < box.x1, label.get_text()


def test_the_ticks_of_the_timeline_are_round() -> None:
    (axes,) = figures.timeline(204.8, 15.6).axes
    assert [tick for tick in axes.get_xticks() if tick >= 0] == [0, 100, 200, 300]


def test_the_map_shows_the_flat_stall_line_of_the_model() -> None:
    assert "stall from 2.62 GB/s to 2.62 GB/s" in alt_text(draw("break_even_map"))


def stub(*_: Any) -> None:
    """Be a stub, as the release has it."""


def prints(*_: Any) -> float:
    print("debugging")
    print("debugging", file=sys.stderr)
    return 5.0


def raises(*_: Any) -> float:
    raise KeyError("a\nb" * 100)


ODD: list[Callable[..., Any]] = [
    raises,
    lambda *_: "15.6",
    lambda *_: True,
    lambda *_: (15, 6),
    lambda *_: math.inf,
    lambda *_: math.nan,
    lambda *_: -1.0,
    lambda *_: 10**400,
    lambda *_: 10**5000,
    lambda *_: 3j,
    lambda: 1.0,
]


def assert_short(message: str) -> None:
    lines = message.splitlines()
    assert 1 <= len(lines) <= 3
    assert max(map(len, lines)) <= LINE_WIDTH


def test_an_unfinished_function_is_one_kind_line() -> None:
    printed, displayed = shown(figures.transfer_times, stub)
    assert printed == ("Not finished yet: `stub`. Fill it in above, then run this cell again.\n")
    assert displayed == []


def test_the_map_names_all_unfinished_functions_that_it_needs_at_once() -> None:
    functions = Functions({"kv_transfer_ms": reference.kv_transfer_ms})
    printed, displayed = shown(figures.break_even_map, functions, DEFAULT_MODEL, BUDGET_MS)
    assert displayed == []
    assert re.findall(r"`(\w+)`", printed) == [
        "stall_avoided_ms",
        "split_worthwhile",
        "break_even_bandwidth",
    ]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_a_short_message_that_names_the_function(odd: Callable[..., Any]) -> None:
    odd.__name__ = "kv_transfer_ms"
    printed, displayed = shown(figures.transfer_times, odd)
    assert displayed == []
    assert printed.startswith("`kv_transfer_ms` r")
    assert_short(printed)


@pytest.mark.parametrize("odd", [lambda *_: 1, lambda *_: "yes", raises])
def test_a_verdict_that_is_no_bool_is_a_short_message(odd: Callable[..., Any]) -> None:
    printed, displayed = shown(figures.verdict_regions, odd)
    assert displayed == []
    assert_short(printed)


def test_what_a_function_prints_stays_out_of_the_way() -> None:
    printed, displayed = shown(figures.transfer_times, prints)
    assert printed == ""
    assert len(displayed) == 1


@pytest.mark.parametrize("value", [1e-12, 1e-3, 1.8e19, 1e24, 5])
def test_a_wrong_but_drawable_number_is_drawn(value: float) -> None:
    def constant(*_: Any, **__: Any) -> float:
        return value

    names = ("kv_transfer_ms", "ttft_ms", "stall_avoided_ms", "break_even_bandwidth")
    wrong = {**vars(reference), **dict.fromkeys(names, constant)}
    for function, arguments in (
        (figures.transfer_times, (constant,)),
        (figures.ttft_parts, (constant, CASES)),
        (figures.stall_growth, (constant, reference.kv_transfer_ms)),
        (figures.break_even_map, (Functions(wrong), DEFAULT_MODEL, BUDGET_MS)),
        (figures.timeline, (value, value)),
    ):
        printed, displayed = shown(function, *arguments)
        assert (printed, len(displayed)) == ("", 1)


def test_drawing_leaves_pyplot_alone() -> None:
    code = (
        "import sys, course.explorer as e; e.image_html(e.timeline(1, 1), ''); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
