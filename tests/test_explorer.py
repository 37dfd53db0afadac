"""The explorer answers every change with the learner's own functions, in words and a picture."""

from __future__ import annotations

import math
from typing import Any

import ipywidgets as widgets
import pytest

from course.catalog import LINKS, MODELS, SLOW_LINK
from course.explorer import Panel, Setting, explorer, look, verdict_text
from course.learner import SAMPLE_ARGUMENTS, Functions
from tests import reference
from tests.cell_output import cell_output


def look_with(setting: Setting | None = None, **changed: Any) -> Any:
    return look(setting or Setting(), Functions({**vars(reference), **changed}))


def test_it_opens_on_the_running_example() -> None:
    view = look_with()
    assert view.verdict == (
        "Worthwhile: the transfer adds 15.6 ms, within your 50 ms budget, and spares the running "
        "decodes a stall of 204.8 ms."
    )
    assert "2,048 tokens of Qwen3-32B leave 512 MiB of KV cache" in view.details[0]


def test_a_failing_verdict_names_each_condition_that_fails_and_by_how_much() -> None:
    assert look_with(Setting(link=SLOW_LINK)).verdict == (
        "Not worthwhile: the transfer adds 250 ms, 200 ms over your 50 ms budget, and 45.2 ms "
        "more than the 204.8 ms stall it avoids."
    )


def test_only_the_condition_that_fails_is_named() -> None:
    verdict = look_with(Setting(link=SLOW_LINK, budget_ms=500)).verdict
    assert "budget" not in verdict
    assert "45.2 ms more than the 204.8 ms stall" in verdict


def test_the_achieved_share_slows_the_transfer() -> None:
    assert "adds 31.2 ms" in look_with(Setting(achieved_percent=50)).verdict


def test_the_break_even_bandwidth_is_the_learners() -> None:
    assert "must carry 7 GB/s" in look_with(break_even_bandwidth=lambda *_: 7e9).details[0]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("model", MODELS)
def test_a_correct_solution_never_hears_that_its_verdict_is_off(link: Any, model: Any) -> None:
    verdict = look_with(Setting(model=model, prompt_tokens=1024, link=link)).verdict
    assert "another look" not in verdict


def test_a_verdict_that_disagrees_with_its_conditions_is_said_kindly() -> None:
    yes = look_with(Setting(link=SLOW_LINK), split_worthwhile=lambda *_: True).verdict
    no = look_with(split_worthwhile=lambda *_: False).verdict
    assert "says worthwhile, yet" in yes
    assert "says not worthwhile, yet" in no


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("limits", [(200.0, 50.0), (50.0, 200.0)])
def test_ties_are_left_to_the_learners_function(split: bool, limits: tuple[float, float]) -> None:
    verdict = verdict_text(split, 50.0, *limits)
    assert "another look" not in verdict
    assert verdict.startswith("Worthwhile" if split else "Not worthwhile")


def test_missing_functions_are_named_in_one_message() -> None:
    view = look(Setting(), Functions({"kv_transfer_ms": reference.kv_transfer_ms}))
    assert view.picture == ""
    assert view.verdict == (
        "Not finished yet: `stall_avoided_ms`, `split_worthwhile`, `break_even_bandwidth`. "
        "Fill them in above, then run this cell again."
    )


def test_it_needs_no_function_that_it_does_not_use() -> None:
    assert look_with(ttft_ms=None).picture


def test_an_odd_value_is_one_line_that_names_the_function() -> None:
    def kv_transfer_ms(kv_bytes: float, bandwidth_bytes_per_s: float) -> float:
        return math.inf

    view = look_with(kv_transfer_ms=kv_transfer_ms)
    assert view.verdict.startswith("`kv_transfer_ms` returned inf")
    assert view.picture == ""


def test_an_error_is_one_line_that_names_the_function() -> None:
    def stall_avoided_ms(decodes: int, prompt_tokens: int) -> float:
        return prompt_tokens * 0.1

    assert look_with(stall_avoided_ms=stall_avoided_ms).verdict.startswith(
        "`stall_avoided_ms` raised TypeError"
    )


def controls(panel: Panel) -> list[Any]:
    return [child for child in panel.root.children if child.description]


def test_each_change_redraws_once() -> None:
    calls = []

    def kv_transfer_ms(kv_bytes: float, bandwidth_bytes_per_s: float) -> float:
        if (kv_bytes, bandwidth_bytes_per_s) != SAMPLE_ARGUMENTS["kv_transfer_ms"]:
            calls.append(kv_bytes)
        return reference.kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s)

    panel = Panel({**vars(reference), "kv_transfer_ms": kv_transfer_ms})
    for control in controls(panel):
        calls.clear()
        if isinstance(control, (widgets.Dropdown, widgets.SelectionSlider)):
            control.index = 0
        else:
            control.value = control.min
        assert len(calls) == 1, control.description


def test_every_control_has_a_description_that_a_screen_reader_can_say() -> None:
    descriptions = [control.description for control in controls(Panel({}))]
    assert len(set(descriptions)) == 6
    assert all(descriptions)


def test_a_function_that_appears_later_counts_at_the_next_change() -> None:
    namespace: dict[str, object] = {}
    panel = Panel(namespace)
    assert "Not finished yet" in panel.verdict.value
    namespace.update(vars(reference))
    panel.budget_ms.value = 45
    assert "Worthwhile" in panel.verdict.value
    assert "<img" in panel.picture.value


def test_what_the_picture_shows_is_told_once() -> None:
    panel = Panel(vars(reference))
    assert 'alt=""' in panel.picture.value
    assert "Timeline. On one machine" in panel.details.value


def test_room_is_kept_for_the_picture_only_while_there_is_one() -> None:
    namespace: dict[str, object] = {}
    panel = Panel(namespace)
    words, picture, details = (
        part.layout for part in (panel.verdict, panel.picture, panel.details)
    )
    assert (words.min_height, picture.display, details.display) == (None, "none", "none")

    namespace.update(vars(reference))
    panel.budget_ms.value = 45
    assert (words.min_height, picture.display, details.display) == ("48px", None, None)


def test_the_explorer_displays_one_panel_and_prints_nothing() -> None:
    with cell_output() as captured:
        explorer(vars(reference))
    assert (captured.stdout, captured.stderr) == ("", "")
    (output,) = captured.outputs
    assert "application/vnd.jupyter.widget-view+json" in output.data
    assert len(output.data["text/plain"]) < 60
