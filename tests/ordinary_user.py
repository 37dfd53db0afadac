"""Runs tests once more as an ordinary user, with the folders above Python opened to that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
NOBODY: Final = 65534


def run_tests(*arguments: str | Path) -> str:
    """Run pytest with these arguments as nobody, and return what it printed.

    The test that calls this is skipped where one cannot become another user.
    """
    bubblewrap, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    if not bubblewrap or not setpriv:
        pytest.skip("bubblewrap and setpriv are needed to become an ordinary user")
    user = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # that user can get there
        os.chown(folder, NOBODY, NOBODY)
        done = subprocess.run(
            [bubblewrap, *_view(), *user, sys.executable, "-m", "pytest", "-q", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_ADDOPTS": "-p no:cacheprovider",
                "HOME": folder,
                "TMPDIR": folder,
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return done.stdout


def _view() -> list[str]:
    """The file system, but with what Python needs in place of folders closed to others."""
    needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT]
    closed = {
        parent for path in needed for parent in path.parents if not parent.stat().st_mode & 0o001
    }
    view = ["--dev-bind", "/", "/", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    for folder in sorted(closed):
        view += ["--tmpfs", str(folder)]
    for path in needed:
        if hidden := closed.intersection(path.parents):
            for parent in reversed(path.parents):
                if hidden.intersection(parent.parents):
                    view += ["--perms", "0755", "--dir", str(parent)]
            view += ["--ro-bind", str(path), str(path)]
    return view
