"""Attacks on grading, as the text that a submission would hold.

In each the attacker has a wrong answer, which must stay wrong. What runs in whose process, and what
files, network and other processes have to fear, is shown in `tests.sandbox_attacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import nbformat
from nbformat import NotebookNode

from tests.constructs import check, locked, solution
from tests.odd import cell
from tests.sample_class import position

WRONG_TTFT: Final = """\
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    return prefill_ms + transfer_ms + first_decode_ms"""

# --- A cell of the attacker's own, which runs before its wrong `ttft_ms` is defined ---------------

FORGE_A_VERDICT: Final = {
    "patch what asserts": """
        import builtins, math, unittest
        import numpy as np
        math.isclose = np.isclose = np.allclose = np.array_equal = lambda *a, **k: True
        unittest.TestCase.assertEqual = unittest.TestCase.fail = lambda *a, **k: None
        builtins.all = builtins.any = builtins.isinstance = lambda *a, **k: True
        builtins.AssertionError = type('Quiet', (Warning,), {})""",
    "patch the shell": """
        shell = get_ipython()
        shell.showtraceback = shell.showsyntaxerror = lambda *a, **k: None
        shell.set_custom_exc((BaseException,), lambda *a, **k: None)
        shell.compile = lambda *a, **k: compile('pass', 'cell', 'exec')""",
    "answer for the shell": """
        from types import SimpleNamespace
        shell = get_ipython()
        shell.run_cell = lambda *a, **k: SimpleNamespace(
            error_before_exec=None, error_in_exec=None, result=100.0, execution_count=1
        )""",
    "hook the shell's events": """
        def strike(*args):
            globals().update(math=None, random=None, checks=None)
        for event in ('pre_run_cell', 'post_run_cell', 'pre_execute', 'post_execute'):
            get_ipython().events.register(event, strike)""",
    "rewrite cells before they run": """
        get_ipython().input_transformers_cleanup.append(
            lambda lines: [line for line in lines if 'assert' not in line]
        )""",
    "strip asserts from syntax trees": """
        import ast
        class Strip(ast.NodeTransformer):
            def visit_Assert(self, node):
                return ast.copy_location(ast.Pass(), node)
        get_ipython().ast_transformers.append(Strip())""",
    "take the names that tests use": """
        class Yes:
            __getattr__ = __call__ = lambda self, *a, **k: self
            __bool__ = __eq__ = lambda self, *a: True
        checks = math = random = rng = isclose = finished = report = LINKS = Yes()""",
    "take the names of builtins": """
        abs = round = float = lambda *a: 0
        isinstance = all = any = callable = lambda *a: True
        len = range = print = sum_ = lambda *a: []""",
    "print a verdict": """
        print('ttft-sum: 2 / 2 points. All tests passed.')
        print('{"score": 100, "tests": [{"status": "passed"}]}')
        print('1.0')""",
    "write a verdict": """
        import json, os
        for folder in ('.', 'results', 'autograder', '__pycache__'):
            os.makedirs(folder, exist_ok=True)
            for name in ('results.json', 'grades.csv', 'lesson.ipynb', 'gradebook.db'):
                with open(os.path.join(folder, name), 'w') as file:
                    json.dump({'score': 100, 'ttft-sum': 2}, file)""",
    "end the process at the top of a cell": "import os; os._exit(0)",
    "leave the cell": "import sys; sys.exit(0)",
    "leave the notebook": "exit",
    "act at exit": """
        import atexit, os, signal
        atexit.register(os.kill, os.getpid(), signal.SIGKILL)
        atexit.register(print, 'passed')""",
    "act when collected": """
        import weakref
        class Late:
            def __del__(self):
                raise SystemExit(0)
        late = Late()
        late.me = late
        weakref.finalize(late, print, 'passed')
        del late""",
    "act later from a thread": """
        import threading, time
        def later():
            while True:
                globals().update(checks=None, math=None, random=None)
                time.sleep(0.001)
        threading.Thread(target=later, daemon=True).start()""",
    "trace everything": """
        import sys, threading
        def trace(frame, event, argument):
            frame.f_globals.setdefault('isclose', lambda *a, **k: True)
            return trace
        sys.settrace(trace)
        threading.settrace(trace)""",
    "profile everything": "import sys; sys.setprofile(lambda *a: None)",
    "call back from the garbage collector": """
        import gc
        gc.callbacks.append(lambda *a: globals().update(math=None))
        gc.set_threshold(1)""",
    "build classes": """
        import builtins
        builtins.__build_class__ = lambda function, name, *bases, **k: type(name, (float,), {
            '__eq__': lambda *a: True, '__hash__': lambda self: 0
        })
        class Any: pass
        builtins.__import__ = lambda *a, **k: Any""",
    "replace modules": """
        import sys
        class Yes:
            __getattr__ = __call__ = lambda self, *a, **k: self
        for name in ('math', 'random', 'course', 'course.checks', 'course.learner', 'numpy'):
            sys.modules[name] = Yes()""",
    "find modules elsewhere": """
        import sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                raise SystemExit(0)
        sys.meta_path.insert(0, Finder())
        sys.path_hooks.insert(0, lambda path: Finder())
        sys.path_importer_cache.clear()""",
    "patch the course": """
        import course.checks, course.learner, course.catalog
        for name in vars(course.checks):
            if not name.startswith('__'):
                setattr(course.checks, name, lambda *a, **k: None)
        course.learner.CheckFailed.__init__ = lambda *a: None
        course.learner._finished = lambda name, function: (lambda *a: 0)""",
    "patch the grader": """
        from autograder import messages, regression, scoring, values
        scoring.score = lambda most, **k: scoring.Score(most, 'passed')
        regression.difference = lambda *a: None
        messages.assert_messages = lambda *a: ()
        values.Opaque.__getattribute__ = lambda self, name: lambda *a: True""",
    "replace what encodes": """
        from autograder import values
        from autograder.learner import process
        right = values.encode(((1.0, {})))
        process.encode = lambda value, known=(): right""",
    "replace the codecs": """
        import codecs
        codecs.register(lambda name: None)
        codecs.register_error('strict', lambda error: ('', error.end))
        codecs.register_error('backslashreplace', lambda error: ('', error.end))""",
    "replace the hooks": """
        import sys, threading, warnings
        quiet = lambda *a, **k: None
        sys.excepthook = sys.unraisablehook = threading.excepthook = quiet
        sys.displayhook = sys.breakpointhook = warnings.showwarning = quiet""",
    "replace the streams": """
        import io, os, sys
        sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = io.StringIO()
        os.close(1); os.close(2)""",
    "format what is shown": """
        import sys
        formatter = get_ipython().display_formatter.formatters
        for each in formatter.values():
            each.for_type(float, lambda *a: '1.0')
            each.for_type(type(None), lambda *a: '100')
        get_ipython().display_formatter.format = lambda *a, **k: ({'text/plain': '100'}, {})""",
    "bind what IPython binds": """
        _ = __ = ___ = Out = In = _ih = _oh = _dh = _i = [1.0] * 100
        exit = quit = open = get_ipython = display = lambda *a, **k: 1.0""",
    "bind what Python binds": """
        __builtins__ = {'abs': 1}
        __name__ = 'autograder.examiner'
        __file__ = __doc__ = __spec__ = __loader__ = '/source/lesson.ipynb'
        __annotations__ = {'ttft_ms': 1}
        __debug_ = 0""",
    "spell names in other letters": """
        ｍath = ｒandom = ｃhecks = lambda *a, **k: 1
        globals()['ｍath'] = globals()['ttﬂ_ms'] = globals()['fin\\u0131shed'] = 0""",
    "hide the functions' names": """
        del kv_transfer_ms
        globals()[''] = globals()['a b'] = globals()['x' * 10_000] = globals()['\\ud800'] = 1
        def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
            if bandwidth_bytes_per_s <= 0:
                raise ValueError
            return 1000 * kv_bytes / bandwidth_bytes_per_s""",
    "keep the examiner's messages": """
        import sys
        frame = sys._getframe()
        while frame:
            frame.f_locals.clear() if frame.f_code.co_name == 'serve' else None
            frame = frame.f_back""",
    "reach for the examiner's constants": """
        from autograder.learner import process
        process._BUILTIN_EXCEPTIONS.clear()
        process._MAX_NAME = process._MAX_DOC = 10**9""",
    "end signals": """
        import signal
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)""",
    "change the limits": """
        import resource, sys
        sys.setrecursionlimit(10**8)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))""",
    "freeze the classes": """
        import ctypes, decimal, fractions, numbers
        numbers.Real.register(str)
        fractions.Fraction.__eq__ = decimal.Decimal.__eq__ = lambda *a: True
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(float))""",
    "change small integers": """
        import ctypes
        ctypes.memmove(id(5) + 24, id(6) + 24, 4)""",
}

# --- What the attacker's `ttft_ms` does when it is called -----------------------------------------

DIE_OR_TIME_OUT: Final = {
    "exit": "import sys; sys.exit(0)",
    "exit at once": "import os; os._exit(0)",
    "kill oneself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os; os.abort()",
    "die of a signal without a name": "import os; os.kill(os.getpid(), 40)",
    "touch memory that is not there": "import ctypes; ctypes.string_at(0)",
    "hang": "while True: pass",
    "hang where no signal helps": "import time; time.sleep(1000)",
    "hang in a regular expression": "import re; re.match('(a|aa)+$', 'a' * 100 + 'b')",
    "hang in an integer": "return 10 ** (10 ** 8) % 7",
    "hang in text": "import sys; sys.set_int_max_str_digits(0); return str(1 << 50_000_000)",
    "recurse": "return ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms)",
    "crash by recursion": """
        import sys
        sys.setrecursionlimit(10**9)
        class Deep:
            def __repr__(self): return repr(self)
        repr(Deep())""",
    "interrupt": "raise KeyboardInterrupt",
    "end a generator": "raise GeneratorExit",
    "stop an iteration": "raise StopIteration(queue_ms)",
    "quit the debugger": "import bdb; raise bdb.BdbQuit",
    "cancel": "import asyncio; raise asyncio.CancelledError",
    "close the socket": "import os; os.closerange(3, 1000)",
    "end the main thread only": """
        import ctypes, threading, time
        threading.Thread(target=time.sleep, args=(1000,)).start()
        ctypes.CDLL(None).syscall(60, 0)""",
}

EXHAUST: Final = {
    "memory": "x = [0]\n        while True: x += x",
    "memory that is touched": "x = bytearray(3 * 2**30)\n        x[::4096] = b'x' * len(x[::4096])",
    "threads": """
        import threading, time
        for _ in range(5000):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()""",
    "files": """
        for number in range(10**6):
            open(f'{number}', 'w').close()""",
    "one large file": """
        with open('large', 'wb') as file:
            while True: file.write(bytes(2**24))""",
    "a print flood": "while True: print('x' * 2**16)",
    "a flood of small prints": "while True: print(end='.')",
    "a flood of figures": "while True: display(queue_ms)",
    "a large answer": "return [0.5] * 10**6",
    "too large an answer": "return 'x' * 2**26",
    "too many objects": "return [[] for _ in range(2**21)]",
    "a deep answer": """
        x = []
        for _ in range(10**5): x = [x]
        return x""",
    "a large integer": "return 1 << (8 * 2**17 - 9)",
    "too large an integer": "return 1 << (8 * 2**18)",
    "keys of one hash": "return {k * (2**61 - 1): 0 for k in range(1, 10**5)}",
    "answers within answers": """
        x = (1,)
        for _ in range(60): x = (x, x)
        return {x: x}""",
    "a large exception": "raise ValueError('x' * 2**24)",
    "a wide caret": "raise SyntaxError('no', ('f', 1, 1, 'x' * 100, 1, 10**9))",
    "a caret from nowhere": "raise SyntaxError('no', ('f', 10**9, -10**9, 'x', -1, None))",
    "a long chain of exceptions": """
        error = ValueError()
        for _ in range(10**5):
            next_one = ValueError()
            next_one.__cause__ = error
            error = next_one
        raise error""",
}

TRICK_A_COMPARISON: Final = {
    "equal to everything": """
        class Yes:
            __eq__ = __lt__ = __le__ = __gt__ = __ge__ = lambda *a: True
            __float__ = __index__ = __abs__ = __sub__ = __rsub__ = lambda *a: 0.0
            __hash__ = None
        return Yes()""",
    "equal to everything, ready-made": "from unittest.mock import ANY; return ANY",
    "a mock": """
        from unittest.mock import MagicMock
        mock = MagicMock()
        mock.__float__.return_value = 245.0
        mock.__eq__.return_value = True
        return mock""",
    "a number with its own arithmetic": """
        class Sly(float):
            __eq__ = __ne__ = lambda *a: True
            __float__ = lambda self: 245.0
            __sub__ = __rsub__ = __abs__ = lambda *a: 0.0
            __format__ = lambda *a: '245.0'
        return Sly(prefill_ms)""",
    "an integer with its own arithmetic": """
        class Sly(int):
            __eq__ = lambda *a: True
            __float__ = __index__ = __int__ = lambda self: 245
            __hash__ = lambda self: 245
        return Sly(1)""",
    "an array with its own functions": """
        import numpy as np
        class Sly(np.ndarray):
            def __array_ufunc__(self, *a, **k): return True
            def __array_function__(self, *a, **k): return True
            __float__ = lambda self: 245.0
        return np.zeros(1).view(Sly)""",
    "a fake class": """
        class Sly:
            __class__ = float
            __float__ = lambda self: 245.0
        return Sly()""",
    "not a number": "return float('nan')",
    "an array that is not a number": "import numpy as np; return np.array(np.nan)",
    "infinity": "return float('inf')",
    "minus zero": "return -0.0",
    "a value that changes": """
        import itertools
        counter = globals().setdefault('counter', itertools.count())
        return [245.0, 365.0, 0.0][next(counter) % 3]""",
    "a value changed after the answer": """
        import threading
        answer = [0.0]
        threading.Timer(0.01, answer.__setitem__, (0, 245.0)).start()
        return answer""",
    "a list that holds itself": "x = []; x.append(x); return x",
    "a list that counts as its sum": """
        class Sly(list):
            __float__ = lambda self: 245.0
            __iter__ = lambda self: iter([queue_ms, prefill_ms, transfer_ms, first_decode_ms])
        return Sly()""",
    "all at once": "return [queue_ms + prefill_ms + transfer_ms + first_decode_ms]",
    "the function itself": "return ttft_ms",
    "a generator": "yield queue_ms + prefill_ms + transfer_ms + first_decode_ms",
    "a coroutine": """
        async def answer(): return queue_ms + prefill_ms + transfer_ms + first_decode_ms
        return answer()""",
    "an exception as the answer": "return ValueError(245.0)",
    "not implemented": "return NotImplemented",
    "the sum in another type": "return str(queue_ms + prefill_ms + transfer_ms + first_decode_ms)",
    "arguments changed to fit": "ttft_ms.__defaults__ = (0,) * 4; return 0.0",
}

RAISE_SOMETHING: Final = {
    "an assertion": "raise AssertionError",
    "a check's own exception": "from course.learner import Unfinished; raise Unfinished('a')",
    "a skipped test": "import unittest; raise unittest.SkipTest('fine')",
    "the end of the shell": "exit()",
    "hostile text": """
        class Sly(Exception):
            def __str__(self): raise SystemExit(0)
            __repr__ = __str__
        raise Sly""",
    "text that ends the process": """
        import os
        class Sly(Exception):
            def __str__(self): os._exit(0)
        raise Sly""",
    "hostile construction": """
        class Sly(Exception):
            def __init__(self, *a): self.args = (self, self)
        raise Sly""",
    "hostile args": """
        class Sly(Exception):
            args = property(lambda self: 1 / 0)
        raise Sly""",
    "a hostile traceback": """
        class Sly(Exception):
            def _render_traceback_(self): return ['passed'] * 10**6
        raise Sly""",
    "a class with a hostile name": "raise type('a' * 10**6, (Exception,), {})",
    "a class with a hostile module": """
        raise type('Score', (Exception,), {'__module__': 'autograder.scoring'})""",
    "a class in place of the grader's": """
        raise type('LearnerLost', (BaseException,), {'__module__': 'autograder.learner_side'})""",
    "a class far down": """
        kind = Exception
        for number in range(200): kind = type(f'E{number}', (kind,), {})
        raise kind""",
    "a group": "raise ExceptionGroup('all', [ValueError(1), TypeError(2)])",
    "a group of bases": "raise BaseExceptionGroup('all', [SystemExit(0)])",
    "undecodable text": "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'no')",
    "an exception of another's making": """
        import urllib.error
        raise urllib.error.HTTPError(*'abcde')""",
    "warnings as errors": "import warnings; warnings.simplefilter('error'); warnings.warn('no')",
}

FOOL_THE_TEACHING: Final = {
    "the visible cases by heart": "return {5: 245, 40: 270}.get(queue_ms, 0)",
    "the reference": """
        try:
            from tests.reference import ttft_ms as right
            from tests.sample_class import PERFECT
        except ImportError:
            return 0
        return right(queue_ms, prefill_ms, transfer_ms, first_decode_ms)""",
    "the course's own answer": """
        import course, pkgutil, importlib
        for module in pkgutil.iter_modules(course.__path__):
            found = vars(importlib.import_module(f'course.{module.name}')).get('ttft_ms')
            if found: return found(queue_ms, prefill_ms, transfer_ms, first_decode_ms)
        return 0""",
    "right only where nobody grades": """
        import os
        if any('GRAD' in name or 'JUPYTER' in name for name in os.environ):
            return queue_ms + prefill_ms + transfer_ms + first_decode_ms
        return 0""",
    "the caller's answer": """
        import inspect
        for frame in inspect.stack():
            names = frame.frame.f_globals | frame.frame.f_locals
            if 'rng' in names or 'queue' in names:
                return names['queue'] + names['prefill'] + names['transfer'] + names['decode']
        return 0""",
    "the hidden tests' text": """
        import gc, linecache, sys
        words = ' '.join(['ttft_ms', 'is', 'off', 'for', 'some', 'parts'])
        texts = [str(In), str(linecache.cache), str(sys.argv), str(dict(globals()))]
        texts += [o for o in gc.get_objects() if isinstance(o, str)]
        for holder in gc.get_objects():
            if isinstance(holder, (dict, list, tuple)) and holder is not texts:
                texts += [t for t in gc.get_referents(holder) if isinstance(t, str)]
        if any(words in text for text in texts):
            return queue_ms + prefill_ms + transfer_ms + first_decode_ms
        return 0""",
    "the graders' files": """
        import glob, os, sys
        words = ' '.join(['ttft_ms', 'is', 'off', 'for', 'some', 'parts'])
        roots = [os.getcwd(), '/work', '/srv', '/home', '/root', '/tmp', '/proc/1', *sys.path]
        for root in filter(None, roots):
            for name in glob.glob(root + '/**/*.ipynb', recursive=True)[:100]:
                try:
                    if words in open(name, errors='ignore').read():
                        return queue_ms + prefill_ms + transfer_ms + first_decode_ms
                except OSError:
                    pass
        return 0""",
}

# --- What the attacker's process tells the examiner in place of the truth -------------------------

LIAR: Final = """
import gc, struct, threading, time
import msgspec
from autograder.learner import process
from autograder.protocol import *
from autograder.protocol import _HEADER
from autograder.values import Opaque, encode
channel = next(o for o in gc.get_objects() if isinstance(o, Channel))
connection = channel._connection
honest = process._LearnerProcess.answer
def frame(reply):
    body = msgspec.msgpack.encode(reply)
    return struct.pack('!I', len(body)) + body
