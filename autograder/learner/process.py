"""The learner process: runs the learner's cells and calls their functions when the examiner asks.

It runs inside the sandbox, beside code that may do anything to it, so nothing here is a defence:
the examiner believes no more of an answer than its types say, and the sandbox holds the process.
"""

from __future__ import annotations

import builtins
import inspect
import os
import socket
import types
from typing import Any, NoReturn

import msgspec

from autograder import random_state
from autograder.protocol import (
    Binding,
    Call,
    CallDone,
    CellDone,
    Channel,
    ChannelClosed,
    ClassName,
    ExceptionBinding,
    ExceptionClass,
    FunctionBinding,
    Output,
    Parameter,
    Raised,
    Request,
    RunCell,
    Scalar,
    Start,
    ValueBinding,
)
from autograder.shell import Shell, exception_text, leading_blank_lines, plain_text
from autograder.values import (
    Opaque,
    TooLarge,
    decode,
    decode_with_references,
    encode,
    is_scalar,
    type_name,
)

_BUILTIN_EXCEPTIONS = {
    id(kind): kind.__name__
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
_MAX_PARAMETERS = 100
_MAX_DOC = 2**16
_MAX_NAME = 200
_MISSING = object()


def serve(connection: socket.socket, shell: Shell) -> NoReturn:
    """Answer the examiner's requests until it hangs up; then, or after an error of ours, end."""
    try:
        channel: Channel[Request] = Channel(connection, Request)
        start = channel.receive()
        if isinstance(start, Start):
            process = _LearnerProcess(shell, start)
            while True:
                channel.send(process.answer(channel.receive()))
    except ChannelClosed:
        os._exit(0)
    finally:
        # Not an ordinary exit, which would run what the learner's code left to run at exit.
        os._exit(1)


class _LearnerProcess:
    """The notebook's names and what the examiner knows of them."""

    def __init__(self, shell: Shell, start: Start) -> None:
        self._shell = shell
        self._names = shell.user_ns
        self._wanted: tuple[str, ...] = ()
        # What trusted code has deleted or bound anew, should it put the learner's own back.
        self._taken_away: dict[str, object] = {}
        self._reported: dict[str, tuple[object, bytes]] = {}
        # By execution count: the id of the request, and how many lines IPython strips at the top.
        self._cells: dict[int | None, tuple[int, int]] = {}
        random_state.seed(start.seed)

    def answer(self, request: Request) -> CellDone | CallDone:
        """Do what the examiner asks."""
        if isinstance(request, RunCell):
            return self._run_cell(request)
        if isinstance(request, Call):
            return self._call(request)
        raise TypeError("Start comes once")

    def _run_cell(self, request: RunCell) -> CellDone:
        if request.wanted:
            self._wanted = request.wanted
        if request.random_state is not None:
            random_state.restore(request.random_state)
        self._cells[self._shell.execution_count] = request.id, leading_blank_lines(request.source)
        outcome = self._shell.run(request.source)
        bindings, deleted = self._changes() if request.report else ({}, ())
        return CellDone(
            request.id,
            [output for output in map(_as_output, outcome.outputs) if output],
            _exception_class(type(outcome.error)).builtin if outcome.error is not None else "",
            bindings,
            deleted,
        )

    def _call(self, request: Call) -> CallDone:
        if request.random_state is not None:
            random_state.restore(request.random_state)
        for name in (*request.deleted, *request.assigned):
            if name in self._names:
                self._taken_away[name] = self._names.pop(name)
        self._names.update((name, decode(data)) for name, data in request.assigned.items())
        self._names.update((name, self._taken_away[name]) for name in request.restored)
        if request.assigned or request.deleted or request.restored:
            # The examiner knows of its own changes.
            self._changes()
        arguments: tuple[Any, dict[str, Any]] = (request.arguments, {})
        references: list[object] = []
        if isinstance(request.arguments, bytes):
            arguments, references = decode_with_references(request.arguments)
        args, kwargs = arguments
        before = [_contents(reference) for reference in references]
        value, raised = None, None
        with self._shell.capture() as record:
            try:
                value = self._function(request.name)(*args, **kwargs)
            except BaseException as error:
                raised = _raised(error)
        changed = {
            index: _contents(reference)
            for index, (reference, old) in enumerate(zip(references, before, strict=True))
            if not _same_contents(old, reference)
        }
        bindings, deleted = self._changes()
        return CallDone(
            request.id,
            _result(value, changed, references),
            raised,
            record.printed("stdout"),
            record.printed("stderr"),
            bindings,
            deleted,
        )

    def _function(self, name: str) -> Any:
        # A test may hold on to a function whose name it has deleted.
        try:
            return self._names[name] if name in self._names else self._taken_away[name]
        except KeyError:
            raise NameError(f"name {name!r} is not defined") from None

    def _changes(self) -> tuple[dict[str, Binding], tuple[str, ...]]:
        """The wanted names whose bindings have changed since they were last reported."""
        bindings: dict[str, Binding] = {}
        deleted: list[str] = []
        for name in self._wanted:
            value = self._names.get(name, _MISSING)
            known, known_data = self._reported.get(name, (_MISSING, b""))
            if self._is_reportable(name, value):
                if value is known and (callable(value) or isinstance(value, (int, float, str))):
                    continue
                binding = self._binding(value)
                data = msgspec.msgpack.encode(binding)
                self._reported[name] = value, data
                if data != known_data:
                    bindings[name] = binding
            elif known_data:
                del self._reported[name]
                deleted.append(name)
        return bindings, tuple(deleted)

    def _is_reportable(self, name: str, value: object) -> bool:
        # Looking at more than the type of an opaque value would be using it.
        if value is _MISSING or type(value) is Opaque or isinstance(value, types.ModuleType):
            return False
        # IPython's own: In, Out, exit and friends.
        return self._shell.user_ns_hidden.get(name, _MISSING) is not value

    def _binding(self, value: Any) -> Binding:
        if isinstance(value, type) and issubclass(value, BaseException):
            return ExceptionBinding(_exception_class(value))
        if not callable(value):
            return ValueBinding(_encode_or_mark(value))
        doc = getattr(value, "__doc__", None)
        return FunctionBinding(
            _name(getattr(value, "__name__", type(value).__name__)),
            _parameters(value),
            plain_text(doc[:_MAX_DOC]) if isinstance(doc, str) else None,
            self._definition(value),
        )

    def _definition(self, function: Any) -> tuple[int, int] | None:
        code = getattr(inspect.unwrap(function), "__code__", None)
        if not isinstance(code, types.CodeType):
            return None
        cell = self._cells.get(self._shell.cell_of(code.co_filename))
        return None if cell is None else (cell[0], cell[1] + code.co_firstlineno)


def _result(
    value: Any, changed: dict[int, object], references: list[object]
) -> tuple[Scalar] | bytes:
    if is_scalar(value) and not references:
        return (value,)
    try:
        return encode((value, changed), references)
    except TooLarge as error:
        marker = Opaque(f"{type_name(value)} that is too large ({error})")
        return encode((marker, changed), references)


def _parameters(function: Any) -> tuple[Parameter, ...] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if len(parameters) > _MAX_PARAMETERS:
        return None
    return tuple(
        Parameter(
            parameter.name,
            int(parameter.kind),
            None
            if parameter.default is inspect.Parameter.empty
            else _encode_or_mark(parameter.default),
        )
        for parameter in parameters
    )


def _encode_or_mark(value: object) -> bytes:
    try:
        return encode(value)
    except TooLarge as error:
        return encode(Opaque(f"{type_name(value)} that is too large ({error})"))


def _exception_class(kind: type[BaseException]) -> ExceptionClass:
    lineage: list[ClassName] = []
    for base in kind.__mro__:
        if builtin := _BUILTIN_EXCEPTIONS.get(id(base)):
            return ExceptionClass(tuple(lineage[:30]), builtin)
        lineage.append(ClassName(_name(base.__module__), _name(base.__qualname__)))
    raise TypeError("an exception without a builtin base")


def _raised(error: BaseException) -> Raised:
    try:
        args = encode(error.args)
    except TooLarge:
        args = None
    return Raised(_exception_class(type(error)), args, exception_text(error))


def _name(name: object) -> str:
    return plain_text(str(name)[:_MAX_NAME])


def _contents(value: Any) -> Any:
    """A shallow copy of what a call can change; anything else itself."""
    return value if isinstance(value, Opaque) else value.copy()


def _same_contents(old: Any, value: Any) -> bool:
    if isinstance(value, Opaque):
        return True
    if isinstance(value, list):
        return _identical(old, value)
    if isinstance(value, dict):
        # The order of the keys too.
        return _identical(list(old), list(value)) and _identical(old.values(), value.values())
    if isinstance(value, set):
        return bool(old == value)
    # An array; not-a-number is the same as before.
    return bool(old.shape == value.shape and old.tobytes() == value.tobytes())


def _identical(old: Any, new: Any) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _as_output(output: dict[str, Any]) -> Output | None:
    if "data" in output:
        data = {mime: item for mime, item in output["data"].items() if isinstance(item, str)}
        output = {**output, "data": data, "metadata": {}}
    return msgspec.convert(output, Output)
