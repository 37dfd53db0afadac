from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.protocol import (
    MAX_FRAME,
    Call,
    CallDone,
    CellDone,
    Channel,
    ChannelClosed,
    ClassName,
    DisplayData,
    Error,
    ExceptionBinding,
    ExceptionClass,
    ExecuteResult,
    FunctionBinding,
    Parameter,
    Raised,
    Reply,
    Request,
    RunCell,
    Start,
    Stream,
    TimedOut,
    ValueBinding,
    as_notebook_outputs,
    ask,
)
from autograder.values import Malformed, encode

VALUE_ERROR = ExceptionClass((ClassName("__main__", "Mine"),), "ValueError")
REQUESTS = [
    Start(7),
    RunCell(1, "x = 'é'", True, b"state"),
    Call(2, "f", encode(((1,), {})), {"x": encode(2)}, ("y",), random_state=b"state"),
    Call(3, "f", (None, True, 1, 2.5, "text")),
]
REPLIES = [
    CellDone(
        1,
        [
            Stream("stdout", "text"),
            DisplayData({"image/png": "iVBOR"}),
            ExecuteResult({"text/plain": "1"}, 3),
            Error("E", "no", ["line"]),
        ],
        "ValueError",
        {
            "x": ValueBinding(encode(1)),
            "f": FunctionBinding("f", (Parameter("a", 1, encode(2)),), "Doc.", (1, 1)),
            "g": FunctionBinding("g", None, None, None),
            "E": ExceptionBinding(VALUE_ERROR),
        },
        ("y",),
    ),
    CallDone(2, encode((None, {})), Raised(VALUE_ERROR, encode(()), "no"), "out", "err"),
    CallDone(3, (2.5,)),
]


class Ends:
    """The examiner's channel, and the raw socket of a learner process that may write anything."""

    def __init__(self) -> None:
        self.socket, self.theirs = socket.socketpair()
        self.examiner: Channel[Reply] = Channel(self.socket, Reply)

    def write(self, body: bytes, length: int | None = None) -> None:
        self.theirs.sendall(struct.pack("!I", len(body) if length is None else length) + body)


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    with ends.socket, ends.theirs:
        yield ends


def _body(reply: Reply) -> bytes:
    return msgspec.msgpack.encode(reply)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_arrives(ends: Ends, request_: Request) -> None:
    ends.examiner.send(request_, 1)
    learner: Channel[Request] = Channel(ends.theirs, Request)
    assert learner.receive() == request_


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_a_reply_arrives(ends: Ends, reply: Reply) -> None:
    Channel(ends.theirs, Request).send(reply)
    assert ends.examiner.receive(1) == reply


def test_outputs_become_those_of_a_notebook() -> None:
    assert isinstance(REPLIES[0], CellDone)
    assert as_notebook_outputs(REPLIES[0].outputs) == [
        {"output_type": "stream", "name": "stdout", "text": "text"},
        {"output_type": "display_data", "data": {"image/png": "iVBOR"}, "metadata": {}},
        {
            "output_type": "execute_result",
            "data": {"text/plain": "1"},
            "metadata": {},
            "execution_count": 3,
        },
        {"output_type": "error", "ename": "E", "evalue": "no", "traceback": ["line"]},
    ]


def test_a_question_gets_its_own_answer(ends: Ends) -> None:
    answering = threading.Timer(0.05, ends.write, [_body(CellDone(4, []))])
    answering.start()
    assert ask(ends.examiner, RunCell(4, "", True), 5) == CellDone(4, [])


@pytest.mark.parametrize(
    "reply", [CellDone(5, []), CallDone(4, b"")], ids=["another id", "another kind"]
)
def test_an_answer_to_another_question_is_malformed(ends: Ends, reply: Reply) -> None:
    threading.Timer(0.05, ends.write, [_body(reply)]).start()
    with pytest.raises(Malformed, match="another question"):
        ask(ends.examiner, RunCell(4, "", True), 5)


def test_an_answer_before_the_question_is_malformed(ends: Ends) -> None:
    ends.write(_body(CellDone(4, [])))
    with pytest.raises(Malformed, match="no question"):
        ask(ends.examiner, RunCell(4, "", True), 5)


def test_a_second_answer_is_malformed_at_the_next_question(ends: Ends) -> None:
    def answer_twice() -> None:
        ends.write(_body(CellDone(4, [])))
        ends.write(_body(CellDone(5, [])))

    answering = threading.Timer(0.05, answer_twice)
    answering.start()
    ask(ends.examiner, RunCell(4, "", True), 5)
    answering.join()
    with pytest.raises(Malformed, match="no question"):
        ask(ends.examiner, RunCell(5, "", True), 5)


def test_a_learner_process_that_has_gone_is_seen(ends: Ends) -> None:
    ends.theirs.close()
    with pytest.raises(ChannelClosed):
        ask(ends.examiner, RunCell(4, "", True), 5)
    with pytest.raises(ChannelClosed):
        ends.examiner.receive(1)


