from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from autograder import random_state
from autograder.protocol import (
    Call,
    CallDone,
    CellDone,
    Channel,
    ChannelClosed,
    ClassName,
    Error,
    ExceptionBinding,
    ExceptionClass,
    FunctionBinding,
    Reply,
    RunCell,
    Scalar,
    Start,
    ValueBinding,
    ask,
)
from autograder.values import (
    Opaque,
    decode,
    encode,
    encode_with_references,
    opaque_type_name,
    write_back,
)
from tests.warm_shell import WarmShell

WANTED = ("x", "f", "g", "E", "In", "np")
SECONDS = 20


def _pair(done: CallDone, references: Sequence[object] = ()) -> Any:
    """What a call returned, and what it changed."""
    assert isinstance(done.result, bytes)
    return decode(done.result, references)


class Learner:
    """The examiner's side of a conversation with a real learner process."""

    def __init__(self, warm: WarmShell) -> None:
        self.socket = warm.learner()
        self._channel: Channel[Reply] = Channel(self.socket, Reply)
        self._channel.send(Start(5))
        self._id = 0

    def run(self, source: str, report: bool = True) -> CellDone:
        self._id += 1
        return ask(self._channel, RunCell(self._id, source, report, wanted=WANTED), SECONDS)

    def request(self, name: str, *args: object, **others: Any) -> CallDone:
        self._id += 1
        return ask(self._channel, Call(self._id, name, encode((args, {})), **others), SECONDS)

    def call_with_scalars(self, name: str, *args: Scalar) -> CallDone:
        self._id += 1
        return ask(self._channel, Call(self._id, name, args), SECONDS)

    def call(self, name: str, *args: object, **kwargs: object) -> Any:
        """Call as the examiner does: arguments are changed as the function changes them."""
        self._id += 1
        arguments, references = encode_with_references((args, kwargs))
        done = ask(self._channel, Call(self._id, name, arguments), SECONDS)
        assert done.raised is None
        value, changed = _pair(done, references)
        write_back(references, changed)
        return value


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmShell]:
    warm = WarmShell()
    yield warm
    warm.close()


@pytest.fixture
def learner(warm: WarmShell) -> Iterator[Learner]:
    learner = Learner(warm)
    yield learner
    learner.socket.close()


def test_a_cell_reports_its_outputs_and_its_names(learner: Learner) -> None:
    done = learner.run("x = [1, 2]\nprint('hello')\nunwanted = 3")
    assert [output.text for output in done.outputs] == ["hello\n"]  # type: ignore[union-attr]
    assert done.failed == ""
    assert done.bindings == {"x": ValueBinding(encode([1, 2]))}


def test_only_names_that_changed_are_reported(learner: Learner) -> None:
    learner.run("x = [1]\ndef f(): x.append(2)")
    assert learner.run("y = 1").bindings == {}
    assert learner.request("f").bindings == {"x": ValueBinding(encode([1, 2]))}
    assert learner.run("del x").deleted == ("x",)


def test_what_was_not_reported_comes_with_the_next_report(learner: Learner) -> None:
    assert learner.run("x = 1", report=False).bindings == {}
    assert set(learner.run("y = 1").bindings) == {"x"}


def test_ipythons_names_and_modules_are_not_reported(learner: Learner) -> None:
    assert learner.run("import numpy as np\nIn").bindings == {}


def test_a_failed_cell_names_the_nearest_builtin_exception(learner: Learner) -> None:
    done = learner.run("class Mine(KeyError): pass\nx = 1\nraise Mine('no')")
    assert done.failed == "KeyError"
    assert isinstance(done.outputs[-1], Error)
    assert done.outputs[-1].ename == "Mine"
    assert set(done.bindings) == {"x"}


@pytest.mark.parametrize("source", ["import sys; sys.exit(0)", "raise KeyboardInterrupt", "("])
def test_the_process_survives_what_a_cell_raises(learner: Learner, source: str) -> None:
    assert learner.run(source).failed
    assert learner.run("x = 1").failed == ""


