"""Find and read a notebook file that somebody handed in, or say in one line why it cannot be read.

The file is hostile until shown otherwise: links are not followed, nothing that is no ordinary file
is waited for, and size and shape are bounded before the content takes memory.
"""

from __future__ import annotations

import json
import os
import re
import stat
import unicodedata
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat import NotebookNode

from autograder.tidy import tidy_notebook

LARGEST_BYTES: Final = 32 * 1024**2
MOST_CONTAINERS: Final = 500_000
MOST_VALUES: Final = 4_000_000
"""Each list or dict takes 60 bytes of memory or more and may be two bytes in the file."""

OPEN_SAFELY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags for what a learner made: follows no link, and waits for nobody to write into a pipe."""

_CONFLICT: Final = re.compile(r"^<<<<<<< ", re.MULTILINE)
_COPY_SUFFIX: Final = re.compile(r"([ _-]*\(\d+\)|-copy\d*|[ _-]*copy|[ _-]\d+)+$")


class UnreadableNotebook(Exception):
    """The file is no notebook that can be graded; the message is the reason, for people."""


@dataclass(frozen=True)
class FoundNotebook:
    """A submitted notebook's file, and what is odd about its name, or ""."""

    path: Path
    note: str = ""


def find_notebook(folder: Path, wanted: str, others: Collection[str] = ()) -> FoundNotebook:
    """Find the file that was handed in as a notebook, under its own name or nearly so.

    Args:
        folder: the submission.
        wanted: the notebook's file name, such as ``lesson.ipynb``.
        others: the file names of the assignment's other notebooks.

    Raises:
        UnreadableNotebook: there is none, or it is not clear which it is.
    """
    try:
        there = sorted(path.name for path in folder.iterdir() if path.suffix.casefold() == ".ipynb")
    except OSError as error:
        raise UnreadableNotebook(f"its folder cannot be read: {error.strerror}") from None
    if wanted in there:
        return FoundNotebook(folder / wanted)
    candidates = [name for name in there if name not in others]
    alike = [name for name in candidates if _bare_name(name) == _bare_name(wanted)]
    others_are_there = all(name in there for name in others)
    chosen = alike or (candidates if others_are_there else [])
    if len(chosen) == 1:
        note = f"handed in as {_shown(chosen[0])} instead of {wanted}"
        return FoundNotebook(folder / chosen[0], note)
    if not candidates:
        raise UnreadableNotebook(f"there is no {wanted}, nor another notebook in its place")
    raise UnreadableNotebook(
        f"there is no {wanted}, and it is not clear which notebook is meant: "
        f"{', '.join(_shown(name) for name in candidates[:5])}. Rename the right one."
    )


def _bare_name(name: str) -> str:
    """Reduce a file name to what browsers and file systems leave of it."""
    stem = unicodedata.normalize("NFC", name).casefold().removesuffix(".ipynb")
    return _COPY_SUFFIX.sub("", stem).strip()


def _shown(name: str) -> str:
    """Quote a file name that a learner chose; undecodable bytes and control codes are escaped."""
    return ascii(name) if not name.isprintable() else repr(name)


def read_notebook(path: Path, folder: Path | None = None) -> NotebookNode:
    """Read a notebook, whatever its line ends, with or without a byte-order mark.

    Args:
        path: the file.
        folder: the submission that holds it; below this folder no link is followed. By default
            the file's own folder.

    Returns:
        The notebook in format 4.5, tidied (see `autograder.tidy`).

    Raises:
        UnreadableNotebook: the file is missing, a link, no ordinary file, too large, empty, not
            JSON or not a notebook.
    """
    return parse_notebook(read_file(path, folder))


def read_file(path: Path, folder: Path | None = None) -> bytes:
    """Read a submitted notebook's bytes; the arguments and errors are `read_notebook`'s."""
    folder = folder or path.parent
    *parents, name = path.relative_to(folder).parts
    with ExitStack() as stack:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            for part in (*parents, name):
                _refuse_link(part, descriptor)
                descriptor = os.open(part, OPEN_SAFELY, dir_fd=descriptor)
                stack.callback(os.close, descriptor)
        except FileNotFoundError:
            raise UnreadableNotebook("it is missing") from None
        except OSError as error:
            raise UnreadableNotebook(f"it cannot be opened: {error.strerror}") from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no ordinary file"
            raise UnreadableNotebook(f"it is {kind}")
        _refuse_size(found.st_size)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST_BYTES + 1)
        _refuse_size(len(data))
        return data


def _refuse_link(name: str, folder: int) -> None:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise UnreadableNotebook("it is a link, not a file; links are not followed")


def _refuse_size(size: int) -> None:
    if size > LARGEST_BYTES:
        raise UnreadableNotebook(
            f"it has {size / 1024**2:.0f} MiB, more than {LARGEST_BYTES // 1024**2} MiB"
        )


def parse_notebook(data: bytes) -> NotebookNode:
    """Make a tidy notebook of a file's bytes.

    Raises:
        UnreadableNotebook: they are no notebook that can be graded.
    """
    return tidy_notebook(parse_content(data))


def parse_content(data: bytes) -> dict[str, Any]:
    """Return what a file's bytes say: a notebook of format 4 with a list of cells, whatever else.

    Raises:
        UnreadableNotebook: they are no notebook that can be graded.
    """
    if not data.strip(b"\0 \t\r\n"):
        raise UnreadableNotebook("it is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableNotebook("it is not text in UTF-8, so no notebook") from None
    if text.count("[") + text.count("{") > MOST_CONTAINERS or text.count(",") > MOST_VALUES:
        raise UnreadableNotebook("it holds far more lists and values than a notebook does")
    try:
        content = json.loads(text, parse_int=_parse_int, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        if _CONFLICT.search(text):
            raise UnreadableNotebook(
                "it holds merge-conflict markers (<<<<<<<), which its author has to resolve"
            ) from None
        raise UnreadableNotebook("it is not valid JSON: cut off, or not a notebook") from None
    return _upgraded(content)


def _parse_int(digits: str) -> int | None:
    # Python takes quadratic time for long integers, and no notebook has one.
    return int(digits) if len(digits) < 20 else None


def _upgraded(content: Any) -> dict[str, Any]:
    """Return the content in format 4; older formats keep their cells in worksheets."""
    if isinstance(content, dict) and isinstance(content.get("cells"), list):
        return content
    if not (isinstance(content, dict) and isinstance(content.get("worksheets"), list)):
        raise UnreadableNotebook("it is JSON, but no notebook: it has no list of cells")
    try:
        upgraded: dict[str, Any] = nbformat.convert(nbformat.from_dict(content), 4)
    except Exception:
        raise UnreadableNotebook(
            "it is a notebook of an old format that nbformat cannot upgrade; "
            "open and save it in a present JupyterLab"
        ) from None
    return upgraded
