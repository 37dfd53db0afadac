"""The learner's functions and exception classes, as the examiner's cells see them.

A function is a stand-in with its name, docstring and signature, all built from checked records,
never from text that is run; calling it calls the learner's process. An exception class is the
trusted one of that name where there is one, and otherwise a class made here.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeGuard, cast

from autograder.protocol import ExceptionClass, FunctionBinding, Parameter, Raised
from autograder.values import Malformed, decode

Call = Callable[[str, tuple[Any, ...], dict[str, Any]], Any]


def make_function(
    name: str,
    binding: FunctionBinding,
    call: Call,
    cells: Mapping[int, str],
    on_use: Callable[[], None],
) -> FunctionType:
    """Return a function that stands in for the learner's.

    Args:
        name: what it is bound to.
        binding: what the learner's process says of it.
        call: makes the call: name, positional and keyword arguments.
        cells: the text of each of the learner's cells that has run, by its request's id.
        on_use: called when an opaque default is used.

    Raises:
        Malformed: no function can have such a signature.
    """

    def answer(*args: Any, **kwargs: Any) -> Any:
        return call(name, args, kwargs)

    stand_in = cast("FunctionType", answer)
    stand_in.__name__ = stand_in.__qualname__ = binding.name
    stand_in.__doc__ = binding.doc
    stand_in.__module__ = "__main__"
    if binding.parameters is not None:
        stand_in.__signature__ = _signature(binding.parameters, on_use)  # type: ignore[attr-defined]
    _give_source(stand_in, binding, cells)
    return stand_in


def _signature(parameters: tuple[Parameter, ...], on_use: Callable[[], None]) -> inspect.Signature:
    try:
        return inspect.Signature(
            [
                inspect.Parameter(
                    parameter.name,
                    inspect._ParameterKind(parameter.kind),
                    default=(
                        inspect.Parameter.empty
                        if parameter.default is None
                        else decode(parameter.default, on_use=on_use)
                    ),
                )
                for parameter in parameters
            ]
        )
    except ValueError as error:
        raise Malformed(str(error)) from None


def _give_source(
    function: FunctionType, binding: FunctionBinding, cells: Mapping[int, str]
) -> None:
    """Let `inspect.getsource` find the function's text in the learner's cell."""
    if binding.defined is None or binding.defined[0] not in cells:
        return
    cell, line = binding.defined
    text = cells[cell]
    if not _defines_at(text, line):
        return
    file_name = f"<learner's cell {cell}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[file_name] = (len(text), None, lines, file_name)
    function.__code__ = function.__code__.replace(co_filename=file_name, co_firstlineno=line)


def _defines_at(text: str, line: int) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    return any(
        line in (node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ())))
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )


class ExceptionClasses:
    """Exception classes by what the learner's process calls them.

    Args:
        namespace: the examiner's names.
        trusted: those of them that trusted cells bind.
        on_use: called when an opaque value among an exception's args is used.
    """

    def __init__(
        self, namespace: Mapping[str, Any], trusted: Container[str], on_use: Callable[[], None]
    ) -> None:
        self._on_use = on_use
        self._namespace = namespace
        self._trusted = trusted
        self._made: dict[ExceptionClass, type[BaseException]] = {}

    def find(self, name: ExceptionClass) -> type[BaseException]:
        """Return the class: a trusted one, or one made for the name, always the same.

        Raises:
            Malformed: it claims a builtin base that is no exception.
        """
        if not name.lineage:
            found = vars(builtins).get(name.builtin)
            if not _is_exception_class(found):
                raise Malformed(f"no builtin exception {name.builtin!r}")
            return found
        trusted = self._trusted_class(name)
        if trusted is not None:
            return trusted
        if name not in self._made:
            base = self.find(ExceptionClass(name.lineage[1:], name.builtin))
            try:
                made = type(name.lineage[0].name, (base,), {"__module__": "__main__"})
            except (TypeError, ValueError) as error:
                raise Malformed(str(error)) from None
            self._made[name] = made
        return self._made[name]

    def _trusted_class(self, name: ExceptionClass) -> type[BaseException] | None:
        module, class_name = name.lineage[0].module, name.lineage[0].name
        if module == "__main__":
            found = self._namespace.get(class_name) if class_name in self._trusted else None
        elif module in sys.modules:
            # Past the module's own __getattr__, which may do anything.
            found = vars(sys.modules[module]).get(class_name)
        else:
            found = None
        return found if _is_exception_class(found) else None

    def exception(self, raised: Raised) -> BaseException:
        """Return an exception like the one that the learner's function raised.

        Raises:
            Malformed: there can be no such exception.
        """
        kind = self.find(raised.exception)
        args = (raised.text,) if raised.args is None else decode(raised.args, on_use=self._on_use)
        if type(args) is not tuple:
            raise Malformed("an exception's args are no tuple")
        makers: tuple[Callable[[], BaseException], ...] = (
            lambda: kind(*args),
            lambda: kind.__new__(kind),
            Exception,
        )
        for make in makers:
            with suppress(Exception):
                exception = make()
                exception.args = args
                return exception
        raise Malformed("an exception that cannot be made")


def _is_exception_class(value: object) -> TypeGuard[type[BaseException]]:
    return isinstance(value, type) and issubclass(value, BaseException)
