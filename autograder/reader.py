"""Reads one test cell's text for what needs the learner's code in the same process.

It knows from the text what the notebook's names stand for, follows through the cell which values
the learner's code made, and remarks on what is done with them that a copy does not allow.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

import numpy as np
from IPython.core.inputtransformer2 import TransformerManager

from autograder.shell import leading_blank_lines


@dataclass(frozen=True)
class Remark:
    """Something in a cell that would not work.

    Args:
        line: the line in the cell, from 1.
        problem: what it is, and why it does not work.
        mend: how to write it instead.
        refuses: whether the assignment cannot be released like that.
    """

    line: int
    problem: str
    mend: str
    refuses: bool = True


def parse(source: str) -> ast.Module | None:
    """Return a cell's syntax tree, its lines numbered as in the cell; None for no valid Python."""
    try:
        tree = ast.parse(TransformerManager().transform_cell(source))
    except (SyntaxError, ValueError):
        return None
    ast.increment_lineno(tree, leading_blank_lines(source))
    return tree


class _Kind(Enum):
    """What an expression stands for, as far as the text tells."""

    FUNCTION = "a function of the learner's"
    GENERATOR = "a generator function of the learner's"
    COROUTINE = "a coroutine function of the learner's"
    CLASS = "a class of the learner's"
    EXCEPTION = "an exception class of the learner's"
    MODULE = "a module that the learner's cells import"
    VALUE = "a value that the learner's code made"
    RAISED = "an exception of the learner's own class"
    CALLABLE = "a function or class of the test's"
    OTHER = "anything else"


_CALLABLES: Final = (_Kind.FUNCTION, _Kind.GENERATOR, _Kind.COROUTINE, _Kind.CALLABLE)


class Definitions:
    """What the names that a notebook's cells define stand for."""

    def __init__(self) -> None:
        self.learners: dict[str, _Kind] = {}
        self.trusted: dict[str, _Kind] = {}
        self._exceptions: set[str] = set()

    def add(self, tree: ast.Module, *, learners: bool) -> None:
        """Learn from a cell, in the notebook's order."""
        for node in tree.body:
            match node:
                case ast.FunctionDef(name=name):
                    kind = _Kind.GENERATOR if _yields(node) else _Kind.FUNCTION
                case ast.AsyncFunctionDef(name=name):
                    kind = _Kind.COROUTINE
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda()):
                    kind = _Kind.FUNCTION
                case ast.ClassDef(name=name):
                    kind = _Kind.EXCEPTION if self._is_exception(node) else _Kind.CLASS
                    if kind is _Kind.EXCEPTION:
                        self._exceptions.add(name)
                case ast.Import(names=[alias]):
                    name = (alias.asname or alias.name).partition(".")[0]
                    kind = _Kind.MODULE
                case _:
                    continue
            if learners:
                self.learners[name] = kind
            else:
                plain = kind in (_Kind.EXCEPTION, _Kind.MODULE)
                self.trusted[name] = _Kind.OTHER if plain else _Kind.CALLABLE

    def _is_exception(self, node: ast.ClassDef) -> bool:
        bases = map(_last_part, node.bases)
        return any(base in self._exceptions or _is_builtin_exception(base) for base in bases)


def _is_builtin_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _yields(function: ast.FunctionDef) -> bool:
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))
    return False


