"""The summary says where the learner stands, whatever the notebook holds at that moment."""

from __future__ import annotations

from collections import Counter

import pytest

from course.checks import CHECKS
from course.summary import headline, prediction_then_and_now, standing, summary
from tests import reference
from tests.cell_output import cell_output

ALL_DONE: dict[str, object] = {
    "fast_link_ms": 15.625,
    "slow_link_ms": 250,
    "clear_win": "no",
    "always_beneficial": "no",
    **{
        name: vars(reference)[name]
        for name in (
            "kv_transfer_ms",
            "ttft_ms",
            "stall_avoided_ms",
            "split_worthwhile",
            "break_even_bandwidth",
        )
    },
}
HALF_DONE: dict[str, object] = {
    **ALL_DONE,
    "slow_link_ms": 256,
    "clear_win": None,
    "ttft_ms": lambda queue_ms, prefill_ms, transfer_ms, first_decode_ms: None,
    "split_worthwhile": lambda transfer_ms, stall_avoided, max_extra_ttft_ms: True,
}


def states(namespace: dict[str, object]) -> Counter[str]:
    return Counter(s.state for s in standing(namespace))


def test_an_untouched_notebook_has_everything_left_to_do() -> None:
    untouched: dict[str, object] = dict.fromkeys(ALL_DONE)

    assert states(untouched) == {"not finished": len(CHECKS)}
    assert states({}) == {"not finished": len(CHECKS)}
    assert headline(standing(untouched)) == f"0 of {len(CHECKS)} checks pass, {len(CHECKS)} to go."


def test_a_half_done_notebook_shows_what_passes_what_to_look_at_and_what_is_left() -> None:
    shown = {(s.target, s.behaviour): s for s in standing(HALF_DONE)}

    assert states(HALF_DONE) == {"passes": 6, "answered": 1, "look again": 3, "not finished": 2}
    assert "prefixes" in shown["slow_link_ms", "512 MiB over 2 GiB/s, in ms"].message
    assert headline(standing(HALF_DONE)) == "7 of 12 checks pass, 5 to go."


def test_a_finished_notebook_is_sent_on_to_validate_and_submit() -> None:
    assert states(ALL_DONE) == {"passes": 10, "answered": 2}
    assert headline(standing(ALL_DONE)) == (
        "All 12 checks pass. Is the report as you expect it, and your answer written?"
    )


def test_a_wrong_yes_or_no_counts_as_answered_and_gives_nothing_away() -> None:
    assert states({**ALL_DONE, "clear_win": "yes"}) == states(ALL_DONE)


def test_the_table_stands_in_html_and_in_text() -> None:
    with cell_output() as captured:
        summary(HALF_DONE)
    (shown,) = captured.outputs

    text = shown.data["text/plain"]
    assert "✗ slow_link_ms: 512 MiB over 2 GiB/s, in ms (look again)" in text
    assert "… ttft_ms: the sum of its four parts (not finished)" in text
    assert "slow_link_ms" in shown.data["text/html"]


@pytest.mark.parametrize(
    ("prediction", "now", "changed"),
    [("yes", "no", True), (" No", "no", False), (None, "no", False)],
)
def test_prediction_and_present_answer_stand_side_by_side(
    prediction: str | None, now: str, changed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    prediction_then_and_now(prediction, 60, now)
    printed = capsys.readouterr().out

    assert ("changed your mind" in printed) == changed
    if prediction is None:
        assert "no prediction" in printed
    else:
        assert f"You predicted: {prediction} (60 % sure)" in printed
        assert f"You say now:   {now}" in printed


def test_an_answer_that_is_still_missing_is_no_change_of_mind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prediction_then_and_now("yes", 60, None)

    assert "Not finished yet: `always_beneficial`" in capsys.readouterr().out


def test_a_prediction_without_confidence_is_shown_without_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    prediction_then_and_now("yes", None, "yes")

    assert "You predicted: yes\n" in capsys.readouterr().out