def test_a_function_is_described(learner: Learner) -> None:
    learner.run("import numpy")
    source = '\ndef f(a, /, b=[1], *rest, c: int, d=print, **others):\n    "Adds."'
    binding = learner.run(source).bindings["f"]
    assert isinstance(binding, FunctionBinding)
    assert (binding.name, binding.doc, binding.defined) == ("f", "Adds.", (2, 2))
    assert binding.parameters is not None
    names = [(p.name, inspect._ParameterKind(p.kind).name) for p in binding.parameters]
    assert names == [
        ("a", "POSITIONAL_ONLY"),
        ("b", "POSITIONAL_OR_KEYWORD"),
        ("rest", "VAR_POSITIONAL"),
        ("c", "KEYWORD_ONLY"),
        ("d", "KEYWORD_ONLY"),
        ("others", "VAR_KEYWORD"),
    ]
    defaults = [p.default for p in binding.parameters]
    assert [default is None for default in defaults] == [True, False, True, True, False, True]
    assert defaults[1] == encode([1])
    assert isinstance(decode(defaults[4] or b""), Opaque)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("f = abs", "abs"),
        ("import functools\nf = functools.partial(pow, 2)", "partial"),
        ("f = lambda: 1", "<lambda>"),
        ("class Adder:\n    def __call__(self, a): return a\nf = Adder()", "Adder"),
        ("class f: pass", "f"),
        ("def f(): pass\nf.__name__ = '\\ud800'", "\\ud800"),
    ],
)
def test_whatever_can_be_called_is_a_function(learner: Learner, source: str, name: str) -> None:
    binding = learner.run(source).bindings["f"]
    assert isinstance(binding, FunctionBinding)
    assert binding.name == name


def test_an_exception_class_is_described_by_its_lineage(learner: Learner) -> None:
    source = "import json\nclass Base(json.JSONDecodeError): pass\nclass E(Base): pass"
    assert learner.run(source).bindings["E"] == ExceptionBinding(
        ExceptionClass(
            (
                ClassName("__main__", "E"),
                ClassName("__main__", "Base"),
                ClassName("json.decoder", "JSONDecodeError"),
            ),
            "ValueError",
        )
    )


def test_a_call_returns_a_value(learner: Learner) -> None:
    learner.run("def f(a, *, b): return {'sum': a + b}")
    assert learner.call("f", 1, b=2.5) == {"sum": 3.5}


def test_what_a_call_prints_comes_with_the_answer(learner: Learner) -> None:
    learner.run("import sys\ndef f():\n    print('out')\n    print('err', file=sys.stderr)")
    done = learner.request("f")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_a_call_that_prints_without_end_is_cut(learner: Learner) -> None:
    learner.run("def f():\n    for _ in range(300_000): print('é' * 80)")
    assert 2**19 < len(learner.request("f").stdout) < 2**22


def test_arguments_are_changed_in_place(learner: Learner) -> None:
    learner.run(
        "def f(items, table, some, array, same):\n"
        "    items.sort(); items[0].append(9)\n"
        "    table['new'] = items; del table['old']\n"
        "    some.add(4); array[1] = 7"
    )
    inner, same, text = [1], [5], "kept"
    items, table, some = [[3], inner], {"old": 1, "more": text}, {1}
    array = np.zeros(4)
    learner.call("f", items, table, some, array[::2], same)
    assert items == [[1, 9], [3]]
    assert items[0] is inner
    assert inner == [1, 9]
    assert table == {"more": "kept", "new": items}
    assert table["new"] is items
    assert some == {1, 4}
    assert array.tolist() == [0, 0, 7, 0]
    assert same == [5]


def test_an_argument_that_is_returned_is_the_callers_own(learner: Learner) -> None:
    learner.run("def f(a): return a\ndef g(a): return list(a)")
    mine: list[object] = [1]
    mine.append(mine)
    assert learner.call("f", mine) is mine
    assert learner.call("g", mine) is not mine
    stranger = object()
    assert learner.call("f", [stranger])[0] is stranger


@pytest.mark.parametrize(
    ("body", "lineage", "builtin", "args"),
    [
        ("raise ValueError('no', 3)", (), "ValueError", ("no", 3)),
        ("return {}['k']", (), "KeyError", ("k",)),
        ("import sys; sys.exit(2)", (), "SystemExit", (2,)),
        ("raise KeyboardInterrupt", (), "KeyboardInterrupt", ()),
        ("raise E(1)", (ClassName("__main__", "E"),), "OSError", (1,)),
    ],
)
def test_an_exception_comes_as_class_and_arguments(
    learner: Learner, body: str, lineage: tuple[ClassName, ...], builtin: str, args: object
) -> None:
    learner.run(f"class E(OSError): pass\ndef f():\n    {body}")
    raised = learner.request("f").raised
    assert raised is not None
    assert raised.exception == ExceptionClass(lineage, builtin)
    assert raised.args is not None
    assert decode(raised.args) == args


