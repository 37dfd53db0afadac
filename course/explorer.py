"""The explorer: sliders over the lesson's model of splitting, computed by the learner's functions.

`look` is the pure part: from a setting of the controls and the learner's functions to what the
panel shows. `Panel` is the widget part, and `explorer` what the notebook calls.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import ipywidgets as widgets
from IPython.display import display

from course import ask
from course.catalog import (
    BUDGET_MS,
    DEFAULT_MODEL,
    FAST_LINK,
    LINKS,
    MODELS,
    PREFILL_MS_PER_TOKEN,
    PROMPT_TOKENS,
    RUNNING_DECODES,
    Link,
    Model,
)
from course.drawing import alt_text, image_html
from course.figures import timeline
from course.learner import CheckFailed, Functions
from course.units import bandwidth_text, bytes_text, ms_text

USED: Final = ("kv_transfer_ms", "stall_avoided_ms", "split_worthwhile", "break_even_bandwidth")
PROMPT_LENGTHS: Final = sorted(
    [*(2**power for power in range(7, 18)), *(3 * 2**power for power in range(6, 16))]
)
"""Steps of the prompt's length: 128, 192, 256, 384, and so on to 131,072 tokens."""
CONTROL_WIDTH: Final = "560px"
WORDS_WIDTH: Final = "750px"


@dataclass(frozen=True)
class Setting:
    """What the controls say; it opens on the lesson's running example.

    Attributes:
        model: whose KV cache is sent.
        prompt_tokens: length of the new request's prompt.
        prefill_ms_per_token: time that prefill takes for each prompt token, ms.
        link: what carries the KV cache.
        achieved_percent: the share of the link's nominal bandwidth that transfers achieve.
        budget_ms: the most that a transfer may add to the new request's TTFT, ms.
    """

    model: Model = DEFAULT_MODEL
    prompt_tokens: int = PROMPT_TOKENS
    prefill_ms_per_token: float = PREFILL_MS_PER_TOKEN
    link: Link = FAST_LINK
    achieved_percent: int = 100
    budget_ms: float = BUDGET_MS

    @property
    def kv_bytes(self) -> int:
        """Size of the prompt's KV cache, in bytes."""
        return self.prompt_tokens * self.model.kv_bytes_per_token

    @property
    def bandwidth(self) -> float:
        """Bandwidth that transfers achieve, in bytes per second."""
        return self.link.bandwidth * self.achieved_percent / 100


@dataclass(frozen=True)
class View:
    """What the panel shows: an ``<img>`` element (or none), and sentences of plain text."""

    picture: str
    verdict: str
    details: tuple[str, ...] = ()


def look(setting: Setting, functions: Functions) -> View:
    """Return what the learner's functions say about a setting.

    Where a function is missing or does something odd, the view has no picture, and one line
    that says so.
    """
    try:
        with ask.quietly():
            return _look(setting, functions)
    except CheckFailed as message:
        return View("", str(message))


def _look(setting: Setting, functions: Functions) -> View:
    ask.require(functions, *USED)
    transfer_ms = ask.number(functions.kv_transfer_ms)(setting.kv_bytes, setting.bandwidth)
    stall_ms = ask.number(functions.stall_avoided_ms)(
        RUNNING_DECODES, setting.prompt_tokens, prefill_cost=setting.prefill_ms_per_token
    )
    split = ask.verdict(functions.split_worthwhile)(transfer_ms, stall_ms, setting.budget_ms)
    needed = ask.number(functions.break_even_bandwidth)(setting.kv_bytes, setting.budget_ms)
    figure = timeline(stall_ms, transfer_ms)
    return View(
        image_html(figure, alt=""),  # the last of the sentences says it
        verdict_text(split, transfer_ms, stall_ms, setting.budget_ms),
        (
            f"{setting.prompt_tokens:,} tokens of {setting.model.name} leave "
            f"{bytes_text(setting.kv_bytes)} of KV cache. For your {ms_text(setting.budget_ms)} "
            f"budget the link must carry {bandwidth_text(needed)}; this one carries "
            f"{bandwidth_text(setting.bandwidth)}.",
            alt_text(figure),
        ),
    )


