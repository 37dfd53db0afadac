"""A room admits what it should, refuses the rest, and leaves no process and no folder behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from autograder.sandbox import environment, walls
from autograder.sandbox.policy import Wall, readable_folders
from autograder.sandbox.room import Room, RoomFailed
from autograder.sandbox.scratch import PREFIX, BadFileName, Base, fill, remove_folder, sweep
from tests.ordinary_user import run_tests
from tests.sandbox_probe import WALLS, Probe

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep these rooms' folders apart from those of the other tests."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.glob(PREFIX + "*")) == []


@pytest.fixture
def room() -> Iterator[Room]:
    with Room() as room:
        yield room


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it did not happen within 20 s"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                children.add(int(stat.parent.name))
        except OSError:
            continue
    return children.union(*map(descendants, children))


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b", "x" * 300, "a/" * 3000 + "x", "good/x"]
)
def test_a_file_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFileName):
        fill(tmp_path, {"good": b"", name: b"x"})


def test_a_refused_submission_leaves_no_folder(room: Room, own_temporary_folder: Path) -> None:
    before = sorted(own_temporary_folder.rglob("*"))
    with pytest.raises(BadFileName):
        room.admit({"good": b"", "../bad": b""})
    assert sorted(own_temporary_folder.rglob("*")) == before


def test_files_of_odd_names_are_there(room: Room) -> None:
    names = {"a b/[c] ü.txt": b"1", "-n": b"2", "b\udcff": b"3", "deep/" * 20 + "x": b"4"}
    with room.admit(names) as process:
        outcome = Probe(process).run(f"print(*(open(name).read() for name in {list(names)!r}))")
    assert outcome.text == "1 2 3 4\n"


def test_a_dead_warm_parent_is_replaced(room: Room) -> None:
    first = room.admit({})
    lost = Probe(first).run("import os; print(os.getppid())").text
    os.kill(int(lost), signal.SIGKILL)
    wait_until(lambda: not alive(first.pid))
    with room.admit({}) as second:
        assert Probe(second).run("print('here')").text == "here\n"
    first.close()
    assert not first.scratch.exists()


@pytest.mark.parametrize("wall", WALLS.values(), ids=WALLS)
def test_closing_ends_all_processes(wall: dict[str, object]) -> None:
    before = descendants(os.getpid())
    room = Room(**wall)  # type: ignore[arg-type]
    processes = [room.admit({}) for _ in range(3)]
    started = descendants(os.getpid()) - before
    assert {process.pid for process in processes} < started
    room.close()
    wait_until(lambda: not any(map(alive, started)))


GRADER = """
import sys, time
from autograder.sandbox.room import Room
from autograder.sandbox.policy import Wall
room = Room(wall=Wall(sys.argv[1]))
process = room.admit({"a": b""})
print(process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("wall", [Wall.LANDLOCK, Wall.BUBBLEWRAP])
def test_nothing_outlives_a_killed_grader(wall: Wall, own_temporary_folder: Path) -> None:
    grader = subprocess.Popen(
        [sys.executable, "-c", GRADER, wall], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert grader.stdout is not None
    learner = int(grader.stdout.readline())
    started = descendants(grader.pid)
    assert learner in started
    sweep()
    assert len(list(own_temporary_folder.glob(PREFIX + "*"))) == 1  # a live grader's
    grader.kill()
    grader.communicate()
    wait_until(lambda: not any(map(alive, started)))
    sweep()
    assert list(own_temporary_folder.glob(PREFIX + "*")) == []


def test_sweeping_leaves_what_is_not_a_graders(own_temporary_folder: Path) -> None:
    elsewhere = own_temporary_folder / "kept"
    elsewhere.mkdir()
    (own_temporary_folder / f"{PREFIX}link").symlink_to(elsewhere)
    sweep()
    assert elsewhere.is_dir()
    (own_temporary_folder / f"{PREFIX}link").unlink()


def test_removing_a_folder_follows_no_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "file").touch()
    (folder / "link").symlink_to(outside)
    remove_folder(folder)
    assert not folder.exists()
    assert (outside / "file").exists()


def warm_up(
    preload: tuple[str, ...] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
    folder: Path = Path("/"),
    open_files: Sequence[int] = (),
) -> str:
    """Start a warm parent with more than a room gives it, and return what it says."""
    _, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    settings = {"control": control.fileno(), "wall": "none", "abi": 0}
    settings |= {"address_space": 4 << 30, "preload": preload}
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-P", "-s", "-m", "autograder.learner.warm", json.dumps(settings)],
            env={**environment.variables(["autograder"]), "MPLCONFIGDIR": cache, **variables},
            pass_fds=[control.fileno(), *open_files],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    return done.stderr


def test_a_warm_parent_with_a_secret_in_its_environment_refuses_to_serve() -> None:
    said = warm_up(variables={"API_TOKEN": "secret"})
    assert "environment variables: ['API_TOKEN']" in said


def test_a_warm_parent_with_an_open_file_refuses_to_serve() -> None:
    with Path(os.devnull).open() as file:
        assert "has open files" in warm_up(open_files=[file.fileno()])


def test_a_warm_parent_with_a_thread_refuses_to_serve(tmp_path: Path) -> None:
    (tmp_path / "threaded").mkdir()
    (tmp_path / "threaded" / "__init__.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=[30], daemon=True).start()\n"
    )
    path = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    assert "2 threads" in warm_up(("threaded",), path)


def test_a_warm_parent_elsewhere_refuses_to_serve(tmp_path: Path) -> None:
    assert f"is in {tmp_path}" in warm_up(folder=tmp_path)


def test_a_package_that_cannot_be_preloaded_is_named() -> None:
    with pytest.raises(RoomFailed, match="no_such_package"):
        Room(("no_such_package",))


def test_a_wall_that_does_not_hold_keeps_a_process_from_starting() -> None:
    script = (
        "import socket, sys, pathlib\n"
        "from autograder.sandbox import lock, policy\n"
        "policy.ALLOWED.append('socket')\n"
        "lock.Lock(policy.Wall.LANDLOCK, 2).apply(pathlib.Path(sys.argv[1]), socket.socket())\n"
    )
    base = Base.create()
    done = subprocess.run(
        [sys.executable, "-c", script, base.add()], capture_output=True, text=True, cwd=ROOT
    )
    base.remove()
    assert "WallFailed: after locking, learners' code opens a socket" in done.stderr


def test_without_any_wall_the_grader_refuses_and_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walls, "landlock_abi", lambda: 1)
    monkeypatch.setenv("PATH", "/nonexistent")
    walls.find_walls.cache_clear()
    try:
        with pytest.raises(walls.NoWalls) as refusal:
            Room()
    finally:
        walls.find_walls.cache_clear()
    for part in ["ABI 1", "bubblewrap: it is not installed", "--trust-submissions"]:
        assert part in str(refusal.value)


