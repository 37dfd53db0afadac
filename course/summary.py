"""Where the learner stands: which checks pass now, and what is left to do."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from IPython.display import display

from course import checks
from course.learner import CheckFailed, Unfinished

State = Literal["passes", "answered", "look again", "not finished"]

MARKS: dict[State, str] = {"passes": "✓", "answered": "✓", "look again": "✗", "not finished": "…"}


@dataclass(frozen=True)
class Standing:
    """What one check says at this moment."""

    target: str
    behaviour: str
    state: State
    message: str


def standing(namespace: Mapping[str, object]) -> list[Standing]:
    """Run every visible check on the notebook's present values (``globals()``)."""
    return [_stand(check, namespace) for check in checks.CHECKS]


def _stand(check: checks.Check, namespace: Mapping[str, object]) -> Standing:
    state: State = "passes" if check.verdict else "answered"
    message = ""
    try:
        checks.run(check, namespace)
    except Unfinished:
        state = "not finished"
    except CheckFailed as failure:
        state, message = "look again", str(failure)
    return Standing(check.target, check.behaviour, state, message)


def headline(standings: list[Standing]) -> str:
    """Say in one sentence how many of the checks pass."""
    done = sum(s.state in {"passes", "answered"} for s in standings)
    left = len(standings) - done
    if left == 0:
        return f"All {done} checks pass. Is the report as you expect it, and your answer written?"
    return f"{done} of {len(standings)} checks pass, {left} to go."


def summary(namespace: Mapping[str, object]) -> None:
    """Display a table of the checks; call it as ``summary(globals())``."""
    standings = standing(namespace)
    rows = [
        f"<tr><td>{MARKS[s.state]}</td><td style='text-align:left'><code>{s.target}</code></td>"
        f"<td style='text-align:left'>{html.escape(s.behaviour)}</td>"
        f"<td style='text-align:left'>{html.escape(s.message or s.state)}</td></tr>"
        for s in standings
    ]
    head = "".join(
        f"<th style='text-align:left'>{title}</th>" for title in ("", "Yours", "Check", "Now")
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    lines = [f"{MARKS[s.state]} {s.target}: {s.behaviour} ({s.state})" for s in standings]
    display(
        {
            "text/html": f"<p><strong>{headline(standings)}</strong></p>{table}",
            "text/plain": "\n".join([headline(standings), *lines]),
        },
        raw=True,
    )


def prediction_then_and_now(prediction: object, confidence: object, now: object) -> None:
    """Print the learner's prediction beside the present answer to the same question."""
    if now is None:
        print(*Unfinished("always_beneficial").lines(), sep="\n")
        return
    if prediction is None:
        print("You made no prediction in section 1. No harm done: it was not graded.")
        return
    sure = "" if confidence is None else f" ({confidence} % sure)"
    print(f"You predicted: {prediction}{sure}")
    print(f"You say now:   {now}")
    if str(prediction).strip().lower() == str(now).strip().lower():
        print("You kept your answer. Could you now defend it with a number?")
    else:
        print("You changed your mind. What was it that changed it?")
