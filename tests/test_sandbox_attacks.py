"""No attack from a submission on files, network or processes gets through the walls.

Each is tried without walls first, so that a wall, and nothing else, is what stops it.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyseccomp
import pytest

from autograder.sandbox import policy
from autograder.sandbox.policy import Wall
from autograder.sandbox.room import Room, RoomFailed
from tests.sandbox_attacks import ALL, PROCESSES, system_calls
from tests.sandbox_probe import WALLS, BecameAnotherProgram, Died, Outcome, Probe, prelude

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="file modes stop other users anyway")
REFUSED = (
    "PermissionError",
    "OSError",
    "FileNotFoundError",
    "ProcessLookupError",
    "BlockingIOError",
)
NAMED = {*policy.ALLOWED, *(name for name, *_ in policy.ALLOWED_IF), *policy.DOES_NOT_EXIST}
SECRET = "the hidden tests"


@dataclass(frozen=True)
class Place:
    """What attacks aim at."""

    outside: Path
    secret: Path
    library: Path
    victim: int

    def state(self) -> object:
        """All that an attack might change."""
        files = (self.outside, self.secret, self.library)
        status = [
            (file.stat().st_mode, file.stat().st_mtime_ns, file.stat().st_uid) for file in files
        ]
        attributes = [os.listxattr(file) for file in files]
        limits = resource_limits(self.victim)
        inside = sorted(path.name for path in self.outside.iterdir())
        contents = self.secret.read_text(), self.library.read_bytes()
        return status, attributes, limits, inside, contents

    def names(self) -> str:
        """Python code that binds the names that attacks use."""
        return textwrap.dedent(f"""
            outside, secret = {str(self.outside)!r}, {str(self.secret)!r}
            library, victim = {str(self.library)!r}, {self.victim}
        """)


def resource_limits(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text() + str(os.sched_getaffinity(pid))


def attack(probe: Probe, place: Place, source: str) -> Outcome:
    probe.run(prelude(*system_calls(source)) + place.names())
    return probe.run(textwrap.dedent(source))


@pytest.fixture
def place(tmp_path: Path, bystander: int) -> Iterator[Place]:
    """A folder with a secret, a file in the library to spare, and somebody else's process."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    site = Path(sysconfig.get_path("purelib"))
    if os.access(site, os.W_OK):
        library = site / f"sandbox-test-{os.getpid()}.txt"
        library.write_text("a library's file")
        yield Place(tmp_path, secret, library, bystander)
        library.unlink()
    else:
        yield Place(tmp_path, secret, Path(os.__file__), bystander)


@pytest.fixture
def bystander() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(
    scope="module",
    params=WALLS.values(),
    ids=list(WALLS),
)
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with Room(**request.param) as room:
        yield room


@pytest.fixture(scope="module")
def open_room() -> Iterator[Room]:
    with Room(wall=Wall.NONE) as room:
        yield room


@AS_ROOT
@pytest.mark.parametrize("source", ALL.values(), ids=ALL)
def test_without_walls_the_attack_succeeds(open_room: Room, place: Place, source: str) -> None:
    with open_room.admit({}) as process:
        try:
            outcome = attack(Probe(process), place, source)
        except BecameAnotherProgram:
            return
    if "not implemented" in outcome.error or "not supported" in outcome.error:
        pytest.skip(f"this kernel has no such thing: {outcome.error}")
    assert outcome.error == ""


@pytest.mark.parametrize("source", ALL.values(), ids=ALL)
def test_walls_stop_the_attack(room: Room, place: Place, source: str) -> None:
    before = place.state()
    with room.admit({}) as process:
        outcome = attack(Probe(process), place, source)
    assert outcome.error.startswith(REFUSED)
    assert SECRET not in outcome.text + outcome.error
    assert place.state() == before


@pytest.mark.parametrize("source", PROCESSES.values(), ids=PROCESSES)
@pytest.mark.parametrize("target", ["a sibling", "the warm parent"])
def test_processes_of_the_room_are_out_of_reach(
    room: Room, place: Place, source: str, target: str
) -> None:
    with room.admit({}) as attacker, room.admit({}) as sibling:
        bystander = Probe(sibling)
        own_pid = bystander.run("import os; print(os.getpid())").text
        aim = f"victim = {own_pid}" if target == "a sibling" else "victim = os.getppid()"
        outcome = attack(Probe(attacker), place, aim + "\n" + textwrap.dedent(source))
        assert outcome.error.startswith(REFUSED)
        assert bystander.run("print('alive')").text == "alive\n"
    with room.admit({}) as successor:
        assert Probe(successor).run("print('alive')").text == "alive\n"


def test_every_system_call_that_the_policy_does_not_name_fails(room: Room) -> None:
    numbers = {pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in NAMED}
    # The kernel keeps uretprobe and uprobe (x86-64) to itself, and ends whoever calls them.
    numbers |= {335, 336}
    others = sorted(set(range(600)) - numbers)
    source = f"""
        for number in {others}:
            if libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
                print(number)
    """
    with room.admit({}) as process:
        probe = Probe(process)
        probe.run(prelude())
        assert probe.run(textwrap.dedent(source)) == Outcome(text="", error="")


def test_every_name_in_the_policy_is_a_system_call() -> None:
    architectures = (pyseccomp.Arch.X86_64, pyseccomp.Arch.AARCH64)
    unknown = {
        name
        for name in NAMED
        if all(pyseccomp.resolve_syscall(architecture, name) < 0 for architecture in architectures)
    }
    assert unknown == set()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has these")
@pytest.mark.parametrize(
    "code",
    [b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"],
    ids=["int 0x80", "x32"],
)
def test_a_system_call_in_other_numbers_is_the_end(room: Room, code: bytes) -> None:
    source = f"""
        import ctypes, mmap
        memory = mmap.mmap(-1, 4096, prot=7)
        memory.write({code!r})
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        print(ctypes.CFUNCTYPE(ctypes.c_long)(address)())
    """
    with room.admit({}) as process, pytest.raises(Died, match="SIGSYS"):
        Probe(process).run(textwrap.dedent(source))


def test_no_variable_and_no_descriptor_is_inherited(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", SECRET)
    source = """
        import os, stat
        kinds = []
        for number in range(256):
            try:
                kinds.append(stat.S_IFMT(os.fstat(number).st_mode))
            except OSError:
                pass
        assert kinds == [stat.S_IFCHR] * 3 + [stat.S_IFSOCK], kinds
        print(sorted(os.environ), os.getcwd() == os.environ['HOME'] == os.environ['TMPDIR'])
    """
    with Room(wall=room.wall) as fresh, fresh.admit({}) as process:
        outcome = Probe(process).run(textwrap.dedent(source))
    assert outcome.error == ""
    assert "TOKEN" not in outcome.text
    assert "True" in outcome.text


def test_an_old_landlock_is_refused_not_used_in_part() -> None:
    with pytest.raises(RoomFailed, match="ABI 1"):
        Room(wall=Wall.LANDLOCK, abi=1)