def verdict_text(split: bool, transfer_ms: float, stall_ms: float, budget_ms: float) -> str:
    """Return the learner's verdict in words, with the conditions behind it.

    A condition met to the last digit is left to the learner's function: ties are its business.

    Args:
        split: what the learner's ``split_worthwhile`` said.
        transfer_ms: time that the transfer adds to the new request's TTFT, ms.
        stall_ms: stall that the running decodes are spared, ms.
        budget_ms: the most that the transfer may add, ms.
    """
    adds = f"the transfer adds {ms_text(transfer_ms)}"
    budget, stall = f"your {ms_text(budget_ms)} budget", f"the {ms_text(stall_ms)} stall it avoids"
    ties = [
        name
        for name, limit in ((budget, budget_ms), (stall, stall_ms))
        if math.isclose(transfer_ms, limit, rel_tol=1e-9)
    ]
    failures = []
    if transfer_ms > budget_ms and budget not in ties:
        failures.append(f"{ms_text(transfer_ms - budget_ms)} over {budget}")
    if transfer_ms > stall_ms and stall not in ties:
        failures.append(f"{ms_text(transfer_ms - stall_ms)} more than {stall}")

    if split and failures:
        return (
            f"Your `split_worthwhile` says worthwhile, yet {adds}, {', and '.join(failures)}. "
            "Its conditions deserve another look."
        )
    if split:
        return (
            f"Worthwhile: {adds}, within {budget}, and spares the running decodes a stall of "
            f"{ms_text(stall_ms)}."
        )
    if failures:
        return f"Not worthwhile: {adds}, {', and '.join(failures)}."
    if ties:
        return f"Not worthwhile: {adds}, exactly {' and '.join(ties)}."
    return (
        f"Your `split_worthwhile` says not worthwhile, yet {adds}, which is within {budget} and "
        f"less than {stall}. Its conditions deserve another look."
    )


class Panel:
    """The explorer's widgets.

    Args:
        namespace: the notebook's variables; read anew at each change, so that a function that
            the learner has just mended counts at once.
    """

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        opening = Setting()
        self.model = _control(
            widgets.Dropdown,
            "Model",
            options=[(model.name, model) for model in MODELS],
            value=opening.model,
        )
        self.prompt_tokens = _control(
            widgets.SelectionSlider,
            "Prompt length (tokens)",
            options=[(f"{length:,}", length) for length in PROMPT_LENGTHS],
            value=opening.prompt_tokens,
        )
        self.prefill_ms_per_token = _control(
            widgets.FloatSlider,
            "Prefill per token (ms)",
            min=0.01,
            max=1.0,
            step=0.01,
            value=opening.prefill_ms_per_token,
        )
        self.link = _control(
            widgets.Dropdown,
            "Link",
            options=[(f"{link.name} ({bandwidth_text(link.bandwidth)})", link) for link in LINKS],
            value=opening.link,
        )
        self.achieved_percent = _control(
            widgets.IntSlider,
            "Achieved bandwidth (%)",
            min=5,
            max=100,
            step=5,
            value=opening.achieved_percent,
        )
        self.budget_ms = _control(
            widgets.IntSlider,
            "TTFT budget (ms)",
            min=5,
            max=500,
            step=5,
            value=int(opening.budget_ms),
        )
        self.verdict = widgets.HTML(layout=widgets.Layout(width=WORDS_WIDTH))
        self.picture = widgets.HTML(layout=widgets.Layout(height="360px"))
        self.details = widgets.HTML(layout=widgets.Layout(width=WORDS_WIDTH, min_height="96px"))
        controls = (
            self.model,
            self.prompt_tokens,
            self.prefill_ms_per_token,
            self.link,
            self.achieved_percent,
            self.budget_ms,
        )
        self.root = widgets.VBox([*controls, self.verdict, self.picture, self.details])
        for control in controls:
            control.observe(self._redraw, names="value")
        self._redraw()

    def _redraw(self, _change: object = None) -> None:
        setting = Setting(
            self.model.value,
            self.prompt_tokens.value,
            self.prefill_ms_per_token.value,
            self.link.value,
            self.achieved_percent.value,
            self.budget_ms.value,
        )
        view = look(setting, Functions(self._namespace))
        self.verdict.value = _paragraphs(f"<strong>{html.escape(view.verdict)}</strong>")
        self.picture.value = view.picture
        self.details.value = _paragraphs(*map(html.escape, view.details))
        # With a picture, heights are fixed, so that nothing jumps when the words change; without
        # one, no room is left blank.
        self.verdict.layout.min_height = "48px" if view.picture else None
        for part in (self.picture, self.details):
            part.layout.display = None if view.picture else "none"

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        """Return what a notebook shows, and a short text for where it cannot."""
        bundle: dict[str, object] = self.root._repr_mimebundle_()
        return bundle | {"text/plain": "The explorer: run this cell to open it."}


def explorer(namespace: Mapping[str, object]) -> None:
    """Display the explorer; call it as ``explorer(globals())``."""
    display(Panel(namespace))


def _paragraphs(*texts: str) -> str:
    return "".join(f'<p style="line-height: 1.4; margin: 4px 0">{text}</p>' for text in texts)


def _control(kind: type[widgets.Widget], description: str, **settings: object) -> widgets.Widget:
    return kind(
        description=description,
        style={"description_width": "160px"},
        # The margin is the default of all widgets but SelectionSlider, which has none.
        layout=widgets.Layout(width=CONTROL_WIDTH, margin="2px"),
        **settings,
    )