def _last_part(node: ast.AST | None) -> str:
    """Return `c` of `a.b.c`, or "" for what is no name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` as text, or "" for what is no name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name) if before := _dotted(value):
            return f"{before}.{name}"
    return ""


def _text(node: ast.AST) -> str:
    text = ast.unparse(node).partition("\n")[0]
    return f"`{text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + '...'}`"


LONGEST_QUOTE: Final = 70


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN: Final[tuple[object, ...]] = (0, 0.0, 0j, "", b"", [], (), {}, set(), frozenset())
_OF_VALUES: Final = frozenset(
    name for value in (*_PLAIN, None, np.float64(0), np.zeros(0)) for name in dir(value)
)
_OF_FUNCTIONS: Final = _words("__name__ __qualname__ __doc__ __module__ __signature__ __class__")
_OF_EXCEPTIONS: Final = frozenset(dir(BaseException))
_HISTORY: Final = _words("In Out _ __ ___ _i _ii _iii _ih _oh _dh")
_SHELL: Final = _words("history_manager user_ns user_global_ns run_cell ev ex events")
_BY_NAME: Final = _words("eval exec compile globals locals")
_LAZY: Final = _words("range map filter zip enumerate reversed iter")
_VIEWS: Final = _words("keys values items")
_CONTAINERS: Final = _words("list dict set sorted bytearray array arange zeros ones linspace")
_MOCKS: Final = _words("Mock MagicMock AsyncMock NonCallableMock create_autospec")
_PRINTED: Final = _words("sys.stdout sys.stderr")
_COMPARISONS: Final = _words("isclose allclose array_equal assert_allclose assert_array_equal")
_INSPECTION: Final = _words("getclosurevars getmembers currentframe stack dis")
_FILES: Final = _words(
    "open Path exists isfile getsize remove unlink load loadtxt genfromtxt fromfile "
    "read_csv read_json read_table imread connect"
)

_PLAIN_VALUES: Final = (
    "Let the function return plain values: numbers, text, lists, tuples, dicts, sets or arrays."
)
_TEST_RESULTS: Final = (
    "Test what the functions return; or delete the name and expect a NameError from what should "
    "use it."
)


def read_test(
    tree: ast.Module,
    definitions: Definitions,
    owned: frozenset[str],
    support_files: Container[str],
) -> list[Remark]:
    """Return what would not work in a test cell.

    Args:
        tree: the cell.
        definitions: what the notebook's names stand for.
        owned: names that are the learner's when the cell runs.
        support_files: paths of the assignment's files, which tests may read.
    """
    reader = _Reader(definitions, owned, support_files)
    reader.visit(tree)
    return reader.remarks


class _Reader(ast.NodeVisitor):
    """Reads one test cell from top to bottom; see `read_test`."""

    def __init__(
        self, definitions: Definitions, owned: frozenset[str], support_files: Container[str]
    ) -> None:
        self.remarks: list[Remark] = []
        self._definitions = definitions
        self._owned = owned
        self._support_files = support_files
        self._bound: dict[str, _Kind] = {}
        self._changeable: set[str] = set()

    def _remark(self, node: ast.AST, problem: str, mend: str, *, refuses: bool = True) -> None:
        remark = Remark(getattr(node, "lineno", 1), problem, mend, refuses)
        if remark not in self.remarks:
            self.remarks.append(remark)

    def _kind(self, node: ast.AST | None) -> _Kind:
        match node:
            case ast.Name(id=name):
                return self._kind_of_name(name)
            case ast.Lambda():
                return _Kind.CALLABLE
            case ast.Call(func=function):
                if _last_part(function) in _MOCKS | {"partial"}:
                    return _Kind.CALLABLE
                called = self._kind(function)
                return _Kind.OTHER if called in (_Kind.CALLABLE, _Kind.OTHER) else _Kind.VALUE
            case (
                ast.Attribute(value=inner)
                | ast.Subscript(value=inner)
                | ast.Await(value=inner)
                | ast.Starred(value=inner)
                | ast.NamedExpr(value=inner)
            ):
                return _Kind.VALUE if self._kind(inner) is _Kind.VALUE else _Kind.OTHER
        return _Kind.OTHER

    def _kind_of_name(self, name: str) -> _Kind:
        if name in self._bound:
            return self._bound[name]
        if name in self._owned:
            return self._definitions.learners.get(name, _Kind.VALUE)
        if name in self._definitions.trusted:
            return self._definitions.trusted[name]
        if _is_builtin_exception(name):
            return _Kind.OTHER
        return _Kind.CALLABLE if callable(getattr(builtins, name, None)) else _Kind.OTHER

    def _is_owned(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._owned and node.id not in self._bound

    # What the cell binds

    def visit(self, node: ast.AST) -> None:
        """Read a node; a comprehension's names are bound before the value that uses them."""
        for generator in getattr(node, "generators", ()):
            self._bind(generator.target, self._element(generator.iter), _first(generator.iter))
        super().visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                kinds = [self._kind(part) for part in node.value.elts]
                for part, kind, value in zip(target.elts, kinds, node.value.elts, strict=False):
                    self._bind(part, kind, value)
            else:
                self._bind(target, self._kind(node.value), node.value)
            self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self._bind(node.target, self._kind(node.value), node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, self._kind(node.value), node.value)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bind(node.target, self._element(node.iter), _first(node.iter))
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bind(ast.copy_location(ast.Name(node.name), node), _Kind.CALLABLE)
        outer, arguments = (dict(self._bound), set(self._changeable)), node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._bound[argument.arg] = _Kind.OTHER
            self._changeable.discard(argument.arg)
        for statement in node.body:
            self.visit(statement)
        self._bound, self._changeable = outer

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        if node.name and any(self._kind(kind) is _Kind.EXCEPTION for kind in caught):
            self._bound[node.name] = _Kind.RAISED
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, _Kind.OTHER)
        for statement in node.body:
            self.visit(statement)

    def _element(self, iterated: ast.expr) -> _Kind:
        return _Kind.VALUE if self._kind(iterated) is _Kind.VALUE else _Kind.OTHER

    def _bind(self, target: ast.expr, kind: _Kind, value: ast.expr | None = None) -> None:
        match target:
            case ast.Name(id=name):
                self._changeable.discard(name)
                if _can_change(value):
                    self._changeable.add(name)
                if name in self._owned and kind is _Kind.CALLABLE:
                    self._remark(
                        target,
                        f"`{name}` is the learner's; a function or mock that the test puts in its "
                        "place does not reach the learner's code.",
                        _TEST_RESULTS,
                    )
                self._bound[name] = kind
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._bind(part, _Kind.VALUE if kind is _Kind.VALUE else _Kind.OTHER)
            case ast.Starred(value=part):
                self._bind(part, kind)
            case ast.Attribute() if _dotted(target) not in _PRINTED:
                self._patched(target, target)
            case _:
                pass

    def _patched(self, node: ast.AST, target: ast.Attribute) -> None:
        owner = target.value
        if self._kind(owner) in _CALLABLES:
            self._remark(
                node,
                f"{_text(target)} sets an attribute of a function, which the learner's code does "
                "not see.",
                "Pass what the function needs as an argument, or bind a name of the learner's.",
            )
        elif _dotted(owner) in ("builtins", "sys", "os", "time", "random", "math"):
            self._remark(
                node,
                f"{_text(target)} is changed for the test only; the learner's code runs elsewhere.",
                "Pass what the function needs as an argument.",
            )

    # What the cell does

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = pairwise([node.left, *node.comparators])
        for operator, (left, right) in zip(node.ops, sides, strict=True):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                self._read_identity(node, left, right)
        if not any(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops):
            self._read_arguments_again(node, (node.left, *node.comparators))
        self.generic_visit(node)

    def _read_arguments_again(self, node: ast.expr, operands: Sequence[ast.expr]) -> None:
        for place, operand in enumerate(operands):
            # A name by itself is looked at only when all operands are there.
            others = [other for other in operands[:place] if isinstance(other, ast.Name)]
            read = {part for other in (*others, *operands[place + 1 :]) for part in _names(other)}
            for call in ast.walk(operand):
                if not isinstance(call, ast.Call) or self._kind(call.func) is not _Kind.FUNCTION:
                    continue
                given = {argument.id for argument in call.args if isinstance(argument, ast.Name)}
                for name in sorted(given & read & self._changeable):
                    self._remark(
                        node,
                        f"{_text(node)} reads `{name}` after the learner's function had it, which "
                        "may have changed it to what suits it.",
                        "Work out what you expect in a line before the call.",
                    )

    def _read_identity(self, node: ast.Compare, left: ast.expr, right: ast.expr) -> None:
        if _Kind.VALUE not in (self._kind(left), self._kind(right)):
            return
        for side in (left, right):
            if isinstance(side, ast.Constant) and side.value is None:
                return
            if isinstance(side, ast.Constant) and isinstance(side.value, bool):
                self._remark(
                    node,
                    f"{_text(node)} fails for a numpy.bool_, which many comparisons give.",
                    f"Write `== {side.value}`, unless the very type is asked for.",
                    refuses=False,
                )
                return
        self._identity(node, left if isinstance(left, ast.Call) else right)

    def _identity(self, node: ast.AST, value: ast.expr) -> None:
        self._remark(
            node,
            f"{_text(node)} compares identity; a value is copied on its way.",
            f"Write {_text(value)[:-1]} == expected`, and test that what was passed is unchanged.",
        )

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        if self._kind(node) is _Kind.CLASS:
            self._remark(
                node,
                f"`{node.id}` is a class of the learner's; its instances stay where the learner's "
                "code runs.",
                "Ask for a function that makes and uses the instance. " + _PLAIN_VALUES,
            )
        elif self._kind(node) is _Kind.MODULE and node.id not in self._definitions.trusted:
            self._remark(
                node,
                f"`{node.id}` is a module that a solution cell imports; the test has none of it.",
                "Import it in this cell, or in a locked cell above the solution.",
            )
        elif node.id in _HISTORY and node.id not in self._bound:
            self._remark(
                node,
                f"`{node.id}` is the notebook's history, which tests and learner's cells do not "
                "share.",
                "Give the value a name, and test that.",
            )

    def visit_Attribute(self, node: ast.Attribute) -> None:
        kind = self._kind(node.value)
        allowed = {
            _Kind.VALUE: _OF_VALUES,
            _Kind.FUNCTION: _OF_FUNCTIONS,
            _Kind.GENERATOR: _OF_FUNCTIONS,
            _Kind.RAISED: _OF_EXCEPTIONS,
        }.get(kind)
        if allowed is not None and isinstance(node.ctx, ast.Load) and node.attr not in allowed:
            mend = {
                _Kind.VALUE: _PLAIN_VALUES,
                _Kind.RAISED: "Put it among the exception's `args`, and test those.",
            }.get(kind, "Test what the function returns; or keep the figure in a name of its own.")
            self._remark(node, f"{_text(node)} does not travel: the test has {_SEEN[kind]}.", mend)
        if node.attr in _SHELL and _is_shell(node.value):
            self._remark(
                node,
                f"{_text(node)} is the test's own shell; the learner's cells ran in another.",
                "Give the value a name, and test that.",
            )
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called, kind = _last_part(node.func), self._kind(node.func)
        if kind in (_Kind.GENERATOR, _Kind.COROUTINE):
            what, mend = _RUNS_LATER[kind]
            self._remark(node, f"{_text(node)} gives {what}, which cannot travel.", mend)
        if kind in (_Kind.FUNCTION, _Kind.GENERATOR, _Kind.COROUTINE, _Kind.VALUE):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._read_argument(node, argument)
        if kind is _Kind.VALUE and not (
            isinstance(node.func, ast.Attribute) or self._is_owned(node.func)
        ):
            self._remark(
                node,
                f"{_text(node)} calls a function that the learner's code returned; it stays there.",
                "Ask for one function that takes all the arguments and returns the result.",
            )
        first = node.args[0] if node.args else None
        if called in _COMPARISONS:
            self._read_arguments_again(node, node.args)
        match called:
            case "id" if first is not None and self._kind(first) is _Kind.VALUE:
                self._identity(node, first)
            case "next" if self._kind(first) is _Kind.VALUE:
                self._remark(
                    node, f"{_text(node)} reads an iterator, which cannot travel.", _PLAIN_VALUES
                )
            case "run_cell_magic" if _is_shell(getattr(node.func, "value", None)):
                self._remark(
                    node,
                    "A cell magic hides from the grader which names the test uses.",
                    "Write plain Python: `contextlib.redirect_stdout` for `%%capture`, say.",
                )
            case _ if called in _BY_NAME or (called in ("vars", "dir") and first is None):
                self._remark(
                    node,
                    f"{_text(node)} looks names up at run time; the test has only the learner's "
                    "names that its text mentions.",
                    "Use the name itself, and expect a NameError where it may be missing.",
                )
            case _ if called in _INSPECTION:
                self._remark(
                    node,
                    f"{_text(node)} looks inside the learner's code, which is not here.",
                    "`inspect.signature` and `inspect.getsource` work; or test what it returns.",
                )
            case _ if called in _FILES:
                self._read_file(node, first)
        self._read_patch(node)
        self.generic_visit(node)

    def _read_argument(self, call: ast.Call, argument: ast.expr) -> None:
        if isinstance(argument, ast.Starred):
            return
        if self._kind(argument) in _CALLABLES:
            self._remark(
                call,
                f"{_text(call)} hands a function to the learner's code, where it cannot run.",
                "Let the learner's cell define what is passed, or pass values.",
            )
            return
        match argument:
            case ast.GeneratorExp():
                lazy = True
            case ast.Call(func=ast.Name(id=name)):
                lazy = name in _LAZY
                if name in self._definitions.trusted and not lazy:
                    self._read_instance(call, argument, name)
            case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
                lazy = name in _VIEWS
            case _:
                lazy = False
        if lazy:
            self._remark(
                call,
                f"{_text(call)} hands an iterator to the learner's code; it cannot travel.",
                "Pass `list(...)` of it.",
            )

    def _read_instance(self, call: ast.Call, argument: ast.Call, name: str) -> None:
        if name[:1].isupper():
            self._remark(
                call,
                f"{_text(call)} hands {_text(argument)} to the learner's code; an instance cannot "
                "travel.",
                "Pass plain values: numbers, text, lists, tuples, dicts, sets or arrays.",
            )

    def _read_patch(self, node: ast.Call) -> None:
        parts = _dotted(node.func).split(".")
        if "patch" not in parts or (node.args and _constant(node.args[0]) in _PRINTED):
            return
        self._remark(
            node,
            f"{_text(node)} patches the test's side only; the learner's code runs elsewhere.",
            "Pass what the function needs as an argument. " + _TEST_RESULTS,
        )

    def _read_file(self, node: ast.Call, path: ast.expr | None) -> None:
        name = _constant(path)
        if name is None:
            if _last_part(node.func) == "open" and isinstance(node.func, ast.Name) and path:
                self._remark(
                    node,
                    f"{_text(node)}: tests and learner's code have folders of their own.",
                    "Fine for the assignment's own files and for what this cell wrote itself.",
                    refuses=False,
                )
        elif str(PurePosixPath(name)) not in self._support_files:
            self._remark(
                node,
                f"{_text(node)}: tests and learner's code have folders of their own, and "
                f"`{name}` is not among the assignment's files.",
                "Let the function return what it would write, or take what it would read; "
                "or put the file beside the notebook.",
            )


_SEEN: Final = {
    _Kind.VALUE: "a copy in numbers, text, lists, tuples, dicts, sets or arrays",
    _Kind.FUNCTION: "the function's name, docstring, signature and source, and can call it",
    _Kind.GENERATOR: "the function's name, docstring, signature and source",
    _Kind.RAISED: "the exception's class and `args`",
}
_RUNS_LATER: Final = {
    _Kind.GENERATOR: ("a generator", "Ask for a list; or for a function that collects it in one."),
    _Kind.COROUTINE: ("a coroutine", "Let a cell of the learner's await it and keep the result."),
}


def _can_change(node: ast.expr | None) -> bool:
    """Tell whether it is sure to give a value that a function can change."""
    displays = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
    match node:
        case ast.Call(func=function):
            return _last_part(function) in _CONTAINERS
        case ast.BinOp(left=left, right=right):
            return _can_change(left) or _can_change(right)
    return isinstance(node, displays)


def _first(iterated: ast.expr) -> ast.expr | None:
    """Return the first element of a list or tuple that is written out."""
    match iterated:
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return first
    return None


def _names(node: ast.expr) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _constant(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_shell(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and _last_part(node.func) == "get_ipython"
