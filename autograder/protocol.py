"""What the examiner and the learner process say to each other, and the frames that it travels in.

The examiner asks; the learner process answers each request once and echoes its id. All that comes
from the learner process is untrusted: every field has a type and a cap, checked before memory is
taken, and whatever breaks the rules (a frame that is too long, a second answer, an answer before
the question) is `Malformed`.
"""

from __future__ import annotations

import keyword
import select
import socket
import struct
import time
from typing import Annotated, Any, Generic, Literal, TypeVar, overload

import msgspec
from msgspec import Meta, Struct

from autograder.values import Malformed

# Room for the largest value (values.MAX_BYTES) and the rest of its message.
MAX_FRAME = 48 * 2**20

Name = Annotated[str, Meta(max_length=200)]
Names = Annotated[tuple[Name, ...], Meta(max_length=2000)]
# More than `shell.OUTPUT_LIMIT`, which is what a call can print.
Text = Annotated[str, Meta(max_length=4 * 2**20)]
Data = bytes
"""A value, as `values.encode` writes it."""
Scalar = bool | int | float | str | None
"""A value that crosses as it is; see `values.is_scalar`."""


class _Record(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part of a message."""


class _Tagged(Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    """A message, or a part of one that has several forms."""


# --- Requests: from the examiner -----------------------------------------------------------------


class Start(_Tagged, frozen=True):
    """Comes first, once, and has no answer.

    Args:
        seed: for `random` and `numpy.random`; the examiner starts with the same.
    """

    seed: int


class RunCell(_Tagged, frozen=True):
    """Run a cell.

    Args:
        report: whether names that changed are to be reported; where the examiner runs the same cell
            it has its own. What was not reported comes with the next report.
        wanted: names that trusted cells mention, if they are to be reported from now on; no others
            ever are.
        random_state: as `random_state.capture` wrote it; None leaves the process's own.
    """

    id: int
    source: str
    report: bool
    random_state: Data | None = None
    wanted: Names = ()


class Call(_Tagged, frozen=True):
    """Call what a name of the learner's is bound to.

    Args:
        arguments: the positional arguments if they are scalars and all there is; otherwise the data
            of a pair, the positional arguments (tuple) and the keyword arguments (dict).
        assigned: names that trusted code has bound since the last request, and their values.
        deleted: names that trusted code has deleted since then.
        restored: names that trusted code had deleted or bound, and has given back.
        random_state: as in `RunCell`.
    """

    id: int
    name: Name
    arguments: tuple[Scalar, ...] | Data
    assigned: dict[Name, Data] = {}
    deleted: Names = ()
    restored: Names = ()
    random_state: Data | None = None


Request = Start | RunCell | Call


# --- Replies: from the learner process, untrusted ------------------------------------------------


class ClassName(_Record, frozen=True):
    """A class's module (`__main__` for the notebook's own) and its qualified name."""

    module: Name
    name: Name


class ExceptionClass(_Record, frozen=True):
    """An exception class by name.

    Args:
        lineage: the class and its bases in method resolution order, up to its first builtin base
            and without it; empty for a builtin exception.
        builtin: the name of that builtin base.
    """

    lineage: Annotated[tuple[ClassName, ...], Meta(max_length=30)]
    builtin: Name


class Raised(_Record, frozen=True):
    """What a call raised.

    Args:
        args: the exception's `args`, a tuple; None where they are too large to cross.
        text: the exception as text.
    """

    exception: ExceptionClass
    args: Data | None
    text: Text


class Parameter(_Record, frozen=True):
    """A parameter of a function: its kind as in `inspect`, its default or None for none."""

    name: Name
    kind: Annotated[int, Meta(ge=0, le=4)]
    default: Data | None

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or keyword.iskeyword(self.name):
            raise ValueError("a parameter's name is not an identifier")


class ValueBinding(_Tagged, frozen=True):
    """The name is bound to a value (an opaque one if it cannot cross)."""

    data: Data


class FunctionBinding(_Tagged, frozen=True):
    """The name is bound to something that can be called.

    Args:
        name: the function's own name.
        parameters: None where it has no signature that can be read.
        doc: its docstring.
        defined: the id of the `RunCell` and the line in that cell, from 1; None if elsewhere.
    """

    name: Name
    parameters: Annotated[tuple[Parameter, ...], Meta(max_length=100)] | None
    doc: Text | None
    defined: tuple[int, int] | None


class ExceptionBinding(_Tagged, frozen=True):
    """The name is bound to an exception class."""

    exception: ExceptionClass


Binding = ValueBinding | FunctionBinding | ExceptionBinding
Bindings = Annotated[dict[Name, Binding], Meta(max_length=2000)]


class _Output(Struct, frozen=True, tag_field="output_type", forbid_unknown_fields=True):
    """A cell's output in nbformat's terms (version 4)."""


# Text only: pictures are base64, and what has only JSON (widgets) shows nothing without its page.
MimeBundle = Annotated[dict[Name, str], Meta(max_length=20)]
Nothing = Annotated[dict[str, None], Meta(max_length=0)]


class Stream(_Output, frozen=True, tag="stream"):
    """Text that was printed."""

    name: Literal["stdout", "stderr"]
    text: str


class DisplayData(_Output, frozen=True, tag="display_data"):
    """Something shown, such as a figure."""

    data: MimeBundle
    metadata: Nothing = {}


class ExecuteResult(_Output, frozen=True, tag="execute_result"):
    """The value of the cell's last line."""

    data: MimeBundle
    execution_count: int | None
    metadata: Nothing = {}


class Error(_Output, frozen=True, tag="error"):
    """The exception that ended the cell."""

    ename: str
    evalue: str
    traceback: Annotated[list[str], Meta(max_length=100)]


