"""A submission that takes all it can get is stopped, and nothing of it is left."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyseccomp
import pytest

from autograder.sandbox.policy import CAPS, MIB
from autograder.sandbox.room import LearnerProcess, Room
from tests.sandbox_probe import WALLS, Died, Probe

SIGKILL = -9
SECONDS_TO_NOTICE = 30.0


@pytest.fixture(scope="module", params=WALLS.values(), ids=list(WALLS))
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with Room(**request.param) as room:
        yield room


@pytest.fixture
def process(room: Room) -> Iterator[LearnerProcess]:
    with room.admit({}) as process:
        yield process


def watch(process: LearnerProcess) -> str:
    """Look every 20 ms, as the grader does, and return which cap was exceeded."""
    end = time.monotonic() + SECONDS_TO_NOTICE
    while time.monotonic() < end:
        if reason := process.overrun():
            return reason
        time.sleep(0.02)
    return "nothing noticed"


THREADS = """
    import threading, time
    while True:
        try:
            threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
        except RuntimeError:
            pass
"""
MEMORY = """
    import mmap
    hoard = []
    while True:
        hoard.append(mmap.mmap(-1, 1 << 20))
        hoard[-1].write(bytes(1 << 20))
"""
DISK = """
    number = 0
    while True:
        number += 1
        with open(f'{number}', 'wb') as file:
            for _ in range(32):
                file.write(bytes(1 << 20))
"""
DELETED_BUT_OPEN = """
    import os
    hoard = []
    while True:
        if len(hoard) < 200:
            hoard.append(open('file', 'wb'))
            hoard[-1].write(bytes(8 << 20))
            hoard[-1].flush()
            os.unlink('file')
"""
DELETED_BUT_MAPPED = """
    import mmap, os
    hoard = []
    while True:
        if len(hoard) < 200:
            with open('file', 'w+b') as file:
                file.write(bytes(1 << 20))
                file.flush()
                hoard.append(mmap.mmap(file.fileno(), 4096))
            os.unlink('file')
"""
FILES = """
    number = 0
    while True:
        number += 1
        open(f'{number}', 'w').close()
"""
DEPTH = """
    import os
    for _ in range(3000):
        os.mkdir('folder')
        os.chdir('folder')
    while True:
        pass
"""
WITHOUT_MAIN_THREAD = """
    import ctypes, threading, time
    threading.Thread(target=time.sleep, args=[1000]).start()
    ctypes.CDLL(None).syscall(EXIT, 0)
"""
HIDING = """
    import os
    os.mkdir('folder', 0o300)
    open('folder/file', 'w').close()
    while True:
        pass
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (THREADS, f"more than {CAPS.threads} threads"),
        (MEMORY, "more than 2048 MiB of memory"),
        (DISK, f"more than {CAPS.scratch_bytes // MIB} MiB of files"),
        (DELETED_BUT_OPEN, f"more than {CAPS.scratch_bytes // MIB} MiB of files"),
        (DELETED_BUT_MAPPED, f"more than {CAPS.scratch_bytes // MIB} MiB of files"),
        (FILES, f"more than {CAPS.scratch_files} files"),
        (DEPTH, f"folders nested more than {CAPS.scratch_depth} deep"),
    ],
    ids=[
        "threads",
        "memory",
        "disk",
        "deleted files, held open",
        "deleted files, mapped",
        "files",
        "nested folders",
    ],
)
def test_what_exceeds_a_cap_is_noticed_and_leaves_nothing(
    process: LearnerProcess, source: str, reason: str
) -> None:
    Probe(process).tell(textwrap.dedent(source))
    assert watch(process) == reason
    assert process.kill() == SIGKILL
    process.close()
    assert not process.scratch.exists()
    assert not Path(f"/proc/{process.pid}").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root can list every folder")
def test_a_folder_that_hides_its_files_is_noticed(process: LearnerProcess) -> None:
    Probe(process).tell(textwrap.dedent(HIDING))
    assert watch(process) == "a folder that cannot be listed (Permission denied)"


def test_threads_cannot_hide_behind_a_dead_main_thread(process: LearnerProcess) -> None:
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, "exit")
    Probe(process).tell(textwrap.dedent(WITHOUT_MAIN_THREAD).replace("EXIT", str(number)))
    assert watch(process) == "threads that outlive the main one"
    assert process.kill() == SIGKILL


def test_a_process_that_has_ended_exceeds_nothing(process: LearnerProcess) -> None:
    with pytest.raises(Died):
        Probe(process).run("import os; os._exit(3)")
    assert process.overrun() is None


