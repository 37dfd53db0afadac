"""The learner's process as the examiner sees it: cells and calls go there, values come back.

It may hang, die, or answer nonsense at any moment. Then it is replaced by a fresh process in which
the cells that had worked run again, and the test cell that was running fails, whatever it catches.
"""

from __future__ import annotations

import copy
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, NoReturn

import msgspec

from autograder import random_state
from autograder.limits import Limits
from autograder.plan import Plan
from autograder.protocol import (
    Binding,
    Call,
    CellDone,
    Channel,
    ChannelClosed,
    ExceptionBinding,
    FunctionBinding,
    Reply,
    RunCell,
    Start,
    TimedOut,
    as_notebook_outputs,
    ask,
)
from autograder.proxies import ExceptionClasses, make_function
from autograder.values import (
    Malformed,
    TooLarge,
    decode,
    encode,
    encode_with_references,
    is_scalar,
    write_back,
)

MISSING: Final = object()
LOST: Final = "ExaminationFailed"
"""Name of the error that stands in the outputs of a cell whose run was brought to an end."""

OUTPUT_LIMIT: Final = 8 * 2**20
"""Bytes of outputs of the learner's cells that are kept of one submission."""

RESTARTS: Final = 25
"""Fresh processes that one submission gets, after which its remaining calls fail at once."""


class LearnerLost(BaseException):
    """The learner's process did not answer as it must; no `except Exception` hides it."""


@dataclass(frozen=True)
class Ran:
    """A learner's cell that ran.

    Args:
        outputs: what it showed.
        failed: the builtin name of the exception that ended it, or "".
    """

    outputs: list[dict[str, Any]]
    failed: str


@dataclass
class _Bound:
    """What a name of the learner's was bound to in the examiner, and its value's bytes."""

    value: object
    data: bytes | None


