"""Release the lesson, grade the sample class and show the result: what ``make demo`` runs.

Everything happens in ``demo/``, a course directory of its own that is made anew each time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from autograder.cli import NEEDS_A_LOOK
from tests.sample_class import ASSIGNMENT, CLASS
from tests.stock import ROOT, collect, make_course, release

DEMO: Final = ROOT / "demo"

AS_ROOT: Final = "" if os.getuid() else " --allow-root"
WHERE_NEXT: Final = f"""
Where to look next
  demo/release/{ASSIGNMENT}/lesson.ipynb           what learners receive (make lab opens it)
  demo/feedback/ada/{ASSIGNMENT}/lesson.html       the feedback that one learner gets
  demo/report/{ASSIGNMENT}.html                    how the class did, for the instructor
  demo/autograded/ada/{ASSIGNMENT}/lesson.ipynb    the graded notebook
  cd demo && ../.venv/bin/jupyter-lab{AS_ROOT:16}menu Nbgrader, Formgrader: mark written answers
"""


def main() -> None:
    """Go once through an assignment's life."""
    shutil.rmtree(DEMO, ignore_errors=True)
    make_course(DEMO)
    _say(f"Releasing {ASSIGNMENT}, with nbgrader")
    release(DEMO)
    _say(f"Collecting what the {len(CLASS)} learners of the sample class handed in")
    collect(DEMO, CLASS)
    # Some of the sample class cannot be graded, as in real ones.
    _autograder("grade", tolerate=NEEDS_A_LOOK)
    _autograder("feedback")
    _autograder("report")
    print(WHERE_NEXT)


def _say(step: str) -> None:
    print(f"\n{step}", flush=True)


def _autograder(command: str, tolerate: int = 0) -> None:
    """Run a command of the autograder in the demo's course."""
    _say(f"$ autograder {command} {ASSIGNMENT}")
    program = Path(sys.executable).with_name("autograder")
    ended = subprocess.run([program, command, ASSIGNMENT], cwd=DEMO)
    if ended.returncode not in (0, tolerate):
        sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
