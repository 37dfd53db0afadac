"""Collects submissions from an exchange that every account of a machine may write into.

nbgrader's own collecting believes the name that a submission bears, and follows its links: a
learner could hand in under another's name, or hand in a link to the instructor's notebook and
read the solutions in the feedback. Here a submission counts for the account that owns it, and only
regular files of that account are copied. A hub's settings put `CollectOwned` in its place.
"""

from __future__ import annotations

import os
import pwd
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc
from traitlets import Bool


class CollectOwned(ExchangeCollect):  # type: ignore[misc]
    """Collect each account's newest submission, and nothing that a link in it leads to."""

    check_owner = Bool(False, help="Of no use: the name is taken from the owner.")

    def _path_to_record(self, path: str) -> dict[str, Any]:
        claimed, _, rest = os.path.basename(path).partition("+")  # noqa: PTH119 (nbgrader's own str)
        owner = _name(os.lstat(path).st_uid)
        if owner != claimed:
            self.log.warning("%s was put there by %s and counts as theirs", path, owner)
        timestamp = _timestamp(rest)
        if timestamp is None:
            self.log.warning("%s bears no time; any other submission comes before it", path)
        return {
            "username": owner,
            "filename": os.path.basename(path),  # noqa: PTH119
            "timestamp": timestamp or datetime.min,
        }

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy a submission's folder, within the sizes that the course directory allows."""
        source, target = Path(src), Path(dest)
        skipped = copy_owned(source, target, int(self.coursedir.max_dir_size) * 1000)
        for path in skipped:
            self.log.warning("Not collected, for it is no file of its owner's or too big: %s", path)
        # The learner's own may say anything; nbgrader reads it again at the next collecting.
        timestamp = _timestamp(source.name.partition("+")[2])
        if timestamp:
            (target / "timestamp.txt").write_text(f"{timestamp} UTC")
        else:
            (target / "timestamp.txt").unlink(missing_ok=True)


def copy_owned(source: Path, target: Path, most_bytes: int) -> list[Path]:
    """Copy a folder, but only regular files that belong to the folder's owner.

    The owner may change the folder meanwhile, so that each file is opened first and then judged.

    Args:
        source: the folder.
        target: the folder to make.
        most_bytes: files that would make the copy bigger than this are left out.

    Returns:
        What was left out.
    """
    target.mkdir(parents=True)
    try:
        top = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # a link, or a file
        return [source]
    skipped = []
    try:
        owner = os.fstat(top).st_uid
        for folder, folders, files, here in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            (target / folder).mkdir(exist_ok=True)
            links = [name for name in folders if stat.S_ISLNK(_mode(name, here))]
            for name in (*files, *links):
                size = _copy_file(name, here, target / folder / name, owner, most_bytes)
                if size is None:
                    skipped.append(source / folder / name)
                else:
                    most_bytes -= size
    finally:
        os.close(top)
    return skipped


def _copy_file(name: str, folder: int, target: Path, owner: int, most_bytes: int) -> int | None:
    """Copy a file and return its size, or None if it is not to be copied."""
    # Without waiting, because a pipe would wait for somebody to write into it.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123 (it has no path that could be trusted)
        found = os.fstat(descriptor)
        regular = stat.S_ISREG(found.st_mode) and found.st_uid == owner
        if not regular or found.st_size > most_bytes:
            return None
        content = file.read(found.st_size)
    target.write_bytes(content)
    return len(content)


def _mode(name: str, folder: int) -> int:
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # an account that was removed
        return str(uid)


def _timestamp(rest: str) -> datetime | None:
    """Read the time in ``ASSIGNMENT+TIME+RANDOM``, what follows the learner's name."""
    try:
        found: datetime = parse_utc(rest.split("+")[1])
    except (IndexError, ValueError, OverflowError):
        return None
    return found