class LearnerSide:
    """Runs the learner's cells and functions.

    Args:
        admit: gives the socket of a fresh learner's process.
        why_lost: says why the last one died, or "" if nobody knows.
        replays: is told of each cell that runs again in a fresh process.
        plan: says which names are the learner's.
        namespace: the examiner's names, into which the learner's are bound.
        limits: how long things may take.
        seed: for the random generators.
        told: whether tests have run before, in an examiner that did not reach the end.
    """

    def __init__(
        self,
        admit: Callable[[], socket.socket],
        why_lost: Callable[[], str],
        replays: Callable[[], None],
        plan: Plan,
        namespace: dict[str, Any],
        limits: Limits,
        seed: int,
        told: bool = False,
    ) -> None:
        self.failure = ""
        """Why the present cell fails whatever it does, or ""."""
        self.told = told
        """Whether the learner's code may know anything of the tests by now."""
        self.raised: BaseException | None = None
        """The last exception that a function of the learner's raised in a test."""
        self._admit = admit
        self._why_lost = why_lost
        self._replays = replays
        self._plan = plan
        self._namespace = namespace
        self._shells_own = frozenset(namespace)
        self._limits = limits
        self._seed = seed
        self._classes = ExceptionClasses(namespace, plan.trusted_names, self._opaque_used)
        self._channel: Channel[Reply] | None = None
        self._ids = count(1)
        self._worked: list[tuple[int, str]] = []
        self._texts: dict[int, str] = {}
        self._bound: dict[str, _Bound] = {}
        self._taken_away: set[str] = set()
        self._starts = 0
        self._room_for_outputs = OUTPUT_LIMIT
        self._random_state: bytes | None = None
        self._changed: list[tuple[object, object]] = []
        self._cell = 0

    def begin_cell(self) -> None:
        """Forget the failure of the cell before, and which names trusted cells have bound."""
        self.failure = ""
        # What a call did to a test's own data is for that test alone to see.
        for target, contents in reversed(self._changed):
            write_back([target], {0: contents})
        self._changed.clear()
        for name, bound in tuple(self._bound.items()):
            if self._namespace.get(name, bound.value) is not bound.value and not self._owns(name):
                del self._bound[name]

    def begin_test(self) -> None:
        """Bind what the test may use.

        Which names those are, the learner's process learns here, when nothing that it does can
        reach the learner any more.
        """
        first, self.told = not self.told, True
        if first and self._prepare() is None:
            with suppress(LearnerLost):
                self._run(self._cell, "", report=True)
            self.failure = ""

    def run(self, cell: int, source: str, *, report: bool) -> Ran:
        """Run a cell in the learner's process and bind what it defines."""
        if (problem := self._prepare()) is None:
            try:
                done = self._run(cell, source, report=report)
            except LearnerLost as lost:
                problem = str(lost)
            else:
                self._worked.append((cell, source))
                return Ran(self._within_limit(as_notebook_outputs(done.outputs)), done.failed)
        return Ran([error_output(problem)], LOST)

    def _within_limit(self, outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self._room_for_outputs -= len(msgspec.msgpack.encode(outputs))
        if self._room_for_outputs >= 0:
            return outputs
        return [error_output(f"more than {OUTPUT_LIMIT // 2**20} MiB of output, left out")]

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of the learner's, as if it were here.

        Raises:
            LearnerLost: the process hung, died or answered nonsense.
            BaseException: whatever the function raised.
        """
        if self.failure:
            raise LearnerLost(self.failure)
        if self._channel is None and (problem := self._prepare()) is not None:
            self._fail(problem)
        arguments: tuple[Any, ...] | bytes = args
        references: list[object] = []
        try:
            if kwargs or not all(map(is_scalar, args)):
                arguments, references = encode_with_references((args, kwargs))
            call = self._request(name, arguments)
        except TooLarge as error:
            self._fail(f"what the test gives to {name} is too large: {error}")
        try:
            reply = ask(self._open_channel(), call, self._limits.call_seconds)
            self._bind(reply.bindings, reply.deleted, self._cell)
            value = self._returned(reply.result, references)
            exception = None if reply.raised is None else self._classes.exception(reply.raised)
        except Exception as error:
            self._lose(error, f"{name} took more than {self._limits.call_seconds:g} s")
        for stream, text in ((sys.stdout, reply.stdout), (sys.stderr, reply.stderr)):
            if text:  # even an empty one would count as output
                stream.write(text)
        if exception is not None:
            self.raised = exception
            if isinstance(exception, (StopIteration, StopAsyncIteration)):
                # It would end a loop of the test's as if there were nothing more to test.
                raise RuntimeError(f"{name} raised {type(exception).__name__}") from exception
            raise exception
        return value

    def _returned(self, result: tuple[Any] | bytes, references: Sequence[object]) -> Any:
        """Return the value of an answer, and do to the arguments what the call did."""
        if isinstance(result, tuple):
            return result[0]
        answer = decode(result, references, self._opaque_used)
        if type(answer) is not tuple or len(answer) != 2:
            raise Malformed("an answer that is no pair")
        value, changed = answer
        if changed:
            self._remember(references, changed)
        write_back(references, changed)
        return value

    def _fail(self, why: str) -> NoReturn:
        self.failure = why
        raise LearnerLost(why)

    def _lose(self, error: Exception, slow: str) -> NoReturn:
        """Give the process up; the present cell fails."""
        self._channel = None
        reason = self._why_lost()
        match error:
            case TimedOut():
                reason = slow
            case ChannelClosed():
                pass
            case _:
                reason = f"the learner's process broke the rules: {error}"
        self._fail(reason or "the learner's process ended")

    def _opaque_used(self) -> None:
        self.failure = self.failure or "the test used a value that cannot be examined"

    def _request(self, name: str, arguments: tuple[Any, ...] | bytes) -> Call:
        assigned, deleted, restored = {}, [], []
        for bound_name, bound in self._bound.items():
            now = self._namespace.get(bound_name, MISSING)
            if now is MISSING:
                if bound_name not in self._taken_away:
                    deleted.append(bound_name)
            elif now is not bound.value:
                assigned[bound_name] = bound.data = encode(now)
                bound.value = now
            elif bound_name in self._taken_away:
                restored.append(bound_name)
            elif _is_mutable(now) and (data := encode(now)) != bound.data:
                assigned[bound_name] = bound.data = data
        self._taken_away |= set(deleted)
        self._taken_away -= set(restored) | set(assigned)
        return Call(
            next(self._ids),
            name,
            arguments,
            assigned,
            tuple(deleted),
            tuple(restored),
            self._state_of_random(),
        )

    def _state_of_random(self) -> bytes | None:
        """Return the state of the random generators if a test has seeded or drawn since the last.

        It goes one way only, so that the learner's draws do not steer the test's.
        """
        if not self._plan.seeds or (state := random_state.capture()) == self._random_state:
            return None
        self._random_state = state
        return state

    def _prepare(self) -> str | None:
        """See to it that there is a process in which all that worked has run; or say why not."""
        while self._channel is None:
            if self._starts >= RESTARTS:
                return "the learner's process ended too often"
            self._starts += 1
            self._channel = Channel(self._admit(), Reply)
            self._forget()
            self._random_state = None
            replay, self._worked = self._worked, []
            try:
                start = Start(self._seed)
                self._channel.send(start, self._limits.call_seconds)
                for index, (cell, source) in enumerate(replay):
                    # A cell that now fails to come back is left out of the next attempt.
                    rest = replay[index + 1 :]
                    self._replays()
                    self._run(cell, source, report=True)
                    self._worked.append((cell, source))
            except (TimedOut, ChannelClosed):
                self._channel = None
            except LearnerLost:
                self._worked += rest
                self.failure = ""
        return None

    def _open_channel(self) -> Channel[Reply]:
        if self._channel is None:
            raise ChannelClosed
        return self._channel

    def _run(self, cell: int, source: str, *, report: bool) -> CellDone:
        wanted = tuple(sorted(self._plan.wanted)) if self.told else ()
        state = self._state_of_random()
        request = RunCell(next(self._ids), source, report, state, wanted)
        self._texts[request.id] = source
        self._cell = cell
        try:
            done = ask(self._open_channel(), request, self._limits.cell_seconds)
            self._bind(done.bindings, done.deleted, cell)
        except Exception as error:
            self._lose(error, f"the cell took more than {self._limits.cell_seconds:g} s")
        return done

    def _bind(self, bindings: Mapping[str, Binding], deleted: tuple[str, ...], cell: int) -> None:
        for name, binding in bindings.items():
            if not self._may_bind(name, cell):
                continue
            value, data = self._value(name, binding)
            self._namespace[name] = value
            self._bound[name] = _Bound(value, data)
            self._taken_away.discard(name)
        for name in deleted:
            if self._bound.pop(name, None) is not None:
                self._namespace.pop(name, None)

    def _may_bind(self, name: str, cell: int) -> bool:
        if name in self._shells_own or name not in self._plan.wanted:
            return False
        # What is there and not the learner's has been bound by a trusted cell in a way that cannot
        # be told from its text, such as `from math import *`.
        free = self._owns(name) or name in self._bound or name not in self._namespace
        return free and self._plan.may_bind(name, cell)

    def _remember(self, references: Sequence[object], changed: object) -> None:
        """Keep what a call is about to change of the data that it was given."""
        learners = {id(bound.value) for bound in self._bound.values()}
        for index in changed if type(changed) is dict else ():
            if type(index) is int and 0 <= index < len(references):
                target = references[index]
                if id(target) not in learners and _is_mutable(target):
                    self._changed.append((target, copy.copy(target)))

    def _owns(self, name: str) -> bool:
        return name in self._plan.learner_names[self._cell]

    def _forget(self) -> None:
        """Take away what a process that has gone had bound."""
        for name, bound in self._bound.items():
            if self._namespace.get(name) is bound.value:
                del self._namespace[name]
        self._bound.clear()
        self._taken_away.clear()

    def _function(self, name: str, binding: FunctionBinding) -> object:
        return make_function(name, binding, self.call, self._texts, self._opaque_used)

    def _value(self, name: str, binding: Binding) -> tuple[object, bytes | None]:
        match binding:
            case FunctionBinding():
                return self._function(name, binding), None
            case ExceptionBinding(exception=exception):
                return self._classes.find(exception), None
            case _:
                return decode(binding.data, on_use=self._opaque_used), binding.data


def error_output(text: str) -> dict[str, Any]:
    """Return the output of a cell whose run was brought to an end."""
    return {"output_type": "error", "ename": LOST, "evalue": text, "traceback": [text]}


def _is_mutable(value: object) -> bool:
    # By its type alone: looking at anything else of an opaque value counts as using it.
    return type(value) in (list, dict, set) or type(value).__name__ == "ndarray"
