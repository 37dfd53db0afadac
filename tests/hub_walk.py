"""Searches every file that an account may read, in the forms that a notebook's text can take.

`tests.test_hub` has each learner's account run it by the machine's own Python, from the command
line, because that account may read nothing here; so it imports nothing of the project's.
"""

from __future__ import annotations

import html
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TAG = re.compile(r"<[^<>]*>")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BLANK = re.compile(r"\s+")


def files(skipped: list[str], since: float, whole: str) -> Iterator[str]:
    """Yield the files that came or changed after a moment, and all in one folder."""
    for folder, folders, names in os.walk("/"):
        # Strings, because a machine has half a million files and a Path for each takes long.
        at = folder.rstrip("/") + "/"
        folders[:] = [name for name in folders if at + name not in skipped]
        for name in names:
            try:
                about = os.lstat(at + name)
            except OSError:
                continue
            # By the time that unpacking cannot set back.
            if stat.S_ISREG(about.st_mode) and (about.st_ctime > since or at.startswith(whole)):
                yield at + name


def forms(name: str, content: bytes) -> Iterator[str]:
    """Yield the text of a page or a notebook as whoever opens it sees it."""
    if name.endswith((".html", ".htm")):
        yield html.unescape(TAG.sub("", content.decode(errors="replace")))
    if name.endswith((".ipynb", ".json")):
        try:
            said = COLOUR.sub("", "\n".join(strings(json.loads(content))))
        except (ValueError, RecursionError):
            return
        yield said
        yield html.unescape(TAG.sub("", said))


def strings(value: Any) -> Iterator[str]:
    """Yield the strings in what JSON holds; those of a list are one text, as in a notebook."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        yield "".join(value)
    elif isinstance(value, list | dict):
        for part in value if isinstance(value, list) else value.values():
            yield from strings(part)


def search(wanted: list[str], skipped: list[str], since: float, whole: str) -> dict[str, list[str]]:
    """Return which of the wanted lines stand in which file, in pages and notebooks also wrapped."""
    bare = {BLANK.sub("", line): line for line in wanted}
    raw = re.compile(b"|".join(re.escape(line.encode()) for line in wanted))
    seen = re.compile("|".join(map(re.escape, bare)))
    found: dict[str, list[str]] = {}
    for name in files(skipped, since, whole):
        try:
            content = Path(name).read_bytes()
        except OSError:
            continue
        lines = {line.decode() for line in raw.findall(content)}
        for text in forms(name, content):
            lines |= {bare[line] for line in seen.findall(BLANK.sub("", text))}
        if lines:
            found[name] = sorted(lines)
    return found


if __name__ == "__main__":
    json.dump(search(**json.load(sys.stdin)), sys.stdout)