def test_a_frame_cut_short_by_death_is_a_closed_channel(ends: Ends) -> None:
    ends.write(b"half", length=100)
    ends.theirs.close()
    with pytest.raises(ChannelClosed):
        ends.examiner.receive(1)


def test_silence_times_out(ends: Ends) -> None:
    start = time.monotonic()
    with pytest.raises(TimedOut):
        ends.examiner.receive(0.1)
    assert time.monotonic() - start < 2


def test_a_frame_that_drips_times_out_as_a_whole(ends: Ends) -> None:
    stop = threading.Event()

    def drip() -> None:
        ends.theirs.sendall(struct.pack("!I", 1000))
        while not stop.wait(0.02):
            ends.theirs.sendall(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    start = time.monotonic()
    with pytest.raises(TimedOut):
        ends.examiner.receive(0.2)
    assert time.monotonic() - start < 2
    stop.set()
    dripping.join()


def test_a_learner_process_that_does_not_read_times_out(ends: Ends) -> None:
    with pytest.raises(TimedOut):
        ends.examiner.send(RunCell(1, "x" * 2**22, True), 0.1)


def test_a_frame_is_refused_by_its_length_before_it_comes(ends: Ends) -> None:
    ends.write(b"", length=MAX_FRAME + 1)
    with pytest.raises(Malformed, match="a frame of"):
        ends.examiner.receive(1)


def _array(*items: object) -> bytes:
    return msgspec.msgpack.encode(items)


CELL: tuple[object, ...] = ("CellDone", 1, [], "", {}, [], None)
MALFORMED = {
    "nothing": b"",
    "no message": b"\xc1",
    "a map": msgspec.msgpack.encode({"type": "CellDone", "id": 1}),
    "an unknown message": _array("Nonsense", 1),
    "a request": msgspec.msgpack.encode(RunCell(1, "", True)),
    "two messages": _body(CellDone(1, [])) * 2,
    "a field too many": _array(*CELL, None),
    "text for bytes": _array("CallDone", 1, "data"),
    "a list for a scalar": _array("CallDone", 1, [[1]]),
    "two scalars": _array("CallDone", 1, [1, 2]),
    "an unknown output": _array("CellDone", 1, [{"output_type": "update", "text": ""}]),
    "an unknown stream": _array(
        "CellDone", 1, [{"output_type": "stream", "name": "stdin", "text": ""}]
    ),
    "an output with more": _array(
        "CellDone", 1, [{"output_type": "stream", "name": "stdout", "text": "", "metadata": {}}]
    ),
    "output metadata": _array(
        "CellDone", 1, [{"output_type": "display_data", "data": {}, "metadata": {"a": None}}]
    ),
    "content that is no text": _array(
        "CellDone", 1, [{"output_type": "display_data", "data": {"text/plain": {}}}]
    ),
    "too many outputs": _array("CellDone", 1, [None] * 20_000),
    "too many names": _array("CellDone", 1, [], "", {}, ["n"] * 3000),
    "too many bindings": _array("CellDone", 1, [], "", {str(n): None for n in range(3000)}),
    "too long a name": _array("CellDone", 1, [], "n" * 300),
    "an unknown binding": _array("CellDone", 1, [], "", {"x": ["Nonsense", b""]}),
    "a parameter that is no name": _array(
        "CellDone", 1, [], "", {"f": ["FunctionBinding", "f", [["a b", 1, None]], None, None]}
    ),
    "a parameter that is a keyword": _array(
        "CellDone", 1, [], "", {"f": ["FunctionBinding", "f", [["class", 1, None]], None, None]}
    ),
    "a parameter of no kind": _array(
        "CellDone", 1, [], "", {"f": ["FunctionBinding", "f", [["a", 5, None]], None, None]}
    ),
    "a long lineage": _array("CallDone", 1, b"", [[[["m", "n"]] * 31, "E"], None, ""]),
    "text that is not UTF-8": _array("CellDone", 1, [], "X").replace(b"\xa1X", b"\xa1\xff"),
    "deep nonsense": b"\x91" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_breaks_the_rules_is_malformed(ends: Ends, body: bytes) -> None:
    ends.write(body)
    with pytest.raises(Malformed):
        ends.examiner.receive(5)


@settings(max_examples=300, deadline=None, database=None)
@given(st.sampled_from([msgspec.msgpack.encode(reply) for reply in REPLIES]), st.data())
def test_mutated_frames_are_replies_or_malformed(body: bytes, data: st.DataObject) -> None:
    mutated = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _receive_or_refuse(bytes(mutated))


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(max_size=100))
def test_random_frames_are_replies_or_malformed(body: bytes) -> None:
    _receive_or_refuse(body)


def _receive_or_refuse(body: bytes) -> None:
    ends = Ends()
    with ends.socket, ends.theirs:
        ends.write(body)
        try:
            reply = ends.examiner.receive(5)
        except Malformed:
            return
    if isinstance(reply, CellDone):
        as_notebook_outputs(reply.outputs)
