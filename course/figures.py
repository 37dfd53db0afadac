"""The lesson's pictures, drawn with the learner's own functions.

Each function returns a matplotlib figure that carries its alternative text, computed from the
data that it shows; `show` puts one into the notebook. How they are drawn is in `course.drawing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from course import ask
from course.catalog import (
    BUDGET_MS,
    DEFAULT_MODEL,
    FAST_LINK,
    LINKS,
    PAYLOAD_BYTES,
    RUNNING_DECODES,
    SLOW_LINK,
    STALL_MS,
    Model,
)
from course.drawing import (
    BLUE_INK,
    BROWN_INK,
    DECODE,
    GRID,
    INK,
    OTHER,
    PAPER,
    PREFILL,
    QUEUE,
    RUST_INK,
    TRANSFER,
    WIDTH_IN,
    alt_text,
    bar,
    end_labels,
    first_token,
    image_html,
    labelled_bar,
    letters_between,
    name_rows,
    new_figure,
    patch,
    shade,
    share_text,
    styled,
    with_alt,
    write_at_end,
    write_beside,
    write_inside,
)
from course.learner import CheckFailed, Functions
from course.units import GB, bandwidth_text, bytes_text, ms_text

QUEUE_MS: Final = 40.0
FIRST_DECODE_MS: Final = 30.0
"""Made up for `ttft_parts`, as its legend says, so that every part of the TTFT can be seen."""

LESSON_TRANSFERS_MS: Final = {"fast link": 15.6, "slow link": 250.0}
"""The running example over the lesson's links, as its text gives them."""

LANES: Final = (
    (0.0, "one machine"),
    (2.6, "prefill machine"),
    (3.5, "network"),
    (4.4, "decode machine"),
)
"""Where the lanes of `timeline` lie, from the top, and who works there."""


def show(draw: Callable[..., Figure], *args: Any, **kwargs: Any) -> None:
    """Draw a figure and display it, with its alternative text, in the notebook.

    Args:
        draw: one of this module's functions; the other arguments are handed to it.

    When a function of the learner's that the figure needs is unfinished, or does something odd,
    one line that says so is printed instead.
    """
    try:
        with ask.quietly():
            figure = draw(*args, **kwargs)
            image = image_html(figure, alt_text(figure))
    except CheckFailed as message:
        print(*message.lines(), sep="\n")
    else:
        display(
            {
                "text/html": f'<figure style="margin: 0">{image}</figure>',
                "text/plain": alt_text(figure),
            },
            raw=True,
        )


@styled
def timeline(prefill_ms: float, transfer_ms: float) -> Figure:
    """Draw who works and who waits while one new request is served, in both arrangements.

    Args:
        prefill_ms: time of the new request's prefill, ms.
        transfer_ms: time of its KV transfer, ms.
    """
    both = prefill_ms + transfer_ms
    start, end, margin = -0.15 * both, 1.35 * both, 0.02 * both
    figure = Figure(figsize=(WIDTH_IN, 3.6))
    axes = figure.add_axes((0.175, 0.15, 0.805, 0.84))
    axes.set_xlim(start, end)
    axes.set_ylim(5.5, -1.1)
    for row, name in LANES:
        axes.text(start - margin, row, name, ha="right", va="center")
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.6g}")
    axes.set_xlabel("time since the new request arrived (ms)")

    bar(axes, 0, start, -start, DECODE)
    bar(axes, 0, prefill_ms, end - prefill_ms, DECODE)
    labelled_bar(axes, 0, 0, prefill_ms, PREFILL, "prefill")
    axes.text(0, 0.72, f"running decodes stall for {ms_text(prefill_ms)}", va="center")
    axes.text(end - margin, 0, "decodes", ha="right", va="center")
    first_token(axes, prefill_ms, (-0.75, 0.36))
    labelled_bar(axes, 2.6, 0, prefill_ms, PREFILL, f"prefill {ms_text(prefill_ms)}")
    labelled_bar(
        axes, 3.5, prefill_ms, transfer_ms, TRANSFER, f"KV transfer {ms_text(transfer_ms)}"
    )
    bar(axes, 4.4, start, end - start, DECODE)
    axes.text(end - margin, 4.4, "decodes", ha="right", va="center")
    axes.text(0, 5.12, "running decodes do not stall", va="center")
    first_token(axes, both, (1.85, 4.76))
    return with_alt(
        figure,
        f"Timeline. On one machine, the prefill stalls the running decodes for "
        f"{ms_text(prefill_ms)}, and the new request's first token can start then. Split, no "
        f"decode stalls, and the first token can start after {ms_text(both)}: the prefill and "
        f"{ms_text(transfer_ms)} of KV transfer.",
    )


