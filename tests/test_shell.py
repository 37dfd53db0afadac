from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import nbformat
import pytest

from autograder.shell import OUTPUT_LIMIT, Shell
from tests.warm_shell import WarmShell


class Ran(NamedTuple):
    """A cell's outcome as far as it can be pickled."""

    outputs: list[dict[str, Any]]
    error: str
    value: str
    number: int | None

    @property
    def printed(self) -> str:
        return "".join(output["text"] for output in self.outputs if "text" in output)

    @property
    def traceback(self) -> str:
        return "\n".join(self.outputs[-1]["traceback"])


def _run(shell: Shell, *sources: str) -> Ran:
    """The outcome of the last of some cells."""
    for source in sources:
        outcome = shell.run(source)
    error = type(outcome.error).__name__ if outcome.error is not None else ""
    return Ran(outcome.outputs, error, repr(outcome.value), outcome.execution_count)


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmShell]:
    warm = WarmShell()
    yield warm
    warm.close()


def test_the_last_line_is_the_result_and_the_value(warm: WarmShell) -> None:
    ran = warm.run(_run, "x = 20", "x + 1")
    assert ran.value == "21"
    assert ran.outputs == [
        {
            "output_type": "execute_result",
            "data": {"text/plain": "21"},
            "metadata": {},
            "execution_count": 2,
        }
    ]


def test_a_semicolon_silences_the_last_line(warm: WarmShell) -> None:
    assert warm.run(_run, "5;") == ([], "", "None", 1)


def test_an_empty_cell_has_no_number(warm: WarmShell) -> None:
    assert warm.run(_run, " ").number is None


def test_printed_text_is_joined_per_stream_in_its_order(warm: WarmShell) -> None:
    ran = warm.run(_run, "import sys\nprint(1)\nprint(2)\nprint(3, file=sys.stderr)\nprint(4)")
    assert [(output["name"], output["text"]) for output in ran.outputs] == [
        ("stdout", "1\n2\n"),
        ("stderr", "3\n"),
        ("stdout", "4\n"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "print('x' * 200_000_000)",
        "for _ in range(300_000): print('x' * 80)",
        "import sys\nfor _ in range(50_000): print(1); print(2, file=sys.stderr)",
        "for _ in range(200): display({'text/plain': 'x' * 100_000}, raw=True)",
    ],
)
def test_a_flood_of_output_is_cut_with_a_note(warm: WarmShell, source: str) -> None:
    ran = warm.run(_run, source)
    assert len(repr(ran.outputs)) < 2 * OUTPUT_LIMIT
    assert ran.outputs[-1]["text"] == "\n[output cut: more than 2048 kB]\n"


def test_an_error_after_a_flood_is_still_shown(warm: WarmShell) -> None:
    ran = warm.run(_run, "print('x' * 10_000_000)\n1 / 0")
    assert ran.outputs[-1]["ename"] == "ZeroDivisionError"


def test_a_traceback_is_the_users_own_frames(warm: WarmShell) -> None:
    ran = warm.run(_run, "def half(n):\n    return n / 0", "half(1)")
    assert ran.error == "ZeroDivisionError"
    assert 'File "Cell In[2]", line 1, in <module>' in ran.traceback
    assert 'File "Cell In[1]", line 2, in half\n    return n / 0' in ran.traceback
    assert "IPython" not in ran.traceback


def test_an_exception_may_render_its_own_traceback(warm: WarmShell) -> None:
    source = """
class Hint(Exception):
    def _render_traceback_(self):
        return ["try again"]
raise Hint
"""
    assert warm.run(_run, source).outputs[-1]["traceback"] == ["try again"]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import sys; sys.exit(3)", "SystemExit"),
        ("exit()", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("(", "SyntaxError"),
        ("return 1", "SyntaxError"),
        ("  x = 1\n y = 2", "IndentationError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("raise ExceptionGroup('several', [ValueError(1)])", "ExceptionGroup"),
        ("%no_such_magic", "UsageError"),
        ("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "E"),
        ("class E(Exception):\n    def _render_traceback_(self): 1 / 0\nraise E", "E"),
        ("e = Exception('\\ud800é')\nraise e", "Exception"),
    ],
)
def test_whatever_a_cell_raises_is_its_own_error_and_the_next_one_runs(
    warm: WarmShell, source: str, error: str
) -> None:
    ran = warm.run(_run, source)
    assert ran.error == error
    assert [o["ename"] for o in ran.outputs if o["output_type"] == "error"] == [error]
    assert warm.run(_run, source, "1 + 1").value == "2"


def test_a_deep_traceback_is_short(warm: WarmShell) -> None:
    source = "def f(n): return g(n + 1)\ndef g(n): return f(n)\nf(0)"
    assert len(warm.run(_run, source).outputs[-1]["traceback"]) < 60


@pytest.mark.parametrize("source", ["input('name?')", "import getpass; getpass.getpass()"])
def test_asking_for_input_fails_at_once(warm: WarmShell, source: str) -> None:
    ran = warm.run(_run, source)
    assert ran.error == "StdinNotImplementedError"
    assert ran.outputs[-1]["evalue"] == "input() is not available while grading."


def test_a_breakpoint_fails_at_once(warm: WarmShell) -> None:
    assert warm.run(_run, "breakpoint()").error == "StdinNotImplementedError"


@pytest.mark.parametrize(
    "source", ["!ls", "files = !ls", "%%bash\nls", "%%script python\n1", "%pip list", "%sx ls"]
)
def test_starting_a_program_fails_in_one_line(warm: WarmShell, source: str) -> None:
    ran = warm.run(_run, source)
    assert ran.traceback.startswith("UsageError: Other programs (!command")
    assert "\n" not in ran.traceback


def test_magics_that_need_no_program_work(warm: WarmShell) -> None:
    assert "per loop" in warm.run(_run, "%timeit -n1 -r1 pass").printed


def test_top_level_await_works(warm: WarmShell) -> None:
    assert warm.run(_run, "import asyncio\nawait asyncio.sleep(0.001, 'slept')").value == "'slept'"


@pytest.mark.parametrize(
    "source",
    [
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    ],
)
def test_a_figure_is_shown_once_as_a_picture(warm: WarmShell, source: str) -> None:
    outputs = warm.run(_run, source).outputs
    assert [output["output_type"] for output in outputs] == ["display_data"]
    assert outputs[0]["data"]["image/png"].startswith("iVBOR")


def test_a_display_can_be_updated(warm: WarmShell) -> None:
    ran = warm.run(_run, "h = display(1, display_id=True)\ndisplay(5)\nh.update(2)")
    assert [output["data"]["text/plain"] for output in ran.outputs] == ["2", "5"]


def test_outputs_can_be_cleared(warm: WarmShell) -> None:
    source = "from IPython.display import clear_output\nprint(1)\nclear_output(wait={})\n{}"
    assert warm.run(_run, source.format(True, "print(2)")).printed == "2\n"
    assert warm.run(_run, source.format(True, "")).printed == "1\n"
    assert warm.run(_run, source.format(False, "")).printed == ""


def test_outputs_can_be_saved_in_a_notebook(warm: WarmShell) -> None:
    source = "import sys\nprint('\\ud800')\nprint(1, file=sys.stderr)\ndisplay([1])\n%time 1\n{}"
    for last in ("'\\ud800'", "raise ValueError('\\ud800')"):
        outputs = warm.run(_run, source.format(last)).outputs
        cell = nbformat.from_dict(nbformat.v4.new_code_cell(outputs=outputs))
        notebook = nbformat.v4.new_notebook(cells=[cell])
        nbformat.validate(notebook)
        assert nbformat.writes(notebook).encode()


def test_names_and_sources_are_as_in_a_notebook(warm: WarmShell) -> None:
    sources = ("class C: pass\ndef f():\n    pass", "import inspect\ninspect.getsource(f), str(C)")
    assert warm.run(_run, *sources).value == repr(("def f():\n    pass\n", "<class '__main__.C'>"))


def test_the_last_values_are_remembered(warm: WarmShell) -> None:
    assert warm.run(_run, "6", "7", "_, __, Out[1]").value == "(7, 6, 6)"


def test_a_stream_kept_from_one_cell_prints_in_the_next(warm: WarmShell) -> None:
    assert warm.run(_run, "import sys\nkept = sys.stdout", "print(8, file=kept)").printed == "8\n"


def test_numbering_starts_at_one(warm: WarmShell) -> None:
    assert warm.run(_run, "x = 1").number == 1


def test_making_a_shell_opens_no_descriptor_and_starts_no_thread() -> None:
    program = """
import os, matplotlib.pyplot
def held(): return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
before = held()
from autograder.shell import make_shell
make_shell()
assert held() == before, (before, held())
"""
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={"OPENBLAS_NUM_THREADS": "1", "HOME": "/nonexistent", "MPLCONFIGDIR": "/tmp"},
    )
