"""Units of bytes, and how sizes, times and bandwidths read in text.

Payloads are shown in powers of 1024 (MiB), bandwidths in powers of 1000 (GB/s), as the field
does; the lesson's two links, which are given in GiB/s, say so in their names.
"""

from __future__ import annotations

from typing import Final

KB: Final = 1000
MB: Final = 1000**2
GB: Final = 1000**3
KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3


def bytes_text(size: float) -> str:
    """Return a size in bytes for people to read, such as ``512 MiB``."""
    return _scaled(size, (("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1)))


def bandwidth_text(bandwidth: float) -> str:
    """Return a bandwidth in bytes per second for people to read, such as ``5.24 GB/s``."""
    return _scaled(bandwidth, (("GB/s", GB), ("MB/s", MB), ("kB/s", KB), ("B/s", 1)))


def ms_text(milliseconds: float) -> str:
    """Return a time in milliseconds for people to read, such as ``15.6 ms``.

    A hundred seconds and more are given in seconds.
    """
    if milliseconds >= 100_000:
        return f"{_short(milliseconds / 1000)} s"
    return f"{_short(milliseconds)} ms"


def _scaled(value: float, units: tuple[tuple[str, int], ...]) -> str:
    """Write the value in the first unit that it reaches, or else in the last."""
    name, factor = next((unit for unit in units if value >= unit[1]), units[-1])
    return f"{_short(value / factor)} {name}"


def _short(value: float) -> str:
    """Write three or four significant digits, without trailing zeros."""
    if value >= 1e7:
        return f"{value:.3g}"
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 10:
        text = f"{value:.1f}"
    elif value >= 1:
        text = f"{value:.2f}"
    else:
        return f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text else text