@styled
def transfer_times(kv_transfer_ms: Callable[..., Any]) -> Figure:
    """Draw the running example's transfer time over every link of the catalogue.

    Args:
        kv_transfer_ms: the learner's function.
    """
    asked = ask.number(kv_transfer_ms)
    times = [asked(PAYLOAD_BYTES, link.bandwidth) for link in LINKS]
    figure, axes = new_figure(4.4, f"{bytes_text(PAYLOAD_BYTES)} over each link")
    left = min(*times, STALL_MS) / 2
    axes.set_xscale("log")
    axes.set_xlim(left, 4 * max(*times, STALL_MS))
    axes.set_ylim(len(LINKS) - 0.4, -1.4)
    for row, (link, time) in enumerate(zip(LINKS, times, strict=True)):
        kind = TRANSFER if link in (FAST_LINK, SLOW_LINK) else OTHER
        bar(axes, row, left, time - left, kind)
        if 0 < letters_between(axes, time, STALL_MS) < len(ms_text(time)) + 2:
            write_at_end(axes, row, time, ms_text(time), kind)
        else:
            write_beside(axes, time, row, ms_text(time))
    axes.axvline(STALL_MS, color=BLUE_INK, linestyle="--", linewidth=1.6)
    axes.annotate(
        f"the {ms_text(STALL_MS)} stall",
        (STALL_MS, -1),
        (-5, 0),
        textcoords="offset points",
        color=BLUE_INK,
        ha="right",
        va="center",
    )
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    name_rows(axes, [f"{link.name} ({bandwidth_text(link.bandwidth)})" for link in LINKS])
    axes.set_xlabel("transfer time (ms, log scale)")
    longer = sum(time > STALL_MS for time in times)
    return with_alt(
        figure,
        f"Bars: the time that {bytes_text(PAYLOAD_BYTES)} take over {len(LINKS)} links, from "
        f"{ms_text(times[0])} ({LINKS[0].name}) to {ms_text(times[-1])} ({LINKS[-1].name}). "
        f"{longer} of them take longer than the {ms_text(STALL_MS)} stall.",
    )


@styled
def ttft_parts(ttft_ms: Callable[..., Any], transfers: Mapping[str, float]) -> Figure:
    """Draw what the new request's time to first token consists of, one bar for each case.

    Args:
        ttft_ms: the learner's function; a diamond marks its total.
        transfers: the name of each case, and its transfer time in ms (0 on one machine).
    """
    asked = ask.number(ttft_ms)
    totals = [asked(QUEUE_MS, STALL_MS, time, FIRST_DECODE_MS) for time in transfers.values()]
    longest = max(*totals, QUEUE_MS + STALL_MS + max(transfers.values()) + FIRST_DECODE_MS)
    figure, axes = new_figure(0.55 * len(transfers) + 1.9, "Time to first token, part by part")
    axes.set_xlim(0, 1.2 * longest)
    axes.set_ylim(len(transfers) - 0.4, -1.6)
    axes.spines["left"].set_visible(False)
    for row, (time, total) in enumerate(zip(transfers.values(), totals, strict=True)):
        left = 0.0
        for part, kind in (
            (QUEUE_MS, QUEUE),
            (STALL_MS, PREFILL),
            (time, TRANSFER),
            (FIRST_DECODE_MS, DECODE),
        ):
            bar(axes, row, left, part, kind)
            if part > 0.15 * longest:
                write_inside(axes, row, left + part / 2, ms_text(part), kind)
            left += part
        axes.plot(total, row, marker="D", color=INK, markersize=7, zorder=6)
        write_beside(axes, total, row, ms_text(total), 9)
    name_rows(axes, list(transfers))
    axes.legend(
        handles=[patch(kind) for kind in (QUEUE, PREFILL, TRANSFER, DECODE)],
        labels=[
            f"queue ({ms_text(QUEUE_MS)}, made up)",
            "prefill",
            "KV transfer",
            f"first decode ({ms_text(FIRST_DECODE_MS)}, made up)",
        ],
        loc="upper left",
        bbox_to_anchor=(0, 0.98),
        ncols=2,
        frameon=False,
        borderaxespad=0,
        handlelength=1.6,
    )
    axes.set_xlabel("time since the new request arrived (ms)")
    listed = "; ".join(
        f"{name}, with {ms_text(time)} of transfer: {ms_text(total)}"
        for (name, time), total in zip(transfers.items(), totals, strict=True)
    )
    return with_alt(
        figure,
        f"Stacked bars: queue ({ms_text(QUEUE_MS)}, made up), prefill ({ms_text(STALL_MS)}), KV "
        f"transfer and first decode step ({ms_text(FIRST_DECODE_MS)}, made up). Time to first "
        f"token: {listed}.",
    )


