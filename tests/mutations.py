"""Plausible wrong answers to every graded question, and right ones in unusual spellings.

Each replaces one solution cell of an otherwise perfect hand-in. A wrong one must lose points on its
own question and on no other (`report` aside, which uses all five functions); a right one must keep
every point. Mistakes in the two transfer times are in the sample class, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from course.checks import CHECKS, run
from course.learner import CheckFailed
from tests.sample_class import Learner

GRADED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "fast-link": ("fast-link-check",),
    "slow-link": ("slow-link-check",),
    "clear-win": ("clear-win-check",),
    "kv-transfer": ("kv-transfer-value", "kv-transfer-error"),
    "ttft": ("ttft-sum",),
    "stall-avoided": ("stall-avoided-value", "stall-avoided-arguments"),
    "split-worthwhile": ("split-worthwhile-clear", "split-worthwhile-ties"),
    "break-even": ("break-even-value",),
    "always-beneficial": ("always-beneficial-check",),
}
"""The grade cells of each solution cell."""


@dataclass(frozen=True)
class Variant:
    """One solution cell, written in another way.

    Args:
        cell: the solution cell's grade id.
        name: what is special about it, in a few words.
        code: the cell's text.
    """

    cell: str
    name: str
    code: str

    @property
    def student(self) -> str:
        """The id of the learner who hands it in."""
        return re.sub(r"\W+", "-", f"{self.cell} {self.name}").strip("-")

    @property
    def learner(self) -> Learner:
        """A learner whose hand-in is perfect but for this cell."""
        return Learner(self.student, self.name, {self.cell: self.code})

    def passes_the_visible_checks(self) -> bool:
        """Say whether the checks that a learner sees let this cell pass."""
        namespace: dict[str, object] = {}
        try:
            exec(self.code, namespace)
            for check in CHECKS:
                if check.target in namespace:
                    run(check, namespace)
        except (CheckFailed, NameError):
            return False
        return True


def _assigned(cell: str, values: Mapping[str, str]) -> Iterator[Variant]:
    variable = cell.replace("-", "_").replace("link", "link_ms")
    for name, value in values.items():
        yield Variant(cell, name, f"{variable} = {value}")


def _bodies(cell: str, signature: str, bodies: Mapping[str, str]) -> Iterator[Variant]:
    """Give the function each body, a few lines; a single expression is what it returns."""
    for name, body in bodies.items():
        lines = body.splitlines() if "\n" in body else [f"return {body}"]
        yield Variant(cell, name, "\n".join([signature, *(f"    {line}" for line in lines)]))


KV_TRANSFER: Final = "def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):"
GUARDED: Final = f"""{KV_TRANSFER}
    if bandwidth_bytes_per_s <= 0:
        raise ValueError"""
TTFT: Final = "def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):"
STALL: Final = "def stall_avoided_ms(decodes, prompt_tokens, decode_cost=1.0, prefill_cost=0.1):"
SPLIT: Final = "def split_worthwhile(transfer_ms, stall_avoided, max_extra_ttft_ms):"
BREAK_EVEN: Final = "def break_even_bandwidth(kv_bytes, max_transfer_ms):"


def _when_the_bandwidth_is_bad(then: str, condition: str = "bandwidth_bytes_per_s <= 0") -> str:
    return f"if {condition}:\n    {then}\nreturn kv_bytes / bandwidth_bytes_per_s * 1000"


MUTATIONS: Final = (
    *_assigned(
        "fast-link",
        {
            "two decimals, to even": "round(512 * 1024**2 / (32 * 1024**3) * 1000, 2)",
            "just outside the tolerance": "15.6261",
            "as text": '"15.625"',
            "a name that is not there": "fast_ms",
        },
    ),
    *_assigned(
        "slow-link",
        {
            "just outside the tolerance": "249.9",
            "as text": '"250.0"',
            "True": "True",
        },
    ),
    *_assigned(
        "clear-win",
        {
            "yes": '"yes"',
            "True": "True",
            "empty": '""',
            "maybe": '"maybe"',
            "without quotation marks": "no",
        },
    ),
    *_assigned(
        "always-beneficial",
        {
            "yes": '"yes"',
            "False": "False",
            "empty": '""',
        },
    ),
    *_bodies(
        "kv-transfer",
        GUARDED,
        {
            "in seconds": "kv_bytes / bandwidth_bytes_per_s",
            "payload in bits": "kv_bytes * 8 / bandwidth_bytes_per_s * 1000",
            "link in bits": "kv_bytes / (bandwidth_bytes_per_s * 8) * 1000",
            "upside down": "bandwidth_bytes_per_s / kv_bytes * 1000 if kv_bytes else 0",
            "rounded": "round(kv_bytes / bandwidth_bytes_per_s * 1000, 3)",
            "1024 ms in a second": "kv_bytes / bandwidth_bytes_per_s * 1024",
            "whole ms": "kv_bytes * 1000 // bandwidth_bytes_per_s",
            "no payload refused": "if not kv_bytes:\n    raise ValueError\n"
            "return kv_bytes / bandwidth_bytes_per_s * 1000",
        },
    ),
    *_bodies(
        "kv-transfer",
        KV_TRANSFER,
        {
            "only below zero": _when_the_bandwidth_is_bad(
                "raise ValueError", "bandwidth_bytes_per_s < 0"
            ),
            "only zero": _when_the_bandwidth_is_bad(
                "raise ValueError", "bandwidth_bytes_per_s == 0"
            ),
            "only whole numbers": _when_the_bandwidth_is_bad(
                "raise ValueError", "bandwidth_bytes_per_s in range(-1000, 1)"
            ),
            "None for no bandwidth": _when_the_bandwidth_is_bad("return None"),
            "error returned": _when_the_bandwidth_is_bad("return ValueError('no bandwidth')"),
            "TypeError": _when_the_bandwidth_is_bad("raise TypeError"),
        },
    ),
    *_bodies(
        "ttft",
        TTFT,
        {
            "mean": "(queue_ms + prefill_ms + transfer_ms + first_decode_ms) / 4",
            "longest": "max(queue_ms, prefill_ms, transfer_ms, first_decode_ms)",
            "no queue": "prefill_ms + transfer_ms + first_decode_ms",
            "no prefill": "queue_ms + transfer_ms + first_decode_ms",
            "no transfer": "queue_ms + prefill_ms + first_decode_ms",
            "no first decode": "queue_ms + prefill_ms + transfer_ms",
            "transfer taken away": "queue_ms + prefill_ms - transfer_ms + first_decode_ms",
            "transfer twice": "queue_ms + prefill_ms + 2 * transfer_ms + first_decode_ms",
            "transfer during prefill": "queue_ms + max(prefill_ms, transfer_ms) + first_decode_ms",
            "rounded": "round(queue_ms + prefill_ms + transfer_ms + first_decode_ms)",
            "one machine": "if transfer_ms == 0:\n    return prefill_ms\n"
            "return queue_ms + prefill_ms + transfer_ms + first_decode_ms",
        },
    ),
    *_bodies(
        "stall-avoided",
        STALL,
        {
            "for all decodes": "decodes * prompt_tokens * prefill_cost",
            "shared by the decodes": "prompt_tokens * prefill_cost / decodes",
            "plus a step": "prompt_tokens * prefill_cost + decode_cost",
            "less the steps": "prompt_tokens * prefill_cost - decodes * decode_cost",
            "times the step": "prompt_tokens * prefill_cost * decode_cost",
            "in seconds": "prompt_tokens * prefill_cost / 1000",
            "hard-coded": "200",
            "cost hard-coded": "prompt_tokens * 0.1",
            "whole ms": "int(prompt_tokens * prefill_cost)",
        },
    ),
    *(
        Variant(
            "stall-avoided", name, f"def stall_avoided_ms({parameters}):\n    return tokens * cost"
        )
        for name, parameters in {
            "prefill dearer by default": "decodes, tokens, decode_cost=1.0, cost=1.0",
            "names of its own": "n, tokens, step=1.0, cost=0.1",
            "first two swapped": "tokens, decodes, decode_cost=1.0, cost=0.1",
        }.items()
    ),
    Variant(
        "stall-avoided",
        "costs swapped",
        "def stall_avoided_ms(decodes, prompt_tokens, prefill_cost=0.1, decode_cost=1.0):\n"
        "    return prompt_tokens * prefill_cost",
    ),
    Variant(
        "stall-avoided",
        "no defaults",
        "def stall_avoided_ms(decodes, prompt_tokens, decode_cost, prefill_cost):\n"
        "    return prompt_tokens * prefill_cost",
    ),
    *_bodies(
        "split-worthwhile",
        SPLIT,
        {
            "or": "transfer_ms <= max_extra_ttft_ms or stall_avoided > transfer_ms",
            "budget tie": "transfer_ms < max_extra_ttft_ms and stall_avoided > transfer_ms",
            "stall tie": "transfer_ms <= max_extra_ttft_ms and stall_avoided >= transfer_ms",
            "budget and stall": "transfer_ms <= max_extra_ttft_ms < stall_avoided",
            "budget ignored": "stall_avoided > transfer_ms",
            "stall ignored": "transfer_ms <= max_extra_ttft_ms",
            "budget hard-coded": "transfer_ms <= 50 and stall_avoided > transfer_ms",
            "negated": "not (transfer_ms <= max_extra_ttft_ms and stall_avoided > transfer_ms)",
            "sum": "transfer_ms + max_extra_ttft_ms < stall_avoided",
            "whole ms": "ms = int(transfer_ms)\n"
            "return ms <= max_extra_ttft_ms and stall_avoided > ms",
            "in words": '"yes" if transfer_ms <= max_extra_ttft_ms and stall_avoided > transfer_ms '
            'else "no"',
            "no else": "if transfer_ms <= max_extra_ttft_ms and stall_avoided > transfer_ms:\n"
            "    return True",
        },
    ),
    *_bodies(
        "break-even",
        BREAK_EVEN,
        {
            "no 1000": "kv_bytes / max_transfer_ms",
            "1000 on the wrong side": "kv_bytes / max_transfer_ms / 1000",
            "in bits": "8 * kv_bytes * 1000 / max_transfer_ms",
            "multiplied": "kv_bytes * max_transfer_ms",
            "in MB": "kv_bytes * 1000 / max_transfer_ms / 1e6",
            "in GB": "kv_bytes * 1000 / max_transfer_ms / 1e9",
            "upside down": "max_transfer_ms / 1000 / kv_bytes",
            "whole limit": "kv_bytes * 1000 / max(int(max_transfer_ms), 1)",
            "whole MB": "round(kv_bytes * 1000 / max_transfer_ms, -6)",
        },
    ),
)

EQUIVALENTS: Final = (
    *_assigned(
        "fast-link",
        {
            "numpy": "__import__('numpy').float64(15.625)",
            "single precision": "__import__('numpy').float32(15.625)",
            "fraction": "__import__('fractions').Fraction(1000, 64)",
            "more decimals": "15.62499999",
        },
    ),
    *_assigned("slow-link", {"whole": "250", "to a decimal": "round(250.0, 1)"}),
    *_assigned("clear-win", {"capital and blank": '" No\\n"'}),
    *_assigned("always-beneficial", {"capitals": '"NO"'}),
    Variant(
        "kv-transfer",
        "fractions and an own error",
        """\