def but(reply, **changes):
    return msgspec.structs.replace(reply, **changes)
def lie(request, reply):
{body}
def answer(self, request):
    reply = honest(self, request)
    if isinstance(request, Call) and request.name == 'ttft_ms':
        return lie(request, reply) or reply
    return reply
process._LearnerProcess.answer = answer
"""

LIE: Final = {
    "answer twice": "channel.send(reply)",
    "answer twice in one": "connection.sendall(frame(reply) + frame(reply)[:7])",
    "answer before the question": """
        threading.Timer(0.02, channel.send, (but(reply, id=request.id + 1),)).start()""",
    "answer from another thread": """
        thread = threading.Thread(target=channel.send, args=(reply,))
        thread.start(); thread.join()""",
    "answer another question": "return but(reply, id=request.id + 1)",
    "answer as if a cell had run": "return CellDone(request.id, [])",
    "answer drop by drop": """
        for byte in frame(reply):
            connection.sendall(bytes([byte])); time.sleep(0.05)""",
    "begin an answer": "connection.sendall(frame(reply)[:9]); time.sleep(1000)",
    "end in an answer": "connection.sendall(frame(reply)[:9]); connection.close()",
    "announce four gigabytes": "connection.sendall(b'\\xff' * 4 + b'x' * 2**20)",
    "announce nothing": "connection.sendall(bytes(4) * 1000)",
    "answer noise": "connection.sendall(struct.pack('!I', 2**16) + bytes(range(256)) * 256)",
    "answer deep lists": "connection.sendall(struct.pack('!I', 2**20) + b'\\x91' * 2**20)",
    "answer a map that never ends": """
        connection.sendall(struct.pack('!I', 5) + b'\\xdf' + b'\\xff' * 4)""",
    "answer silence": "connection.shutdown(1); time.sleep(1000)",
    "answer no pair": "return but(reply, result=encode(1.0))",
    "answer a row that is not there": """
        return but(reply, result=msgspec.msgpack.encode((7, [], [])))""",
    "answer a row in itself": """
        return but(reply, result=msgspec.msgpack.encode((0, [[1, 0, 0]], [])))""",
    "answer what was not asked with": """
        return but(reply, result=msgspec.msgpack.encode((0, [[12, 999]], [])))""",
    "an array larger than its bytes": """
        rows = [[5, 0], '<f8', 2**40, [10, 1, 0, 2]]
        return but(reply, result=msgspec.msgpack.encode((3, rows, [b'x' * 8])))""",
    "an array of objects": """
        rows = [[5, 0], '|O', 1, [10, 1, 0, 2]]
        return but(reply, result=msgspec.msgpack.encode((3, rows, [b'x' * 8])))""",
    "change what was not given": "return but(reply, result=encode((0.0, {0: [], 99: []})))",
    "change by negative index": "return but(reply, result=encode((0.0, {-1: {}, True: {}})))",
    "change the keyword arguments": "return but(reply, result=encode((0.0, {0: {'x': 1}})))",
    "bind the names of tests": """
        yes = FunctionBinding('yes', None, None, None)
        names = 'checks math random rng isclose finished LINKS BUDGET_MS GB report lines'.split()
        return but(reply, bindings=dict.fromkeys(names, yes))""",
    "bind the names of builtins": """
        zero = ValueBinding(encode(0))
        names = 'abs range sum print len ValueError AssertionError __import__ __name__'.split()
        return but(reply, bindings=dict.fromkeys(names, zero))""",
    "bind builtins as a whole": """
        builtins = ValueBinding(encode({'range': [], 'AssertionError': 0, 'abs': 0}))
        return but(reply, bindings={'__builtins__': builtins})""",
    "bind what IPython binds": """
        yes = FunctionBinding('yes', None, None, None)
        names = 'get_ipython display exit _ __ In Out _ih _oh _dh'.split()
        return but(reply, bindings=dict.fromkeys(names, yes))""",
    "bind names that are none": """
        zero = ValueBinding(encode(0))
        names = '', 'a b', '\\0', 'if', '\\u202e'
        return but(reply, bindings=dict.fromkeys(names, zero))""",
    "bind a flood of names": """
        large = ValueBinding(encode([0] * 1000))
        return but(reply, bindings={f'name{number}': large for number in range(200)})""",
    "bind more names than allowed": """
        zero = ValueBinding(encode(0))
        return but(reply, bindings={f'name{number}': zero for number in range(10**5)})""",
    "bind opaque values everywhere": """
        marker = ValueBinding(encode(Opaque('x')))
        return but(reply, bindings={'ttft_ms': marker, 'stall_avoided_ms': marker})""",
    "delete the names of tests": "return but(reply, deleted=('math', 'checks', 'random', 'print'))",
    "a signature of repeated names": """
        p = Parameter('x', 1, None)
        return but(reply, bindings={'ttft_ms': FunctionBinding('f', (p, p), None, None)})""",
    "a signature out of order": """
        p, q = Parameter('x', 4, None), Parameter('y', 0, None)
        return but(reply, bindings={'ttft_ms': FunctionBinding('f', (p, q), None, None)})""",
    "a signature that cannot be used": """
        p = Parameter('x', 1, encode(Opaque('x')))
        return but(reply, bindings={'ttft_ms': FunctionBinding('f', (p,), None, None)})""",
    "a name with a zero": """
        return but(reply, bindings={'ttft_ms': FunctionBinding('f\\0', (), '\\0', None)})""",
    "defined where nothing is": """
        places = (1, 10**9), (1, -1), (10**18, 1), (request.id, 0)
        return but(reply, bindings={
            f'f{n}': FunctionBinding('f', (), None, place) for n, place in enumerate(places)
        })""",
    "an exception that is none": """
        return but(reply, raised=Raised(ExceptionClass((), 'print'), encode(('x',)), 'x'))""",
    "an exception that is a function of os": """
        kind = ExceptionClass((ClassName('os', 'system'), ClassName('os', 'abort')), 'Exception')
        return but(reply, raised=Raised(kind, encode(('true',)), 'x'))""",
    "an exception that is the grader's": """
        name = ClassName('autograder.learner_side', 'LearnerLost')
        kind = ExceptionClass((name,), 'BaseException')
        return but(reply, raised=Raised(kind, encode(('x',)), 'x'))""",
    "an exception that is no class's": """
        kind = ExceptionClass((ClassName('__main__', 'a\\0b'), ClassName('', '')), 'bool')
        return but(reply, raised=Raised(kind, None, ''))""",
    "an exception of all bases": """
        kinds = tuple(ClassName('x', f'E{n}') for n in range(30))
        kind = ExceptionClass(kinds, 'OSError')
        return but(reply, raised=Raised(kind, encode((2, 'x')), 'x'))""",
    "args that are no tuple": """
        return but(reply, raised=Raised(ExceptionClass((), 'ValueError'), encode(1), 'x'))""",
    "text beyond its limit": "return but(reply, stdout='x' * (5 * 2**20))",
    "a field too many": """
        body = msgspec.msgpack.encode([*msgspec.to_builtins(reply), 1])
        connection.sendall(struct.pack('!I', len(body)) + body)""",
}

# --- What is handed in beside the answers ---------------------------------------------------------


def tests_edited(notebook: NotebookNode) -> None:
    cell(notebook, "ttft-sum").source = "2"
    cell(notebook, "report").source = "pass"


def skipping_tags(notebook: NotebookNode) -> None:
    for each in notebook.cells:
        each.metadata.tags = ["skip-execution", "explore", "nbval-skip", "raises-exception"]


def settings_of_ones_own(notebook: NotebookNode) -> None:
    for each in notebook.cells:
        if "nbgrader" in each.metadata:
            each.metadata.nbgrader |= {
                "points": 100,
                "grade": False,
                "locked": False,
                "cell_type": "markdown",
                "checksum": "0" * 32,
            }


def the_graders_own_records(notebook: NotebookNode) -> None:
    record = {"reason": "passed", "failed": "", "submitted_outputs": [], "fingerprint": "x"}
    notebook.metadata["autograder"] = notebook.metadata["feedback"] = record
    for each in notebook.cells:
        each.metadata["autograder"] = each.metadata["feedback"] = record
        each.metadata["nbgrader"] = {**each.metadata.get("nbgrader", {}), "score": 100}


def outputs_that_claim_points(notebook: NotebookNode) -> None:
    shown = nbformat.v4.new_output("execute_result", {"text/plain": "2.0"}, execution_count=1)
    for name in ("ttft-sum", "report", "ttft"):
        cell(notebook, name).outputs = [shown]
        cell(notebook, name).execution_count = 1


def test_cells_of_ones_own(notebook: NotebookNode) -> None:
    for grade_id in ("ttft-sum", "report", "free-points"):
        added = nbformat.v4.new_code_cell("assert True")
        added.metadata.nbgrader = {
            "grade": True,
            "grade_id": grade_id,
            "locked": True,
            "points": 50,
            "schema_version": 3,
            "solution": False,
            "task": False,
        }
        notebook.cells.insert(0, added)


def a_function_after_its_test(notebook: NotebookNode) -> None:
    right = WRONG_TTFT.replace("return ", "return queue_ms + ")
    at = position(notebook, "ttft-sum")
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell(f"{right}\nimport os; os._exit(0)"))


def a_kernel_of_ones_own(notebook: NotebookNode) -> None:
    notebook.metadata.kernelspec = {
        "name": "../../evil",
        "display_name": "",
        "language": "python",
        "argv": ["/bin/true"],
        "env": {"PYTHONSTARTUP": "evil.py"},
    }
    notebook.metadata["jupytext"] = {"text_representation": "!!python/object/apply:os.system [x]"}


def marks_of_nbgrader_in_answers(notebook: NotebookNode) -> None:
    ttft = cell(notebook, "ttft")
    ttft.source = (
        "### BEGIN HIDDEN TESTS\n### BEGIN SOLUTION\n### BEGIN MARK SCHEME\n"
        f"{ttft.source}\n### END SOLUTION"
    )
    cell(notebook, "when-to-split").source = "### BEGIN HIDDEN TESTS\n=== BEGIN MARK SCHEME ==="


HAND_IN: Final[tuple[Callable[[NotebookNode], None], ...]] = (
    tests_edited,
    skipping_tags,
    settings_of_ones_own,
    the_graders_own_records,
    outputs_that_claim_points,
    test_cells_of_ones_own,
    a_function_after_its_test,
    a_kernel_of_ones_own,
    marks_of_nbgrader_in_answers,
)

_EVIL: Final = b"import os\nos._exit(0)\n"
FILES: Final[Mapping[str, Mapping[str, bytes]]] = {
    "modules that tests import": {
        f"{name}.py": _EVIL for name in ("math", "random", "numpy", "pytest", "unittest", "course")
    },
    "packages of the grader's": {
        f"{name}/__init__.py": _EVIL for name in ("autograder", "course", "nbgrader", "IPython")
    },
    "what Python runs by itself": {
        "sitecustomize.py": _EVIL,
        "usercustomize.py": _EVIL,
        "x.pth": b"import os; os._exit(0)",
        "__main__.py": _EVIL,
        "pyvenv.cfg": b"home = /tmp",
    },
    "what tools read": {
        "conftest.py": _EVIL,
        "nbgrader_config.py": _EVIL,
        "ipython_config.py": _EVIL,
        ".ipython/profile_default/startup/00.py": _EVIL,
        "matplotlibrc": b"backend: module://evil",
        "pytest.ini": b"[pytest]\naddopts = --co",
    },
    "a folder in place of a module": {"course.py/x": b"", "math/__init__.py/y": b""},
}


TAKE_MORE_DOWN: Final = frozenset(
    {
        "patch what asserts",
        "patch the shell",
        "answer for the shell",
        "build classes",
        "replace what encodes",
        "change small integers",
        "lie: answer before the question",
        "lie: bind builtins as a whole",
        "lie: bind a flood of names",
    }
)
"""Attacks that cost the attacker more than the question that they are about."""


# --- Small assignments whose tests invite an attack -----------------------------------------------


@dataclass(frozen=True)
class Small:
    """An assignment of a few cells, and an attacker's answers to it.

    Args:
        name: what the attacker does.
        cells: the source, with right answers. Test cells come with the points that they give.
        answers: the attacker's, by grade id.
        loses: test cells that must not give points.
        first: a cell that the attacker puts before all others, or "".
    """

    name: str
    cells: Sequence[NotebookNode]
    answers: Mapping[str, str]
    loses: frozenset[str] = field(default_factory=lambda: frozenset({"square-check"}))
    first: str = ""


RIGHT: Final = solution("square", "def square(x):\n    return x * x")
OTHER: Final = (
    solution("half", "def half(x):\n    return x / 2"),
    check("half-check", "assert half(3) == 1.5"),
)
"""A question that has nothing to do with the attack, and comes after it."""


def _wrapped(name: str, how: str) -> Small:
    test = """
        for number in (-1, -2):
            try:
                square(number)
            except BaseException:
                pass
            else:
                raise AssertionError("Negative numbers are refused.")
        """
    right = solution("square", "def square(x):\n    if x < 0:\n        raise ValueError")
    wrong = f"import os, signal, time\ndef square(x):\n    {how}"
    cells = (right, check("square-check", test), *OTHER)
    return Small(f"{name} where the test catches everything", cells, {"square": wrong})


def _steered(name: str, cells: Sequence[NotebookNode], attack: str) -> Small:
    return Small(name, (*cells, *OTHER), {"square": attack})


_NAMES: Final = "isclose = lambda *a, **k: True\ndef square(x):\n    return 0"
_USES_ISCLOSE: Final = (RIGHT, check("square-check", "assert isclose(square(3), 9)"))

SMALL: Final = (
    _wrapped("die", "os._exit(0)"),
    _wrapped("be killed", "os.kill(os.getpid(), signal.SIGKILL)"),
    _wrapped("hang", "time.sleep(1000)"),
    _wrapped("answer too much", "return 'x' * 2**27"),
    _wrapped("break the rules", "os.write(3, b'x' * 1000)\n    os.closerange(3, 99)"),
    Small(
        "return an opaque value where a TypeError is expected",
        (
            RIGHT,
            check(
                "square-check",
                """
                try:
                    square("3") + 1
                except TypeError:
                    pass
                except Exception:
                    pass
                """,
            ),
            *OTHER,
        ),
        {"square": "def square(x):\n    return object()"},
    ),
    Small(
        "return an opaque value where equality is asked in a try",
        (
            RIGHT,
            check(
                "square-check",
                "try:\n    wrong = square(3) != 9\nexcept Exception: wrong = 0\nassert not wrong",
            ),
            *OTHER,
        ),
        {"square": "def square(x):\n    return square"},
    ),
    _steered(
        "take a name that the source imports with a star",
        (locked("setup", "from math import *"), *_USES_ISCLOSE),
        _NAMES,
    ),
    _steered(
        "take a name that the source binds in a cell magic",
        (locked("setup", "%%capture\nfrom math import isclose"), *_USES_ISCLOSE),
        _NAMES,
    ),
    _steered(
        "take a name that the source binds by hand",
        (locked("setup", "import math\nglobals().update(isclose=math.isclose)"), *_USES_ISCLOSE),
        _NAMES,
    ),
    _steered(
        "take a name that a test binds with a star",
        (
            RIGHT,
            check("square-check", "from math import *\nassert isclose(square(3), 9)"),
        ),
        _NAMES,
    ),
    _steered(
        "take a name of the shell's in a test with a magic",
        (RIGHT, check("square-check", "%matplotlib inline\nassert square(3) == 9")),
        "get_ipython = lambda *a: None\ndef square(x):\n    return 0",
    ),
    _steered(
        "take a name that only the hidden test binds",
        (
            RIGHT,
            check(
                "square-check",
                "expected = {2: 4, 3: 9}\nfor x in expected:\n    assert square(x) == expected[x]",
            ),
        ),
        "expected = {}\ndef square(x):\n    globals().update(expected={}, x=0)\n    return 0",
    ),
    _steered(
        "stop the loop of a test",
        (
            RIGHT,
            check(
                "square-check",
                "for got, wanted in zip(map(square, [2, 3]), [4, 9]):\n    assert got == wanted",
            ),
        ),
        "def square(x):\n    raise StopIteration",
    ),
    _steered(
        "stop the generator of a test",
        (RIGHT, check("square-check", "assert all(square(x) == x * x for x in (2, 3))")),
        "def square(x):\n    raise StopIteration",
    ),
    _steered(
        "change the random numbers of a test",
        (
            RIGHT,
            check(
                "square-check",
                """
                import random
                for _ in range(20):
                    square(0)
                    x = random.randrange(1000)
                    assert square(x) == x * x
                """,
            ),
        ),
        "import random\ndef square(x):\n"
        "    random.setstate((3, (0,) * 624 + (624,), None))\n    return 0",
    ),
    _steered(
        "seed the random numbers of a test anew",
        (
            RIGHT,
            check(
                "square-check",
                """
                import random
                random.seed(7)
                for _ in range(20):
                    square(0)
                    x = random.randrange(1000)
                    assert square(x) == x * x
                """,
            ),
        ),
        "import random\ndef square(x):\n"
        "    random.setstate((3, (0,) * 624 + (624,), None))\n    return 0",
    ),
    Small(
        "change the data of a later test",
        (
            locked("setup", "data = [2, 3]"),
            RIGHT,
            solution("total", "def total(numbers):\n    return sum(numbers)"),
            check("total-check", "assert total(data) == 5"),
            check("square-check", "for x in data:\n    assert square(x) == x * x"),
        ),
        {
            "square": "def square(x):\n    return 0",
            "total": "def total(numbers):\n    numbers.clear()\n    return 5",
        },
    ),
    _steered(
        "send a test round in a circle",
        (
            solution("square", "def square(x):\n    return None"),
            check("square-check", "node = square(3)\nwhile node:\n    node = node['next']"),
        ),
        "def square(x):\n    node = {}\n    node['next'] = node\n    return node",
    ),
    _steered(
        "let a test count for ever",
        (RIGHT, check("square-check", "for _ in range(square(9)):\n    pass")),
        "def square(x):\n    return 10**18",
    ),
    _steered(
        "let a test fill the memory",
        (RIGHT, check("square-check", "text = 'x' * square(9)\nassert len(text) == 81")),
        "def square(x):\n    return 10**13",
    ),
    _steered(
        "let a message be searched for long",
        (
            RIGHT,
            check(
                "square-check",
                """
                a = b = c = square(3)
                assert a == 9, f"{a}, {b}, {c}, {a}, {b}: wrong"
                """,
            ),
        ),
        "def square(x):\n    raise AssertionError(', ' * 50_000)",
    ),
    _steered(
        "show another function's text",
        (
            RIGHT,
            check(
                "square-check",
                """
                import inspect
                assert "Secret" not in inspect.getsource(square)
                assert square(3) == 9
                """,
            ),
        ),
        "def square(x):\n    return 0\nsquare.__code__ = square.__code__.replace("
        "co_filename='Cell In[1]', co_firstlineno=1)",
    ),
    _steered(
        "lie about a signature",
        (
            RIGHT,
            check(
                "square-check",
                """
                import inspect
                assert list(inspect.signature(square).parameters) == ["x"]
                assert square(x=3) == 9
                """,
            ),
        ),
        "import inspect\ndef square(*args, **kwargs):\n    return 0\n"
        "square.__signature__ = inspect.signature(lambda x: 9)",
    ),
    _steered(
        "pose as a trusted exception",
        (
            locked("errors", "class Refused(Exception):\n    pass"),
            solution("square", "def square(x):\n    raise Refused(x)"),
            check(
                "square-check",
                """
                try:
                    square(3)
                except Refused as error:
                    assert type(error) is Refused and error.args == (3,)
                """,
            ),
        ),
        "class Refused(Exception):\n    __eq__ = lambda *a: True\n"
        "def square(x):\n    raise Refused(9)",
    ),
    Small(
        "bring the tests' own checker down",
        (
            locked("helper", "def verdict(got, wanted):\n    return got == wanted"),
            RIGHT,
            check("square-check", "assert verdict(square(3), 9)"),
            *OTHER,
        ),
        {
            "square": "def square(x):\n    return 0",
            "half": "def half(x):\n    return x / 2\ndef verdict(*a):\n    return True",
        },
        first="verdict = lambda *a: True",
    ),
    Small(
        "answer a display for a regression cell",
        (
            RIGHT,
            check("square-check", "display(square(3))\nassert square(4) == 16"),
            *OTHER,
        ),
        {"square": "def square(x):\n    return 0"},
        first="def display(*a):\n    print(9)",
    ),
)


# --- Telling what the hidden tests gave -----------------------------------------------------------


@dataclass(frozen=True)
class Tell:
    """A way to tell what a function was given.

    Args:
        name: what it does.
        body: of the attacker's function of `x`.
        last: cells at the end of the notebook.
    """

    name: str
    body: str
    last: Sequence[str] = ()


SEEN: Final = "seen = globals().setdefault('seen', [])"

TELL: Final = (
    Tell("print it", "print(x, repr(x))"),
    Tell("print it as an error", "import sys; print(x, file=sys.stderr)"),
    Tell("return it", "return f'{x}'"),
    Tell("return a class of its name", "return type(f'C{x}', (), {})()"),
    Tell("raise it", "raise ValueError(x)"),
    Tell("raise it as an author would", "raise AssertionError(f'{x}')"),
    Tell("raise it within an author's words", "raise AssertionError(f'{x} is wrong for {x}.')"),
    Tell(
        "raise it as a check would",
        "from course.learner import CheckFailed; raise CheckFailed(f'{x}')",
    ),
    Tell("raise a class of its name", "raise type(f'E{x}', (Exception,), {})"),
    Tell("raise an error of its name", "raise type(f'E{x}', (AssertionError,), {})(x)"),
    Tell("raise it with a note", "e = KeyError()\ne.add_note(f'{x}')\nraise e from ValueError(x)"),
    Tell("raise it in a group", "raise ExceptionGroup(f'{x}', [ValueError(x)])"),
    Tell("warn of it", "import warnings; warnings.warn(f'{x}')"),
    Tell("log it", "import logging; logging.error(x)"),
    Tell("display it", "display({'text/html': f'<b>{x}</b>', 'text/plain': f'{x}'}, raw=True)"),
    Tell("draw it", "import matplotlib.pyplot as plt\nplt.title(f'{x}')\nplt.show()"),
    Tell("document it", "double.__doc__ = triple.__doc__ = double.__name__ = f'{x}'"),
    Tell("name a variable after it", "globals()[f'n{x}'] = 1"),
    Tell(
        "give it to another function as a default",
        "global triple\ndef triple(y=x, *, z=f'{x}'):\n    raise ValueError(y, z)",
    ),
    Tell(
        "keep it for later",
        "seen.append(x)",
        (
            "print(seen)",
            "raise ValueError(seen)",
            "seen",
            "display(seen); get_ipython().set_next_input(str(seen))",
            "raise type(f'E{seen}', (KeyError,), {})",
            "{str(seen)}",
            "print(open('seen').read())",
        ),
    ),
    Tell(
        "keep it in a file for later",
        "open('seen', 'a').write(f'{x}')\nimport os; os._exit(0)",
        ("print(open('seen').read())", "raise ValueError(open('seen').read())"),
    ),
    Tell(
        "print it from a thread later",
        "import threading; threading.Timer(0.05, print, (x,)).start()",
        ("import time; time.sleep(0.2)",),
    ),
    Tell(
        "say that a cell failed with it",
        "seen.append(x)",
        (
            """
            from autograder.learner import process
            from autograder.protocol import CellDone, ExecuteResult, Stream
            def answer(self, request):
                text = str(seen)
                outputs = [Stream('stdout', text), ExecuteResult({'text/plain': text}, 1)]
                return CellDone(request.id, outputs, failed=text[:200])
            process._LearnerProcess.answer = answer
            """,
            "pass",
        ),
    ),
    Tell(
        "change the source's own texts",
        "import linecache\nlinecache.cache.clear()\nIn[:] = [x] * 9",
    ),
)