@styled
def stall_growth(
    stall_avoided_ms: Callable[..., Any], kv_transfer_ms: Callable[..., Any]
) -> Figure:
    """Draw how the stall avoided and the transfer over the lesson's links grow with the prompt.

    Args:
        stall_avoided_ms: the learner's function.
        kv_transfer_ms: the learner's function.
    """
    stall, transfer = ask.number(stall_avoided_ms), ask.number(kv_transfer_ms)
    prompts = range(256, 8192 + 1, 256)
    kv_bytes = [tokens * DEFAULT_MODEL.kv_bytes_per_token for tokens in prompts]
    lines = [("stall avoided", BLUE_INK, "-", [stall(RUNNING_DECODES, n) for n in prompts])]
    for link, colour, dashes in ((SLOW_LINK, RUST_INK, "--"), (FAST_LINK, BROWN_INK, "-.")):
        times = [transfer(size, link.bandwidth) for size in kv_bytes]
        lines.append((f"transfer, {link.name}", colour, dashes, times))

    figure, axes = new_figure(3.6, f"Both times grow with the prompt ({DEFAULT_MODEL.name})")
    for _, colour, dashes, times in lines:
        axes.plot(prompts, times, color=colour, linestyle=dashes, linewidth=2.2)
    axes.set_xlim(0, prompts[-1])
    axes.set_ylim(0, 1.05 * max(max(times) for *_, times in lines))
    axes.set_xlabel("prompt length (tokens)")
    axes.set_ylabel("time (ms)")
    axes.xaxis.set_major_locator(MultipleLocator(2048))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(color=GRID)
    end_labels(axes, [(times[-1], name, colour) for name, colour, _, times in lines], 0.075)
    ends = ", ".join(f"{name} {ms_text(times[-1])}" for name, _, _, times in lines)
    return with_alt(
        figure,
        f"Lines against prompt length for {DEFAULT_MODEL.name}, from {prompts[0]} to "
        f"{prompts[-1]:,} tokens. At {prompts[-1]:,} tokens: {ends}.",
    )


@styled
def verdict_regions(split_worthwhile: Callable[..., Any]) -> Figure:
    """Draw where, within the lesson's budget, the learner's function says to split.

    Args:
        split_worthwhile: the learner's function.
    """
    asked = ask.verdict(split_worthwhile)
    reach = 300.0
    steps = [reach * step / 120 for step in range(121)]
    split = [[asked(time, stall, BUDGET_MS) for time in steps] for stall in steps]

    figure, axes = new_figure(4.2, "Where your split_worthwhile says split")
    shade(axes, steps, steps, split)
    axes.axvline(BUDGET_MS, color=RUST_INK, linestyle="--", linewidth=1.6)
    axes.plot([0, reach], [0, reach], color=BLUE_INK, linewidth=1.6)
    axes.set_xlim(0, reach)
    axes.set_ylim(0, reach)
    write_beside(axes, BUDGET_MS, 0.06 * reach, f"budget: {ms_text(BUDGET_MS)}")
    axes.annotate(
        "transfer = stall",
        (0.42 * reach, 0.42 * reach),
        (8, -12),
        textcoords="offset points",
        color=BLUE_INK,
    )

    def answer(time: float, stall: float) -> str:
        return "split" if asked(time, stall, BUDGET_MS) else "stay together"

    for spot in ((25, 260), (150, 260), (240, 75)):  # fits both limits, breaks the budget, both
        axes.text(*spot, answer(*spot), ha="center", va="center", weight="bold", bbox=PAPER)
    said = []
    for name, time in LESSON_TRANSFERS_MS.items():
        verdict = answer(time, STALL_MS)
        axes.plot(time, STALL_MS, marker="o" if verdict == "split" else "X", color=INK, ms=9)
        axes.annotate(
            name,
            (time, STALL_MS),
            (0, 9),
            textcoords="offset points",
            ha="center",
            va="bottom",
            bbox=PAPER,
        )
        said.append(f"{name} ({ms_text(time)} of transfer), {verdict}")
    axes.set_xlabel("transfer time (ms)")
    axes.set_ylabel("stall avoided (ms)")
    return with_alt(
        figure,
        f"Chart of transfer time against the stall avoided, both up to {ms_text(reach)}, with a "
        f"budget of {ms_text(BUDGET_MS)}. The function says split on {share_text(split)} of it. "
        f"For the {ms_text(STALL_MS)} stall: {'; '.join(said)}.",
    )


