"""Collects submissions from an exchange that every account of a machine may write into.

nbgrader's own collecting believes the name that a submission bears, and follows its links: a
learner could hand in under another's name, or hand in a link to the instructor's notebook and
read the solutions in the feedback. Here a submission counts for the account that owns it, and only
regular files of that account are copied. A hub's settings put `CollectOwned` in its place.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc
from traitlets import Bool

from autograder.notebook_file import OPEN_SAFELY
from autograder.submissions import DEEPEST, MOST_FILES, TIMESTAMP_FILE


class CollectOwned(ExchangeCollect):  # type: ignore[misc]
    """Collect each account's newest submission, and nothing that a link in it leads to."""

    src_records: list[dict[str, Any]]

    check_owner = Bool(False, help="Of no use: the name is taken from the owner.")

    def _path_to_record(self, path: str) -> dict[str, Any]:
        claimed, _, rest = os.path.basename(path).partition("+")  # noqa: PTH119 (nbgrader's own str)
        try:
            owner = _name(os.lstat(path).st_uid)
        except OSError:  # its owner has just taken it away
            return {"username": None, "filename": "", "timestamp": datetime.min}
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

    def init_src(self) -> None:
        """Find the newest submissions of everybody's."""
        super().init_src()
        self.src_records = [each for each in self.src_records if each["username"] is not None]

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy a submission's folder, within the sizes that the course directory allows."""
        source, target = Path(src), Path(dest)
        skipped = copy_owned(source, target, int(self.coursedir.max_dir_size) * 1000)
        for path in skipped:
            self.log.warning(
                "Not collected, being no file of its owner's, too big, too deep or too many: %s",
                path,
            )
        # The learner's own may say anything; nbgrader reads it again at the next collecting.
        timestamp = _timestamp(source.name.partition("+")[2])
        file = target / TIMESTAMP_FILE
        if file.is_dir():
            shutil.rmtree(file)
        file.unlink(missing_ok=True)
        if timestamp:
            file.write_text(f"{timestamp} UTC")


def copy_owned(source: Path, target: Path, most_bytes: int) -> list[Path]:
    """Copy a folder, but only regular files that belong to the folder's owner.

    The owner may change the folder meanwhile, so that each file is opened first and then judged.
    Depth and count are bounded as when a submission is read.

    Args:
        source: the folder.
        target: the folder to make.
        most_bytes: files that would make the copy bigger than this are left out.

    Returns:
        What was left out.

    Raises:
        OSError: there is no more room for copies.
    """
    target.mkdir(parents=True)
    try:
        top = os.open(source, OPEN_SAFELY | os.O_DIRECTORY)
    except OSError:  # a link, or a file
        return [source]
    try:
        copying = _Copying(target, os.fstat(top).st_uid, most_bytes)
        if not copying.enter(top, PurePath()):
            return [source]
    finally:
        os.close(top)
    return [source / name for name in copying.skipped]


class _Copying:
    """One folder's copying; `skipped` is what was left out so far.

    Args:
        target: where the copy is to be.
        owner: whose files are copied.
        room: bytes that the copy may have.
    """

    def __init__(self, target: Path, owner: int, room: int) -> None:
        self.skipped: list[PurePath] = []
        self._target = target
        self._owner = owner
        self._room = room
        self._entries = MOST_FILES

    def enter(self, descriptor: int, name: PurePath) -> bool:
        """Copy an open folder, and say whether that was to be done."""
        if len(name.parts) > DEEPEST or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return False
        try:
            (self._target / name).mkdir(exist_ok=True)
            self._copy_what_is_in(descriptor, name)
        except OSError as error:
            _go_on_after(error)
            return False
        return True

    def _copy_what_is_in(self, descriptor: int, within: PurePath) -> None:
        """Copy files first, and the notebooks first of all."""
        folders = []
        for name in sorted(os.listdir(descriptor), key=lambda n: (not n.endswith(".ipynb"), n)):
            if not self._entries:
                self.skipped.append(within / name)
                return  # so that the list of what is left out has an end too
            self._entries -= 1
            with _opened(name, descriptor) as opened:
                if opened is not None and stat.S_ISDIR(os.fstat(opened).st_mode):
                    folders.append(name)
                elif opened is None or not self._copy(opened, within / name):
                    self.skipped.append(within / name)
        for name in folders:
            with _opened(name, descriptor) as opened:
                if opened is None or not self.enter(opened, within / name):
                    self.skipped.append(within / name)

    def _copy(self, descriptor: int, name: PurePath) -> bool:
        """Copy a file, and say whether that was to be done."""
        found = os.fstat(descriptor)
        regular = stat.S_ISREG(found.st_mode) and found.st_uid == self._owner
        if not regular or found.st_size > self._room:
            return False
        try:
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(found.st_size)
            (self._target / name).write_bytes(content)
        except OSError as error:
            _go_on_after(error)
            return False
        self._room -= len(content)
        return True


@contextmanager
def _opened(name: str, folder: int) -> Iterator[int | None]:
    """Open what is no link; yield None if it is one, closed to us, or gone by now."""
    try:
        descriptor = os.open(name, OPEN_SAFELY, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _go_on_after(error: OSError) -> None:
    """Raise an error that is not this one submission's, such as a name that gets too long."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        raise error


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
