"""Measure what a learner waits for: a redraw of the explorer, and importing the course.

Run as ``python -m benchmarks.redraw``; exits with 1 when a limit is missed.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time

from course.explorer import PROMPT_LENGTHS, Panel
from tests import reference

REDRAW_LIMIT_MS = 100
IMPORT_LIMIT = 1.5
LESSON_IMPORTS = "course.checks, course.explorer, course.figures, course.summary"


def redraw_times_ms(changes: int = 60) -> list[float]:
    """Return the time of each redraw, driven through the prompt length's slider."""
    panel = Panel(vars(reference))
    lengths = itertools.islice(itertools.cycle(PROMPT_LENGTHS), changes)
    times = []
    for length in lengths:
        before = panel.picture.value
        start = time.perf_counter()
        panel.prompt_tokens.value = length
        times.append(1000 * (time.perf_counter() - start))
        if panel.picture.value == before:
            raise RuntimeError(f"the picture did not change at {length} tokens")
    return times


def import_ratios(rounds: int = 7) -> dict[str, float]:
    """Return the time of importing our modules, as a ratio to importing matplotlib.pyplot."""
    modules = ("matplotlib.pyplot", "course", LESSON_IMPORTS)
    times: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(rounds):
        for name in modules:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {name}"], check=True)
            times[name].append(time.perf_counter() - start)
    yardstick = statistics.median(times[modules[0]])
    return {name: statistics.median(times[name]) / yardstick for name in modules[1:]}


def main() -> int:
    """Print the measurements and return the exit code."""
    times = redraw_times_ms()
    median, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"explorer redraw: median {median:.0f} ms (limit {REDRAW_LIMIT_MS}), p95 {p95:.0f} ms")
    ratios = import_ratios()
    for name, ratio in ratios.items():
        print(f"import {name}: {ratio:.2f} × matplotlib.pyplot (limit {IMPORT_LIMIT})")
    return int(median >= REDRAW_LIMIT_MS or max(ratios.values()) >= IMPORT_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