@styled
def break_even_map(functions: Functions, model: Model, budget_ms: float) -> Figure:
    """Draw which bandwidth a split needs, against the length of the prompt.

    Args:
        functions: the learner's.
        model: the model whose KV cache is sent.
        budget_ms: the most that the transfer may add to the TTFT, ms.
    """
    ask.require(
        functions, "kv_transfer_ms", "stall_avoided_ms", "split_worthwhile", "break_even_bandwidth"
    )
    transfer, stall, needed = (
        ask.number(function)
        for function in (
            functions.kv_transfer_ms,
            functions.stall_avoided_ms,
            functions.break_even_bandwidth,
        )
    )
    worthwhile = ask.verdict(functions.split_worthwhile)
    prompts = [round(256 * 2 ** (step / 8)) for step in range(73)]
    bandwidths = [0.5 * GB * 4000 ** (step / 90) for step in range(91)]
    kv_bytes = [tokens * model.kv_bytes_per_token for tokens in prompts]
    stalls = [stall(RUNNING_DECODES, tokens) for tokens in prompts]
    for_budget = [needed(size, budget_ms) for size in kv_bytes]
    for_stall = [needed(size, time) for size, time in zip(kv_bytes, stalls, strict=True)]
    split = [
        [
            worthwhile(transfer(size, bandwidth), time, budget_ms)
            for size, time in zip(kv_bytes, stalls, strict=True)
        ]
        for bandwidth in bandwidths
    ]

    figure, axes = new_figure(4.8, f"The bandwidth that a split needs ({model.name})")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(prompts[0], prompts[-1])
    axes.set_ylim(bandwidths[0] / GB, bandwidths[-1] / GB)
    shade(axes, prompts, [bandwidth / GB for bandwidth in bandwidths], split)
    for link in LINKS:
        axes.axhline(link.bandwidth / GB, color="#AAAAAA", linewidth=0.7)
    end_labels(axes, [(link.bandwidth / GB, link.name, "#444444") for link in LINKS], 0.043)
    axes.plot(prompts, [value / GB for value in for_budget], color=RUST_INK, ls="--", lw=2.4)
    axes.plot(prompts, [value / GB for value in for_stall], color=BLUE_INK, lw=2.4)
    for values, label, colour, index, offset in (
        (for_budget, f"{ms_text(budget_ms)} budget", RUST_INK, 40, (10, -12)),
        (for_stall, f"stall: {bandwidth_text(for_stall[-1])}", BLUE_INK, 50, (0, -13)),
    ):
        axes.annotate(
            label,
            (prompts[index], values[index] / GB),
            offset,
            textcoords="offset points",
            va="center",
            color=colour,
            weight="bold",
            bbox=PAPER,
        )
    if split[-12][8]:
        axes.annotate(
            "your functions say: split", (prompts[6], bandwidths[-12] / GB), bbox=PAPER, va="center"
        )
    axes.set_xticks(
        prompts[::8],
        [f"{tokens // 1024}k" if tokens >= 1024 else str(tokens) for tokens in prompts[::8]],
    )
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.minorticks_off()
    axes.set_xlabel("prompt length (tokens, log scale)")
    axes.set_ylabel("bandwidth (GB/s, log scale)")
    return with_alt(
        figure,
        f"Map of bandwidth against prompt length for {model.name}, from {prompts[0]} to "
        f"{prompts[-1]:,} tokens. The line for the {ms_text(budget_ms)} budget runs from "
        f"{bandwidth_text(for_budget[0])} to {bandwidth_text(for_budget[-1])}, the line for the "
        f"stall from {bandwidth_text(for_stall[0])} to {bandwidth_text(for_stall[-1])}. Your "
        f"functions say split on {share_text(split)} of the map.",
    )
