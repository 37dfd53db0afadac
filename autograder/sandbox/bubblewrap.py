"""How to start a program inside bubblewrap, where the kernel has no Landlock.

The program sees the interpreter's library and the folder of scratch folders, in namespaces of its
own. It keeps the right to change its mounts, which `lock` uses to show each learner process its own
scratch folder only, and then takes away.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from autograder.sandbox.environment import package_folders
from autograder.sandbox.policy import DEVICES, readable_folders

# Where the loader finds shared libraries to start an interpreter. (Landlock is put up after that.)
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


def visible_paths(packages: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return what a program inside can read: `packages` need not lie in a site directory."""
    interpreter = Path(sys.executable)
    environment = Path(sys.prefix, "pyvenv.cfg")
    sources = package_folders(packages)
    libraries = map(Path, (*LIBRARIES, sysconfig.get_config_var("LIBDIR")))
    paths = (*libraries, interpreter, environment, *readable_folders(), *sources)
    return tuple(path for path in dict.fromkeys(paths) if path.exists())


def program() -> str | None:
    """Return where bubblewrap is installed, None if it is not."""
    return shutil.which("bwrap")


def command(base: Path, packages: Iterable[str]) -> list[str]:
    """Return the start of a command line; the command to run inside comes after it.

    Args:
        base: the folder that may be written to.
        packages: import packages that the command needs, wherever they lie.
    """
    namespaces = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    namespaces += ["--unshare-uts", "--unshare-cgroup-try"]
    line = [program() or "bwrap", *namespaces, "--die-with-parent", "--new-session"]
    line += ["--cap-add", "CAP_SYS_ADMIN"]
    for path in visible_paths(packages):
        line += ["--ro-bind", str(path), str(path)]
    for path in DEVICES:
        line += ["--dev-bind", str(path), str(path)]
    line += ["--bind", str(base), str(base), "--proc", "/proc", "--chdir", "/"]
    return [*line, "--remount-ro", "/", "--"]
