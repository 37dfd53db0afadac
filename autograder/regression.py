"""Compare a cell's outputs with the reference outputs, as nbval compares them.

Outputs are grouped by kind (stdout, stderr, each MIME type...): their order counts within a kind,
not between kinds. Pictures, tracebacks and counters are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

CHECK_OUTPUT_TAG: Final = "nbval-check-output"

OVERWRITTEN: Final = re.compile(r".*\r(?=[^\n])")
"""What a carriage return lets later output write over, on a terminal."""

NOT_COMPARED: Final = frozenset(
    {
        "metadata",
        "traceback",
        "prompt_number",
        "output_type",
        "name",
        "execution_count",
        "application/vnd.jupyter.widget-view+json",
        "image/png",
        "image/jpeg",
    }
)
"""nbval's own list (nbval 0.11, without nbdime)."""


def difference(
    reference: Sequence[Mapping[str, Any]], outputs: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return in a few words where the outputs leave the reference, or None where they agree."""
    expected, found = _by_kind(reference), _by_kind(outputs)
    if missing := sorted(expected.keys() - found.keys()):
        return f"no {', '.join(missing)} where the reference has some"
    if unexpected := sorted(found.keys() - expected.keys()):
        return f"{', '.join(unexpected)} where the reference has none"
    for kind, values in expected.items():
        if values != found[kind]:
            return f"{kind} differs from the reference"
    return None


def _by_kind(outputs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    kinds: dict[str, list[Any]] = defaultdict(list)
    streams: dict[str, str] = defaultdict(str)
    for output in outputs:
        if output["output_type"] == "stream":
            streams[output["name"]] += _text(output["text"])
            continue
        for key, value in output.items():
            if key == "data":
                for mime, content in value.items():
                    kinds[mime].append(_text(content))
            else:
                kinds[key].append(_text(value))
    for name, text in streams.items():
        kinds[name].append(OVERWRITTEN.sub("", text))
    return {kind: values for kind, values in kinds.items() if kind not in NOT_COMPARED}


def _text(value: Any) -> Any:
    """Join what a notebook file may keep as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value
