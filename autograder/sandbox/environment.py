"""The environment of learners' processes: made from nothing, so that no secret is in it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

from autograder.sandbox.policy import readable_folders

VARIABLES = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "MPL_IGNORE_SYSTEM_FONTS": "1",  # they could not be read; matplotlib brings its own
    # The same order of sets and dicts of strings in every run, and on the examiner's side.
    "PYTHONHASHSEED": "0",
    # A process with threads cannot safely fork.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


# What else may be there: MPLCONFIGDIR, for matplotlib's list of fonts, and bubblewrap's PWD.
KNOWN = VARIABLES.keys() | {"MPLCONFIGDIR", "PWD"}


def variables(packages: Iterable[str]) -> dict[str, str]:
    """Return the environment for a process that can import these packages, wherever they lie."""
    library = readable_folders()
    elsewhere = (
        str(folder.parent)
        for folder in package_folders(packages)
        if not any(folder.is_relative_to(known) for known in library)
    )
    path = os.pathsep.join(dict.fromkeys(elsewhere))
    return VARIABLES | ({"PYTHONPATH": path} if path else {})


def package_folders(packages: Iterable[str]) -> list[Path]:
    """Return the folders of import packages; those that are not installed have none."""
    return [
        Path(folder)
        for package in packages
        if (spec := importlib.util.find_spec(package))
        for folder in spec.submodule_search_locations or ()
    ]
