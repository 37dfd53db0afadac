"""How the lesson's pictures are drawn: their style, their parts, and an image for the page.

Colours are Okabe and Ito's (2008), chosen to differ in lightness and helped by hatching, so that
the pictures work in grey and for the colour-blind. Drawn without pyplot: no global state, and fast
enough for the explorer. What the pictures say is in `course.figures`.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course.units import ms_text

WIDTH_IN: Final = 7.5
PIXELS_PER_IN: Final = 100
INK: Final = "#222222"
GRID: Final = "#d9d9d9"


@dataclass(frozen=True)
class Style:
    """How one kind of time looks wherever it is drawn; `text` is legible on `colour`."""

    colour: str
    hatch: str = ""
    text: str = INK


PREFILL: Final = Style("#0072B2", text="white")
TRANSFER: Final = Style("#E69F00", hatch="///")
DECODE: Final = Style("#BFE3F5")
QUEUE: Final = Style("white", hatch="\\\\\\")
OTHER: Final = Style("#E3E3E3")

BLUE_INK: Final = "#0072B2"
RUST_INK: Final = "#A84300"
BROWN_INK: Final = "#7A5200"
PAPER: Final = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}

STYLE_SHEET: Final[dict[Any, Any]] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "font.size": 10.5,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#777777",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "course",  # the same picture is the same bytes each time
}


P = ParamSpec("P")


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw in our style, whatever style the notebook has chosen for its own figures."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(STYLE_SHEET):
            return draw(*args, **kwargs)

    return styled


def alt_text(figure: Figure) -> str:
    """Return what a figure of this module shows, in a sentence or two."""
    return str(figure.get_label())


def image_html(figure: Figure, alt: str) -> str:
    """Return the figure as an ``<img>`` element of a fixed size.

    Its alternative text is empty where the words beside it say what it shows.

    It is an SVG whose text stays text: sharp at any size, a tenth of a PNG's bytes, and drawn in
    half the time.
    """
    svg = io.BytesIO()
    with rc_context(STYLE_SHEET):  # the hatches' width is read when they are drawn
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    width, height = (round(inches * PIXELS_PER_IN) for inches in figure.get_size_inches())
    return (
        f'<img alt="{html.escape(alt)}" width="{width}" height="{height}" '
        'style="max-width: 100%; height: auto" '
        f'src="data:image/svg+xml;base64,{base64.b64encode(svg.getvalue()).decode("ascii")}">'
    )


def new_figure(height_in: float, title: str) -> tuple[Figure, Axes]:
    """Return a figure of the usual width, in inches, with one set of axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes


def with_alt(figure: Figure, alt: str) -> Figure:
    """Return the figure, with its alternative text attached."""
    figure.set_label(alt)
    return figure


def bar(axes: Axes, row: float, left: float, length: float, kind: Style) -> None:
    """Draw a horizontal bar on a row."""
    axes.barh(
        row,
        length,
        left=left,
        height=0.72,
        color=kind.colour,
        hatch=kind.hatch,
        edgecolor=INK,
        linewidth=0.6,
    )


def labelled_bar(
    axes: Axes, row: float, left: float, length: float, kind: Style, text: str
) -> None:
    """Draw a bar with its label inside, or else on the side that has more room."""
    bar(axes, row, left, length, kind)
    if len(text) < letters_between(axes, left, left + length):
        write_inside(axes, row, left + length / 2, text, kind)
    else:
        _roomier_side(axes, left, left + length, row, text)


def letters_between(axes: Axes, left: float, right: float) -> float:
    """Return about how many letters fit between two places on the horizontal axis."""
    to_axes = axes.transData + axes.transAxes.inverted()
    (start, _), (end, _) = to_axes.transform([(left, 1), (right, 1)])
    return 85 * float(end - start)


def _roomier_side(axes: Axes, left: float, right: float, y: float, text: str) -> None:
    """Write a text to the left or to the right of what lies between two points."""
    start, end = axes.get_xlim()
    rightwards = end - right > left - start
    axes.annotate(
        text,
        (right if rightwards else left, y),
        (9 if rightwards else -9, 0),
        textcoords="offset points",
        ha="left" if rightwards else "right",
        va="center",
        bbox=PAPER if left > 0 or not rightwards else None,
        zorder=5,
    )


def first_token(axes: Axes, x: float, rows: tuple[float, float]) -> None:
    """Mark, across some rows, when (ms) the first token can start."""
    axes.plot([x, x], rows, color=INK, linestyle=":", linewidth=1.4, zorder=4)
    axes.plot(x, rows[0], marker="v", color=INK, markersize=8)
    _roomier_side(axes, x, x, rows[0], f"first token can start: {ms_text(x)}")


def patch(kind: Style) -> Patch:
    """Return a legend's sample of a kind of time."""
    return Patch(facecolor=kind.colour, hatch=kind.hatch, edgecolor=INK, linewidth=0.6)


def write_inside(axes: Axes, row: float, middle: float, text: str, kind: Style) -> None:
    """Write in the middle of a bar."""
    axes.text(
        middle, row, text, color=kind.text, ha="center", va="center", bbox=_plain_ground(kind)
    )


def write_at_end(axes: Axes, row: float, right: float, text: str, kind: Style) -> None:
    """Write in a bar, at its right end."""
    axes.annotate(
        text,
        (right, row),
        (-5, 0),
        textcoords="offset points",
        color=kind.text,
        ha="right",
        va="center",
        bbox=_plain_ground(kind),
    )


def _plain_ground(kind: Style) -> dict[str, Any] | None:
    """Return a box that keeps the hatching of a bar away from the text upon it."""
    return PAPER | {"facecolor": kind.colour} if kind.hatch else None


def write_beside(axes: Axes, x: float, y: float, text: str, gap: float = 5) -> None:
    """Write to the right of a point."""
    axes.annotate(
        text, (x, y), (gap, 0), textcoords="offset points", va="center", bbox=PAPER, zorder=5
    )


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write the names of rows 0, 1, 2 and so on at the left."""
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)


def shade(
    axes: Axes, xs: Sequence[float], ys: Sequence[float], yes: Sequence[Sequence[bool]]
) -> None:
    """Shade and hatch where the grid, a row for each y, says yes."""
    axes.contourf(
        xs,
        ys,
        [[float(cell) for cell in row] for row in yes],
        levels=[0.5, 1.5],
        colors=[DECODE.colour],
        hatches=["//"],
    )


def share_text(yes: Sequence[Sequence[bool]]) -> str:
    """Return the share of the grid that says yes, such as ``15 %``."""
    cells = [cell for row in yes for cell in row]
    return f"{100 * sum(cells) / len(cells):.0f} %"


def end_labels(axes: Axes, labels: Sequence[tuple[float, str, str]], gap: float) -> None:
    """Write labels (height, text, colour) at the right edge, moved apart where they would touch.

    `gap` is the least distance between two of them, as a part of the axes' height.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    placed = sorted((float(to_axes.transform((x, y))[1]), text, ink) for y, text, ink in labels)
    heights: list[float] = []
    for height, *_ in placed:
        heights.append(max(height, heights[-1] + gap) if heights else height)
    ceiling = 1.0
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], ceiling)
        ceiling = heights[index] - gap
    for (height, text, ink), at in zip(placed, heights, strict=True):
        axes.annotate(
            text,
            (1, height),
            (1.045, at),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=ink,
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": "#AAAAAA",
                "linewidth": 0.7,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )
