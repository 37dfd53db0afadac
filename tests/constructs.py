"""Tests as instructors write them, each as a tiny assignment with a right and a wrong learner."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Final

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute
from nbgrader.utils import determine_grade

from autograder.cells import is_test
from autograder.examine import Bench
from autograder.sandbox.room import Room
from autograder.shell import make_shell


def solution(grade_id: str, text: str) -> NotebookNode:
    """Return a solution cell; all its text is the solution."""
    body = f"### BEGIN SOLUTION\n{dedent(text).strip()}\n### END SOLUTION"
    return _cell(grade_id, body, solution=True)


def check(grade_id: str, text: str, points: float = 1) -> NotebookNode:
    """Return a grade cell."""
    return _cell(grade_id, dedent(text).strip(), grade=True, locked=True, points=points)


def locked(grade_id: str, text: str) -> NotebookNode:
    """Return a locked cell that is no test."""
    return _cell(grade_id, dedent(text).strip(), locked=True)


def _cell(grade_id: str, text: str, **roles: object) -> NotebookNode:
    nbgrader = {"grade": False, "solution": False, "locked": False, "task": False, **roles}
    return nbformat.v4.new_code_cell(
        text,
        id=f"cell-{grade_id}",
        metadata={"nbgrader": {"grade_id": grade_id, "schema_version": 3, **nbgrader}},
    )


def notebook_of(cells: Iterable[NotebookNode]) -> NotebookNode:
    """Return a source notebook of these cells."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=list(cells), metadata={"kernelspec": kernel})


def answered(source: NotebookNode, answers: Mapping[str, str]) -> NotebookNode:
    """Return the source notebook as a learner hands it in who differs from it in these answers."""
    notebook = nbformat.from_dict(source)
    for cell in notebook.cells:
        if (name := cell.metadata.get("nbgrader", {}).get("grade_id")) in answers:
            cell.source = dedent(answers[name]).strip()
    return notebook


def stock_points(notebook: NotebookNode, folder: Path) -> dict[str, float]:
    """Return the automatic points that nbgrader gives after running every cell in a kernel."""
    executed, _ = Execute().preprocess(
        nbformat.from_dict(notebook), {"metadata": {"path": str(folder)}}
    )
    return {
        cell.metadata.nbgrader["grade_id"]: determine_grade(cell)[0]
        for cell in executed.cells
        if is_test(cell)
    }


@contextmanager
def open_bench() -> Iterator[Bench]:
    """Make what a worker examines with, in this process."""
    with Room() as room:
        shell = make_shell()
        # The shell's module becomes `__main__`; a spawned process asks for its spec.
        vars(sys.modules["__main__"]).setdefault("__spec__", None)
        yield Bench(room, shell)


@dataclass(frozen=True)
class Construct:
    """A way to write a test, which grades the same in the examination room.

    Args:
        name: what it is.
        cells: the source; names in it are used by no other construct.
        wrong: a wrong learner's answers, by grade id.
        loses: test cells that the wrong learner fails.
    """

    name: str
    cells: tuple[NotebookNode, ...]
    wrong: Mapping[str, str]
    loses: frozenset[str] = field(default_factory=frozenset)


