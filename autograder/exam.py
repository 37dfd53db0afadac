"""An assignment as workers need it: its trusted notebooks, support files and limits, in one piece.

Loaded once, sent to every worker, and hashed: its digest is part of what says that a submission has
been graded as it would be graded now.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from autograder.cells import is_grade, is_task
from autograder.limits import Limits
from autograder.sandbox.environment import package_folders
from autograder.sandbox.policy import Wall
from autograder.trusted import TrustedNotebook


@dataclass(frozen=True)
class Exam:
    """All that a worker needs to know besides the submission.

    Args:
        trusted: the assignment's notebooks.
        support_files: the source's other files, by path relative to its folder.
        limits: how long and large things may get.
        preload: import packages that are loaded before a submission comes.
        wall: what learners' code is kept in by.
    """

    trusted: tuple[TrustedNotebook, ...]
    support_files: Mapping[str, bytes]
    limits: Limits
    preload: tuple[str, ...]
    wall: Wall

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of all that can change a result, the grader's own code included."""
        digest = hashlib.sha256()
        for notebook in self.trusted:
            digest.update(notebook.digest.encode())
        digest.update(files_digest(self.support_files))
        code = code_digests(self.packages)
        digest.update(msgspec.json.encode((self.limits, self.preload, self.wall, code)))
        return digest.hexdigest()

    @property
    def packages(self) -> tuple[str, ...]:
        """The import packages whose code has a part in results."""
        return ("autograder", *self.preload)

    @cached_property
    def packed(self) -> bytes:
        """The exam as bytes; only a trusted process may make them, since they are a pickle."""
        return pickle.dumps(self)

    @property
    def notebooks(self) -> dict[str, bool]:
        """nbgrader's names of the assignment's notebooks, and whether points are given in each."""
        return {
            each.name: any(is_grade(cell) or is_task(cell) for cell in each.notebook.cells)
            for each in self.trusted
        }


def files_digest(files: Mapping[str, bytes]) -> bytes:
    """Return a SHA-256 of the files' names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (os.fsencode(name), files[name]):
            digest.update(hashlib.sha256(part).digest())
    return digest.digest()


def code_digests(packages: Iterable[str]) -> dict[str, str]:
    """Return a SHA-256, in hex, of each import package's code as it lies there now, if it does."""
    return {
        package: _code_digest(folders)
        for package in packages
        if (folders := package_folders([package]))
    }


def _code_digest(folders: Iterable[Path]) -> str:
    return files_digest(
        {
            str(path.relative_to(folder.parent)): path.read_bytes()
            for folder in folders
            for path in folder.rglob("*.py")
        }
    ).hex()