from fractions import Fraction

class LinkIsDown(ValueError):
    pass

def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    if not bandwidth_bytes_per_s > 0:
        raise LinkIsDown(f"{bandwidth_bytes_per_s} bytes/s")
    return float(Fraction(kv_bytes) / Fraction(bandwidth_bytes_per_s) * 1000)""",
    ),
    Variant(
        "kv-transfer",
        "numpy and types",
        """\
import numpy as np

def kv_transfer_ms(kv_bytes: float, bandwidth_bytes_per_s: float) -> np.float64:
    if bandwidth_bytes_per_s > 0:
        return np.divide(kv_bytes, bandwidth_bytes_per_s) * 1e3
    else:
        raise ValueError("no bandwidth")""",
    ),
    Variant(
        "ttft",
        "lambda",
        "ttft_ms = lambda queue_ms, prefill_ms, transfer_ms, first_decode_ms: (\n"
        "    first_decode_ms + transfer_ms + prefill_ms + queue_ms)",
    ),
    Variant(
        "ttft",
        "any number of parts",
        "import math\n\ndef ttft_ms(*parts_ms):\n    return math.fsum(parts_ms)",
    ),
    *_bodies(
        "stall-avoided",
        STALL,
        {
            "token by token": "per_ms = 1 / prefill_cost\nreturn prompt_tokens / per_ms",
            "alone and together": "alone = decode_cost\n"
            "together = decode_cost + prompt_tokens * prefill_cost\nreturn together - alone",
        },
    ),
    *_bodies(
        "split-worthwhile",
        SPLIT,
        {
            "de Morgan": "not (transfer_ms > max_extra_ttft_ms or transfer_ms >= stall_avoided)",
            "all": "all([transfer_ms <= max_extra_ttft_ms, transfer_ms < stall_avoided])",
            "numpy": "import numpy as np\n"
            "return np.less_equal(transfer_ms, max_extra_ttft_ms) & (stall_avoided > transfer_ms)",
        },
    ),
    *_bodies(
        "break-even",
        BREAK_EVEN,
        {
            "in seconds first": "seconds = max_transfer_ms / 1000\nreturn kv_bytes / seconds",
            "in thousandths": "kv_bytes / max_transfer_ms / 1e-3",
            "from the other function": "kv_transfer_ms(kv_bytes, 1) / max_transfer_ms",
            "by bisection": "low, high = 0, kv_bytes * 1e6\n"
            "for _ in range(100):\n"
            "    middle = (low + high) / 2\n"
            "    if kv_bytes / middle * 1000 <= max_transfer_ms:\n"
            "        high = middle\n"
            "    else:\n"
            "        low = middle\n"
            "return high",
        },
    ),
)


def _hand_ins(variants: Sequence[Variant]) -> Iterator[Learner]:
    """Spread the variants over as few hand-ins as can hold them, one of each cell in each."""
    by_cell = {cell: [v for v in variants if v.cell == cell] for cell in GRADED_BY}
    for n in range(max(map(len, by_cell.values()))):
        chosen = [found[n % len(found)] for found in by_cell.values()]
        yield Learner(
            f"right-{n}",
            "; ".join(f"{v.cell}: {v.name}" for v in chosen),
            {v.cell: v.code for v in chosen},
        )


RIGHT_HAND_INS: Final = tuple(_hand_ins(EQUIVALENTS))
"""Hand-ins that hold all the right answers between them."""