SAME: Final = (
    Construct(
        "a name deleted, so that what should use it raises NameError, and then restored",
        (
            solution("squares", "def squares(n):\n    return [i * i for i in range(1, n + 1)]"),
            solution("total", "def total(n):\n    return sum(squares(n))"),
            check(
                "total-uses-squares",
                """
                orig_squares = squares
                del squares
                try:
                    total(1)
                except NameError:
                    pass
                else:
                    raise AssertionError("total does not use squares")
                finally:
                    squares = orig_squares
                """,
            ),
            check("squares-are-back", "assert squares(3) == [1, 4, 9]\nassert total(3) == 14"),
        ),
        {"total": "def total(n):\n    return n * (n + 1) * (2 * n + 1) // 6"},
        frozenset({"total-uses-squares"}),
    ),
    Construct(
        "a list sorted in place, and another that must stay as it is",
        (
            solution("sort", "def sort_in_place(items):\n    items.sort()"),
            solution("sorted", "def sorted_copy(items):\n    return sorted(items)"),
            check(
                "sorts-in-place",
                "items = [3, 1, 2]\nassert sort_in_place(items) is None\nassert items == [1, 2, 3]",
            ),
            check(
                "leaves-argument",
                """
                items = [3, 1, 2]
                assert sorted(items) == sorted_copy(items)
                assert items == [3, 1, 2], "the argument was changed"
                """,
            ),
        ),
        {
            "sort": "def sort_in_place(items):\n    items = sorted(items)",
            "sorted": "def sorted_copy(items):\n    items.sort()\n    return items",
        },
        frozenset({"sorts-in-place", "leaves-argument"}),
    ),
    Construct(
        "a global counter that calls change and the test reads",
        (
            solution(
                "count",
                "calls = 0\ndef count():\n    global calls\n    calls += 1",
            ),
            check("counts", "before = calls\ncount()\ncount()\nassert calls == before + 2"),
        ),
        {"count": "calls = 0\ndef count():\n    calls = 1"},
        frozenset({"counts"}),
    ),
    Construct(
        "a global of the learner's that the test rebinds before a call",
        (
            solution("rate", "RATE = 2\ndef price(x):\n    return RATE * x"),
            check("uses-rate", "RATE = 5\nassert price(3) == 15"),
        ),
        {"rate": "RATE = 2\ndef price(x):\n    return 2 * x"},
        frozenset({"uses-rate"}),
    ),
    Construct(
        "a locked cell that sets the answer to None before the learner sets it",
        (
            locked("answer-none", "answer = None"),
            solution("answer", "answer = 42"),
            check("answer-check", "assert answer is not None\nassert answer == 42"),
        ),
        {"answer": "pass"},
        frozenset({"answer-check"}),
    ),
    Construct(
        "random draws after the test has seeded the generators",
        (
            locked("imports", "import random\nimport numpy as np"),
            solution(
                "draw",
                """
                def roll():
                    return random.randint(1, 6)
                def noise(n):
                    return np.random.normal(size=n)
                """,
            ),
            check(
                "rolls",
                """
                random.seed(7)
                expected = [random.randint(1, 6) for _ in range(5)]
                random.seed(7)
                assert [roll() for _ in range(5)] == expected
                """,
            ),
            check(
                "noise",
                """
                np.random.seed(7)
                expected = np.random.normal(size=4)
                np.random.seed(7)
                assert np.allclose(noise(4), expected)
                """,
            ),
        ),
        {
            "draw": """
                def roll():
                    return random.choice([6, 5, 4, 3, 2, 1])
                def noise(n):
                    return np.random.uniform(size=n)
                """
        },
        frozenset({"rolls", "noise"}),
    ),
    Construct(
        "printed output that the test captures",
        (
            solution("greet", "def greet(name):\n    print(f'Hello, {name}!')"),
            check(
                "greets",
                """
                import contextlib, io
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    greet("Ada")
                assert printed.getvalue() == "Hello, Ada!\\n"
                """,
            ),
            check(
                "greets-again",
                """
                import io, sys
                screen, sys.stdout = sys.stdout, io.StringIO()
                try:
                    greet("Bo")
                    text = sys.stdout.getvalue()
                finally:
                    sys.stdout = screen
                assert text.strip() == "Hello, Bo!"
                """,
            ),
        ),
        {"greet": "def greet(name):\n    return f'Hello, {name}!'"},
        frozenset({"greets", "greets-again"}),
    ),
    Construct(
        "values of many types",
        (
            solution(
                "values",
                """
                import numpy
                grid = numpy.arange(6.0).reshape(2, 3)
                primes, pair, root, raw = {2, 3, 5}, (1, "a"), 2 + 3j, b"\\x00\\xff"
                big, nothing = 2**70, float("nan")
                nested = {"a": [1, (2, {3})], 4: frozenset({5})}
                def scaled(array, factor):
                    return array * factor
                def any_above(array, limit):
                    return (array > limit).any()
                """,
            ),
            check(
                "array-value",
                """
                import numpy as numpy_here
                assert grid.shape == (2, 3) and grid.dtype == float and grid[1, 2] == 5
                result = scaled(numpy_here.array([1, 2]), 3)
                assert isinstance(result, numpy_here.ndarray) and result.tolist() == [3, 6]
                """,
            ),
            check(
                "plain-values",
                """
                assert primes == {2, 3, 5} and isinstance(primes, set)
                assert pair == (1, "a") and type(pair) is tuple
                assert root * root.conjugate() == 13
                assert raw == bytes([0, 255])
                assert nested == {"a": [1, (2, {3})], 4: frozenset({5})}
                """,
            ),
            check("big-value", "assert big == 2**70 and type(big) is int"),
            check("nan-value", "import math\nassert math.isnan(nothing)"),
            check(
                "numpy-bool",
                """
                import numpy as numpy_here
                assert any_above(numpy_here.array([1, 5]), 3)
                assert any_above(numpy_here.array([1, 5]), 3) == True
                assert not any_above(numpy_here.array([1, 5]), 9)
                """,
            ),
        ),
        {
            "values": """
                grid = [[0.0, 1, 2], [3, 4, 5]]
                primes, pair, root, raw = [2, 3, 5], [1, "a"], 2 - 2j, "\\x00\\xff"
                big, nothing = 2.0**70, None
                nested = {}
                def scaled(array, factor):
                    return array.tolist() * factor
                def any_above(array, limit):
                    return (array > limit).all()
                """
        },
        frozenset({"array-value", "plain-values", "big-value", "nan-value", "numpy-bool"}),
    ),
    Construct(
        "exceptions: the learner's own class, a locked one, KeyError and its args",
        (
            locked("locked-error", "class OutOfStock(Exception):\n    pass"),
            solution(
                "shop",
                """
                class TooYoung(ValueError):
                    pass
                def buy(item, age, stock):
                    if age < 18:
                        raise TooYoung(age)
                    if not stock[item]:
                        raise OutOfStock(item, 0)
                    return stock[item]
                """,
            ),
            check(
                "own-error",
                """
                try:
                    buy("gin", 17, {"gin": 1})
                except TooYoung as error:
                    assert isinstance(error, ValueError) and error.args == (17,)
                else:
                    raise AssertionError("no TooYoung")
                """,
            ),
            check(
                "locked-class",
                """
                try:
                    buy("gin", 18, {"gin": 0})
                except OutOfStock as error:
                    assert error.args == ("gin", 0)
                else:
                    raise AssertionError("no OutOfStock")
                """,
            ),
            check(
                "key-error",
                """
                try:
                    buy("rum", 18, {})
                except KeyError as error:
                    assert error.args[0] == "rum"
                else:
                    raise AssertionError("no KeyError")
                """,
            ),
        ),
        {
            "shop": """
                class TooYoung(Exception):
                    pass
                def buy(item, age, stock):
                    if age < 18:
                        raise TooYoung(age)
                    if not stock.get(item):
                        raise OutOfStock("nothing left")
                    return stock[item]
                """
        },
        frozenset({"own-error", "locked-class", "key-error"}),
    ),
    Construct(
        "a function's signature, defaults, keywords and docstring",
        (
            solution(
                "area",
                'def area(width, height=2, *, unit="m"):\n'
                '    """Return the area as text."""\n'
                '    return f"{width * height} {unit}2"',
            ),
            check(
                "signature",
                """
                import inspect
                parameters = inspect.signature(area).parameters
                assert list(parameters) == ["width", "height", "unit"]
                assert parameters["height"].default == 2
                assert parameters["unit"].kind is inspect.Parameter.KEYWORD_ONLY
                """,
            ),
            check("defaults", 'assert area(3) == "6 m2"\nassert area(3, unit="cm") == "6 cm2"'),
            check("docstring", 'assert "area" in area.__doc__\nassert area.__name__ == "area"'),
        ),
        {"area": 'def area(width, height, unit="m"):\n    return f"{width * height} {unit}2"'},
        frozenset({"signature", "defaults", "docstring"}),
    ),
    Construct(
        "a function's source text",
        (
            solution(
                "fact",
                "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)",
            ),
            check(
                "recursive",
                """
                import inspect
                text = inspect.getsource(fact)
                assert text.count("fact(") == 2 and "for" not in text
                assert fact(5) == 120
                """,
            ),
        ),
        {
            "fact": """
                def fact(n):
                    result = 1
                    for i in range(n):
                        result *= i + 1
                    return result
                """
        },
        frozenset({"recursive"}),
    ),
)
"""Every construct that scores as under stock nbgrader."""


