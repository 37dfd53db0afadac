"""What all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def environment_on_path() -> Iterator[None]:
    """Put this Python's folder first on PATH: nbgrader calls `alembic` by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository, which is the nbgrader course directory too."""
    return Path(__file__).parents[1]
