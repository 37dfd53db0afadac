"""Name the likely mistake behind a wrong transfer time.

Works backwards: what payload would that time carry over this link? The ratio of that payload to
the real one tells the slip (8: bits; 1.024: a decimal step among binary ones). Where several slips
give one number, the hint covers them all. Hints ask, and never give the number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from course.units import GB, GIB, KIB, MB, MIB

MS_PER_S: Final = 1000

SAME_PRECISION: Final = 5e-4
"""Relative difference within which two answers are one slip, rounded differently."""


@dataclass(frozen=True)
class TransferQuestion:
    """A question for the time of one payload over one link.

    Args:
        payload: bytes to move.
        bandwidth: bytes/s of the link asked for.
        other_bandwidth: bytes/s of the link that the neighbouring question asks for.
        stall_ms: the stall, in ms, that the text talks about and that might be mixed up with it.
        decimals: digits asked for after the point, in ms.
    """

    payload: float
    bandwidth: float
    other_bandwidth: float
    stall_ms: float
    decimals: int

    def payload_ratio(self, answer_ms: float) -> float:
        """Return the payload that this time carries, as a share of the real one (1: right)."""
        return answer_ms / MS_PER_S * self.bandwidth / self.payload

    @property
    def tolerance(self) -> float:
        """Half a unit of the last digit asked for, as a payload ratio."""
        return self.payload_ratio(0.5 * 10**-self.decimals) * (1 + 1e-9)

    def is_right(self, answer_ms: float) -> bool:
        """Say whether the answer is right at the precision asked for."""
        return abs(self.payload_ratio(answer_ms) - 1) <= self.tolerance


@dataclass(frozen=True)
class Slip:
    """A mistake that multiplies the right answer by `ratio`.

    Args:
        within: relative difference up to which an answer counts as this slip.
    """

    ratio: float
    hint: str
    within: float = SAME_PRECISION


STEP: Final = (
    "Has 1,000 come in where 1,024 belongs, or 1,024 where 1,000 does? "
    "Are both prefixes, Mi and Gi, in the sum?"
)
STEP_OR_ROUNDED: Final = STEP + " Or is it rounded to whole ms?"
LINK_DECIMAL: Final = "Is the link read as GB/s? A GiB is 1,024 MiB, a little more than a GB."
PAYLOAD_DECIMAL: Final = "Is the payload read as MB? A MiB is 1,024 KiB, a little more than a MB."
TOO_LONG_BITS: Final = (
    "Have bits come in: a payload in bits, or a link read as Gibit/s? Both are in bytes here."
)
TOO_SHORT_BITS: Final = (
    "Have bits come in: a link in bits, or a payload read as Mibit? Both are in bytes here."
)
BITS_AND_STEP: Final = (
    "Two things to look at: have bits come in, and has 1,000 taken the place of 1,024?"
)
SECONDS: Final = "Is it still in seconds? The question asks for milliseconds."
MICROSECONDS: Final = "Is it in microseconds? The question asks for milliseconds."
UPSIDE_DOWN: Final = "Is the fraction upside down? How long does one byte take on a faster link?"
PARENTHESES: Final = (
    "Python divides, then multiplies, from left to right: does the whole link stand in parentheses?"
)
ROUND_TRIP: Final = "Is that there and back? The KV state crosses once."
ROUNDED: Final = "Very close. Was it rounded too early? Give it to {decimals} decimal{s}."
OTHER_LINK: Final = "Is that the other link's time? Look at which link the question names."
STALL: Final = "Is that the stall? The question asks for the transfer."
UNKNOWN: Final = "Bring both sides to bytes, divide, then turn seconds into milliseconds."

DECIMAL_STEP: Final = KIB / 1000
BINARY_LINK: Final = GIB / GB
DECIMAL_PAYLOAD: Final = MB / MIB


def _slips(question: TransferQuestion) -> Iterator[Slip]:
    half_a_ms = question.payload_ratio(0.5)
    whole_ms_differs = abs(DECIMAL_STEP - 1) <= half_a_ms
    upside_down = question.payload_ratio(question.bandwidth / question.payload)
    yield Slip(DECIMAL_STEP, STEP_OR_ROUNDED if whole_ms_differs else STEP)
    yield Slip(BINARY_LINK, LINK_DECIMAL)
    yield Slip(DECIMAL_PAYLOAD, PAYLOAD_DECIMAL)
    yield Slip(8, TOO_LONG_BITS)
    yield Slip(1 / 8, TOO_SHORT_BITS)
    for factor in (DECIMAL_STEP, BINARY_LINK, DECIMAL_PAYLOAD):
        yield Slip(8 * factor, BITS_AND_STEP)
        yield Slip(factor / 8, BITS_AND_STEP)
    yield Slip(1 / MS_PER_S, SECONDS, within=0.3)
    yield Slip(MS_PER_S, MICROSECONDS, within=0.03)
    yield Slip(upside_down, UPSIDE_DOWN)
    yield Slip(upside_down * MS_PER_S, UPSIDE_DOWN)
    for unit in (KIB, GIB):
        yield Slip(unit**2, PARENTHESES, within=0.03)
        yield Slip(unit**2 / MS_PER_S, PARENTHESES, within=0.03)
    yield Slip(2, ROUND_TRIP)
    yield Slip(question.bandwidth / question.other_bandwidth, OTHER_LINK)
    yield Slip(question.payload_ratio(question.stall_ms), STALL)
    rounded = ROUNDED.format(decimals=question.decimals, s="s" if question.decimals > 1 else "")
    yield Slip(1, rounded, within=0.005)


def hint(question: TransferQuestion, answer_ms: float) -> str:
    """Return the hint for a wrong answer, in ms: one short question, without the number."""
    ratio = question.payload_ratio(answer_ms)
    for slip in _slips(question):
        if abs(ratio - slip.ratio) <= max(question.tolerance, slip.within * slip.ratio):
            return slip.hint
    return UNKNOWN