@dataclass(frozen=True)
class Refusal:
    """A way to write a test that a release refuses, or notes.

    Args:
        name: what it is.
        cells: the source, right under stock nbgrader.
        cell: the cell that is to mend.
        line: the line in it.
        says: what the finding must name.
        mend: what the finding must propose.
        refuses: False where it is only noted.
    """

    name: str
    cells: tuple[NotebookNode, ...]
    cell: str
    line: int
    says: str
    mend: str
    refuses: bool = True


def _pair(name: str, answer: str, test: str) -> tuple[NotebookNode, ...]:
    return solution(name, answer), check(f"{name}-check", test)


REFUSED: Final = (
    Refusal(
        "identity of a returned object",
        _pair(
            "copied",
            "def copied(items):\n    return list(items)",
            "a = [1]\nassert copied(a) == a\nassert copied(a) is not a",
        ),
        "copied-check",
        3,
        "`copied(a) is not a` compares identity",
        "`copied(a) == expected`",
    ),
    Refusal(
        "an argument read again once the learner's function has had it",
        _pair(
            "ordered",
            "def ordered(items):\n    return sorted(items)",
            "xs = [3, 1, 2]\nassert ordered(xs) == sorted(xs)",
        ),
        "ordered-check",
        2,
        "reads `xs` after the learner's function had it",
        "before the call",
    ),
    Refusal(
        "an argument read again in a comparison by a function",
        _pair(
            "doubles",
            "def doubles(items):\n    return [2 * item for item in items]",
            """
            import numpy as np
            assert all(
                np.allclose(doubles(ys), 2 * np.array(ys)) for ys in ([3.0, 1.0], [2.0])
            )
            """,
        ),
        "doubles-check",
        3,
        "reads `ys` after the learner's function had it",
        "before the call",
    ),
    Refusal(
        "identity by id()",
        _pair(
            "cloned",
            "def cloned(items):\n    return list(items)",
            "b = [1]\nassert id(cloned(b)) != id(b)",
        ),
        "cloned-check",
        2,
        "compares identity",
        "== expected",
    ),
    Refusal(
        "`is True`, which a numpy.bool_ fails",
        _pair(
            "even",
            "def even(n):\n    return n % 2 == 0",
            "assert even(4) is True",
        ),
        "even-check",
        1,
        "numpy.bool_",
        "`== True`",
        refuses=False,
    ),
    Refusal(
        "a patched builtin",
        _pair(
            "asked",
            'def asked():\n    return int(input("n? ")) + 1',
            """
            from unittest.mock import patch
            with patch("builtins.input", return_value="5"):
                assert asked() == 6
            """,
        ),
        "asked-check",
        2,
        "patch('builtins.input'",
        "as an argument",
    ),
    Refusal(
        "a lambda given to the learner's function",
        _pair(
            "twice",
            "def twice(f, x):\n    return f(f(x))",
            "assert twice(lambda x: x + 1, 3) == 5",
        ),
        "twice-check",
        1,
        "hands a function",
        "pass values",
    ),
    Refusal(
        "a builtin function given to the learner's function",
        _pair(
            "mapped",
            "def mapped(f, items):\n    return [f(item) for item in items]",
            "assert mapped(abs, [-1, 2]) == [1, 2]",
        ),
        "mapped-check",
        1,
        "hands a function",
        "pass values",
    ),
    Refusal(
        "a range given to the learner's function",
        _pair(
            "mean",
            "def mean(items):\n    return sum(items) / len(items)",
            "assert mean(range(5)) == 2",
        ),
        "mean-check",
        1,
        "hands an iterator",
        "`list(...)`",
    ),
    Refusal(
        "a generator",
        _pair(
            "countdown",
            "def countdown(n):\n    while n:\n        yield n\n        n -= 1",
            "assert list(countdown(3)) == [3, 2, 1]",
        ),
        "countdown-check",
        1,
        "a generator",
        "Ask for a list",
    ),
    Refusal(
        "a coroutine",
        _pair(
            "later",
            "async def later(x):\n    return x",
            "assert await later(3) == 3",
        ),
        "later-check",
        1,
        "a coroutine",
        "await it",
    ),
    Refusal(
        "a closure",
        _pair(
            "adder",
            "def adder(n):\n    return lambda x: x + n",
            "add_two = adder(2)\nassert add_two(3) == 5",
        ),
        "adder-check",
        2,
        "calls a function that the learner's code returned",
        "one function that takes all the arguments",
    ),
    Refusal(
        "an instance of the learner's class",
        _pair(
            "stack",
            """
            class Stack:
                def __init__(self):
                    self.items = []
                def push(self, item):
                    self.items.append(item)
            """,
            "s = Stack()\ns.push(1)\nassert s.items == [1]",
        ),
        "stack-check",
        1,
        "`Stack` is a class of the learner's",
        "function that makes and uses the instance",
    ),
    Refusal(
        "isinstance of the learner's class",
        _pair(
            "origin",
            "class Point:\n    x = 0\ndef origin():\n    return Point()",
            "p = origin()\nassert isinstance(p, Point)",
        ),
        "origin-check",
        2,
        "`Point` is a class of the learner's",
        "plain values",
    ),
    Refusal(
        "matplotlib's axes",
        _pair(
            "plot",
            """
            from matplotlib.figure import Figure
            def plot(xs):
                axes = Figure().subplots()
                axes.plot(xs)
                axes.set_title("xs")
                return axes
            """,
            'ax = plot([1, 2])\nassert ax.get_title() == "xs"',
        ),
        "plot-check",
        2,
        "`ax.get_title` does not travel",
        "return plain values",
    ),
    Refusal(
        "a method that only a table has, such as a data frame",
        _pair(
            "table",
            """
            def table():
                class DataFrame(dict):
                    columns = ["a"]
                return DataFrame(a=[1])
            """,
            'frame = table()\nassert list(frame["a"]) == [1]\nassert frame.columns == ["a"]',
        ),
        "table-check",
        3,
        "`frame.columns` does not travel",
        "return plain values",
    ),
    Refusal(
        "a name bound in a test and used by a learner's cell",
        (
            solution("early", "early = 1"),
            check("early-check", "def doubled(x):\n    return 2 * x\nassert early == 1"),
            solution("late", "late = doubled(2)"),
            check("late-check", "assert late == 4"),
        ),
        "early-check",
        1,
        "`doubled` is bound in this test cell",
        "locked cell that is no test",
    ),
    Refusal(
        "a mock in place of the learner's helper",
        (
            solution(
                "step", "def step(x):\n    return x + 1\ndef walk(x):\n    return step(step(x))"
            ),
            check(
                "walk-check",
                """
                from unittest.mock import Mock
                kept_step, step = step, Mock(return_value=0)
                walk(1)
                calls_of_step, step = step.call_count, kept_step
                assert calls_of_step == 2
                """,
            ),
        ),
        "walk-check",
        2,
        "`step` is the learner's",
        "expect a NameError",
    ),
    Refusal(
        "a file that the learner's function writes and the test reads",
        _pair(
            "save",
            'def save(text):\n    with open("out.txt", "w") as file:\n        file.write(text)',
            'save("x")\nassert open("out.txt").read() == "x"',
        ),
        "save-check",
        2,
        "`out.txt` is not among the assignment's files",
        "return what it would write",
    ),
    Refusal(
        "globals()",
        _pair("found", "found = 1", 'assert "found" in globals()'),
        "found-check",
        1,
        "looks names up at run time",
        "Use the name itself",
    ),
    Refusal(
        "the notebook's history",
        _pair("typed", "typed = 1", 'assert any("typed" in text for text in In)'),
        "typed-check",
        1,
        "`In` is the notebook's history",
        "Give the value a name",
    ),
    Refusal(
        "an attribute of the learner's function",
        _pair(
            "memo",
            "def memo(x):\n    return x\nmemo.seen = []",
            "assert memo.seen == []",
        ),
        "memo-check",
        1,
        "`memo.seen` does not travel",
        "Test what the function returns",
    ),
    Refusal(
        "an attribute of the learner's exception",
        _pair(
            "refuse",
            """
            class Refused(Exception):
                def __init__(self, code):
                    super().__init__("no")
                    self.code = code
            def refuse():
                raise Refused(3)
            """,
            "try:\n    refuse()\nexcept Refused as error:\n    assert error.code == 3",
        ),
        "refuse-check",
        4,
        "`error.code` does not travel",
        "`args`",
    ),
    Refusal(
        "a locked helper that uses the learner's function and decides a test",
        (
            solution("cube", "def cube(x):\n    return x**3"),
            locked("judge", "def judge():\n    return cube(2) == 8"),
            check("judge-check", "assert judge()"),
        ),
        "judge-check",
        1,
        "`judge` comes from cell number",
        "Move it into the test cell",
    ),
    Refusal(
        "a module that only the learner's cell imports",
        _pair("half", "import statistics\nhalf = 0.5", "assert statistics.mean([0, 1]) == half"),
        "half-check",
        1,
        "`statistics` is a module that a solution cell imports",
        "Import it in this cell",
    ),
    Refusal(
        "a cell magic",
        (
            solution("quiet", 'def quiet():\n    print("psst")'),
            check("quiet-check", "%%capture heard\nquiet()"),
        ),
        "quiet-check",
        1,
        "A cell magic hides",
        "redirect_stdout",
    ),
)
"""Every construct that `autograder release` finds in the text."""