def test_a_process_that_takes_long_to_end_exceeds_nothing(process: LearnerProcess) -> None:
    # Giving back much memory takes a while, in which an ordinary user is shown nothing of it.
    Probe(process).tell("import os\nhoard = b'x' * (1 << 30)\nos._exit(0)")
    last = Path(f"/proc/{process.pid}/stat")
    while last.read_bytes().rpartition(b")")[2].split()[0] != b"Z":
        assert process.overrun() is None


def test_ordinary_use_exceeds_nothing(process: LearnerProcess) -> None:
    source = """
        import numpy, threading
        matrix = numpy.ones((1000, 1000)) @ numpy.ones((1000, 1000))
        open('result.csv', 'w').write('1,2\\n' * 100_000)
        threads = [threading.Thread(target=int) for _ in range(8)]
        for thread in threads:
            thread.start()
    """
    assert Probe(process).run(textwrap.dedent(source)).error == ""
    assert process.overrun() is None


def test_too_large_an_array_is_an_ordinary_error(process: LearnerProcess) -> None:
    probe = Probe(process)
    assert "MemoryError" in probe.run("hoard = bytearray(8 << 30)").error
    assert probe.run("print('alive')").text == "alive\n"


def test_the_grader_may_set_the_memory(room: Room) -> None:
    with Room(wall=room.wall, address_space=512 * MIB) as small, small.admit({}) as process:
        probe = Probe(process)
        assert "MemoryError" in probe.run("hoard = bytearray(400 << 20)").error
        probe.tell(textwrap.dedent(MEMORY.replace("while True", "while len(hoard) < 280")))
        assert watch(process) == "more than 256 MiB of memory"


def test_too_large_a_file_is_an_ordinary_error(process: LearnerProcess) -> None:
    probe = Probe(process)
    source = "import os\nos.truncate(os.open('f', os.O_CREAT | os.O_RDWR), 1 << 40)"
    assert "OSError: [Errno 27]" in probe.run(source).error
    assert probe.run("print('alive')").text == "alive\n"


def test_too_many_open_files_are_an_ordinary_error(process: LearnerProcess) -> None:
    probe = Probe(process)
    source = "hoard = []\nwhile True:\n    hoard.append(open('f', 'w'))"
    assert "Too many open files" in probe.run(source).error
    assert probe.run("del hoard; print('alive')").text == "alive\n"


def test_no_signal_handler_and_no_thread_keeps_a_process_alive(process: LearnerProcess) -> None:
    source = """
        import signal, threading
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        def spin():
            while True:
                pass
        for _ in range(4):
            threading.Thread(target=spin).start()
    """
    probe = Probe(process)
    assert probe.run(textwrap.dedent(source)).error == ""
    assert process.kill() == SIGKILL
    with pytest.raises(Died):
        probe.run("pass")


def test_a_process_that_kills_itself_is_told_apart(process: LearnerProcess) -> None:
    with pytest.raises(Died, match="SIGSEGV"):
        Probe(process).run("import ctypes; ctypes.string_at(0)")
    assert process.kill() == -11


def test_odd_names_and_modes_are_removed(room: Room) -> None:
    source = """
        import os
        for name in [b'\\xff\\xfe', b'a\\nb', b'-rf', b' ', '\\u202e'.encode()]:
            open(name, 'w').close()
        os.mkdir('closed', 0)
        os.mkdir('empty'); os.mkdir('empty/inner', 0o500)
        os.close(os.open('unreadable', os.O_CREAT | os.O_WRONLY, 0))
    """
    process = room.admit({"given.txt": b""})
    assert Probe(process).run(textwrap.dedent(source)).error == ""
    process.close()
    assert not process.scratch.exists()


def test_the_next_submission_finds_nothing_of_the_last(room: Room) -> None:
    leave = """
        import builtins, os, sys, tempfile, threading, numpy
        builtins.left = numpy.left = sys.left = os.environ['LEFT'] = 'left'
        for folder in ('.', '/tmp', '/dev/shm', tempfile.gettempdir(), sys.path[1]):
            try:
                open(folder + '/left', 'w').write('left')
            except OSError:
                pass
    """
    look = """
        import builtins, os, sys, numpy
        found = [hasattr(builtins, 'left'), hasattr(numpy, 'left'), hasattr(sys, 'left')]
        found += ['LEFT' in os.environ]
        for folder in ('.', '/tmp', '/dev/shm', sys.path[1]):
            found.append(os.path.exists(folder + '/left'))
        print(any(found), os.listdir())
    """
    with room.admit({}) as first:
        assert Probe(first).run(textwrap.dedent(leave)).error == ""
        with room.admit({}) as beside:
            assert Probe(beside).run(textwrap.dedent(look)).text == "False []\n"
    with room.admit({}) as second:
        assert Probe(second).run(textwrap.dedent(look)).text == "False []\n"