Output = Stream | DisplayData | ExecuteResult | Error


class CellDone(_Tagged, frozen=True):
    """A cell has run.

    Args:
        outputs: what it showed; an `Error` last if it failed.
        failed: the name of the exception (or of its first builtin base) that ended it, or "".
        bindings: the wanted names that changed since the last report.
        deleted: the wanted names that have gone since then.
    """

    id: int
    outputs: Annotated[list[Output], Meta(max_length=10_000)]
    failed: Name = ""
    bindings: Bindings = {}
    deleted: Names = ()


class CallDone(_Tagged, frozen=True):
    """A call has returned or raised.

    Args:
        result: the returned value (None if it raised), alone in a tuple, if it is a scalar and the
            call had nothing to change; otherwise the data of a pair: that value, and a dict of what
            the call changed among the references of the arguments, {index: contents}. References to
            those are known to `values.decode`.
        raised: the exception, or None.
        stdout, stderr: what it printed.
        bindings, deleted: as in `CellDone`.
    """

    id: int
    result: tuple[Scalar] | Data
    raised: Raised | None = None
    stdout: Text = ""
    stderr: Text = ""
    bindings: Bindings = {}
    deleted: Names = ()


Reply = CellDone | CallDone


def as_notebook_outputs(outputs: list[Output]) -> list[dict[str, Any]]:
    """The outputs as the dicts of a notebook file."""
    return [msgspec.to_builtins(output) for output in outputs]


# --- Frames --------------------------------------------------------------------------------------


class ChannelClosed(Exception):
    """The other side has gone."""


class TimedOut(Exception):
    """The other side did not answer, or did not read, in time."""


Incoming = TypeVar("Incoming")
_HEADER = struct.Struct("!I")
_READ_BYTES = 2**16

# Made once for all processes that are forked: to look through the types takes milliseconds.
_DECODERS = {incoming: msgspec.msgpack.Decoder(incoming) for incoming in (Request, Reply)}


class Channel(Generic[Incoming]):
    """One side of the conversation: messages over a connected stream socket.

    Args:
        connection: the socket; the channel does not close it.
        incoming: what the other side may send, `Request` or `Reply`.
    """

    def __init__(self, connection: socket.socket, incoming: Any) -> None:
        self._connection = connection
        self._decoder: msgspec.msgpack.Decoder[Incoming] = _DECODERS[incoming]
        self._buffer = bytearray()
        self._timeout: float | None = None
        self._unasked = select.poll()
        self._unasked.register(connection, select.POLLIN)
        connection.settimeout(None)

    def send(self, message: Request | Reply, timeout: float | None = None) -> None:
        """Send a message.

        Raises:
            TimedOut: the other side did not read it within `timeout` seconds.
            ChannelClosed: the other side has gone.
        """
        body = msgspec.msgpack.encode(message)
        try:
            self._allow(timeout)
            self._connection.sendall(_HEADER.pack(len(body)) + body)
        except TimeoutError:
            raise TimedOut from None
        except OSError:
            raise ChannelClosed from None

    def receive(self, timeout: float | None = None) -> Incoming:
        """Wait for the next message.

        Raises:
            TimedOut: it was not there, whole, within `timeout` seconds.
            ChannelClosed: the other side has gone.
            Malformed: it is not such a message, or longer than `MAX_FRAME`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._allow(timeout)
        self._read(_HEADER.size, deadline)
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise Malformed(f"a frame of {length} bytes")
        end = _HEADER.size + length
        self._read(end, deadline)
        body = self._buffer[_HEADER.size : end]
        del self._buffer[:end]
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Malformed(str(error)) from None

    def _allow(self, timeout: float | None) -> None:
        """Give the socket's next operation this long; each change is a call of the system's."""
        if timeout != self._timeout:
            self._connection.settimeout(timeout)
            self._timeout = timeout

    def _read(self, length: int, deadline: float | None) -> None:
        """Read until the buffer holds as many bytes."""
        while len(self._buffer) < length:
            if self._buffer and deadline is not None:
                self._allow(max(deadline - time.monotonic(), 1e-6))
            try:
                received = self._connection.recv(_READ_BYTES)
            except TimeoutError:
                raise TimedOut from None
            except OSError:
                raise ChannelClosed from None
            if not received:
                raise ChannelClosed
            self._buffer += received

    def expect_silence(self) -> None:
        """Make sure that nothing has come unasked.

        Raises:
            Malformed: something has.
            ChannelClosed: the other side has gone.
        """
        if self._buffer:
            raise Malformed("an answer to no question")
        if self._unasked.poll(0):
            if self._connection.recv(1, socket.MSG_PEEK):
                raise Malformed("an answer to no question")
            raise ChannelClosed


@overload
def ask(channel: Channel[Reply], request: RunCell, timeout: float) -> CellDone: ...
@overload
def ask(channel: Channel[Reply], request: Call, timeout: float) -> CallDone: ...
def ask(channel: Channel[Reply], request: RunCell | Call, timeout: float) -> CellDone | CallDone:
    """Send a request and wait for its own answer.

    Args:
        timeout: seconds for the request to be read, and again for the answer to be there.

    Raises:
        TimedOut, ChannelClosed: see `Channel`.
        Malformed: the answer is not one to this request, or another came unasked before it.
    """
    channel.expect_silence()
    channel.send(request, timeout)
    reply = channel.receive(timeout)
    wanted = CellDone if isinstance(request, RunCell) else CallDone
    if not isinstance(reply, wanted) or reply.id != request.id:
        raise Malformed("an answer to another question")
    return reply