def test_bubblewrap_takes_landlocks_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walls, "landlock_abi", lambda: 0)
    walls.find_walls.cache_clear()
    try:
        assert walls.find_walls().wall is Wall.BUBBLEWRAP
        assert "Landlock" in walls.find_walls().reasons[0]
    finally:
        walls.find_walls.cache_clear()


def test_a_bubblewrap_that_does_not_start_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(walls, "landlock_abi", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    walls.find_walls.cache_clear()
    try:
        assert "No permissions to create new namespace" in walls.find_walls().reasons[1]
    finally:
        walls.find_walls.cache_clear()


@pytest.mark.parametrize("wall", [Wall.LANDLOCK, Wall.BUBBLEWRAP])
def test_a_gradebook_among_readable_files_is_refused(wall: Wall, tmp_path: Path) -> None:
    library = readable_folders()[0]
    walls.refuse_if_exposed([tmp_path / "gradebook.db", Path("/root"), Path("/home")], wall)
    with pytest.raises(walls.Exposed, match="every submission may read"):
        walls.refuse_if_exposed([library / "gradebook.db"], wall)
    (tmp_path / "link").symlink_to(library)
    with pytest.raises(walls.Exposed):
        walls.refuse_if_exposed([tmp_path / "link" / "gradebook.db"], wall)


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="this is an ordinary user")
def test_it_all_holds_for_an_ordinary_user() -> None:
    run_tests(*Path(__file__).parent.glob("test_sandbox_*.py"))
