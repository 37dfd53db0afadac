"""What learners' code may do: the whole policy, to be read at one glance.

Whatever is not allowed here fails. This module only declares; `lock` applies it.
"""

from __future__ import annotations

import fcntl
import os
import resource
import site
import socket
import sysconfig
import termios
import zoneinfo
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from landlock import FSAccess


class Wall(StrEnum):
    """What keeps learners' code from the machine's files; seccomp stands behind either."""

    LANDLOCK = "landlock"
    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


# --- Files ----------------------------------------------------------------------------------------


def readable_folders() -> tuple[Path, ...]:
    """Return the folders that learners' code may read: the interpreter's library, nothing more.

    Never a whole prefix: nbgrader's default exchange lies under /usr/local.
    """
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [*map(sysconfig.get_path, names), *site.getsitepackages(), *zoneinfo.TZPATH]
    return tuple(dict.fromkeys(path for path in map(Path, folders) if path.is_dir()))


DEVICES = {
    Path("/dev/null"): FSAccess.READ_FILE | FSAccess.WRITE_FILE,
    Path("/dev/urandom"): FSAccess.READ_FILE,
}

# All that Landlock can govern, by the ABI that brought it. ABI 2 is enough: what later ones add,
# the rules for system calls below forbid as well.
LANDLOCK_MINIMUM_ABI = 2
LANDLOCK_GOVERNS = {
    1: FSAccess((FSAccess.MAKE_SYM << 1) - 1),  # every right from EXECUTE to MAKE_SYM
    2: FSAccess.REFER,
    3: FSAccess.TRUNCATE,
    5: FSAccess.IOCTL_DEV,
}
LIBRARY_RIGHTS = FSAccess.READ_FILE | FSAccess.READ_DIR
SCRATCH_RIGHTS = (
    FSAccess.READ_FILE
    | FSAccess.READ_DIR
    | FSAccess.WRITE_FILE
    | FSAccess.TRUNCATE
    | FSAccess.MAKE_REG
    | FSAccess.MAKE_DIR
    | FSAccess.REMOVE_FILE
    | FSAccess.REMOVE_DIR
    | FSAccess.REFER  # moving a file from one folder of the scratch folder to another
)


# --- Amounts --------------------------------------------------------------------------------------

MIB = 1024**2

# (soft and hard limit; as root, RLIMIT_NPROC would not bind, so threads are watched from outside)
RLIMITS = {
    resource.RLIMIT_AS: 4096 * MIB,  # by default
    resource.RLIMIT_CPU: 3600,  # seconds; a backstop, since time limits are the examiner's
    resource.RLIMIT_FSIZE: 64 * MIB,
    resource.RLIMIT_NOFILE: 256,
    resource.RLIMIT_STACK: 8 * MIB,
    resource.RLIMIT_CORE: 0,
}


@dataclass(frozen=True)
class Caps:
    """What one learner process may use; a watcher outside kills it when it uses more."""

    threads: int = 64
    memory_share: float = 0.5  # resident, of the address space
    scratch_bytes: int = 256 * MIB
    scratch_files: int = 5000
    scratch_depth: int = 64  # folders in folders


CAPS = Caps()


# --- System calls ---------------------------------------------------------------------------------

# Not among them: fallocate, which would fill a disk faster than anybody watches.
ALLOWED = """
    read readv pread64 preadv write writev pwrite64 pwritev lseek close close_range
    dup dup2 dup3 pipe pipe2 eventfd2 fstat fsync fdatasync ftruncate fadvise64
    sendfile copy_file_range

    stat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat
    getdents64 getcwd chdir fchdir umask
    mkdir mkdirat rmdir unlink unlinkat rename renameat link linkat

    poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait
    recvfrom shutdown getsockname getpeername

    mmap munmap mremap mprotect madvise msync brk

    futex set_robust_list rseq sched_yield gettid getcpu restart_syscall exit exit_group
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigtimedwait rt_sigsuspend
    sigaltstack pause alarm setitimer getitimer

    time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep times
    getpid getppid getpgrp getpgid getsid getuid geteuid getresuid getgid getegid getresgid
    getgroups getpriority getrlimit setrlimit getrusage sysinfo uname getrandom
""".split()  # noqa: SIM905 (a hundred quoted names are no glance)


class Arg(NamedTuple):
    """Allows a system call only if ``argument[position] & mask == value``."""

    position: int
    value: int
    # Most arguments are C ints: the kernel ignores the upper half of their registers.
    mask: int = 0xFFFF_FFFF


OWN_PID = -1  # stands for the process's own id, known only after the fork
POINTER = 0xFFFF_FFFF_FFFF_FFFF
NULL = 0

# What glibc's pthread_create asks for: VM FS FILES SIGHAND THREAD SYSVSEM SETTLS PARENT_SETTID
# CHILD_CLEARTID. A new process has other flags.
PTHREAD_FLAGS = 0x003D_0F00
# Opening read-only with O_TRUNC would empty a file that may only be read, and so would the
# undocumented access mode 3, which asks for neither reading nor writing.
ACCESS_MODE = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
SOCKET_FLAGS = socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
PR_SET_NAME, PR_GET_NAME = 15, 16
F_DUPFD_CLOEXEC = 1030

# Each row allows the call where all its conditions hold.
ALLOWED_IF: tuple[tuple[str, *tuple[Arg, ...]], ...] = (
    ("clone", Arg(0, PTHREAD_FLAGS)),
    ("openat", Arg(2, os.O_RDONLY, mask=ACCESS_MODE | os.O_TRUNC)),
    ("openat", Arg(2, os.O_WRONLY, mask=ACCESS_MODE)),
    ("openat", Arg(2, os.O_RDWR, mask=ACCESS_MODE)),
    # asyncio wakes itself through a pair of stream sockets; datagrams could be sent to a path.
    (
        "socketpair",
        Arg(0, socket.AF_UNIX),
        Arg(1, socket.SOCK_STREAM, mask=0xFFFF_FFFF & ~SOCKET_FLAGS),
        Arg(2, 0),
    ),
    ("sendto", Arg(4, NULL, mask=POINTER)),
    # No F_SETOWN, F_SETSIG (signals to others), F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ.
    *(
        ("fcntl", Arg(1, command))
        for command in (
            fcntl.F_DUPFD,
            F_DUPFD_CLOEXEC,
            fcntl.F_GETFD,
            fcntl.F_SETFD,
            fcntl.F_GETFL,
            fcntl.F_SETFL,
            fcntl.F_GETLK,
            fcntl.F_SETLK,
        )
    ),
    # No TIOCSTI (typing into a terminal), FIOSETOWN, SIOCSPGRP (signals to others).
    *(
        ("ioctl", Arg(1, request))
        for request in (
            termios.TCGETS,
            termios.TIOCGWINSZ,
            termios.FIONREAD,
            termios.FIONBIO,
            termios.FIOCLEX,
            termios.FIONCLEX,
        )
    ),
    ("prctl", Arg(0, PR_SET_NAME)),
    ("prctl", Arg(0, PR_GET_NAME)),
    ("kill", Arg(0, OWN_PID)),
    ("tgkill", Arg(0, OWN_PID)),
    ("prlimit64", Arg(0, 0)),
    ("prlimit64", Arg(0, OWN_PID)),
    ("sched_getaffinity", Arg(0, 0)),
    ("sched_getaffinity", Arg(0, OWN_PID)),
)

# glibc falls back to the older call if it is told that the newer does not exist.
DOES_NOT_EXIST = ("clone3", "openat2")
