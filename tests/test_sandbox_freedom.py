"""What honest submissions do works behind the walls as it does without them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator

import pytest

from autograder.sandbox.policy import Wall
from autograder.sandbox.room import Room
from tests.sandbox_probe import WALLS, Probe

# These open windows, read the terminal, or ask a network's directory.
NOT_FOR_NOTEBOOKS = {"_tkinter", "tkinter", "turtle", "idlelib", "readline", "nis"}
WITH_EFFECTS = {"antigravity", "this", "__main__"}

IMPORTS = f"""
    import contextlib, importlib, io, sys, warnings
    warnings.simplefilter('ignore')
    for name in sorted(sys.stdlib_module_names - {NOT_FOR_NOTEBOOKS | WITH_EFFECTS}):
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                importlib.import_module(name)
            except ImportError:
                missing = True
            else:
                missing = False
        if missing:
            print(name)
"""

WORKS = {
    "asyncio": """
        import asyncio
        async def double(number):
            await asyncio.sleep(0.01)
            return 2 * number
        assert await asyncio.gather(double(1), double(2)) == [2, 4]""",
    "work in an executor": """
        import asyncio
        assert await asyncio.to_thread(sum, [1, 2]) == 3""",
    "a pool of threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor() as pool:
            assert list(pool.map(abs, range(-50, 0))) == list(range(50, 0, -1))""",
    "linear algebra": """
        import numpy as np
        a = np.random.default_rng(0).normal(size=(300, 300))
        assert np.allclose(a @ np.linalg.inv(a), np.eye(300))""",
    "a figure": """
        import io, matplotlib.pyplot as plt
        plt.plot([1, 2], label='$x^2$')
        plt.legend()
        plt.savefig('figure.png')
        plt.savefig(io.BytesIO(), format='svg')
        plt.savefig('figure.pdf')
        plt.show()""",
    "temporary files": """
        import tempfile
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
            file.write(b'x'); open(folder + '/f', 'w').close()
        with tempfile.TemporaryFile() as file:
            file.write(b'x')""",
    "files and folders": """
        import os, pathlib, shutil
        pathlib.Path('a/b').mkdir(parents=True)
        pathlib.Path('a/b/c').write_text('x')
        os.replace('a/b/c', 'c')
        shutil.move('c', 'a/d'); shutil.copyfile('a/d', 'e'); os.truncate(os.open('e', 2), 0)
        shutil.rmtree('a')
        assert sorted(os.listdir()) == ['data', 'e', 'helper.py']""",
    "a memory map": """
        import numpy as np
        array = np.memmap('array', dtype='f8', mode='w+', shape=(1000,))
        array[:] = 1; array.flush()
        assert np.memmap('array', dtype='f8', mode='r').sum() == 1000""",
    "an array in a file": """
        import numpy as np
        np.ones(3_000_000).tofile('large'); np.savez('small', a=np.ones(3))
        assert np.fromfile('large').sum() == 3_000_000 and np.load('small.npz')['a'][0] == 1""",
    "a database": """
        import sqlite3
        with sqlite3.connect('data.db') as base:
            base.execute('create table t (x)'); base.execute('insert into t values (1)')
        assert sqlite3.connect('data.db').execute('select x from t').fetchall() == [(1,)]""",
    "time zones": """
        import datetime, time, zoneinfo
        noon = datetime.datetime(2026, 7, 1, 12, tzinfo=zoneinfo.ZoneInfo('Europe/London'))
        assert noon.utcoffset() == datetime.timedelta(hours=1)
        assert time.localtime(0).tm_hour == 0""",
    "C code": "import ctypes; assert ctypes.CDLL(None).abs(-1) == 1",
    "decimals": "import decimal; assert decimal.Decimal(1) / 8 == decimal.Decimal('0.125')",
    "randomness": "import secrets, uuid; secrets.token_bytes(8); uuid.uuid4(); uuid.uuid1()",
    "hashes": "import hashlib; hashlib.sha256(b'x').hexdigest(); hashlib.blake2b(b'x')",
    "compression": """
        import bz2, gzip, lzma, zlib
        for module in (bz2, gzip, lzma, zlib):
            assert module.decompress(module.compress(b'x')) == b'x'""",
    "an alarm": """
        import signal
        class Rang(Exception): pass
        def ring(*_): raise Rang
        signal.signal(signal.SIGALRM, ring); signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            signal.pause()
        except Rang:
            pass""",
    "a signal to oneself": """
        import os, signal
        got = []
        signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)
        assert got == [1, 1]""",
    "limits of one's own": "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)",
    "a module beside the notebook": "import helper; assert helper.answer() == 42",
    "data beside the notebook": "assert open('data/numbers.csv').read() == '1,2'",
    "the machine's facts": """
        import getpass, os, platform, shutil
        os.cpu_count(); platform.platform(); os.uname(); shutil.disk_usage('.')""",
    "the course's package": "import course.figures, course.checks",
}
FILES = {"helper.py": b"def answer(): return 42", "data/numbers.csv": b"1,2"}


@pytest.fixture(scope="module", params=WALLS.values(), ids=list(WALLS))
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    with Room(("course",), **request.param) as room:
        yield room


@pytest.fixture(scope="module")
def importable_without_walls() -> str:
    with Room(wall=Wall.NONE) as room, room.admit({}) as process:
        return Probe(process).run(textwrap.dedent(IMPORTS)).text


@pytest.mark.parametrize("source", WORKS.values(), ids=WORKS)
def test_it_works(room: Room, source: str) -> None:
    with room.admit(FILES) as process:
        assert Probe(process).run(textwrap.dedent(source)).error == ""


def test_the_whole_standard_library_can_be_imported_late(
    room: Room, importable_without_walls: str
) -> None:
    with room.admit({}) as process:
        missing = Probe(process).run(textwrap.dedent(IMPORTS))
    assert missing.error == ""
    assert missing.text == importable_without_walls
    assert len(missing.text.split()) < len(sys.stdlib_module_names) / 10