def test_a_deleted_function_is_gone_for_others_but_not_for_who_holds_it(learner: Learner) -> None:
    learner.run("def f(): return 1\ndef g(): return f()")
    raised = learner.request("g", deleted=("f",)).raised
    assert raised is not None
    assert raised.exception.builtin == "NameError"
    assert learner.call("f") == 1


@pytest.mark.parametrize("change", [{"deleted": ("f",)}, {"assigned": {"f": encode(3)}}])
def test_a_name_that_is_given_back_is_the_learners_own_again(
    learner: Learner, change: dict[str, Any]
) -> None:
    learner.run("def f(): return 1\ndef g(): return f()")
    assert learner.request("g", **change).raised is not None
    assert _pair(learner.request("g", restored=("f",)))[0] == 1


def test_calling_what_never_was_is_a_name_error(learner: Learner) -> None:
    raised = learner.request("f").raised
    assert raised is not None
    assert raised.text == "name 'f' is not defined"


def test_names_that_a_test_binds_are_bound_and_not_echoed(learner: Learner) -> None:
    learner.run("x = 1\ndef f(): return x")
    done = learner.request("f", assigned={"x": encode([7])})
    assert _pair(done)[0] == [7]
    assert done.bindings == {}


def test_scalars_cross_as_they_are(learner: Learner) -> None:
    learner.run("def f(*args): return args[-1]")
    for value in (None, True, 1, -(2**63), 1.5, "text"):
        result = learner.call_with_scalars("f", 0, value).result
        assert isinstance(result, tuple)
        assert repr(result[0]) == repr(value)


@pytest.mark.parametrize(
    "value", ["2**63", "'\\ud800'", "[1]", "b'1'", "__import__('numpy').float64(1)"]
)
def test_what_is_no_scalar_comes_back_in_a_table(learner: Learner, value: str) -> None:
    learner.run(f"def f(): return {value}")
    assert _pair(learner.call_with_scalars("f")) == (eval(value), {})


def test_what_cannot_cross_is_marked_with_its_type(learner: Learner) -> None:
    learner.run("def f(): yield 1\ndef g(): return list(range(2_000_000))")
    assert opaque_type_name(learner.call("f")) == "generator"
    assert "list that is too large" in opaque_type_name(learner.call("g"))


def test_an_argument_made_too_large_ends_the_process(learner: Learner) -> None:
    learner.run("def f(a): a.extend(range(2_000_000))")
    with pytest.raises(ChannelClosed):
        learner.request("f", [1])


def test_a_function_draws_from_where_the_test_has_seeded(learner: Learner) -> None:
    learner.run("import random, numpy\ndef f(): return random.random(), numpy.random.rand()")
    random_state.seed(3)
    state = random_state.capture()
    done = learner.request("f", random_state=state)
    drawn, _ = _pair(done)
    import random

    assert drawn == (random.random(), np.random.rand())


def test_the_seed_is_the_examiners(learner: Learner) -> None:
    learner.run("import random, numpy\ndef f(): return random.random(), numpy.random.rand()")
    random_state.seed(5)
    import random

    assert learner.call("f") == (random.random(), np.random.rand())


def test_the_process_ends_when_the_examiner_hangs_up(learner: Learner) -> None:
    pid = learner.run("import os\nx = os.getpid()").bindings["x"]
    assert isinstance(pid, ValueBinding)
    learner.socket.close()
    deadline = time.monotonic() + SECONDS
    while os.path.exists(f"/proc/{decode(pid.data)}"):  # noqa: PTH110
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"])
def test_death_in_a_call_is_seen(learner: Learner, end: str) -> None:
    learner.run(f"def f():\n    {end}")
    with pytest.raises(ChannelClosed):
        learner.request("f")


def test_at_exit_handlers_do_not_run(learner: Learner) -> None:
    done = learner.run(
        "import atexit, os, tempfile\nx = tempfile.mkdtemp()\n"
        "_ = atexit.register(lambda: os.rmdir(x))"
    )
    binding = done.bindings["x"]
    assert isinstance(binding, ValueBinding)
    learner.socket.shutdown(2)
    time.sleep(0.2)
    os.rmdir(decode(binding.data))  # noqa: PTH106


def test_a_call_across_takes_a_fraction_of_a_millisecond(learner: Learner) -> None:
    learner.run("def f(a, b): return a + b")
    start = time.perf_counter()
    for _ in range(200):
        learner.call("f", 1.0, 2.0)
    # Measured 0.1 ms; a loaded machine is slower.
    assert (time.perf_counter() - start) / 200 < 0.002
